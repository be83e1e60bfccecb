//! Attached mode: this process as a worker of an iii engine.
//!
//! The engine may start before or after this process and may stop at any time. Content is stored in the engine's state,
//! or in the embedded store if the engine has no state.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use skills_bus::Bus;
use skills_client_setup::ServerCommand;
use skills_core::Code;
use skills_engine::{Attachment, EngineBus, EngineConfig, StateScopes};
use skills_execution::{Executor, PendingExecutor};
use skills_http::{Access, Guard, Readiness};
use skills_mdp::MdpHost;
use skills_registry::{Registry, SkillRegistry};
use skills_store::Store;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::{
    Failure,
    blocking::blocking,
    composition::{Foundation, HttpSettings, PublishedRegistry, open_registry, open_store},
    config::{Config, RetentionSettings, StoreChoice},
    listener::{ListenerSettings, bind},
    memory,
    pending_registry::{PendingRegistry, RegistryOpener},
    retention,
    sources::SourceStates,
    starting_database::StartingDatabase,
    store_watch,
    vault_location::VaultLocation,
    writer_watch,
};

/// Options of attached mode.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connection to the engine, and name of this worker.
    pub engine: EngineConfig,
    /// Directory of the vault and of the embedded store, if they are used.
    pub data_dir: PathBuf,
    /// Access rules of HTTP, if it is served.
    pub access: Access,
    /// Command by which MCP clients of this machine use the registry, for the console; `None` without a console.
    pub console: Option<ServerCommand>,
    /// Settings of the configuration file.
    pub config: Config,
}

/// Runs as a worker until `shutdown`.
///
/// # Errors
/// When the settings are invalid, the engine rejects this worker, or the store is unusable.
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<(), Failure> {
    let Options { engine, data_dir, access, console, config } = options;
    let settings = ListenerSettings {
        flag: "http:",
        token: "http_token: or SKILLS_HTTP_TOKEN",
        has_token: access.token.is_some(),
    };
    // Without HTTP and without keys the worker needs no data directory and creates none.
    let has_accounts = config.http.is_some() || VaultLocation::new(&data_dir, &config).exists();
    let accounts_dir = has_accounts.then_some(data_dir.as_path());
    let http = match &config.http {
        Some(address) => Some(bind(address, &settings).await?),
        None => None,
    };
    let opened = tokio::select! {
        opened = open_foundation(access, accounts_dir, &config, http.as_ref()) => opened,
        () = shutdown.cancelled() => return Ok(()),
    };
    let (foundation, store) = opened?;
    let bus = EngineBus::connect(engine)
        .map_err(|error| Failure::new(Code::BadEngine, error.to_string()))?;
    let (pending, skills) = PendingRegistry::new();
    let (executor, pending_executor) = PendingExecutor::channel();
    let mut surfaces =
        PendingSurfaces { readiness: Readiness::default(), skills, executor, live_host: None };
    let (mut serving, mut link_file) = (None, None);
    if let Some(listener) = http {
        let pending: Arc<dyn SkillRegistry> = Arc::new(pending);
        let host =
            foundation.start_live_host(config.mdp.clone(), Arc::clone(&pending), shutdown.clone());
        surfaces.live_host = Some(host.clone());
        let readiness = surfaces.readiness.clone();
        // A worker of an engine imports no sources.
        let (sources, source_states) = (vec![], SourceStates::new(data_dir.clone(), None));
        let link = foundation.console_link(&data_dir, listener.local_addr()?, console.is_some());
        let (link, file) = link.unzip();
        link_file = file;
        let data_dir = data_dir.clone();
        let settings = HttpSettings { data_dir, console, link, sources, source_states };
        let app =
            foundation.http_app(pending, pending_executor, &host, readiness, settings, &shutdown);
        let app = app.ok_or_else(|| Failure::new(Code::Internal, "the accounts are not open"))?;
        let server = skills_http::serve(listener, app, shutdown.clone());
        serving = Some(tokio::spawn(async move {
            let served = server.await;
            host.wait_until_ended().await;
            served
        }));
    }
    let _free_pages = memory::return_free_pages();
    let worked = tokio::select! {
        worked = work(&bus, &data_dir, &config, &foundation, &surfaces, store) => worked,
        () = shutdown.cancelled() => Ok(()),
    };
    surfaces.readiness.set(false);
    shutdown.cancel();
    bus.shutdown().await;
    if let Some(serving) = serving {
        let _ = serving.await;
    }
    drop(link_file);
    blocking(move || foundation.close()).await?;
    worked
}

