//! Registration of clients on sessions. Every change holds the lock of the session table, so that each client table is
//! derived from the one before it.

use std::sync::Arc;

use skills_core::Tier;

use super::{
    ClientCatalog, ClientTable, MdpHost, RegisteredClient, Session, TransportAuth, memory_size,
    session_table::SessionTable,
};
use crate::{
    ClientCallError, CloseReason, REGISTRY_CLIENT_ID, SessionError,
    wire::{AuthContext, ClientDescriptor, Descriptor, auth::AuthSource, json_len},
};

/// Maximum length of a client id, in characters.
const MAX_ID_CHARS: usize = 128;

/// Client ids that this server reserves for its own paths, present or future, and for its tiers, whose skills are at
/// `skill://{tier}/…`.
const RESERVED_IDS: [&str; 26] = [
    REGISTRY_CLIENT_ID,
    "skills",
    Tier::Private.as_str(),
    Tier::Official.as_str(),
    Tier::Market.as_str(),
    "mdp",
    "mcp",
    "acp",
    "v1",
    "v2",
    "api",
    "healthz",
    "readyz",
    "livez",
    "metrics",
    ".well-known",
    "console",
    "ui",
    "admin",
    "assets",
    "static",
    "docs",
    "ws",
    "otel",
    "favicon.ico",
    "robots.txt",
];

impl MdpHost {
    /// Registers a client on a session, whose message has `bytes` bytes.
    pub(super) fn register(
        &self,
        session: &Arc<Session>,
        transport: &TransportAuth,
        client: ClientDescriptor,
        auth: Option<&AuthContext>,
        bytes: usize,
    ) -> Result<(), SessionError> {
        let ClientDescriptor { info, paths } = client;
        let limits = &self.0.config.limits;
        check_id(&info.id)?;
        let catalog = Arc::new(ClientCatalog::new(paths, limits)?);
        let memory_size = memory_size::estimate(&info, &catalog, bytes);
        memory_size::check(&info, &catalog, memory_size, limits)?;

        let mut sessions = self.0.sessions.lock();
        let mut clients = self.0.clients.load().successor();
        let previous_id = sessions.client(session)?.map(str::to_owned);
        let previous = previous_id.as_deref().and_then(|id| clients.client(id)).map(Arc::clone);
        let other_id = previous_id.as_deref().filter(|previous| *previous != info.id);
        let holder = clients.client(&info.id).map(Arc::clone);
        // The clients that this one replaces count as removed.
        let removed = other_id.and(previous.as_ref()).map_or(0, |client| client.memory_size)
            + holder.as_ref().map_or(0, |client| client.memory_size);
        sessions.check_capacity(removed, memory_size, limits)?;
        let reserved = self.0.memory.catalogs.try_reserve(memory_size)?;
        let is_full = clients.len() >= limits.clients || sessions.is_share_used(session, limits);
        if previous_id.is_none() && holder.is_none() && is_full {
            return Err(SessionError::TooManyClients(limits.clients));
        }

        if let Some(other_id) = other_id {
            sessions.remove_client(&mut clients, other_id);
            let (client, now) = (other_id.to_owned(), info.id.clone());
            session.fail_calls(&ClientCallError::Reregistered { client, now });
        }
        let replaced = holder.filter(|holder| holder.session.id != session.id);
        if let Some(replaced) = &replaced {
            sessions.remove_session(&replaced.session);
        }
        // The same client on the same session keeps its position.
        let number = match previous.filter(|previous| previous.info.id == info.id) {
            Some(previous) => previous.number,
            None => sessions.next_registration(),
        };
        let has_auth = auth.is_some_and(|auth| !auth.is_empty());
        sessions.set_client(session, Some(&info.id));
        let id = info.id.clone();
        let client = RegisteredClient {
            info,
            catalog,
            connected_at: self.now(),
            auth_source: AuthSource::new(transport.has_auth, has_auth),
            number,
            memory_size,
            session: Arc::clone(session),
            _reserved: reserved,
        };
        sessions.insert_client(&mut clients, client);
        session.set_registered(true);
        self.publish(clients);
        drop(sessions);
        tracing::debug!(client = id, mode = session.mode.as_str(), "client registered");
        if let Some(replaced) = replaced {
            let close = CloseReason::new(4000, "Replaced by newer client session");
            replaced.session.end(close, &ClientCallError::Disconnected(id));
        }
        Ok(())
    }

