//! Interruption of a command by the user: Ctrl-C ends it in order, and removes what it fetched. What is being written is
//! completed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use skills_core::Code;
use tokio::signal::unix::{SignalKind, signal};

use crate::Failure;

/// Longest wait for running fetches to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Runs a command until it ends or SIGINT or SIGTERM arrives. `cancelled` is then set, and the blocking tasks that hold
/// a clone of it are awaited.
///
/// # Errors
/// The error of the command, or `interrupted`.
pub(crate) async fn interruptible<T>(
    cancelled: &Arc<AtomicBool>,
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    interruptible_until(&AtomicBool::new(false), cancelled, command).await
}

/// Runs a command as [`interruptible`] does, until it sets `is_writing`: from then on it is completed, and signals have no
/// effect.
///
/// # Errors
/// The error of the command, or `interrupted`.
pub(crate) async fn interruptible_until<T>(
    is_writing: &AtomicBool,
    cancelled: &Arc<AtomicBool>,
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let is_done = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    {
        let mut command = std::pin::pin!(command);
        tokio::select! {
            biased;
            () = is_done => {}
            done = &mut command => return done,
        }
        // The command sets it while it is polled, so it cannot begin to write after this.
        if is_writing.load(Ordering::Relaxed) {
            return command.await;
        }
        cancelled.store(true, Ordering::Relaxed);
        // The command is dropped here, and with it its own clones.
    }
    let deadline = Instant::now() + END_TIMEOUT;
    while Arc::strong_count(cancelled) > 1 && Instant::now() < deadline {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Err(Failure::new(Code::Interrupted, "interrupted"))
}
