//! Reachability of a store that several servers share. The follower records it; writes fail at once while the store is
//! lost, and reads are refused when the catalog is too old.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use skills_core::{Code, Coded as _, RefusedWrite, StoreOutage, WriteRefusal};
use skills_store::{Store, StoreError};
use tokio::sync::watch;

use crate::RegistryError;

/// Reachability of the store, as the follower sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreHealth {
    /// Outage, if the store cannot be reached.
    pub outage: Option<StoreOutage>,
    /// Reason of the outage.
    pub reason: Option<String>,
    /// Write that the store refused, though it can be read, and none succeeded since.
    pub refused_write: Option<RefusedWrite>,
}

impl StoreHealth {
    /// Returns the time since which the catalog may lack changes of other servers, if the store cannot be reached.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        Some(self.outage?.age(Instant::now()))
    }

    /// Returns the reason for which the store cannot be reached or takes no writes.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let refusal = || self.refused_write?.current(Instant::now());
        self.reason.clone().or_else(|| Some(refusal()?.message().to_owned()))
    }
}

/// Record of the last contact with the store.
#[derive(Debug)]
pub(crate) struct StoreContact {
    health: watch::Sender<StoreHealth>,
    /// Set during an outage. Reads look at this alone while the store can be reached.
    is_lost: AtomicBool,
    /// Error of the last look, if the store was reached. It is logged once until it changes.
    failure: Mutex<Option<String>>,
    max_stale: Option<Duration>,
}

/// Returns whether an error means that the store cannot be reached. Any other one is the answer of a store that can.
pub(crate) fn is_outage(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { .. }) || error.code() == Code::StoreUnavailable
}

impl StoreContact {
    pub(crate) fn new(max_stale: Option<Duration>) -> Self {
        Self {
            health: watch::Sender::default(),
            is_lost: AtomicBool::new(false),
            failure: Mutex::default(),
            max_stale,
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<StoreHealth> {
        self.health.subscribe()
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Records the result of a look at the store; `last_contact` is the time of the last one that reached it.
    pub(crate) fn record(&self, looked: Result<(), StoreError>, last_contact: Instant) {
        let was_lost = self.is_lost();
        match looked {
            Err(error) if is_outage(&error) => {
                if !was_lost {
                    tracing::warn!(%error, "store unreachable, reads go on from memory");
                }
                let outage = StoreOutage { last_contact, max_stale: self.max_stale };
                let reason = Some(error.to_string());
                self.health.send_modify(|health| {
                    (health.outage, health.reason) = (Some(outage), reason);
                });
                self.is_lost.store(true, Ordering::Release);
            }
            answered => {
                self.record_failure(answered.err().map(|error| error.to_string()));
                if was_lost {
                    tracing::warn!("store reachable again");
                    self.is_lost.store(false, Ordering::Release);
                    self.health.send_modify(|health| {
                        (health.outage, health.reason) = (None, None);
                    });
                }
            }
        }
    }

    /// Records the result of a commit: whether the store takes writes.
    pub(crate) fn record_commit(&self, failure: Option<&StoreError>) {
        let refusal = failure.and_then(StoreError::write_refusal);
        // Any other failure says nothing of it.
        if failure.is_none() || refusal.is_some() {
            let at = Instant::now();
            let refused = refusal.map(|refusal| RefusedWrite { refusal, at });
            self.health.send_if_modified(|health| {
                let is_new = health.refused_write != refused;
                health.refused_write = refused;
                is_new
            });
        }
    }

    /// Checks whether a store that refused a write as read-only takes writes again.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn check_refusal(&self, store: &dyn Store) -> Result<(), StoreError> {
        let refused = self.health.borrow().refused_write;
        if refused.is_none_or(|refused| refused.refusal != WriteRefusal::ReadOnly) {
            return Ok(());
        }
        match store.check_writable() {
            Ok(()) => self.record_commit(None),
            Err(error) if error.write_refusal().is_some() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Logs the error of a store that can be reached, unless the last look had the same one.
    fn record_failure(&self, failure: Option<String>) {
        let mut last = self.failure.lock();
        if let Some(error) = &failure
            && last.as_ref() != Some(error)
        {
            tracing::error!(error, "changes of the store not readable");
        }
        *last = failure;
    }

    /// Checks that the store can be reached, as far as is known.
    ///
    /// # Errors
    /// During an outage.
    pub(crate) fn check_reachable(&self) -> Result<(), RegistryError> {
        if !self.is_lost() {
            return Ok(());
        }
        let reason = self.health.borrow().reason.clone();
        reason.map_or(Ok(()), |reason| Err(RegistryError::StoreUnreachable { reason }))
    }

    /// Checks that the catalog is not too old to be read.
    ///
    /// # Errors
    /// During an outage that is longer than `max_stale`.
    pub(crate) fn check_age(&self) -> Result<(), RegistryError> {
        if !self.is_lost() {
            return Ok(());
        }
        let outage = self.health.borrow().outage;
        if outage.is_some_and(|outage| outage.is_stale(Instant::now())) {
            return Err(RegistryError::CatalogTooOld);
        }
        Ok(())
    }
}
