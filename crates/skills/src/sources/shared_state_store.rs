//! States of sources in the database that servers share: one imports a source, and every other one knows the result.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use skills_core::Code;
use skills_registry::RegistryError;
use skills_store::{ImportRecords, ServerId, StoreError};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    state::{SourceState, busy},
    state_file,
};
use crate::{Failure, blocking::blocking};

/// Time after which another server takes over the import of one that died.
pub(super) const LEASE: Duration = Duration::from_secs(60);
/// Interval in which a running import extends its lease.
const RENEWAL: Duration = Duration::from_secs(15);

/// States of the sources of all servers on one database.
#[derive(Debug)]
pub(crate) struct SharedStateStore {
    records: Arc<dyn ImportRecords>,
    holder: ServerId,
    /// Directory with the states from before the registry moved to the database.
    data_dir: PathBuf,
    /// States by name, as they were read or saved last.
    latest: Mutex<BTreeMap<String, SourceState>>,
}

/// Leased state of a source. The lease is extended until this is dropped.
pub(super) struct LeasedState {
    store: Arc<SharedStateStore>,
    name: String,
    /// Cancelled when the lease is lost.
    lost: CancellationToken,
    _renewal: AbortOnDropHandle<()>,
}

impl SharedStateStore {
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
    ) -> Result<(LeasedState, SourceState), Failure> {
        let key = name.to_owned();
        // The database counts from a later time.
        let end = Instant::now() + LEASE;
        let leased = self.run(move |records, holder| records.lease(&key, holder, LEASE)).await?;
        let Some(leased) = leased else { return Err(busy("server", name)) };
        let state = match leased.text {
            Some(text) => parse(&text),
            None => state_file::read(&self.data_dir, name),
        };
        let (store, name, lost) = (Arc::clone(self), name.to_owned(), CancellationToken::new());
        let renewal = tokio::spawn(renew(Arc::clone(self), name.clone(), end, lost.clone()));
        let _renewal = AbortOnDropHandle::new(renewal);
        Ok((LeasedState { store, name, lost, _renewal }, state.unwrap_or_default()))
    }

    /// Reads the states of all sources, sorted by name.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub(super) async fn refresh(&self) -> Result<Vec<SourceState>, Failure> {
        let texts = self.run(|records, _| records.list()).await?;
        let states = texts.iter().filter_map(|text| parse(text));
        *self.latest.lock() = states.map(|state| (state.name.clone(), state)).collect();
        Ok(self.latest())
    }

    /// Reads the state of a source. `None` if no server imported it yet.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub(super) async fn read(&self, name: &str) -> Result<Option<SourceState>, Failure> {
        let name = name.to_owned();
        let text = self.run(move |records, _| records.text(&name)).await?;
        let state = text.and_then(|text| parse(&text));
        if let Some(state) = &state {
            self.remember(state);
        }
        Ok(state)
    }

    /// Returns the states as they were read or saved last, sorted by name.
    pub(super) fn latest(&self) -> Vec<SourceState> {
        self.latest.lock().values().cloned().collect()
    }

    fn remember(&self, state: &SourceState) {
        self.latest.lock().insert(state.name.clone(), state.clone());
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

impl LeasedState {
    /// Returns a token that is cancelled when the lease is lost.
    pub(super) fn loss_token(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Saves the state and ends the lease.
    ///
    /// # Errors
    /// When the lease was lost, or the database cannot be reached.
    pub(super) async fn save(&self, state: &SourceState) -> Result<(), Failure> {
        let text = serde_json::to_string(state)
            .map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        let name = self.name.clone();
        let save = move |records: &dyn ImportRecords, holder| records.save(&name, holder, &text);
        if !self.store.run(save).await? {
            return Err(busy("server", &self.name));
        }
        self.store.remember(state);
        Ok(())
    }
}

/// Extends a lease that lasts until `end`. Cancels `lost` and returns when another server has it, or when it ended because the
/// database could not be reached: another server may have it then.
async fn renew(
    store: Arc<SharedStateStore>,
    name: String,
    mut end: Instant,
    lost: CancellationToken,
) {
    loop {
        sleep(RENEWAL).await;
        let (key, next_end) = (name.clone(), Instant::now() + LEASE);
        let renewal = store.run(move |records, holder| records.renew(&key, holder, LEASE));
        match timeout_at(end, renewal).await {
            Ok(Ok(true)) => end = next_end,
            // The next attempt may reach the database.
            Ok(Err(_)) if Instant::now() < end => {}
            Ok(_) | Err(_) => break,
        }
    }
    lost.cancel();
}

fn parse(text: &str) -> Option<SourceState> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::test_records::TestRecords;

    fn store(records: &Arc<TestRecords>) -> Arc<SharedStateStore> {
        Arc::new(SharedStateStore::new(Arc::clone(records) as _, PathBuf::from("absent")))
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_extended_while_it_is_held() {
        let records = Arc::new(TestRecords::default());
        let (leased, _) = store(&records).open("team").await.unwrap();
        sleep(LEASE * 10).await;
        assert!(!leased.loss_token().is_cancelled());
        let other = store(&records).open("team").await;
        assert_eq!(other.err().map(|failure| failure.code), Some(Code::Busy));
        drop(leased);
        sleep(LEASE * 2).await;
        assert!(store(&records).open("team").await.is_ok(), "nobody extends it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_lost_when_another_server_has_it() {
        let records = Arc::new(TestRecords::default());
        let (leased, state) = store(&records).open("team").await.unwrap();
        let other = records.steal("team");
        let start = Instant::now();
        leased.loss_token().cancelled().await;
        assert_eq!(start.elapsed().as_secs(), RENEWAL.as_secs());
        assert_eq!(leased.save(&state).await.map_err(|failure| failure.code), Err(Code::Busy));
        assert!(records.save("team", other, "theirs").unwrap(), "the lease is still theirs");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_lost_when_the_database_cannot_be_reached_until_its_end() {
        let records = Arc::new(TestRecords::default());
        let (leased, _) = store(&records).open("team").await.unwrap();
        let start = Instant::now();
        // A shorter outage does no harm.
        records.set_reachable(false);
        sleep(LEASE - RENEWAL).await;
        records.set_reachable(true);
        sleep(LEASE).await;
        assert!(!leased.loss_token().is_cancelled());
        records.set_reachable(false);
        leased.loss_token().cancelled().await;
        let lasted = start.elapsed();
        assert!(lasted <= LEASE * 3, "{lasted:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_saved_is_known_without_a_refresh() {
        let records = Arc::new(TestRecords::default());
        let (one, other) = (store(&records), store(&records));
        let (leased, _) = one.open("team").await.unwrap();
        let state = SourceState { name: "team".to_owned(), ..SourceState::default() };
        leased.save(&state).await.unwrap();
        assert_eq!(one.latest(), vec![state.clone()]);
        assert_eq!(other.latest(), []);
        assert_eq!(other.read("team").await.unwrap().as_ref(), Some(&state));
        assert_eq!(other.latest(), [state]);
        assert_eq!(other.read("absent").await.unwrap(), None);
    }
}
