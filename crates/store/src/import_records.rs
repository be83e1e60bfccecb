//! Records of imports that the servers of one store share: a text by name, which one server at a time may replace.
//!
//! A server leases a record while it imports, so that two never work on the same source, and one that dies hands it on.
//! The store does not know what the texts mean.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{ServerId, StoreError};

/// Record that was leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedRecord {
    /// Text that was saved last.
    pub text: Option<String>,
}

/// Records of the servers of one store. All calls block.
pub trait ImportRecords: Send + Sync + std::fmt::Debug {
    /// Returns the texts of all records, in the order of their names.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn list(&self) -> Result<Vec<String>, StoreError>;

    /// Returns the text of a record. `None` if it was never saved.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn text(&self, name: &str) -> Result<Option<String>, StoreError>;

    /// Leases a record for a time. Returns `None` while another server holds it.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn lease(
        &self,
        name: &str,
        holder: ServerId,
        time: Duration,
    ) -> Result<Option<LeasedRecord>, StoreError>;

    /// Extends a lease. Returns whether the server still had it.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn renew(&self, name: &str, holder: ServerId, time: Duration) -> Result<bool, StoreError>;

    /// Replaces a text and ends the lease. Returns whether the server still had it; nothing is saved otherwise.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn save(&self, name: &str, holder: ServerId, text: &str) -> Result<bool, StoreError>;
}

/// Records in memory, for tests.
#[derive(Debug, Default)]
pub struct MemoryImportRecords(Mutex<BTreeMap<String, MemoryRecord>>);

#[derive(Debug, Default)]
struct MemoryRecord {
    text: Option<String>,
    lease: Option<(ServerId, Instant)>,
}

impl MemoryRecord {
    fn is_held_by(&self, server: ServerId) -> bool {
        self.lease.is_some_and(|(holder, _)| holder == server)
    }
}

impl ImportRecords for MemoryImportRecords {
    fn list(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.0.lock().values().filter_map(|record| record.text.clone()).collect())
    }

    fn text(&self, name: &str) -> Result<Option<String>, StoreError> {
        Ok(self.0.lock().get(name).and_then(|record| record.text.clone()))
    }

    fn lease(
        &self,
        name: &str,
        holder: ServerId,
        time: Duration,
    ) -> Result<Option<LeasedRecord>, StoreError> {
        let mut records = self.0.lock();
        let record = records.entry(name.to_owned()).or_default();
        let now = Instant::now();
        if record.lease.is_some_and(|(other, end)| other != holder && end > now) {
            return Ok(None);
        }
        record.lease = Some((holder, now + time));
        Ok(Some(LeasedRecord { text: record.text.clone() }))
    }

    fn renew(&self, name: &str, holder: ServerId, time: Duration) -> Result<bool, StoreError> {
        let mut records = self.0.lock();
        let record = records.get_mut(name).filter(|record| record.is_held_by(holder));
        Ok(record.map(|record| record.lease = Some((holder, Instant::now() + time))).is_some())
    }

    fn save(&self, name: &str, holder: ServerId, text: &str) -> Result<bool, StoreError> {
        let mut records = self.0.lock();
        let Some(record) = records.get_mut(name).filter(|record| record.is_held_by(holder)) else {
            return Ok(false);
        };
        *record = MemoryRecord { text: Some(text.to_owned()), lease: None };
        Ok(true)
    }
}
