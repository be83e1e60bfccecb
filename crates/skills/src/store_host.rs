//! Owner of the store of a data directory in a process that is no server, such as `skills mcp`: other processes use the
//! store through the socket of the directory, and a server can take it over.

use std::{
    cell::Cell,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use skills_bus::{Bus, FunctionCall, FunctionSpec, Hub, HubConfig, Json};
use skills_core::{Caller, Code, Coded as _};
use skills_execution::ToolExecutor;
use skills_http::{Access, Readiness};
use skills_registry::{Registry, RegistryError, SkillRegistry};
use skills_store::Store;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    Failure,
    blocking::blocking,
    composition::{Foundation, PublishedRegistry, open_registry, open_store},
    config::Config,
    database::Database,
    registry_socket::{self, RegistrySocket},
    writer_watch,
};

/// Function by which a server asks the host of a store to close it. Only processes of the same user can call it.
const RELEASE_STORE: &str = "skills::release-store";
/// Timeout of that call.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait of a server for the store.
const TAKE_OVER_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval of attempts to open the store meanwhile.
const RETRY: Duration = Duration::from_millis(20);

/// Registry and tools in the view of a caller.
type CallerView = (Arc<dyn SkillRegistry>, Arc<dyn ToolExecutor>);

/// An open store that is served on the socket of its directory.
pub(crate) struct StoreHost {
    foundation: Foundation,
    hub: Hub,
    /// The hub as a bus. The registry only has a weak reference to it.
    _hub_bus: Arc<dyn Bus>,
    published: PublishedRegistry,
    socket: Option<RegistrySocket>,
    _serving: Option<AbortOnDropHandle<()>>,
    /// Cancelled when a server asks for the store.
    released: CancellationToken,
}

impl StoreHost {
    /// Opens or creates the store of a directory and serves it.
    ///
    /// # Errors
    /// When the store or the vault cannot be opened.
    pub(crate) async fn open(dir: &Path, config: &Config) -> Result<Self, Failure> {
        // The store first: its lock decides which process serves the directory.
        Self::start(open_store(dir, config).await?, dir, config).await
    }

    /// Opens the store of a database when it can be reached. `on_wait` gets the error of requests when it cannot.
    ///
    /// # Errors
    /// When the store or the vault cannot be opened, and waiting does not help.
    pub(crate) async fn open_when_reachable(
        dir: &Path,
        database: &Database,
        config: &Config,
        on_wait: impl Fn(RegistryError),
    ) -> Result<Self, Failure> {
        let has_notified = Cell::new(false);
        let on_wait = |reason: &str| {
            if !has_notified.replace(true) {
                database.notify_waiting(reason, "");
            }
            on_wait(database.unavailable(reason));
        };
        let mut store = database.open_when_reachable(on_wait).await?;
        loop {
            match Self::start(store, dir, config).await {
                Ok(host) => return Ok(host),
                Err(failure) => store = database.reopen(failure, on_wait).await?,
            }
        }
    }

    async fn start(store: Arc<dyn Store>, dir: &Path, config: &Config) -> Result<Self, Failure> {
        let hub = Hub::new(HubConfig {
            name: "skills".to_owned(),
            inject_caller_id: config.inject_caller_id,
            ..HubConfig::default()
        });
        let hub_bus: Arc<dyn Bus> = Arc::new(hub.clone());
        let foundation = Foundation::open(Access::default(), Some(dir), config).await?;
        let settings = foundation.registry_config(config);
        let registry = open_registry(store, Some(Arc::downgrade(&hub_bus)), settings).await?;
        let published = foundation.with_executor(registry).publish(&hub_bus, None);
        skills_worker::state::serve(&hub_bus, &published.registry);
        foundation.serve_administration(&hub, &hub_bus, &published.registry);
        let released = CancellationToken::new();
        register_release(&hub_bus, &released);
        // Other processes use the database themselves.
        let bound = config.database.is_none().then(|| RegistrySocket::bind(dir));
        if let Some(Err(error)) = &bound {
            tracing::warn!(%error, "cannot listen in the data directory, other processes cannot use it meanwhile");
        }
        let (socket, serving) = match bound {
            Some(Ok((listener, socket))) => {
                let served = hub.clone();
                let never = CancellationToken::new();
                let serving =
                    tokio::spawn(async move { served.serve_owner(listener, never).await });
                (Some(socket), Some(AbortOnDropHandle::new(serving)))
            }
            Some(Err(_)) | None => (None, None),
        };
        Ok(Self {
            foundation,
            hub,
            _hub_bus: hub_bus,
            published,
            socket,
            _serving: serving,
            released,
        })
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.published.registry
    }

    /// Returns the registry and the executor of its tools in the view of a caller.
    ///
    /// # Errors
    /// When the caller has no view.
    pub(crate) fn view(&self, caller: &Caller) -> Result<CallerView, Failure> {
        let registry = Arc::clone(self.registry());
        let executor = self.foundation.executor_for(&registry, caller);
        let executor = executor.ok_or_else(|| Failure::new(Code::Internal, "no accounts"))?;
        Ok((registry.view(caller)?, Arc::new(executor)))
    }

    /// Waits until a server asks for the store.
    ///
    /// # Errors
    /// When the writer fails.
    pub(crate) async fn wait_until_released(&self) -> Result<(), Failure> {
        let readiness = Readiness::default();
        tokio::select! {
            () = self.released.cancelled() => Ok(()),
            failure = writer_watch::watch_writer(self.registry().writer_health(), &readiness) => Err(failure),
        }
    }

    /// Answers running calls, stores queued writes and closes the store.
    pub(crate) async fn close(self) {
        let Self { foundation, hub, published, socket, .. } = self;
        // New clients wait for the next owner.
        drop(socket);
        hub.stop().await;
        let closed = blocking(move || {
            published.close();
            foundation.close();
        });
        if let Err(failure) = closed.await {
            tracing::error!("cannot close the store: {}", failure.message);
        }
    }
}

fn register_release(bus: &Arc<dyn Bus>, released: &CancellationToken) {
    let spec = FunctionSpec {
        id: RELEASE_STORE.to_owned(),
        description: "Internal: closes the store, for a server on the same directory.".to_owned(),
        ..FunctionSpec::default()
    };
    let released = released.clone();
    let release = move |_: FunctionCall| {
        released.cancel();
        async { Ok(Json::null()) }
    };
    bus.register_function(spec, Arc::new(release));
}

/// Opens a store for a server. If another process hosts it, asks that process to close it.
///
/// # Errors
/// When the store cannot be opened, or another server has it open.
pub(crate) async fn take_over<T>(
    dir: &Path,
    open: impl AsyncFn() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let started = Instant::now();
    loop {
        let failure = match open().await {
            Err(failure) if failure.code == Code::StoreInUse => failure,
            opened => return opened,
        };
        if started.elapsed() > TAKE_OVER_TIMEOUT {
            return Err(failure);
        }
        if let Ok(Some(client)) = registry_socket::connect_client(dir).await {
            let request = client.call(RELEASE_STORE, Json::null(), RELEASE_TIMEOUT).await;
            if request.is_err_and(|error| error.code() == Code::FunctionNotFound) {
                return Err(failure);
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}
