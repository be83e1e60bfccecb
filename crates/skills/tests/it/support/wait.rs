//! Polling with deadlines, for conditions that no message announces.

use std::time::{Duration, Instant};

use skills_testkit::DEADLINE;
use tokio::time::sleep;

/// Pause between two checks; the process under test needs the cores too.
const POLL: Duration = Duration::from_millis(5);

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, holds: impl AsyncFnMut() -> bool) {
    within(DEADLINE, what, holds).await;
}

/// Waits until a condition holds, up to a given time.
pub(crate) async fn within(time: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < time, "not in time: {what}");
        sleep(POLL).await;
    }
}

/// Checks that a condition holds for a while.
pub(crate) async fn holds_for(time: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while started.elapsed() < time {
        assert!(holds().await, "no longer: {what}");
        sleep(Duration::from_millis(50)).await;
    }
}
