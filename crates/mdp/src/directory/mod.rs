//! The four tools of the protocol: listings of clients and paths, and calls. The results have the shapes of the protocol,
//! so surfaces that offer the tools only pass them on.
//!
//! - [`MdpHost::list_clients`]: `{clients: […], nextCursor?}`
//! - [`MdpHost::list_paths`]: `{paths: […], nextCursor?}`
//! - [`MdpHost::call_path`]: `{ok: true, data?}`
//! - [`MdpHost::call_paths`]: `{results: […]}`, with one entry for each client, also for failures
//!
//! The built-in client, with all stored documents, is the first client. `page` bounds the size of a listing, `search`
//! filters it.

mod page;
mod search;

use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use skills_core::{Caller, Reservation, Timestamp, json_size};

use self::{
    page::{Cursor, Page},
    search::SearchFilter,
};
use crate::{
    ClientCall, ClientCallError, ClientResponse, ListClients, ListPaths, MdpHost,
    REGISTRY_CLIENT_ID, RegisteredClient, builtin_client,
    host::MAX_TREE_BYTES,
    path,
    wire::{ClientInfo, Descriptor},
};

/// Connection mode of the built-in client.
const BUILTIN_MODE: &str = "ws";

/// Entries that are searched before the task yields.
const YIELD_INTERVAL: usize = 1024;
/// Documents that are listed with the built-in client. `list_paths` has all of them.
const MAX_INLINE_PATHS: usize = 100;
/// Bytes of a call besides its payload and its path.
const CALL_HEAD_BYTES: usize = 256;

impl MdpHost {
    /// Reserves the memory of one page of a listing for a caller.
    pub(crate) fn reserve_page(&self, caller: &Caller) -> Result<Reservation, ClientCallError> {
        Ok(self.memory().for_caller(caller).try_reserve(page::RESERVED_BYTES)?)
    }

    /// Lists clients with their catalogs, optionally only those that match a text. The built-in client, and a client
    /// whose paths do not fit, are listed with their first paths only, and `pathCount` has the total.
    ///
    /// # Errors
    /// When the cursor is invalid or the registry fails.
    pub async fn list_clients(&self, query: &ListClients) -> Result<Value, ClientCallError> {
        let filter = SearchFilter::new(query.search.as_deref());
        let from = Cursor::from_option(query.cursor.as_deref())?;
        let (mut page, mut yielder) = (Page::new(None), YieldCounter::default());
        if let Some(builtin) = self.builtin_client().filter(|_| query.cursor.is_none()) {
            let catalog = builtin.catalog().await?;
            let documents =
                || builtin_client::documents(&catalog, None).flat_map(|(_, paths)| paths);
            let connection = json!({ "mode": BUILTIN_MODE, "secure": true, "authSource": "none" });
            let client = ClientListing::new(&builtin.info, [builtin.since, self.now()], connection);
            let mut is_match = client.is_match(&filter);
            for one in documents() {
                if is_match {
                    break;
                }
                yielder.tick().await;
                is_match = filter.matches_path(&builtin.info, &one);
            }
            // Without documents there is nothing to call.
            let count = builtin_client::document_count(&catalog);
            if is_match && count > 0 {
                let first: Vec<Descriptor> = documents().take(MAX_INLINE_PATHS).collect();
                page.add(client.with_paths(&first, count, &page));
            }
        }
        let mut last = from.client;
        let mut next = None;
        for client in self.client_table().clients_from(from.client.saturating_add(1)) {
            if page.is_full() {
                next = Some(Cursor { client: last, after: String::new() });
                break;
            }
            last = client.number();
            let RegisteredClient { info, catalog, connected_at, auth_source, .. } = &**client;
            let session = client.session();
            let connection = json!({
                "mode": session.mode, "secure": session.is_secure, "authSource": auth_source,
            });
            let listed =
                ClientListing::new(info, [*connected_at, session.last_seen_at()], connection);
            let paths = catalog.descriptors();
            let mut is_match = listed.is_match(&filter);
            if !is_match {
                page.count_searched(client.memory_size());
            }
            for one in paths {
                if is_match {
                    break;
                }
                yielder.tick().await;
                is_match = filter.matches_path(info, one);
            }
            if is_match {
                page.add(listed.with_paths(paths, paths.len(), &page));
            }
        }
        Ok(page.into_json("clients", next))
    }

