//! Periodic imports of a server: one task per source.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use skills_core::{Code, Timestamp};
use skills_registry::SkillRegistry;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::{SourceStates, import_source, open_state};
use crate::{
    config::{Config, SourceSettings},
    fetch::{DEFAULT_HOST, Fetcher},
};

/// Interval in which a server looks at what other servers imported.
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
    let tasks = config.sources.iter().map(start).collect();
    ScheduledImports { cancelled, _tasks: tasks }
}

async fn import_forever(
    source: SourceSettings,
    skills: Arc<dyn SkillRegistry>,
    fetcher: Fetcher,
    states: SourceStates,
) {
    loop {
        let name = &source.name;
        let imported = match open_state(&states, &source).await {
            Ok(mut locked) => import_source(&source, &*skills, &fetcher, &mut locked).await,
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
        if states.is_shared() {
            wait_until_due(&states, &source).await;
        } else {
            sleep(source.interval).await;
        }
    }
}

/// Waits for the next import of a source that several servers have: one interval after the last import of any of them.
async fn wait_until_due(states: &SourceStates, source: &SourceSettings) {
    let mut left = source.interval;
    let _ = states.load_all().await;
    while !left.is_zero() {
        let pause = left.min(REFRESH);
        sleep(pause).await;
        left -= pause;
        // Also in between, because the console shows what other servers imported.
        let known = states.load_all().await;
        if left.is_zero() {
            let mut states = known.iter().flatten();
            let state = states.find(|state| state.name == source.name);
            let attempt = state.and_then(|state| state.last_attempt.as_deref()?.parse().ok());
            left = attempt.map_or(left, |attempt| until_due(attempt, source.interval));
        }
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
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn seconds_ago(seconds: i64) -> Timestamp {
        Timestamp::from_micros(Timestamp::now().as_micros() - seconds * 1_000_000)
    }

    #[test]
    fn a_source_is_due_one_interval_after_the_last_attempt() {
        assert_eq!(until_due(seconds_ago(3600), HOUR), Duration::ZERO);
        let left = until_due(seconds_ago(600), HOUR);
        assert!((2990..=3000).contains(&left.as_secs()), "{left:?}");
    }

    #[test]
    fn a_clock_that_is_ahead_delays_an_import_by_one_interval_at_most() {
        assert_eq!(until_due(seconds_ago(-7200), HOUR), HOUR);
    }
}
