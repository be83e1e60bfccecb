//! Immutable snapshot of all registered clients. Successive snapshots share most of their nodes.

use std::sync::Arc;

use imbl::OrdMap;
use skills_core::{Reservation, Timestamp};

use super::{catalog::ClientCatalog, session::Session};
use crate::wire::{ClientInfo, auth::AuthSource};

/// Registered client.
#[derive(Debug)]
pub struct RegisteredClient {
    /// Description that the client sent.
    pub info: ClientInfo,
    /// Paths of the client.
    pub catalog: Arc<ClientCatalog>,
    /// Time of the registration.
    pub connected_at: Timestamp,
    /// Source of its credentials.
    pub auth_source: AuthSource,
    /// Sequence number of the registration.
    pub(super) number: u64,
    /// Estimated memory, in bytes.
    pub(super) memory_size: usize,
    pub(super) session: Arc<Session>,
    /// Reservation of the estimated memory.
    pub(super) _reserved: Reservation,
}

impl RegisteredClient {
    /// Returns the sequence number of the registration.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the estimated memory, in bytes.
    #[must_use]
    pub const fn memory_size(&self) -> usize {
        self.memory_size
    }

    /// Returns the session that the client is registered on.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }
}

/// Snapshot of all registered clients.
#[derive(Debug, Clone, Default)]
pub struct ClientTable {
    revision: u64,
    by_id: OrdMap<Arc<str>, Arc<RegisteredClient>>,
    by_number: OrdMap<u64, Arc<RegisteredClient>>,
}

impl ClientTable {
    /// Returns the revision, which grows with every change.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the client with an id.
    #[must_use]
    pub fn client(&self, id: &str) -> Option<&Arc<RegisteredClient>> {
        self.by_id.get(id)
    }

    /// Returns all clients in the order of their registration.
    pub fn clients(&self) -> impl Iterator<Item = &Arc<RegisteredClient>> {
        self.by_number.values()
    }

    /// Returns the clients from a sequence number on, in the order of their registration.
    pub(crate) fn clients_from(&self, number: u64) -> impl Iterator<Item = &Arc<RegisteredClient>> {
        self.by_number.range(number..).map(|(_, client)| client)
    }

    /// Returns the number of clients.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns whether no client is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Returns a copy with the next revision, to be modified.
    pub(super) fn successor(&self) -> Self {
        Self { revision: self.revision + 1, ..self.clone() }
    }

    pub(super) fn insert(&mut self, client: RegisteredClient) {
        let client = Arc::new(client);
        self.remove(&client.info.id);
        self.by_number.insert(client.number, Arc::clone(&client));
        self.by_id.insert(client.info.id.as_str().into(), client);
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<Arc<RegisteredClient>> {
        let client = self.by_id.remove(id)?;
        self.by_number.remove(&client.number);
        Some(client)
    }
}
