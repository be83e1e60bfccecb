//! Records of imports for tests: leases end by the clock of Tokio, and the database can be cut off.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use skills_store::{ImportRecords, LeasedRecord, MemoryImportRecords, ServerId, StoreError};
use tokio::time::Instant;

/// Lease in the records below: longer than any test takes, so that leases end by the clock of Tokio only.
const LONG: Duration = Duration::from_secs(3600);

#[derive(Debug, Default)]
pub(super) struct TestRecords {
    records: MemoryImportRecords,
    leases: Mutex<HashMap<String, (ServerId, Instant)>>,
    is_cut_off: AtomicBool,
    lists: AtomicUsize,
}

impl TestRecords {
    pub(super) fn set_reachable(&self, is_reachable: bool) {
        self.is_cut_off.store(!is_reachable, Ordering::Relaxed);
    }

    /// Returns how often all records were read.
    pub(super) fn lists(&self) -> usize {
        self.lists.load(Ordering::Relaxed)
    }

    /// Ends a lease, and gives it to another server.
    pub(super) fn steal(&self, name: &str) -> ServerId {
        let other = ServerId::new();
        if let Some((_, end)) = self.leases.lock().get_mut(name) {
            *end = Instant::now();
        }
        assert!(self.lease(name, other, LONG).unwrap().is_some());
        other
    }

    fn reach(&self) -> Result<(), StoreError> {
        if self.is_cut_off.load(Ordering::Relaxed) {
            let (code, message) = ("timeout".to_owned(), "the database is cut off".to_owned());
            return Err(StoreError::Unavailable { code, message });
        }
        Ok(())
    }
}

impl ImportRecords for TestRecords {
    fn list(&self) -> Result<Vec<String>, StoreError> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.reach()?;
        self.records.list()
    }

    fn text(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.reach()?;
        self.records.text(name)
    }

    fn lease(
        &self,
        name: &str,
        holder: ServerId,
        time: Duration,
    ) -> Result<Option<LeasedRecord>, StoreError> {
        self.reach()?;
        let mut leases = self.leases.lock();
        if let Some((other, end)) = leases.get(name)
            && *end <= Instant::now()
        {
            self.records.renew(name, *other, Duration::ZERO)?;
        }
        let leased = self.records.lease(name, holder, LONG)?;
        if leased.is_some() {
            leases.insert(name.to_owned(), (holder, Instant::now() + time));
        }
        Ok(leased)
    }

    fn renew(&self, name: &str, holder: ServerId, time: Duration) -> Result<bool, StoreError> {
        self.reach()?;
        let is_held = self.records.renew(name, holder, LONG)?;
        if is_held {
            self.leases.lock().insert(name.to_owned(), (holder, Instant::now() + time));
        }
        Ok(is_held)
    }

    fn save(&self, name: &str, holder: ServerId, text: &str) -> Result<bool, StoreError> {
        self.reach()?;
        self.records.save(name, holder, text)
    }
}
