//! Who comes and goes. Everything here that changes something holds the one lock of the table while it does,
//! so that a roster is always made from the one before it.

use std::{collections::HashSet, sync::Arc};

use skills_core::Tier;
use uuid::Uuid;

use super::{Catalog, Client, Host, Roster, Session, Sessions, Transport, lock, weight};
use crate::{
    CallError, Close, Limits, REGISTRY, Refused,
    wire::{Auth, ClientDescriptor, Descriptor, auth::AuthSource, json_bytes},
};

/// Longest id of a client, in characters.
const MAX_ID_CHARS: usize = 128;

/// Names under which this server has something else, or may come to have: its addresses, and its tiers, whose
/// copies of skills are at `skill://{tier}/…`.
const RESERVED: [&str; 25] = [
    REGISTRY,
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
    "admin",
    "assets",
    "static",
    "docs",
    "ws",
    "otel",
    "favicon.ico",
    "robots.txt",
];

/// All sessions, and who is registered on them.
#[derive(Default)]
pub(super) struct Table {
    sessions: Sessions,
    /// How many of them have a client.
    registered: usize,
    registrations: u64,
    /// Of all clients together.
    weight: usize,
    /// Who came, went or changed, once somebody wants to know.
    touched: Option<HashSet<String>>,
}

/// A session in the table.
pub(super) struct Entry {
    session: Arc<Session>,
    client: Option<String>,
}

impl Table {
    pub(super) fn open(&mut self, session: &Arc<Session>, limits: &Limits) -> Result<(), Refused> {
        if self.sessions.len() - self.registered >= limits.unregistered {
            return Err(Refused::TooManySessions(limits.unregistered));
        }
        let entry = Entry { session: Arc::clone(session), client: None };
        self.sessions.insert(session.id, entry);
        Ok(())
    }

    pub(super) fn session(&self, id: Uuid) -> Option<Arc<Session>> {
        self.sessions.get(&id).map(|entry| Arc::clone(&entry.session))
    }

    pub(super) fn sessions(&self) -> Vec<Arc<Session>> {
        self.sessions.values().map(|entry| Arc::clone(&entry.session)).collect()
    }

    /// Who is registered on a session.
    fn client(&self, session: &Session) -> Result<Option<&str>, Refused> {
        let entry = self.sessions.get(&session.id).ok_or(Refused::Ended)?;
        Ok(entry.client.as_deref())
    }

    /// Notes who is registered on a session from now on.
    fn set_client(&mut self, session: &Session, client: Option<&str>) {
        let Some(entry) = self.sessions.get_mut(&session.id) else { return };
        self.registered -= usize::from(entry.client.is_some());
        self.registered += usize::from(client.is_some());
        entry.client = client.map(str::to_owned);
    }

    /// Takes a session out, and returns who was registered on it.
    fn close(&mut self, session: &Session) -> Option<String> {
        let client = self.sessions.remove(&session.id)?.client?;
        self.registered -= 1;
        Some(client)
    }

    /// Whether the catalogues still fit when one comes in place of others.
    fn check_weight(&self, gone: usize, new: usize, limits: &Limits) -> Result<(), Refused> {
        match self.weight - gone + new <= limits.catalog_bytes {
            true => Ok(()),
            false => Err(Refused::CatalogsFull),
        }
    }

    fn put(&mut self, roster: &mut Roster, client: Client) {
        self.remove(roster, &client.info.id);
        self.weight += client.weight;
        self.touch(&client.info.id);
        roster.put(client);
    }

    fn touch(&mut self, id: &str) {
        if let Some(touched) = &mut self.touched
            && !touched.contains(id)
        {
            touched.insert(id.to_owned());
        }
    }

    pub(super) fn take_touched(&mut self, roster: &Roster) -> HashSet<String> {
        match self.touched.replace(HashSet::new()) {
            Some(touched) => touched,
            None => roster.clients().map(|client| client.info.id.clone()).collect(),
        }
    }

    fn remove(&mut self, roster: &mut Roster, id: &str) {
        if let Some(client) = roster.remove(id) {
            self.touch(id);
            self.weight -= client.weight;
        }
    }
}

