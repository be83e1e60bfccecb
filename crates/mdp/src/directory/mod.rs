//! What hosts ask: which clients there are, which paths, and what they answer. The shapes are those of the
//! protocol's four tools; whoever offers them only passes them on.
//!
//! - [`Host::list_clients`]: `{clients: […], nextCursor?}`
//! - [`Host::list_paths`]: `{paths: […], nextCursor?}`
//! - [`Host::call_path`]: `{ok: true, data?}`
//! - [`Host::call_paths`]: `{results: […]}`, an entry for each client, whatever became of it
//!
//! The built-in client is the first of the clients, with the paths of all that is stored. `page` bounds what an answer
//! has, `wanted` is what is searched.

mod page;
mod wanted;

use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use skills_core::Timestamp;
use skills_registry::live::{ListClients, ListPaths};

use self::{
    page::{Cursor, Page},
    wanted::Wanted,
};
use crate::{
    Answer, Call, CallError, Client, Host, REGISTRY, path, stored,
    wire::{ClientInfo, Descriptor},
};

/// How the built-in client is connected.
const LOCAL: &str = "local";

/// How much is looked through at a time.
const BREATH: usize = 1024;
/// Documents of the built-in client that are listed with it. All of them are among the paths.
const WITH_REGISTRY: usize = 100;

impl Host {
    /// Clients with their catalogues, or those that a text is found in, and where the next go on. Of the built-in
    /// client only the first paths are listed with it, and `pathCount` says how many there are.
    pub async fn list_clients(&self, asked: &ListClients) -> Result<Value, CallError> {
        let wanted = Wanted::of(asked.search.as_deref());
        let from = Cursor::read(asked.cursor.as_deref())?;
        let (mut page, mut seen) = (Page::new(None), Seen::default());
        if let Some(stored) = self.stored().filter(|_| asked.cursor.is_none()) {
            let catalog = stored.catalog().await?;
            let documents = || stored::documents(&catalog, None).flat_map(|(_, paths)| paths);
            let connection = json!({ "mode": LOCAL, "secure": true, "authSource": "none" });
            let client = Listed::new(&stored.info, [stored.since, self.now()], connection);
            let mut is_wanted = client.is_wanted(&wanted);
            for one in documents() {
                if is_wanted {
                    break;
                }
                seen.one().await;
                is_wanted = wanted.path(&stored.info, &one);
            }
            if is_wanted {
                let count = stored::count(&catalog);
                let shown: Vec<Descriptor> = documents().take(WITH_REGISTRY).collect();
                let mut entry = client.with(&shown);
                if count > shown.len() {
                    entry.insert("pathCount".to_owned(), count.into());
                }
                page.add(entry);
            }
        }
        let mut last = from.client;
        let mut next = None;
        for client in self.roster().clients_from(from.client.saturating_add(1)) {
            if page.is_full() {
                next = Some(Cursor { client: last, after: String::new() });
                break;
            }
            last = client.number();
            let Client { info, catalog, connected_at, auth_source, .. } = &**client;
            let session = client.session();
            let connection = json!({
                "mode": session.mode, "secure": session.is_secure, "authSource": auth_source,
            });
            let listed = Listed::new(info, [*connected_at, session.last_seen_at()], connection);
            let paths = catalog.descriptors();
            let mut is_wanted = listed.is_wanted(&wanted);
            for one in paths {
                if is_wanted {
                    break;
                }
                seen.one().await;
                is_wanted = wanted.path(info, one);
            }
            if is_wanted {
                page.add(listed.with(paths));
            }
        }
        Ok(page.answer("clients", next))
    }

    /// The paths of one client or of all, down to a depth, or those that a text is found in, and where the next go
    /// on. Without a depth it is the first level, but all levels are searched. Of a client that is not there, there
    /// are none.
    pub async fn list_paths(&self, asked: &ListPaths) -> Result<Value, CallError> {
        let wanted = Wanted::of(asked.search.as_deref());
        let from = Cursor::read(asked.cursor.as_deref())?;
        let every = if wanted.is_anything() { 1 } else { usize::MAX };
        let deepest = asked.depth.map_or(every, Into::into);
        let is_asked = |id: &str| asked.client_id.as_deref().is_none_or(|asked| asked == id);
        let is_listed = |info: &ClientInfo, one: &Descriptor| {
            path::depth(&one.path) <= deepest && wanted.path(info, one)
        };
        let (mut page, mut seen) = (Page::new(asked.limit), Seen::default());
        if let Some(stored) = self.stored().filter(|_| is_asked(REGISTRY) && from.client == 0) {
            let catalog = stored.catalog().await?;
            let (begun, listed) = from.stored()?;
            for (id, paths) in stored::documents(&catalog, begun) {
                let listed = if begun == Some(id) { listed } else { 0 };
                for (at, one) in paths.enumerate().skip(listed) {
                    if page.is_full() {
                        let next = Cursor { client: 0, after: format!("{id}/{at}") };
                        return Ok(page.answer("paths", Some(next)));
                    }
                    seen.one().await;
                    if is_listed(&stored.info, &one) {
                        page.add(listed_path(&stored.info, &one));
                    }
                }
            }
        }
        for client in self.roster().clients_from(from.client) {
            let (info, number) = (&client.info, client.number());
            if !is_asked(&info.id) {
                continue;
            }
            let paths = client.catalog.descriptors().iter().enumerate();
            for (at, one) in paths.skip(from.listed_of(number)) {
                if page.is_full() {
                    let next = Cursor { client: number, after: at.to_string() };
                    return Ok(page.answer("paths", Some(next)));
                }
                seen.one().await;
                if is_listed(info, one) {
                    page.add(listed_path(info, one));
                }
            }
        }
        Ok(page.answer("paths", None))
    }

