//! Keeps a worker connected, with exponential backoff between attempts.

use std::{sync::Arc, time::Duration};

use uuid::Uuid;

use super::{
    connection, dispatch,
    shared::Shared,
    socket::{self, ConnectError},
};
use crate::{CallError, protocol::server_frame::Rejection};

/// State of the connection of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionState {
    /// The first connection is being established.
    Connecting,
    /// The server has accepted the worker; earlier registrations are sent before any call.
    Connected {
        /// Number of the connection, counted from 1.
        epoch: u64,
    },
    /// There is no connection; the client keeps trying.
    Lost {
        /// The reason.
        reason: String,
    },
    /// The server has rejected the worker, and the client has given up for good.
    Rejected {
        /// The reason.
        reason: String,
    },
}

impl ConnectionState {
    /// Returns the number of the connection, if there is one.
    #[must_use]
    pub const fn epoch(&self) -> Option<u64> {
        match self {
            Self::Connected { epoch } => Some(*epoch),
            _ => None,
        }
    }
}

/// Delays between attempts to connect: they double up to a limit. Each is shortened by up to half at random, so that the
/// workers of a restarted server do not all return at once.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// First delay.
    pub initial: Duration,
    /// Longest delay.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { initial: Duration::from_millis(100), max: Duration::from_secs(5) }
    }
}

impl Backoff {
    /// Returns the delay before an attempt, counted from 0.
    fn delay(&self, attempt: u32) -> Duration {
        let full = self.initial.saturating_mul(2_u32.saturating_pow(attempt)).min(self.max);
        let [random, ..] = Uuid::new_v4().into_bytes();
        full - full.mul_f64(f64::from(random) / 512.0)
    }
}

/// Connects, and reconnects, until the client is shut down or the server rejects the worker.
pub(super) async fn run(shared: Arc<Shared>) {
    let url = shared.options.endpoint.display_url().to_owned();
    let mut previous = None;
    let mut attempt = 0;
    let mut epoch = 0;
    let mut logged_reason: Option<String> = None;
    loop {
        let options = &shared.options;
        let stream = socket::dial(options);
        let opening = socket::open(&options.endpoint, stream, options.connect_timeout);
        let opened = tokio::select! {
            () = shared.closed.cancelled() => break,
            opened = opening => opened,
        };
        match opened {
            Ok((socket, greeting)) => {
                epoch += 1;
                logged_reason = None;
                let link = shared.connect(epoch, &greeting, previous.as_ref());
                previous = Some(greeting);
                tracing::info!(url, epoch, "connected to the engine");
                shared.set_state(ConnectionState::Connected { epoch });
                let handle = |text: &str| dispatch::frame(&shared, &link, text);
                let keepalive = options.keepalive;
                let running =
                    connection::run(socket, &link.queue, &shared.pending, keepalive, handle);
                let reason = running.await;
                shared.disconnect();
                if let Some(rejection) = link.rejection.lock().take() {
                    return reject(&shared, &url, &rejection);
                }
                if shared.closed.is_cancelled() {
                    break;
                }
                tracing::info!(url, epoch, reason, "connection to the engine lost");
                shared.set_state(ConnectionState::Lost { reason });
                if link.was_used() {
                    attempt = 0;
                }
            }
            Err(ConnectError::Rejected(rejection)) => return reject(&shared, &url, &rejection),
            Err(error) => {
                let reason = error.reason();
                if logged_reason.as_ref() != Some(&reason) {
                    tracing::warn!(url, reason, "no connection to the engine; retrying");
                    logged_reason = Some(reason.clone());
                }
                shared.set_state(ConnectionState::Lost { reason });
            }
        }
        tokio::select! {
            () = shared.closed.cancelled() => break,
            () = tokio::time::sleep(options.backoff.delay(attempt)) => {}
        }
        attempt = attempt.saturating_add(1);
    }
    shared.set_state(ConnectionState::Lost { reason: "the worker has shut down".to_owned() });
}

fn reject(shared: &Shared, url: &str, rejection: &Rejection) {
    let text =
        |value: &Option<String>, default: &str| value.clone().unwrap_or_else(|| default.to_owned());
    let reason = format!(
        "{}: the namespace {} already has a worker named {} (worker {}); stop it, or choose another name",
        rejection.code,
        text(&rejection.namespace, "default"),
        text(&rejection.worker_name, "this worker"),
        text(&rejection.owner_worker_id, "unknown"),
    );
    tracing::error!(url, reason, "worker rejected by the engine");
    shared.set_state(ConnectionState::Rejected { reason });
    shared.pending.fail_all(CallError::Disconnected);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_limit_with_jitter() {
        let backoff = Backoff::default();
        for (attempt, full) in [(0, 100), (1, 200), (3, 800), (6, 5000), (200, 5000)] {
            let full = Duration::from_millis(full);
            let delays: Vec<_> = (0..200).map(|_| backoff.delay(attempt)).collect();
            assert!(delays.iter().all(|delay| *delay > full / 2 && *delay <= full), "{delays:?}");
            assert!(delays.iter().any(|delay| *delay != delays[0]), "no jitter");
        }
    }
}
