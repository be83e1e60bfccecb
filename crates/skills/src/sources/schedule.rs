//! Periodic imports of a server: one task per source, and one that reads what other servers imported.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use skills_core::{Code, Timestamp};
use skills_registry::SkillRegistry;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::{
    SourceStates, import_source, open_state,
    shared_state_store::{LEASE, SharedStateStore},
};
use crate::{
    Failure,
    config::{Config, SourceSettings},
    fetch::{DEFAULT_HOST, Fetcher},
};

/// Interval in which a server reads what other servers imported, for the console and the gateway.
const REFRESH: Duration = Duration::from_secs(10);

/// Running imports. They end when this is dropped, and the fetches of them are cancelled.
pub(crate) struct ScheduledImports {
    cancelled: Arc<AtomicBool>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl Drop for ScheduledImports {
    fn drop(&mut self) {
        self.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Starts a task for each source, which imports it now and then at its interval. Requires a Tokio runtime.
pub(crate) fn import_periodically(
    skills: &Arc<dyn SkillRegistry>,
    config: &Config,
    states: &SourceStates,
) -> ScheduledImports {
    let cancelled = Arc::new(AtomicBool::new(false));
    let host = config.git_host.as_deref().unwrap_or(DEFAULT_HOST);
    let fetcher = Fetcher::new(host, false, true, Arc::clone(&cancelled)).in_background();
    let start = |source: &SourceSettings| {
        let import =
            import_forever(source.clone(), Arc::clone(skills), fetcher.clone(), states.clone());
        AbortOnDropHandle::new(tokio::spawn(import))
    };
    let mut tasks: Vec<_> = config.sources.iter().map(start).collect();
    if let Some(store) = states.shared()
        && !tasks.is_empty()
    {
        let refresh = refresh_forever(Arc::clone(store));
        tasks.push(AbortOnDropHandle::new(tokio::spawn(refresh)));
    }
    ScheduledImports { cancelled, _tasks: tasks }
}

/// Reads the states of all sources again and again.
async fn refresh_forever(store: Arc<SharedStateStore>) {
    loop {
        // An error is that of the database, which imports report.
        let _ = store.refresh().await;
        sleep(REFRESH).await;
    }
}

async fn import_forever(
    source: SourceSettings,
    skills: Arc<dyn SkillRegistry>,
    fetcher: Fetcher,
    states: SourceStates,
) {
    let mut due = DueCheck::new(source.interval);
    if let Some(store) = states.shared() {
        due.seen = last_attempt(store, &source.name).await.unwrap_or_default();
    }
    loop {
        let attempt = import_once(&source, &*skills, &fetcher, &states).await;
        let Some(store) = states.shared() else {
            sleep(source.interval).await;
            continue;
        };
        let wait = match attempt {
            Attempt::Recorded(time) => {
                due.seen = time;
                source.interval
            }
            Attempt::NotRecorded => due.retry_pause(),
        };
        wait_until_due(store, &source.name, &mut due, wait).await;
    }
}

/// Result of an attempt to import a source.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    /// Its time is in the state of the source.
    Recorded(Option<String>),
    /// Another server imports the source, or the state cannot be read or written.
    NotRecorded,
}

async fn import_once(
    source: &SourceSettings,
    skills: &dyn SkillRegistry,
    fetcher: &Fetcher,
    states: &SourceStates,
) -> Attempt {
    let name = &source.name;
    let mut attempt = Attempt::NotRecorded;
    let imported = match open_state(states, source).await {
        Ok(mut locked) => {
            let imported = import_source(source, skills, fetcher, &mut locked).await;
            if locked.is_saved() {
                attempt = Attempt::Recorded(locked.state.last_attempt);
            }
            imported
        }
        Err(failure) => Err(failure),
    };
    match imported {
        Ok(summary) if summary.added + summary.changed + summary.removed > 0 => {
            let (added, changed, removed) = (summary.added, summary.changed, summary.removed);
            tracing::info!(source = name, added, changed, removed, "source imported");
        }
        Ok(_) => {}
        // A command or another server imports it just now.
        Err(failure) if failure.code == Code::Busy => {}
        Err(failure) => {
            tracing::warn!(source = name, error = failure.message, "source not imported");
        }
    }
    attempt
}

/// Waits for the next import of a source that several servers have: one interval after the last import of any of them.
async fn wait_until_due(
    store: &SharedStateStore,
    name: &str,
    due: &mut DueCheck,
    first_wait: Duration,
) {
    let mut wait = first_wait;
    while !wait.is_zero() {
        sleep(wait).await;
        wait = match last_attempt(store, name).await {
            Ok(time) => due.check(time),
            Err(_) => due.retry_pause(),
        };
    }
}

/// Reads the time of the last attempt of any server to import a source.
async fn last_attempt(store: &SharedStateStore, name: &str) -> Result<Option<String>, Failure> {
    Ok(store.read(name).await?.and_then(|state| state.last_attempt))
}

/// Decides when a source is due that several servers have. Their clocks may differ, so a record that did not change while
/// this server waited counts more than the time in it.
struct DueCheck {
    interval: Duration,
    /// Time of the last attempt as it was recorded before the wait.
    seen: Option<String>,
}

impl DueCheck {
    const fn new(interval: Duration) -> Self {
        Self { interval, seen: None }
    }

    /// Returns the rest of the time until the source is due, by the last attempt as it is recorded after a wait. Zero if no
    /// server recorded an attempt meanwhile, and at most one interval.
    fn check(&mut self, last_attempt: Option<String>) -> Duration {
        if last_attempt == self.seen {
            return Duration::ZERO;
        }
        self.seen = last_attempt;
        let time = self.seen.as_deref().and_then(|time| time.parse().ok());
        time.map_or(Duration::ZERO, |time| until_due(time, self.interval))
    }

    /// Returns the pause after an attempt that was not recorded: a server that died in an import has lost its lease then.
    fn retry_pause(&self) -> Duration {
        LEASE.min(self.interval)
    }
}

/// Returns the time until an interval after an attempt is over. The clock of another server may be ahead.
fn until_due(attempt: Timestamp, interval: Duration) -> Duration {
    let age = Timestamp::now().as_micros().saturating_sub(attempt.as_micros());
    let age = Duration::from_micros(u64::try_from(age).unwrap_or_default());
    interval.saturating_sub(age)
}

#[cfg(test)]
mod tests {
    use skills_store::{ImportRecords as _, ServerId};
    use tokio::time::Instant;

    use super::*;
    use crate::{
        config::Purpose,
        pending_registry::PendingRegistry,
        sources::{SourceState, test_records::TestRecords},
    };

    const HOUR: Duration = Duration::from_secs(3600);
    const MINUTE: Duration = Duration::from_secs(60);

    fn seconds_ago(seconds: i64) -> Timestamp {
        Timestamp::from_micros(Timestamp::now().as_micros() - seconds * 1_000_000)
    }

    fn state(name: &str, last_attempt: Timestamp) -> String {
        let last_attempt = Some(last_attempt.to_string());
        let state = SourceState { name: name.to_owned(), last_attempt, ..SourceState::default() };
        serde_json::to_string(&state).unwrap()
    }

    /// Server with sources that are no folders, so that each attempt fails and is recorded.
    struct TestServer {
        states: SourceStates,
        _imports: ScheduledImports,
    }

    impl TestServer {
        fn start(records: &Arc<TestRecords>, sources: usize) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("config.yaml");
            let source =
                |number| format!("  - {{name: s{number}, from: ./absent, tier: market}}\n");
            let sources: String = (0..sources).map(source).collect();
            std::fs::write(&path, format!("sources:\n{sources}")).unwrap();
            let config = Config::load(Some(&path), Purpose::Command).unwrap();
            assert!(config.sources.iter().all(|source| source.interval == HOUR));
            let states =
                SourceStates::new(folder.path().to_owned(), Some(Arc::clone(records) as _));
            let skills: Arc<dyn SkillRegistry> = Arc::new(PendingRegistry::new().0);
            let imports = import_periodically(&skills, &config, &states);
            Self { states, _imports: imports }
        }

        fn last_attempt(&self) -> Option<String> {
            self.states.latest().first()?.last_attempt.clone()
        }
    }

    #[test]
    fn a_source_is_due_one_interval_after_the_last_attempt() {
        assert_eq!(until_due(seconds_ago(3600), HOUR), Duration::ZERO);
        let left = until_due(seconds_ago(600), HOUR);
        assert!((2990..=3000).contains(&left.as_secs()), "{left:?}");
    }

    #[test]
    fn a_clock_that_is_ahead_delays_an_import_by_one_interval_at_most() {
        let mut due = DueCheck::new(HOUR);
        let ahead = Some(seconds_ago(-30 * 24 * 3600).to_string());
        assert_eq!(due.check(ahead.clone()), HOUR);
        assert_eq!(due.check(ahead), Duration::ZERO, "no server imported it for an hour");
    }

    #[test]
    fn a_source_that_no_server_imported_meanwhile_is_due() {
        let mut due = DueCheck::new(HOUR);
        assert_eq!(due.check(None), Duration::ZERO);
        let attempt = Some(seconds_ago(1).to_string());
        assert!(due.check(attempt.clone()) > HOUR - MINUTE);
        assert_eq!(due.check(attempt), Duration::ZERO);
        assert_eq!(due.check(Some("unreadable".to_owned())), Duration::ZERO);
    }

    #[test]
    fn a_retry_comes_after_a_lease_or_an_interval() {
        assert_eq!(DueCheck::new(HOUR).retry_pause(), LEASE);
        let second = Duration::from_secs(1);
        assert_eq!(DueCheck::new(second).retry_pause(), second);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_takes_over_an_import_when_the_lease_of_a_dead_one_is_over() {
        let records = Arc::new(TestRecords::default());
        // The last import was a moment ago, and a server began another one and died.
        let dead = ServerId::new();
        let before = seconds_ago(60);
        records.lease("s0", dead, LEASE).unwrap().unwrap();
        records.save("s0", dead, &state("s0", before)).unwrap();
        records.lease("s0", dead, LEASE).unwrap().unwrap();
        let server = TestServer::start(&records, 1);
        sleep(LEASE - Duration::from_secs(1)).await;
        assert_eq!(server.last_attempt(), Some(before.to_string()));
        sleep(Duration::from_secs(2)).await;
        assert_ne!(server.last_attempt(), Some(before.to_string()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_found_another_one_importing_waits_an_interval_after_it() {
        let records = Arc::new(TestRecords::default());
        let other = ServerId::new();
        records.lease("s0", other, LEASE).unwrap().unwrap();
        let server = TestServer::start(&records, 1);
        sleep(LEASE / 2).await;
        let theirs = Timestamp::now();
        records.save("s0", other, &state("s0", theirs)).unwrap();
        // The clocks of timestamps stand still in this test.
        sleep(LEASE / 2 + HOUR - MINUTE).await;
        assert_eq!(server.last_attempt(), Some(theirs.to_string()));
        sleep(2 * MINUTE).await;
        assert_ne!(server.last_attempt(), Some(theirs.to_string()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_imports_a_minute_after_a_database_that_could_not_be_reached() {
        let records = Arc::new(TestRecords::default());
        records.set_reachable(false);
        let server = TestServer::start(&records, 1);
        sleep(10 * MINUTE + MINUTE / 2).await;
        records.set_reachable(true);
        assert_eq!(server.last_attempt(), None);
        sleep(MINUTE).await;
        assert!(server.last_attempt().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn servers_import_a_source_once_per_interval() {
        let records = Arc::new(TestRecords::default());
        let servers = [(); 3].map(|()| TestServer::start(&records, 1));
        let mut attempts = std::collections::BTreeSet::new();
        let start = Instant::now();
        while start.elapsed() < 10 * HOUR {
            attempts.extend(servers.iter().filter_map(TestServer::last_attempt));
            sleep(MINUTE).await;
        }
        // Each server imports when it starts; ten intervals follow.
        assert!((10..=13).contains(&attempts.len()), "{}", attempts.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_reads_all_records_once_per_refresh_whatever_the_number_of_sources() {
        let records = Arc::new(TestRecords::default());
        let server = TestServer::start(&records, 20);
        sleep(REFRESH * 12 - REFRESH / 2).await;
        assert_eq!(server.states.latest().len(), 20);
        assert_eq!(records.lists(), 12);
    }
}
