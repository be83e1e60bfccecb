//! What hosts ask: which clients there are, which paths, and what they answer. The shapes are those of the
//! protocol's four tools; whoever offers them only passes them on.
//!
//! - [`Host::list_clients`]: `{clients: […]}`
//! - [`Host::list_paths`]: `{paths: […]}`
//! - [`Host::call_path`]: `{ok: true, data?}`
//! - [`Host::call_paths`]: `{results: […]}`, an entry for each client, whatever became of it
//!
//! The built-in client is the first of the clients, with the paths of all that is stored.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use skills_core::Timestamp;

use crate::{
    Answer, Call, CallError, Client, Host, REGISTRY, path,
    wire::{ClientInfo, Descriptor},
};

/// How the built-in client is connected.
const LOCAL: &str = "local";

impl Host {
    /// All clients with their catalogues, or those that a text is found in.
    pub async fn list_clients(&self, search: Option<&str>) -> Result<Value, CallError> {
        let wanted = Wanted::of(search);
        let mut clients = Vec::new();
        if let Some(stored) = self.stored() {
            let descriptors = stored.descriptors().await?;
            let connection = json!({ "mode": LOCAL, "secure": true, "authSource": "none" });
            let times = [stored.since, self.now()];
            clients.extend(listed_client(&wanted, &stored.info, &descriptors, times, connection));
        }
        for client in self.roster().clients() {
            let Client { info, catalog, connected_at, auth_source, .. } = &**client;
            let session = client.session();
            let connection = json!({
                "mode": session.mode, "secure": session.is_secure, "authSource": auth_source,
            });
            let times = [*connected_at, session.last_seen_at()];
            let listed = listed_client(&wanted, info, catalog.descriptors(), times, connection);
            clients.extend(listed);
        }
        Ok(json!({ "clients": clients }))
    }

    /// The paths of one client or of all, down to a depth, or those that a text is found in. Without a depth
    /// it is the first level, but all levels are searched. Of a client that is not there, there are none.
    pub async fn list_paths(
        &self,
        client_id: Option<&str>,
        search: Option<&str>,
        depth: Option<usize>,
    ) -> Result<Value, CallError> {
        let wanted = Wanted::of(search);
        let deepest = depth.unwrap_or(if wanted.is_anything() { 1 } else { usize::MAX });
        let is_asked = |id: &str| client_id.is_none_or(|asked| asked == id);
        let mut paths = Vec::new();
        let mut list = |info: &ClientInfo, descriptors: &[Descriptor]| {
            let near = descriptors.iter().filter(|one| path::depth(&one.path) <= deepest);
            paths.extend(
                near.filter(|one| wanted.path(info, one)).map(|one| listed_path(info, one)),
            );
        };
        if let Some(stored) = self.stored()
            && is_asked(REGISTRY)
        {
            list(&stored.info, &stored.descriptors().await?);
        }
        for client in self.roster().clients().filter(|client| is_asked(&client.info.id)) {
            list(&client.info, client.catalog.descriptors());
        }
        Ok(json!({ "paths": paths }))
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

fn listed_path(info: &ClientInfo, descriptor: &Descriptor) -> Value {
    let mut listed = object(descriptor);
    listed.insert("clientId".to_owned(), info.id.as_str().into());
    listed.insert("clientName".to_owned(), info.name.as_str().into());
    Value::Object(listed)
}

fn listed_client(
    wanted: &Wanted,
    info: &ClientInfo,
    descriptors: &[Descriptor],
    [connected_at, last_seen_at]: [Timestamp; 2],
    connection: Value,
) -> Option<Value> {
    let (connected_at, last_seen_at) = (connected_at.to_millis(), last_seen_at.to_millis());
    let times = [connected_at.as_str(), last_seen_at.as_str()];
    if !wanted.client(info, times, &connection)
        && !descriptors.iter().any(|descriptor| wanted.path(info, descriptor))
    {
        return None;
    }
    let mut listed = object(info);
    listed.insert("paths".to_owned(), descriptors.iter().map(object).map(Value::Object).collect());
    listed.insert("status".to_owned(), "online".into());
    listed.insert("connectedAt".to_owned(), connected_at.into());
    listed.insert("lastSeenAt".to_owned(), last_seen_at.into());
    listed.insert("connection".to_owned(), connection);
    Some(Value::Object(listed))
}

fn object(described: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(described) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

/// A text that is looked for, in lower case; nothing when anything will do.
struct Wanted(Option<String>);

impl Wanted {
    fn of(search: Option<&str>) -> Self {
        Self(search.map(|text| text.trim().to_lowercase()).filter(|text| !text.is_empty()))
    }

    const fn is_anything(&self) -> bool {
        self.0.is_none()
    }

    fn is_in(&self, text: &str) -> bool {
        self.0.as_ref().is_none_or(|wanted| text.to_lowercase().contains(wanted))
    }

    fn is_in_any<'a>(&self, texts: impl IntoIterator<Item = Option<&'a str>>) -> bool {
        self.is_anything() || texts.into_iter().flatten().any(|text| self.is_in(text))
    }

    fn is_in_json(&self, object: Option<&Map<String, Value>>) -> bool {
        object.is_some_and(|object| self.is_in(&serde_json::to_string(object).unwrap_or_default()))
    }

    fn path(&self, info: &ClientInfo, descriptor: &Descriptor) -> bool {
        let Descriptor { kind, path, description, content_type, .. } = descriptor;
        let method = match kind {
            crate::wire::Kind::Endpoint(method) => Some(method.as_str()),
            _ => None,
        };
        let texts = [
            Some(info.id.as_str()),
            Some(&info.name),
            Some(kind.as_str()),
            Some(path),
            description.as_deref(),
            content_type.as_deref(),
            method,
        ];
        self.is_in_any(texts)
            || self.is_in_json(descriptor.input_schema.as_ref())
            || self.is_in_json(descriptor.output_schema.as_ref())
    }

    fn client(&self, info: &ClientInfo, times: [&str; 2], connection: &Value) -> bool {
        let secure = if connection["secure"] == true { "secure" } else { "insecure" };
        let texts = [
            Some(info.id.as_str()),
            Some(&info.name),
            info.description.as_deref(),
            info.version.as_deref(),
            info.platform.as_deref(),
            Some("online"),
            Some(times[0]),
            Some(times[1]),
            connection["mode"].as_str(),
            connection["authSource"].as_str(),
            Some(secure),
        ];
        self.is_in_any(texts) || self.is_in_json(info.metadata.as_ref())
    }
}
