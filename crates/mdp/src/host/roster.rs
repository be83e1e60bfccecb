//! Who is registered, as an immutable snapshot that shares most of itself with the next.

use std::sync::Arc;

use imbl::OrdMap;
use skills_core::Timestamp;

use super::{catalog::Catalog, session::Session};
use crate::wire::{ClientInfo, auth::AuthSource};

/// A client that is registered.
#[derive(Debug)]
pub struct Client {
    /// What it says of itself.
    pub info: ClientInfo,
    /// What it has.
    pub catalog: Arc<Catalog>,
    /// When it registered.
    pub connected_at: Timestamp,
    /// Where its credentials came from.
    pub auth_source: AuthSource,
    /// Grows with every registration.
    pub(super) number: u64,
    /// About how much memory it takes.
    pub(super) weight: usize,
    pub(super) session: Arc<Session>,
}

impl Client {
    /// Grows with every registration.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The session it is registered on.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }
}

/// All clients at one moment.
#[derive(Debug, Clone, Default)]
pub struct Roster {
    revision: u64,
    by_id: OrdMap<Arc<str>, Arc<Client>>,
    in_order: OrdMap<u64, Arc<Client>>,
}

impl Roster {
    /// Grows with every change.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// The client of an id.
    #[must_use]
    pub fn client(&self, id: &str) -> Option<&Arc<Client>> {
        self.by_id.get(id)
    }

    /// All clients, in the order in which they registered.
    pub fn clients(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.in_order.values()
    }

    /// The same from a number on.
    pub(crate) fn clients_from(&self, number: u64) -> impl Iterator<Item = &Arc<Client>> {
        self.in_order.range(number..).map(|(_, client)| client)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The next snapshot, to be changed.
    pub(super) fn successor(&self) -> Self {
        Self { revision: self.revision + 1, ..self.clone() }
    }

    pub(super) fn put(&mut self, client: Client) {
        let client = Arc::new(client);
        self.remove(&client.info.id);
        self.in_order.insert(client.number, Arc::clone(&client));
        self.by_id.insert(client.info.id.as_str().into(), client);
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<Arc<Client>> {
        let client = self.by_id.remove(id)?;
        self.in_order.remove(&client.number);
        Some(client)
    }
}
