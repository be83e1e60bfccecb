//! Backends of the pool's own connections, by which a listener ignores the notifications of this process.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;

/// Process ids of the backends of a pool. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnBackends(Arc<Mutex<HashSet<i32>>>);

/// Membership of a backend; dropping it ends it, since the server gives process ids out again.
#[derive(Debug)]
pub(crate) struct OwnBackend {
    backends: OwnBackends,
    id: i32,
}

impl OwnBackends {
    /// Adds the backend of a connection.
    pub(crate) fn add(&self, id: i32) -> OwnBackend {
        self.0.lock().insert(id);
        OwnBackend { backends: self.clone(), id }
    }

    pub(crate) fn contains(&self, id: i32) -> bool {
        self.0.lock().contains(&id)
    }
}

impl Drop for OwnBackend {
    fn drop(&mut self) {
        self.backends.0.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_belongs_to_the_pool_until_its_connection_is_closed() {
        let own = OwnBackends::default();
        let backend = own.add(7);
        assert!(own.contains(7) && !own.contains(8));
        drop(backend);
        assert!(!own.contains(7));
    }
}