impl Host {
    pub(super) fn register(
        &self,
        session: &Arc<Session>,
        transport: Transport,
        client: ClientDescriptor,
        auth: Option<&Auth>,
        bytes: usize,
    ) -> Result<(), Refused> {
        let ClientDescriptor { info, paths } = client;
        let limits = &self.0.config.limits;
        let token = auth.and_then(|auth| auth.token.as_deref());
        if !transport.is_authorized && !self.0.keys.token_is_good(token) {
            return Err(Refused::Unauthorized);
        }
        check_id(&info.id)?;
        let catalog = Arc::new(Catalog::new(paths, limits)?);
        let weight = weight::of(&info, &catalog, bytes);

        let mut table = lock(&self.0.table);
        let mut roster = self.0.roster.load().successor();
        let before = table.client(session)?.map(str::to_owned);
        let other = before.as_deref().filter(|before| *before != info.id);
        let mine = before.as_deref().and_then(|before| roster.client(before)).map(Arc::clone);
        let holder = roster.client(&info.id).map(Arc::clone);
        // Whoever makes room counts as gone already.
        let gone = other.and(mine.as_ref()).map_or(0, |client| client.weight)
            + holder.as_ref().map_or(0, |client| client.weight);
        table.check_weight(gone, weight, limits)?;
        if before.is_none() && holder.is_none() && roster.len() >= limits.clients {
            return Err(Refused::TooManyClients(limits.clients));
        }

        if let (Some(before), now) = (other, &info.id) {
            table.remove(&mut roster, before);
            let (client, now) = (before.to_owned(), now.clone());
            session.fail_calls(&CallError::Reregistered { client, now });
        }
        let replaced = holder.filter(|holder| holder.session.id != session.id);
        if let Some(replaced) = &replaced {
            table.close(&replaced.session);
        }
        // The same client on the same session keeps its place.
        let number = match mine.filter(|mine| mine.info.id == info.id) {
            Some(mine) => mine.number,
            None => {
                table.registrations += 1;
                table.registrations
            }
        };
        let has_auth = auth.is_some_and(|auth| !auth.is_empty());
        let auth_source = AuthSource::of(transport.has_auth, has_auth);
        let connected_at = self.now();
        let session_of_client = Arc::clone(session);
        table.set_client(session, Some(&info.id));
        let id = info.id.clone();
        let client = Client {
            info,
            catalog,
            connected_at,
            auth_source,
            number,
            weight,
            session: session_of_client,
        };
        table.put(&mut roster, client);
        session.set_registered(true);
        self.publish(roster);
        drop(table);
        tracing::debug!(client = id, mode = session.mode.as_str(), "client registered");
        if let Some(replaced) = replaced {
            let close = Close::new(4000, "Replaced by newer client session");
            replaced.session.end(close, &CallError::Disconnected(id));
        }
        Ok(())
    }

    pub(super) fn update(
        &self,
        session: &Arc<Session>,
        id: &str,
        paths: Vec<Descriptor>,
        bytes: usize,
    ) -> Result<(), Refused> {
        let limits = &self.0.config.limits;
        let catalog = Arc::new(Catalog::new(paths, limits)?);
        let mut table = lock(&self.0.table);
        let mut roster = self.0.roster.load().successor();
        let not_registered = || Refused::NotRegistered(id.to_owned());
        table.client(session)?.filter(|client| *client == id).ok_or_else(not_registered)?;
        let client = Arc::clone(roster.client(id).ok_or_else(not_registered)?);
        // What it said of itself when it registered is still there.
        let bytes = bytes.saturating_add(json_bytes(&client.info));
        let weight = weight::of(&client.info, &catalog, bytes);
        table.check_weight(client.weight, weight, limits)?;
        let Client { info, connected_at, auth_source, number, session, .. } = &*client;
        let client = Client {
            info: info.clone(),
            catalog,
            connected_at: *connected_at,
            auth_source: *auth_source,
            number: *number,
            weight,
            session: Arc::clone(session),
        };
        table.put(&mut roster, client);
        self.publish(roster);
        Ok(())
    }

    /// Of another client than the session's own it is ignored.
    pub(super) fn unregister(&self, session: &Session, id: &str) {
        let mut table = lock(&self.0.table);
        if table.client(session) != Ok(Some(id)) {
            return;
        }
        table.set_client(session, None);
        session.set_registered(false);
        let mut roster = self.0.roster.load().successor();
        table.remove(&mut roster, id);
        self.publish(roster);
        drop(table);
        session.fail_calls(&CallError::Disconnected(id.to_owned()));
    }

    /// Ends a session, and whoever is registered on it is gone. The other end is told why. Once is enough.
    pub fn end(&self, session: &Session, close: Close) {
        let client = {
            let mut table = lock(&self.0.table);
            let client = table.close(session);
            if let Some(id) = &client {
                let mut roster = self.0.roster.load().successor();
                table.remove(&mut roster, id);
                self.publish(roster);
            }
            client.unwrap_or_default()
        };
        session.end(close, &CallError::Disconnected(client));
    }

    /// Swaps a roster in. Only with the table locked.
    fn publish(&self, roster: Roster) {
        let revision = roster.revision();
        self.0.roster.store(Arc::new(roster));
        self.0.news.send_replace(revision);
    }
}

fn check_id(id: &str) -> Result<(), Refused> {
    let is_good = (1..=MAX_ID_CHARS).contains(&id.chars().count())
        && !id.chars().any(|c| c == '/' || c.is_control())
        && id.trim() == id
        // No address has these as a segment.
        && ![".", ".."].contains(&id);
    if !is_good {
        return Err(Refused::ClientId);
    }
    match RESERVED.iter().any(|name| name.eq_ignore_ascii_case(id)) {
        true => Err(Refused::ReservedId(id.to_owned())),
        false => Ok(()),
    }
}