/// Opens what the registry is composed of, and the store of a database. The database first: accounts are in it too.
async fn open_foundation(
    access: Access,
    accounts_dir: Option<&Path>,
    config: &Config,
    http: Option<&TcpListener>,
) -> Result<(Foundation, Option<Arc<dyn Store>>), Failure> {
    let Some(database) = &config.database else {
        return Ok((Foundation::open(access, accounts_dir, config).await?, None));
    };
    let guard = Guard::new(access.clone())?;
    let database = StartingDatabase::new(database, http, None, guard, None);
    let mut store = database.open().await?;
    loop {
        match Foundation::open(access.clone(), accounts_dir, config).await {
            Ok(foundation) => return Ok((foundation, Some(store))),
            Err(failure) => store = database.reopen(failure).await?,
        }
    }
}

/// HTTP surfaces that listen before the registry is open.
struct PendingSurfaces {
    readiness: Readiness,
    skills: RegistryOpener,
    executor: watch::Sender<Option<Arc<Executor>>>,
    live_host: Option<MdpHost>,
}

impl PendingSurfaces {
    /// Hands the registry and its executor to the surfaces and reports readiness.
    fn open(&self, published: &PublishedRegistry) {
        self.executor.send_replace(published.executor.clone());
        self.skills.open(published.registry.clone());
        self.readiness.set(true);
    }
}

/// Publishes a registry, runs until `update` ends or the writer fails, and closes the registry.
async fn run_registry(
    registry: Arc<Registry>,
    bus: &Arc<dyn Bus>,
    foundation: &Foundation,
    surfaces: &PendingSurfaces,
    retention: RetentionSettings,
    update: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let (health, store_health) = (registry.writer_health(), registry.store_health());
    let published = foundation.with_executor(registry).publish(bus, surfaces.live_host.as_ref());
    surfaces.open(&published);
    let collection = retention::collect_periodically(&published.registry, retention);
    let outcome = tokio::select! {
        updated = update => updated,
        never = store_watch::watch_store(store_health, &surfaces.readiness) => match never {},
        failure = writer_watch::watch_writer(health, &surfaces.readiness) => Err(failure),
    };
    drop(collection);
    let closed = blocking(move || published.close()).await;
    outcome?;
    closed
}

/// Waits for the engine, offers the registry's functions, and follows the connection. Ends only with an error.
async fn work(
    engine: &EngineBus,
    data_dir: &Path,
    config: &Config,
    foundation: &Foundation,
    surfaces: &PendingSurfaces,
    shared: Option<Arc<dyn Store>>,
) -> Result<(), Failure> {
    let bus: Arc<dyn Bus> = Arc::new(engine.clone());
    let mut attachment = Attachment::connect(engine).await?;
    let (timeout, settings) = (config.handler_timeout(), foundation.registry_config(config));
    let location = match config.store {
        _ if config.database.is_some() => None,
        StoreChoice::Embedded => None,
        StoreChoice::Auto => attachment.find_state(timeout, false).await?,
        StoreChoice::State => attachment.find_state(timeout, true).await?,
    };
    let registry = match location {
        Some(location) => {
            attachment.open_registry(location, state_scopes(config), timeout, settings).await?
        }
        None => {
            let mut store = match shared {
                Some(store) => store,
                None => open_store(data_dir, config).await?,
            };
            let registry = loop {
                let (weak_bus, settings) =
                    (Some(Arc::downgrade(&bus)), foundation.registry_config(config));
                match (open_registry(store, weak_bus, settings).await, &config.database) {
                    (Err(failure), Some(database)) => {
                        let on_wait =
                            |reason: &str| surfaces.skills.fail(database.unavailable(reason));
                        store = database.reopen(failure, on_wait).await?;
                    }
                    (opened, _) => break opened?,
                }
            };
            skills_registry::bundles::log_unwritable_files(&registry.catalog());
            registry
        }
    };
    let follow = async { Ok(attachment.follow().await?) };
    run_registry(registry, &bus, foundation, surfaces, config.retention, follow).await
}

/// Scopes of the engine's state that hold the content.
pub(crate) fn state_scopes(config: &Config) -> StateScopes {
    StateScopes { skills: config.scopes.skills.clone(), prompts: config.scopes.prompts.clone() }
}