    /// Replaces the catalog of a session's client.
    pub(super) fn update(
        &self,
        session: &Arc<Session>,
        id: &str,
        paths: Vec<Descriptor>,
        bytes: usize,
    ) -> Result<(), SessionError> {
        let limits = &self.0.config.limits;
        let catalog = Arc::new(ClientCatalog::new(paths, limits)?);
        let mut sessions = self.0.sessions.lock();
        let mut clients = self.0.clients.load().successor();
        let not_registered = || SessionError::NotRegistered(id.to_owned());
        sessions.client(session)?.filter(|client| *client == id).ok_or_else(not_registered)?;
        let client = Arc::clone(clients.client(id).ok_or_else(not_registered)?);
        // The description of the client from its registration stays.
        let bytes = bytes.saturating_add(json_len(&client.info));
        let memory_size = memory_size::estimate(&client.info, &catalog, bytes);
        memory_size::check(&client.info, &catalog, memory_size, limits)?;
        sessions.check_capacity(client.memory_size, memory_size, limits)?;
        let reserved = self.0.memory.catalogs.try_reserve(memory_size)?;
        let RegisteredClient { info, connected_at, auth_source, number, session, .. } = &*client;
        let client = RegisteredClient {
            info: info.clone(),
            catalog,
            connected_at: *connected_at,
            auth_source: *auth_source,
            number: *number,
            memory_size,
            session: Arc::clone(session),
            _reserved: reserved,
        };
        sessions.insert_client(&mut clients, client);
        self.publish(clients);
        Ok(())
    }

    /// Unregisters the client of a session. The id of another client is ignored.
    pub(super) fn unregister(&self, session: &Session, id: &str) {
        let mut sessions = self.0.sessions.lock();
        if sessions.client(session) != Ok(Some(id)) {
            return;
        }
        sessions.set_client(session, None);
        session.set_registered(false);
        self.remove_client(&mut sessions, id);
        drop(sessions);
        session.fail_calls(&ClientCallError::Disconnected(id.to_owned()));
    }

    /// Ends a session and removes its client. Later calls are ignored.
    pub fn end_session(&self, session: &Session, close: CloseReason) {
        let client = {
            let mut sessions = self.0.sessions.lock();
            let client = sessions.remove_session(session);
            if let Some(id) = &client {
                self.remove_client(&mut sessions, id);
            }
            client.unwrap_or_default()
        };
        session.end(close, &ClientCallError::Disconnected(client));
    }

    fn remove_client(&self, sessions: &mut SessionTable, id: &str) {
        let mut clients = self.0.clients.load().successor();
        sessions.remove_client(&mut clients, id);
        self.publish(clients);
    }

    /// Publishes a client table. The caller holds the lock of the session table.
    fn publish(&self, clients: ClientTable) {
        let revision = clients.revision();
        self.0.clients.store(Arc::new(clients));
        self.0.revision.send_replace(revision);
    }
}

fn check_id(id: &str) -> Result<(), SessionError> {
    let is_valid = (1..=MAX_ID_CHARS).contains(&id.chars().count())
        && !id.chars().any(|c| c == '/' || c.is_control())
        && id.trim() == id
        // No URL path has these as a segment.
        && ![".", ".."].contains(&id);
    if !is_valid {
        return Err(SessionError::ClientId);
    }
    if RESERVED_IDS.iter().any(|name| name.eq_ignore_ascii_case(id)) {
        return Err(SessionError::ReservedId(id.to_owned()));
    }
    Ok(())
}
