//! All sessions, and the share of each client in them.
//!
//! A client is a key, or else a network address: clients without a key do not share one count, so that none of them
//! locks the others out. Where a token is required, sessions that have not presented it have a count of their own, and
//! the oldest of them makes room for a new session.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use skills_core::Caller;
use uuid::Uuid;

use super::{ClientTable, RegisteredClient, Session};
use crate::{MdpLimits, SessionError};

/// All sessions and the clients that are registered on them.
#[derive(Default)]
pub(super) struct SessionTable {
    sessions: HashMap<Uuid, SessionEntry>,
    /// Sessions with a client.
    registered: usize,
    /// Sessions with and without a client, by the party that opened them. Those without the token are not in it.
    shares: HashMap<SessionOwner, SessionCounts>,
    /// Sessions without the token, by age.
    untrusted: BTreeMap<u64, (Uuid, SessionOwner)>,
    /// Sessions without the token so far.
    untrusted_count: u64,
    /// Registrations so far.
    registrations: u64,
    /// Estimated memory of all clients, in bytes.
    memory_size: usize,
    /// Ids of clients that were added, changed or removed; recorded once a follower asks for them.
    changed: Option<HashSet<String>>,
}

/// Party that opens sessions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SessionOwner {
    /// Caller with a key.
    Caller(Caller),
    /// Network address of a caller without one.
    Address(IpAddr),
}

impl SessionOwner {
    fn of(session: &Session) -> Self {
        match &session.transport.caller {
            Caller::Anonymous => {
                Self::Address(session.transport.address.unwrap_or(Ipv6Addr::UNSPECIFIED.into()))
            }
            caller @ (Caller::User(_) | Caller::Admin(_)) => Self::Caller(caller.clone()),
        }
    }

    /// Returns its share in a limit: a quarter with a key, three quarters for an address, which may be that of a proxy.
    fn share(&self, total: usize) -> usize {
        let quarter = total / 4;
        match self {
            Self::Address(_) => total - quarter,
            Self::Caller(_) => quarter.max(1),
        }
    }
}

/// Returns the limit on sessions that have not presented the token: half of the sessions without a client.
fn max_untrusted(limits: &MdpLimits) -> usize {
    (limits.unregistered / 2).max(1)
}

/// Number of sessions of one party.
#[derive(Default)]
struct SessionCounts {
    registered: usize,
    unregistered: usize,
}

/// Session in the table.
struct SessionEntry {
    session: Arc<Session>,
    owner: SessionOwner,
    state: EntryState,
}

/// State of a session.
enum EntryState {
    /// The token was not presented yet. Has the number of the session in [`SessionTable::untrusted`].
    Untrusted(u64),
    Unregistered,
    /// Has the id of its client.
    Registered(String),
}

impl EntryState {
    fn client(&self) -> Option<&str> {
        match self {
            Self::Registered(id) => Some(id),
            Self::Untrusted(_) | Self::Unregistered => None,
        }
    }
}

impl SessionTable {
    /// Adds a session, and returns those that had to make room for it. `is_trusted` if it needs no token any more.
    pub(super) fn insert(
        &mut self,
        session: &Arc<Session>,
        is_trusted: bool,
        limits: &MdpLimits,
    ) -> Result<Vec<Arc<Session>>, SessionError> {
        let owner = SessionOwner::of(session);
        let mut evicted = Vec::new();
        if is_trusted {
            let counts = self.shares.get(&owner).map_or(0, |counts| counts.unregistered);
            if counts >= owner.share(limits.unregistered) {
                return Err(SessionError::TooManySessions(limits.unregistered));
            }
        } else {
            let max = max_untrusted(limits);
            let own = self.untrusted.values().filter(|(_, other)| *other == owner).count();
            if own >= (max / 4).max(1) {
                evicted.extend(self.evict(Some(&owner)));
            } else if self.untrusted.len() >= max {
                evicted.extend(self.evict(None));
            }
        }
        if self.sessions.len() - self.registered >= limits.unregistered {
            let oldest = self.evict(None);
            evicted.push(oldest.ok_or(SessionError::TooManySessions(limits.unregistered))?);
        }
        let state = if is_trusted {
            EntryState::Unregistered
        } else {
            self.untrusted_count += 1;
            self.untrusted.insert(self.untrusted_count, (session.id, owner.clone()));
            EntryState::Untrusted(self.untrusted_count)
        };
        self.count(&owner, &state, true);
        self.sessions
            .insert(session.id, SessionEntry { session: Arc::clone(session), owner, state });
        Ok(evicted)
    }