    /// Lists the paths of one client or of all, down to a depth, optionally only those that match a text. The default
    /// depth is the first level, or all levels with a text. An unknown client has no paths.
    ///
    /// # Errors
    /// When the cursor is invalid or the registry fails.
    pub async fn list_paths(&self, query: &ListPaths) -> Result<Value, ClientCallError> {
        let filter = SearchFilter::new(query.search.as_deref());
        let from = Cursor::from_option(query.cursor.as_deref())?;
        let default_depth = if filter.is_empty() { 1 } else { usize::MAX };
        let max_depth = query.depth.map_or(default_depth, Into::into);
        let is_selected = |id: &str| query.client_id.as_deref().is_none_or(|only| only == id);
        let is_listed = |info: &ClientInfo, one: &Descriptor| {
            path::depth(&one.path) <= max_depth && filter.matches_path(info, one)
        };
        let (mut page, mut yielder) = (Page::new(query.limit), YieldCounter::default());
        if let Some(builtin) =
            self.builtin_client().filter(|_| is_selected(REGISTRY_CLIENT_ID) && from.client == 0)
        {
            let catalog = builtin.catalog().await?;
            let (first, listed) = from.builtin_position()?;
            for (id, paths) in builtin_client::documents(&catalog, first) {
                let listed = if first == Some(id) { listed } else { 0 };
                for (at, one) in paths.enumerate().skip(listed) {
                    if page.is_full() {
                        let next = Cursor { client: 0, after: format!("{id}/{at}") };
                        return Ok(page.into_json("paths", Some(next)));
                    }
                    yielder.tick().await;
                    if is_listed(&builtin.info, &one) {
                        page.add(listed_path(&builtin.info, &one));
                    }
                }
            }
        }
        for client in self.client_table().clients_from(from.client) {
            let (info, number) = (&client.info, client.number());
            if !is_selected(&info.id) {
                continue;
            }
            let paths = client.catalog.descriptors();
            let path_size = client.memory_size() / paths.len().max(1);
            for (at, one) in paths.iter().enumerate().skip(from.offset_in(number)) {
                if page.is_full() {
                    let next = Cursor { client: number, after: at.to_string() };
                    return Ok(page.into_json("paths", Some(next)));
                }
                yielder.tick().await;
                if !filter.is_empty() {
                    page.count_searched(path_size);
                }
                if is_listed(info, one) {
                    page.add(listed_path(info, one));
                }
            }
        }
        Ok(page.into_json("paths", None))
    }

    /// Calls one client.
    ///
    /// # Errors
    /// When the client returns no data. [`ClientCallError::Handler`] is a response in the sense of the protocol,
    /// `{ok: false, error}`; all others are not.
    pub async fn call_path(
        &self,
        client_id: &str,
        call: &ClientCall,
    ) -> Result<Value, ClientCallError> {
        let mut response = self.call(client_id, call).await?;
        success_entry(client_id, &mut response).map(Value::Object)
    }

    /// Calls the named clients concurrently, or all clients with the path if none is named.
    ///
    /// # Errors
    /// When no client has the path, or the call is too large for all of them together.
    pub async fn call_paths(
        &self,
        client_ids: &[String],
        call: &ClientCall,
    ) -> Result<Value, ClientCallError> {
        let ids = match client_ids {
            [] => self.clients_with(call).await,
            named => {
                let mut seen = HashSet::new();
                named.iter().filter(|id| seen.insert(id.as_str())).cloned().collect()
            }
        };
        if ids.is_empty() {
            return Err(ClientCallError::NoClients);
        }
        let max_clients = self.config().limits.clients;
        if ids.len() > max_clients {
            return Err(ClientCallError::TooManyTargets(ids.len(), max_clients));
        }
        let max = self.config().limits.gathered_bytes;
        // The queued messages share one copy of the payload; sent messages have a copy each.
        let payload = call.payload();
        let (bytes, clients) = (payload.size() + call.path.len() + CALL_HEAD_BYTES, ids.len());
        if bytes.saturating_mul(clients) > max {
            return Err(ClientCallError::TooLarge { bytes, clients, max });
        }
        let sizes =
            ResultSizes { max, bytes: AtomicUsize::new(0), tree_bytes: AtomicUsize::new(0) };
        let call_one = async |id: &String| {
            let mut response = self.call_with_payload(id, call, &payload).await?;
            sizes.add(response.bytes(), response.tree_bytes())?;
            success_entry(id, &mut response)
        };
        let results = join_all(ids.iter().map(async |id| {
            let mut entry = call_one(id).await.unwrap_or_else(|error| sizes.error_entry(&error));
            entry.insert("clientId".to_owned(), id.as_str().into());
            Value::Object(entry)
        }));
        Ok(json!({ "results": results.await }))
    }

