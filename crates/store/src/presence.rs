//! Presence of the servers that share a store: the names that each of them offers, under a lease.
//!
//! A server announces its names and renews the lease, so that one that dies vanishes. Nothing of this is read unless a
//! server misses a name. The store does not know what the names stand for.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use uuid::Uuid;

use crate::StoreError;

/// Identity of a running server. A restarted one has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerId(Uuid);

impl ServerId {
    /// Creates an identity that no other server has.
    #[must_use]
    pub fn new() -> Self {
        Self(Uuid::new_v4())
    }

    /// Returns the identity as bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl Default for ServerId {
    fn default() -> Self {
        Self::new()
    }
}

/// Names that the servers of one store offer. All calls block.
pub trait Presence: Send + Sync + std::fmt::Debug {
    /// Replaces the names of a server, for the time of a lease.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn announce(
        &self,
        id: ServerId,
        server: &str,
        names: &[String],
        lease: Duration,
    ) -> Result<(), StoreError>;

    /// Renews the lease of a server. Returns whether its names are still there.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn renew(&self, id: ServerId, lease: Duration) -> Result<bool, StoreError>;

    /// Removes a server.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn withdraw(&self, id: ServerId) -> Result<(), StoreError>;

    /// Returns the name of another server that offers a name.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn find(&self, name: &str, except: ServerId) -> Result<Option<String>, StoreError>;
}

/// Presence in memory, for tests.
#[derive(Debug, Default)]
pub struct MemoryPresence(Mutex<BTreeMap<ServerId, PresentServer>>);

#[derive(Debug)]
struct PresentServer {
    name: String,
    names: Vec<String>,
    expires_at: Instant,
}

impl Presence for MemoryPresence {
    fn announce(
        &self,
        id: ServerId,
        server: &str,
        names: &[String],
        lease: Duration,
    ) -> Result<(), StoreError> {
        let (name, names) = (server.to_owned(), names.to_vec());
        let present = PresentServer { name, names, expires_at: Instant::now() + lease };
        self.0.lock().insert(id, present);
        Ok(())
    }

    fn renew(&self, id: ServerId, lease: Duration) -> Result<bool, StoreError> {
        let mut servers = self.0.lock();
        let server = servers.get_mut(&id);
        Ok(server.map(|server| server.expires_at = Instant::now() + lease).is_some())
    }

    fn withdraw(&self, id: ServerId) -> Result<(), StoreError> {
        self.0.lock().remove(&id);
        Ok(())
    }

    fn find(&self, name: &str, except: ServerId) -> Result<Option<String>, StoreError> {
        let servers = self.0.lock();
        let found = servers.iter().find(|(id, server)| {
            **id != except
                && server.expires_at > Instant::now()
                && server.names.iter().any(|offered| offered == name)
        });
        Ok(found.map(|(_, server)| server.name.clone()))
    }
}