    /// Asks one client.
    ///
    /// # Errors
    /// When it has no answer. [`CallError::Handler`] is an answer in the sense of the protocol,
    /// `{ok: false, error}`; everything else is not.
    pub async fn call_path(&self, client_id: &str, call: &Call) -> Result<Value, CallError> {
        let answer = self.call(client_id, call).await?;
        told(client_id, &answer).map(Value::Object)
    }

    /// Asks some clients, or all that have the path when none is named, all at once.
    ///
    /// # Errors
    /// When none is named and none has the path, or what they are asked is too large for all of them together.
    pub async fn call_paths(&self, client_ids: &[String], call: &Call) -> Result<Value, CallError> {
        let ids = match client_ids {
            [] => self.clients_with(call).await,
            named => {
                let mut seen = HashSet::new();
                named.iter().filter(|id| seen.insert(id.as_str())).cloned().collect()
            }
        };
        if ids.is_empty() {
            return Err(CallError::NoClients);
        }
        let gathered = AtomicUsize::new(0);
        let max = self.config().limits.gathered_bytes;
        // Each of them is sent a copy.
        let (bytes, clients) = (call.bytes(), ids.len());
        if bytes.saturating_mul(clients) > max {
            return Err(CallError::TooLarge { bytes, clients, max });
        }
        let ask = async |id: &String| {
            let answer = self.call(id, call).await?;
            let before = gathered.fetch_add(answer.bytes(), Ordering::Relaxed);
            if before.saturating_add(answer.bytes()) > max {
                return Err(CallError::TooMuch(max));
            }
            told(id, &answer)
        };
        let results = join_all(ids.iter().map(async |id| {
            let mut entry = ask(id).await.unwrap_or_else(|error| failed(&error));
            entry.insert("clientId".to_owned(), id.as_str().into());
            Value::Object(entry)
        }));
        Ok(json!({ "results": results.await }))
    }

    async fn clients_with(&self, call: &Call) -> Vec<String> {
        let mut ids = Vec::new();
        if let Some(stored) = self.stored()
            && stored.has(call.method, &call.path).await
        {
            ids.push(REGISTRY.to_owned());
        }
        let roster = self.roster();
        let having =
            roster.clients().filter(|client| self.find(client, call.method, &call.path).is_ok());
        ids.extend(having.map(|client| client.info.id.clone()));
        ids
    }
}

/// How much was looked at. Whoever looks through much lets others go first from time to time.
#[derive(Default)]
struct Seen(usize);

impl Seen {
    async fn one(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(BREATH) {
            tokio::task::yield_now().await;
        }
    }
}

fn told(client_id: &str, answer: &Answer) -> Result<Map<String, Value>, CallError> {
    let mut entry = Map::from_iter([("ok".to_owned(), true.into())]);
    if let Some(data) = answer.value(client_id)? {
        entry.insert("data".to_owned(), data);
    }
    Ok(entry)
}

fn failed(error: &CallError) -> Map<String, Value> {
    let error = serde_json::to_value(error.body()).unwrap_or_default();
    Map::from_iter([("ok".to_owned(), false.into()), ("error".to_owned(), error)])
}

fn listed_path(info: &ClientInfo, descriptor: &Descriptor) -> Map<String, Value> {
    let mut listed = object(descriptor);
    listed.insert("clientId".to_owned(), info.id.as_str().into());
    listed.insert("clientName".to_owned(), info.name.as_str().into());
    listed
}

/// A client in a listing, all but its paths.
struct Listed<'a> {
    info: &'a ClientInfo,
    connected_at: String,
    last_seen_at: String,
    connection: Value,
}

impl<'a> Listed<'a> {
    fn new(info: &'a ClientInfo, times: [Timestamp; 2], connection: Value) -> Self {
        let [connected_at, last_seen_at] = times.map(|time| time.to_millis());
        Self { info, connected_at, last_seen_at, connection }
    }

    fn is_wanted(&self, wanted: &Wanted) -> bool {
        let times = [self.connected_at.as_str(), self.last_seen_at.as_str()];
        wanted.client(self.info, times, &self.connection)
    }

    fn with(self, paths: &[Descriptor]) -> Map<String, Value> {
        let mut listed = object(self.info);
        listed.insert("paths".to_owned(), paths.iter().map(object).map(Value::Object).collect());
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