    async fn clients_with(&self, call: &ClientCall) -> Vec<String> {
        let mut ids = Vec::new();
        if let Some(builtin) = self.builtin_client()
            && builtin.has(call.method, &call.path).await
        {
            ids.push(REGISTRY_CLIENT_ID.to_owned());
        }
        let clients = self.client_table();
        let having =
            clients.clients().filter(|client| self.find(client, call.method, &call.path).is_ok());
        ids.extend(having.map(|client| client.info.id.clone()));
        ids
    }
}

/// Counter of searched entries; long searches yield to other tasks.
#[derive(Default)]
struct YieldCounter(usize);

impl YieldCounter {
    async fn tick(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(YIELD_INTERVAL) {
            tokio::task::yield_now().await;
        }
    }
}

/// Total size of the results of one call to many clients.
struct ResultSizes {
    max: usize,
    bytes: AtomicUsize,
    tree_bytes: AtomicUsize,
}

impl ResultSizes {
    fn add(&self, bytes: usize, tree_bytes: usize) -> Result<(), ClientCallError> {
        let add =
            |sum: &AtomicUsize, more| sum.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        let is_too_large = add(&self.bytes, bytes) > self.max
            || add(&self.tree_bytes, tree_bytes) > MAX_TREE_BYTES;
        if is_too_large { Err(ClientCallError::ResultsTooLarge(self.max)) } else { Ok(()) }
    }

    /// Returns the entry of a failed client. An error that the client returned counts like a result.
    fn error_entry(&self, error: &ClientCallError) -> Map<String, Value> {
        let body = match error {
            ClientCallError::Handler(body) => body,
            error => return error_entry(error),
        };
        let text = serde_json::to_string(body).unwrap_or_default();
        let tree_bytes =
            json_size::memory_size(text.len(), json_size::count_values(text.as_bytes()));
        match self.add(text.len(), tree_bytes) {
            Ok(()) => error_entry(error),
            Err(too_large) => error_entry(&too_large),
        }
    }
}

fn success_entry(
    client_id: &str,
    response: &mut ClientResponse,
) -> Result<Map<String, Value>, ClientCallError> {
    let mut entry = Map::from_iter([("ok".to_owned(), true.into())]);
    if let Some(data) = response.value(client_id)? {
        entry.insert("data".to_owned(), data);
    }
    Ok(entry)
}

fn error_entry(error: &ClientCallError) -> Map<String, Value> {
    let error = serde_json::to_value(error.body()).unwrap_or_default();
    Map::from_iter([("ok".to_owned(), false.into()), ("error".to_owned(), error)])
}

fn listed_path(info: &ClientInfo, descriptor: &Descriptor) -> Map<String, Value> {
    let mut listed = object(descriptor);
    listed.insert("clientId".to_owned(), info.id.as_str().into());
    listed.insert("clientName".to_owned(), info.name.as_str().into());
    listed
}

/// Entry of a client in a listing, without its paths.
struct ClientListing<'a> {
    info: &'a ClientInfo,
    connected_at: String,
    last_seen_at: String,
    connection: Value,
}

impl<'a> ClientListing<'a> {
    fn new(info: &'a ClientInfo, times: [Timestamp; 2], connection: Value) -> Self {
        let [connected_at, last_seen_at] = times.map(|time| time.to_rfc3339_millis());
        Self { info, connected_at, last_seen_at, connection }
    }

    fn is_match(&self, filter: &SearchFilter) -> bool {
        let times = [self.connected_at.as_str(), self.last_seen_at.as_str()];
        filter.matches_client(self.info, times, &self.connection)
    }

    /// Returns the entry with those paths that fit into the page.
    fn with_paths(self, paths: &[Descriptor], count: usize, page: &Page) -> Map<String, Value> {
        let mut listed = object(self.info);
        let fitting = page.take_fitting(paths.iter().map(object));
        if count > fitting.len() {
            listed.insert("pathCount".to_owned(), count.into());
        }
        listed.insert("paths".to_owned(), fitting.into());
        listed.insert("status".to_owned(), "online".into());
        listed.insert("connectedAt".to_owned(), self.connected_at.into());
        listed.insert("lastSeenAt".to_owned(), self.last_seen_at.into());
        listed.insert("connection".to_owned(), self.connection);
        listed
    }
}

fn object(described: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(described) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    }
}
