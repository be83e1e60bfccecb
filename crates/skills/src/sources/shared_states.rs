//! States of sources in the database that servers share: one imports a source, and every other one knows the result.

use std::{path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use skills_core::Code;
use skills_registry::RegistryError;
use skills_store::{ImportRecords, ServerId, StoreError};
use tokio_util::task::AbortOnDropHandle;

use super::{
    state::{SourceState, busy},
    state_file,
};
use crate::{Failure, blocking::blocking};

/// Time after which another server takes over the import of one that died.
const LEASE: Duration = Duration::from_secs(60);
/// Interval in which a running import extends its lease.
const RENEWAL: Duration = Duration::from_secs(15);

/// States of the sources of all servers on one database.
#[derive(Debug)]
pub(crate) struct SharedStates {
    records: Arc<dyn ImportRecords>,
    holder: ServerId,
    /// Directory with the states from before the registry moved to the database.
    data_dir: PathBuf,
    /// States as of the last [`refresh`](Self::refresh).
    latest: Mutex<Vec<SourceState>>,
}

/// Leased state of a source. The lease is extended until this is dropped.
pub(super) struct SharedState {
    states: Arc<SharedStates>,
    name: String,
    _renewal: AbortOnDropHandle<()>,
}

impl SharedStates {
    pub(super) fn new(records: Arc<dyn ImportRecords>, data_dir: PathBuf) -> Self {
        Self { records, holder: ServerId::new(), data_dir, latest: Mutex::default() }
    }

    /// Leases and reads the state of a source.
    ///
    /// # Errors
    /// When another server imports it, or the database cannot be reached.
    pub(super) async fn open(
        self: &Arc<Self>,
        name: &str,
    ) -> Result<(SharedState, SourceState), Failure> {
        let key = name.to_owned();
        let leased = self.run(move |records, holder| records.lease(&key, holder, LEASE)).await?;
        let Some(leased) = leased else { return Err(busy("server", name)) };
        let state = match leased.text {
            Some(text) => parse(&text),
            None => state_file::read(&self.data_dir, name),
        };
        let renewal = tokio::spawn(renew(Arc::clone(self), name.to_owned()));
        let (states, name) = (Arc::clone(self), name.to_owned());
        let leased = SharedState { states, name, _renewal: AbortOnDropHandle::new(renewal) };
        Ok((leased, state.unwrap_or_default()))
    }

    /// Reads the states of all sources, sorted by name.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub(super) async fn refresh(&self) -> Result<Vec<SourceState>, Failure> {
        let texts = self.run(|records, _| records.list()).await?;
        let states: Vec<SourceState> = texts.iter().filter_map(|text| parse(text)).collect();
        self.latest.lock().clone_from(&states);
        Ok(states)
    }

    /// Returns the states as of the last refresh.
    pub(super) fn latest(&self) -> Vec<SourceState> {
        self.latest.lock().clone()
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn ImportRecords, ServerId) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Failure> {
        let (records, holder) = (Arc::clone(&self.records), self.holder);
        let done = blocking(move || work(&*records, holder)).await?;
        Ok(done.map_err(RegistryError::from)?)
    }
}

impl SharedState {
    /// Saves the state and ends the lease.
    ///
    /// # Errors
    /// When the lease was lost, or the database cannot be reached.
    pub(super) async fn save(&self, state: &SourceState) -> Result<(), Failure> {
        let text = serde_json::to_string(state)
            .map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        let name = self.name.clone();
        let save = move |records: &dyn ImportRecords, holder| records.save(&name, holder, &text);
        if self.states.run(save).await? { Ok(()) } else { Err(busy("server", &self.name)) }
    }
}

async fn renew(states: Arc<SharedStates>, name: String) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        let key = name.clone();
        // An error is that of the database, which `save` reports.
        if let Ok(false) = states.run(move |it, holder| it.renew(&key, holder, LEASE)).await {
            return;
        }
    }
}

fn parse(text: &str) -> Option<SourceState> {
    serde_json::from_str(text).ok()
}
