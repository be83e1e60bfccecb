//! Lifecycle of attached mode: waits for the engine, finds its state worker, opens the registry on the state and
//! keeps it in sync across reconnects.
//!
//! The engine may start before or after this process and may disappear at any time.

use std::{borrow::Cow, sync::Arc, time::Duration};

use skills_bus::{Bus, CallError};
use skills_core::{Code, Coded, work::run_own};
use skills_registry::{Registry, RegistryConfig};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    ConnectionState, EngineBus, Follower, StateLocation, StateScopes, StateStore,
    external_changes::listen_to_state,
};

/// Time that a state worker has to appear before the engine counts as one without: workers of one site start
/// concurrently.
const STATE_GRACE: Duration = Duration::from_secs(3);
/// Delay between two attempts to find the state worker.
const FIND_RETRY: Duration = Duration::from_millis(200);
/// Delay between two attempts to read or compare the state.
const READ_RETRY: Duration = Duration::from_secs(1);

/// Reason why this process cannot stay attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The engine rejected this worker for good.
    #[error("the engine rejected this worker: {reason}")]
    Rejected {
        /// Reason that the engine gave.
        reason: String,
    },
    /// The subscription to state changes failed.
    #[error("cannot subscribe to state changes: {0}")]
    Subscribe(CallError),
    /// A task of this process ended unexpectedly.
    #[error("{0}")]
    Internal(String),
}

impl Coded for AttachError {
    fn code(&self) -> Code {
        match self {
            Self::Rejected { .. } => Code::Rejected,
            Self::Subscribe(error) => error.code(),
            Self::Internal(_) => Code::Internal,
        }
    }

    fn code_text(&self) -> Cow<'_, str> {
        match self {
            Self::Subscribe(error) => error.code_text(),
            _ => self.code().as_str().into(),
        }
    }

    fn hint(&self) -> Option<&str> {
        match self {
            Self::Rejected { .. } => Some(
                "another worker of this name is probably running; set III_WORKER_NAME to use another name",
            ),
            Self::Subscribe(_) | Self::Internal(_) => None,
        }
    }
}

/// A connection to an engine together with the registry that follows its state.
#[derive(Debug)]
pub struct Attachment {
    engine: EngineBus,
    connection: watch::Receiver<ConnectionState>,
    /// Absent while the registry is not on the engine's state.
    state_sync: Option<StateSync>,
}

#[derive(Debug)]
struct StateSync {
    follower: Follower,
    /// Connection on which the registry was last in sync with the state.
    epoch: u64,
}

impl Attachment {
    /// Waits for the first connection to the engine.
    ///
    /// # Errors
    /// When the engine rejects this worker.
    pub async fn connect(engine: &EngineBus) -> Result<Self, AttachError> {
        let mut attachment =
            Self { engine: engine.clone(), connection: engine.connection(), state_sync: None };
        attachment.wait_connected().await?;
        Ok(attachment)
    }

    /// Waits for a connection and returns its epoch.
    async fn wait_connected(&mut self) -> Result<u64, AttachError> {
        loop {
            match &*self.connection.borrow_and_update() {
                ConnectionState::Connected { epoch } => return Ok(*epoch),
                ConnectionState::Rejected { reason } => {
                    return Err(AttachError::Rejected { reason: reason.clone() });
                }
                ConnectionState::Connecting | ConnectionState::Lost { .. } => {}
            }
            if self.connection.changed().await.is_err() {
                return Err(AttachError::Internal("the engine client has shut down".to_owned()));
            }
        }
    }

    /// Finds the engine's state worker. Returns `None` if the engine has none; if `is_required`, waits for one instead.
    ///
    /// # Errors
    /// When the engine rejects this worker.
    pub async fn find_state(
        &mut self,
        timeout: Duration,
        is_required: bool,
    ) -> Result<Option<StateLocation>, AttachError> {
        let bus: Arc<dyn Bus> = Arc::new(self.engine.clone());
        let mut deadline = Instant::now() + STATE_GRACE;
        let (mut warned_missing, mut warned_silent) = (false, false);
        loop {
            self.wait_connected().await?;
            match StateStore::locate(&bus, timeout).await {
                Ok(Some(location)) => return Ok(Some(location)),
                Ok(None) if Instant::now() < deadline => {}
                Ok(None) if !is_required => {
                    tracing::warn!("the engine has no state worker; using the embedded store");
                    return Ok(None);
                }
                Ok(None) => {
                    if !std::mem::replace(&mut warned_missing, true) {
                        tracing::warn!(
                            "the engine has no state worker yet; waiting for it (store: state)"
                        );
                    }
                }
                Err(error) => {
                    // The connection monitor reports lost connections.
                    let is_silent = !matches!(error, CallError::Disconnected(_));
                    if is_silent && !std::mem::replace(&mut warned_silent, true) {
                        tracing::warn!(%error, "the state worker does not answer; retrying");
                    }
                    deadline = Instant::now() + STATE_GRACE;
                }
            }
            sleep(FIND_RETRY).await;
        }
    }

    /// Opens the registry on the engine's state, retrying until the state can be read.
    ///
    /// It subscribes to state changes before the first read, so that no concurrent write is missed.
    ///
    /// # Errors
    /// When the engine rejects this worker or the subscription.
    pub async fn open_registry(
        &mut self,
        location: StateLocation,
        scopes: StateScopes,
        timeout: Duration,
        config: RegistryConfig,
    ) -> Result<Arc<Registry>, AttachError> {
        let events = listen_to_state(&self.engine, &scopes).map_err(AttachError::Subscribe)?;
        let bus: Arc<dyn Bus> = Arc::new(self.engine.clone());
        let runtime = tokio::runtime::Handle::current();
        let store = Arc::new(StateStore::new(Arc::clone(&bus), location, scopes, timeout, runtime));
        let mut has_warned = false;
        let (registry, epoch) = loop {
            let epoch = self.wait_connected().await?;
            let (opened, weak, config) = (Arc::clone(&store), Arc::downgrade(&bus), config.clone());
            let open = move || Registry::open(opened, Some(weak), config);
            let opened = run_own("opening of the registry", open)
                .await
                .map_err(|error| AttachError::Internal(error.to_string()))?;
            match opened {
                Ok(registry) => break (registry, epoch),
                Err(error) => {
                    if !std::mem::replace(&mut has_warned, true) {
                        tracing::warn!(%error, "cannot read the state; retrying");
                    }
                    sleep(READ_RETRY).await;
                }
            }
        };
        let follower = Follower::new(Arc::clone(&registry), store);
        events.forward_to(&follower);
        self.state_sync = Some(StateSync { follower, epoch });
        Ok(registry)
    }

    /// Follows the connection: compares the registry with the state after each reconnect, since events of the time
    /// without a connection never arrive. Returns when the client has shut down.
    ///
    /// # Errors
    /// When the engine rejects this worker, which it may do on any connection.
    pub async fn follow(&mut self) -> Result<(), AttachError> {
        let mut has_warned = false;
        loop {
            let epoch = self.wait_connected().await?;
            if let Some(sync) = self.state_sync.as_mut().filter(|sync| sync.epoch != epoch) {
                match sync.follower.resync().await {
                    Ok(differences) => {
                        tracing::debug!(epoch, differences, "in sync with the state");
                        sync.epoch = epoch;
                        has_warned = false;
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut has_warned, true) {
                            tracing::warn!(%error, "cannot compare with the state; retrying");
                        }
                        sleep(READ_RETRY).await;
                    }
                }
                continue;
            }
            if self.connection.changed().await.is_err() {
                return Ok(());
            }
        }
    }
}
