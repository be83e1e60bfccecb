//! Follows the connection that the SDK keeps. The SDK reports nothing, so it is asked often.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::FutureExt as _;
use iii_sdk::{Error, runtime::IIIConnectionState};
use tokio::{sync::watch, time::Instant};

use super::{Inner, probe};
use crate::address::without_query;

/// How often the SDK is asked.
const EVERY: Duration = Duration::from_millis(50);

/// The SDK waits two seconds before it connects again, so a loss shows in between. Whoever was
/// not asking for about that long, because the machine slept, may have missed one.
const MISSED: Duration = Duration::from_millis(1500);

/// How long a connection may take before it is asked what is in the way.
const PATIENCE: Duration = Duration::from_millis(400);

/// How often that is asked while there is no connection.
const ASK_AGAIN: Duration = Duration::from_secs(15);

/// The connection to the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connection {
    /// None yet, and nothing is known to be in the way.
    Connecting,
    /// The engine has greeted; what was registered before has been sent.
    Connected {
        /// 1 for the first connection, one more for each after it.
        epoch: u64,
    },
    /// None, and the SDK keeps trying.
    Lost {
        /// What is in the way, as far as it is known.
        reason: String,
    },
    /// The engine does not want this worker, and the SDK has given up for good.
    Rejected {
        /// Why.
        reason: String,
    },
}

impl Connection {
    /// The number of the connection, if there is one.
    #[must_use]
    pub fn epoch(&self) -> Option<u64> {
        match self {
            Self::Connected { epoch } => Some(*epoch),
            _ => None,
        }
    }
}

/// Runs until the bus is shut down or rejected.
pub(super) async fn run(inner: Arc<Inner>, state: watch::Sender<Connection>) {
    let mut epoch = 0;
    let mut asked = Instant::now();
    let mut probe = None;
    let mut probe_at = Instant::now() + PATIENCE;
    let mut warned: Option<String> = None;
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = inner.closed.cancelled() => {
                state.send_replace(Connection::Lost { reason: "the worker has shut down".into() });
                return;
            }
            _ = tick.tick() => {}
        }
        if let Some(error) = inner.client.fatal_error() {
            let reason = rejection(&error);
            tracing::error!(
                url = without_query(&inner.config.url),
                reason,
                "the engine does not want this worker"
            );
            state.send_replace(Connection::Rejected { reason });
            return;
        }
        let missed = std::mem::replace(&mut asked, Instant::now()).elapsed() > MISSED;
        let up = inner.client.get_connection_state() == IIIConnectionState::Connected
            && inner.client.engine_supports_observe().is_some();
        let was_up = state.borrow().epoch().is_some();
        if up {
            if !was_up || missed {
                epoch += 1;
                inner.epoch.store(epoch, Ordering::SeqCst);
                warned = None;
                tracing::info!(
                    url = without_query(&inner.config.url),
                    epoch,
                    "connected to the engine"
                );
                state.send_replace(Connection::Connected { epoch });
            }
            continue;
        }
        if was_up {
            let reason = "the connection was lost".to_owned();
            state.send_replace(Connection::Lost { reason });
            probe_at = Instant::now() + PATIENCE;
            probe = None;
        }
        if probe.is_none() && Instant::now() >= probe_at {
            probe_at = Instant::now() + ASK_AGAIN;
            let (url, headers) = (inner.config.url.clone(), inner.config.handshake_headers());
            probe = Some(Box::pin(async move { probe::obstacle(&url, &headers).await }));
        }
        let Some(answer) = probe.as_mut().and_then(|probe| probe.now_or_never()) else { continue };
        probe = None;
        let Some(reason) = answer else { continue };
        if warned.as_ref() != Some(&reason) {
            tracing::warn!(
                url = without_query(&inner.config.url),
                reason,
                "no connection to the engine; trying again until there is one"
            );
            warned = Some(reason.clone());
        }
        state.send_if_modified(|state| {
            let news = Connection::Lost { reason };
            let changed = *state != news;
            *state = news;
            changed
        });
    }
}

fn rejection(error: &Error) -> String {
    match error {
        Error::RegistrationRejected { code, namespace, worker_name, owner_worker_id, .. } => {
            let name = worker_name.as_deref().unwrap_or("this worker");
            format!(
                "{code}: the namespace {namespace} already has a worker named {name} \
                 (worker {owner_worker_id}); stop it, or choose another name"
            )
        }
        other => other.to_string(),
    }
}