    /// Removes the oldest session without the token, of one party or of all.
    fn evict(&mut self, owner: Option<&SessionOwner>) -> Option<Arc<Session>> {
        let is_wanted = |other: &SessionOwner| owner.is_none_or(|owner| owner == other);
        let (_, (id, _)) = self.untrusted.iter().find(|(_, (_, other))| is_wanted(other))?;
        let session = Arc::clone(&self.sessions.get(id)?.session);
        self.remove_session(&session);
        Some(session)
    }

    /// Returns whether the party of a session has used its share of clients.
    pub(super) fn is_share_used(&self, session: &Session, limits: &MdpLimits) -> bool {
        let owner = SessionOwner::of(session);
        let counts = self.shares.get(&owner).map_or(0, |counts| counts.registered);
        counts >= owner.share(limits.clients)
    }

    /// Adds a session in a state to the counts, or removes it from them.
    fn count(&mut self, owner: &SessionOwner, state: &EntryState, is_added: bool) {
        let number = match state {
            EntryState::Untrusted(number) => {
                if !is_added {
                    self.untrusted.remove(number);
                }
                return;
            }
            EntryState::Unregistered => {
                &mut self.shares.entry(owner.clone()).or_default().unregistered
            }
            EntryState::Registered(_) => {
                self.registered = if is_added { self.registered + 1 } else { self.registered - 1 };
                &mut self.shares.entry(owner.clone()).or_default().registered
            }
        };
        *number = if is_added { *number + 1 } else { *number - 1 };
        let is_empty = |counts: &SessionCounts| counts.registered + counts.unregistered == 0;
        if self.shares.get(owner).is_some_and(is_empty) {
            self.shares.remove(owner);
        }
    }

    /// Returns the number of the next registration.
    pub(super) const fn next_registration(&mut self) -> u64 {
        self.registrations += 1;
        self.registrations
    }

    pub(super) fn get(&self, id: Uuid) -> Option<Arc<Session>> {
        self.sessions.get(&id).map(|entry| Arc::clone(&entry.session))
    }

    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        self.sessions.values().map(|entry| Arc::clone(&entry.session)).collect()
    }

    /// Returns the id of the client on a session.
    pub(super) fn client(&self, session: &Session) -> Result<Option<&str>, SessionError> {
        let entry = self.sessions.get(&session.id).ok_or(SessionError::Ended)?;
        Ok(entry.state.client())
    }

    /// Sets the client on a session.
    pub(super) fn set_client(&mut self, session: &Session, client: Option<&str>) {
        let Some(mut entry) = self.sessions.remove(&session.id) else { return };
        self.count(&entry.owner, &entry.state, false);
        entry.state = client
            .map_or(EntryState::Unregistered, |client| EntryState::Registered(client.to_owned()));
        self.count(&entry.owner, &entry.state, true);
        self.sessions.insert(session.id, entry);
    }

    /// Removes a session, and returns the id of its client.
    pub(super) fn remove_session(&mut self, session: &Session) -> Option<String> {
        let SessionEntry { owner, state, .. } = self.sessions.remove(&session.id)?;
        self.count(&owner, &state, false);
        match state {
            EntryState::Registered(client) => Some(client),
            EntryState::Untrusted(_) | EntryState::Unregistered => None,
        }
    }

    /// Checks that all catalogs fit after one of `new` bytes replaces others of `removed` bytes.
    pub(super) fn check_capacity(
        &self,
        removed: usize,
        new: usize,
        limits: &MdpLimits,
    ) -> Result<(), SessionError> {
        let fits = self.memory_size - removed + new <= limits.catalog_bytes;
        if fits { Ok(()) } else { Err(SessionError::CatalogsFull) }
    }

    /// Adds a client to a client table, in place of one with its id.
    pub(super) fn insert_client(&mut self, clients: &mut ClientTable, client: RegisteredClient) {
        self.remove_client(clients, &client.info.id);
        self.memory_size += client.memory_size;
        self.mark_changed(&client.info.id);
        clients.insert(client);
    }

    /// Removes a client from a client table.
    pub(super) fn remove_client(&mut self, clients: &mut ClientTable, id: &str) {
        if let Some(client) = clients.remove(id) {
            self.mark_changed(id);
            self.memory_size -= client.memory_size;
        }
    }

    fn mark_changed(&mut self, id: &str) {
        if let Some(changed) = &mut self.changed
            && !changed.contains(id)
        {
            changed.insert(id.to_owned());
        }
    }

    pub(super) fn take_changed(&mut self, clients: &ClientTable) -> HashSet<String> {
        let all = || clients.clients().map(|client| client.info.id.clone()).collect();
        self.changed.replace(HashSet::new()).unwrap_or_else(all)
    }
}
