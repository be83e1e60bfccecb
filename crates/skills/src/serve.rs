//! The server: hub, registry and HTTP in one process.

use std::{
    io::{self, IsTerminal as _},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use skills_bus::{Bus, Hub, HubConfig, ServerSecret};
use skills_client_setup::ServerCommand;
use skills_console::LocalLink;
use skills_core::{Code, origin::WebHost, work::run_own};
use skills_execution::PendingExecutor;
use skills_http::{Access, Guard, Readiness};
use skills_mdp::MdpHost;
use skills_registry::SkillRegistry;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

use crate::{
    Failure,
    composition::{Foundation, HttpSettings, PublishedRegistry, open_registry, open_store},
    config::Config,
    console_link::ConsoleLinkFile,
    data_dir, index_watch,
    listener::{ListenerSettings, bind, bind_bus},
    memory,
    output::counted,
    presence,
    registry_socket::RegistrySocket,
    retention,
    server_file::ServerFile,
    sources::{self, SourceStates},
    starting_database::StartingDatabase,
    store_host, store_watch, writer_watch,
};

/// Longest graceful shutdown after the signal.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(2400);
/// Longest wait for queued writes after that.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(400);

/// Options of the server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address for iii workers.
    pub bus: String,
    /// Address for HTTP.
    pub http: String,
    /// Data directory.
    pub data_dir: PathBuf,
    /// Token of workers; required if the bus is reachable from other machines.
    pub token: Option<String>,
    /// Access rules of HTTP, and a directory of keys that the data directory does not have.
    pub access: Access,
    /// Command by which MCP clients of this machine use the registry, for the console; `None` without a console.
    pub console: Option<ServerCommand>,
    /// Settings of the configuration file.
    pub config: Config,
}

/// A bound server that is ready to run.
pub struct Server {
    foundation: Foundation,
    hub: Hub,
    /// The hub as a bus. The registry only has a weak reference to it.
    hub_bus: Arc<dyn Bus>,
    published: PublishedRegistry,
    bus: TcpListener,
    http: TcpListener,
    /// Host of live clients, which disconnects them when `live_shutdown` is cancelled.
    live_host: MdpHost,
    live_shutdown: CancellationToken,
    data_dir: PathBuf,
    /// Command of MCP clients; `None` without a console.
    console: Option<ServerCommand>,
    /// One-time link of the console, and its file.
    link: Option<(LocalLink, Arc<ConsoleLinkFile>)>,
    /// Settings of the configuration file, for the tasks of the server.
    config: Config,
    /// Proof of this server for commands on the same data directory; `None` on a database.
    file: Option<ServerFile>,
    /// Socket in the data directory, for processes of the same user; `None` on a database.
    socket: Option<(UnixListener, RegistrySocket)>,
}

impl Server {
    /// Binds both addresses, opens vault and store, and offers the registry's functions on the hub.
    ///
    /// # Errors
    /// When an access rule or the store is unusable, or an address cannot be bound.
    pub async fn start(options: Options) -> Result<Self, Failure> {
        let Options { bus, http, data_dir, token, access, console, config } = options;
        let bus = bind_bus(&bus, token.is_some()).await?;
        let settings = ListenerSettings {
            flag: "--http",
            token: "--token, III_TOKEN or SKILLS_HTTP_TOKEN",
            has_token: access.token.is_some(),
        };
        let http = bind(&http, &settings).await?;
        let content_ports = vec![http.local_addr()?.port()];
        // Foundation::open rejects entries that are no hosts.
        let hosts = access.hosts.iter().filter_map(|host| WebHost::parse_authority(host));
        let allowed_hosts = hosts.map(|(host, _)| host).collect();
        // The database first: accounts may be in it too.
        let database = match &config.database {
            Some(database) => Some(StartingDatabase::new(
                database,
                Some(&http),
                Some(&bus),
                Guard::new(access.clone())?,
                token.clone(),
            )),
            None => None,
        };
        let reopen = async |failure: Failure| match &database {
            Some(database) => database.reopen(failure).await,
            None => Err(failure),
        };
        let mut store = match &database {
            Some(database) => Some(database.open().await?),
            None => None,
        };
        let foundation = loop {
            match Foundation::open(access.clone(), Some(&data_dir), &config).await {
                Ok(foundation) => break foundation,
                Err(failure) => store = Some(reopen(failure).await?),
            }
        };
        let secret = ServerSecret::random();
        let hub = Hub::new(HubConfig {
            name: "skills".to_owned(),
            token,
            content_ports,
            allowed_hosts,
            secret: Some(secret.clone()),
            inject_caller_id: config.inject_caller_id,
            counter: Some(foundation.counter("bus")),
            failed_credentials: foundation.guard().failed_credentials().clone(),
            ..HubConfig::default()
        });
        let hub_bus: Arc<dyn Bus> = Arc::new(hub.clone());
        let mut store = match store {
            Some(store) => store,
            None => {
                let open = async || open_store(&data_dir, &config).await;
                store_host::take_over(&data_dir, open).await?
            }
        };
        let registry = loop {
            let weak_bus = Some(Arc::downgrade(&hub_bus));
            let settings = foundation.registry_config(&config);
            match open_registry(Arc::clone(&store), weak_bus, settings).await {
                Ok(registry) => break registry,
                Err(failure) => store = reopen(failure).await?,
            }
        };
        skills_registry::bundles::log_unwritable_files(&registry.catalog());
        let live_shutdown = CancellationToken::new();
        let live_host =
            foundation.start_live_host(config.mdp.clone(), registry.clone(), live_shutdown.clone());
        let published = foundation.with_executor(registry).publish(&hub_bus, Some(&live_host));
        skills_worker::state::serve(&hub_bus, &published.registry);
        foundation.serve_administration(&hub, &hub_bus, &published.registry);
        // Both belong to the store of the directory, which may be that of another server: through them, commands would take
        // the database for it.
        let (file, socket) = if config.database.is_some() {
            (None, None)
        } else {
            let file = ServerFile::write(&data_dir, bus.local_addr()?, http.local_addr()?, secret)
                .inspect_err(|error| {
                    tracing::warn!(%error, "cannot write server.json, commands need --url to send credentials");
                })
                .ok();
            let socket = RegistrySocket::bind(&data_dir)
                .inspect_err(|error| {
                    tracing::warn!(%error, "cannot listen in the data directory, commands need --url");
                })
                .ok();
            (file, socket)
        };
        let link = foundation.console_link(&data_dir, http.local_addr()?, console.is_some());
        Ok(Self {
            foundation,
            hub,
            hub_bus,
            published,
            bus,
            http,
            live_host,
            live_shutdown,
            data_dir,
            console,
            link,
            config,
            file,
            socket,
        })
    }

    /// Returns the address for iii workers.
    ///
    /// # Errors
    /// When the socket is closed.
    pub fn bus_address(&self) -> std::io::Result<SocketAddr> {
        self.bus.local_addr()
    }

    /// Returns the address for HTTP.
    ///
    /// # Errors
    /// When the socket is closed.
    pub fn http_address(&self) -> std::io::Result<SocketAddr> {
        self.http.local_addr()
    }

    /// Returns the start message: version, addresses and data directory.
    ///
    /// # Errors
    /// When a socket is closed.
    pub fn banner(&self) -> std::io::Result<String> {
        let catalog = self.published.registry.catalog();
        let http = self.http_address()?;
        let console = self.console.as_ref().map(|_| format!("\n  ui    http://{http}/"));
        // Not to a file: a log is no place for a credential. `skills status` shows it too.
        let link = self.link.as_ref().filter(|_| io::stderr().is_terminal());
        let link = link.map(|(_, file)| format!("\n  link  {} (signs in once)", file.url()));
        Ok(format!(
            "skills {} is serving\n  bus   ws://{}\n  http  http://{http}{}{}\n  mcp   http://{http}/mcp\n  mdp   ws://{http}\n  data  {} ({}, {})",
            env!("CARGO_PKG_VERSION"),
            self.bus_address()?,
            console.unwrap_or_default(),
            link.unwrap_or_default(),
            match &self.config.database {
                Some(database) => database.to_string(),
                None => data_dir::display(&self.data_dir),
            },
            counted(catalog.skills().len(), "skill"),
            counted(catalog.prompts().len(), "prompt"),
        ))
    }

    /// Serves until `shutdown`, then drains connections and closes the store.
    ///
    /// # Errors
    /// When a listener fails or the writer thread has stopped.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Failure> {
        let Self { foundation, hub, hub_bus: _hub_bus, published, bus, http, .. } = self;
        let Self {
            live_host, live_shutdown, config, file, socket, console, data_dir, link, ..
        } = self;
        let (link, link_file) = link.unzip();
        let registry = Arc::clone(&published.registry);
        let _free_pages = memory::return_free_pages();
        let collection = retention::collect_periodically(&registry, config.retention);
        let skills: Arc<dyn SkillRegistry> = registry.clone();
        let source_states = SourceStates::new(data_dir.clone(), registry.import_records());
        let imports = sources::import_periodically(&skills, &config, &source_states);
        let server_name = config.server_name.clone().unwrap_or_else(presence::host_name);
        let announcing = presence::announce(&registry, &hub, server_name, shutdown.clone());
        let readiness = Readiness::default();
        readiness.set(true);
        let app = published.executor.clone().map(PendingExecutor::ready).and_then(|executor| {
            let skills = registry.clone();
            let sources = config.sources.iter().map(|source| source.name.clone()).collect();
            let settings = HttpSettings { data_dir, console, link, sources, source_states };
            foundation.http_app(
                skills,
                executor,
                &live_host,
                readiness.clone(),
                settings,
                &shutdown,
            )
        });
        let app = app.ok_or_else(|| Failure::new(Code::Internal, "the accounts are not open"))?;
        let (signal, draining) = (shutdown.clone(), readiness.clone());
        tokio::spawn(async move {
            signal.cancelled().await;
            draining.set(false);
            live_shutdown.cancel();
        });
        let (owner, socket) = socket.unzip();
        if let Some(listener) = owner {
            let (hub, stop) = (hub.clone(), shutdown.clone());
            tokio::spawn(async move { hub.serve_owner(listener, stop).await });
        }
        let serving = async {
            let hub = hub.serve(bus, shutdown.clone());
            let http = skills_http::serve(http, app, shutdown.clone());
            let served = tokio::try_join!(hub, http).map(drop);
            if served.is_ok() {
                live_host.wait_until_ended().await;
            }
            served
        };
        let deadline = async {
            shutdown.cancelled().await;
            tokio::time::sleep(SHUTDOWN_TIMEOUT).await;
        };
        let serving = async {
            tokio::select! {
                served = serving => served,
                () = deadline => {
                    tracing::warn!("shutdown timeout, closing the remaining connections");
                    Ok(())
                }
            }
        };
        tokio::pin!(serving);
        let indexing = registry.search_index().progress();
        let outcome = tokio::select! {
            served = serving.as_mut() => served.map_err(Failure::from),
            failure = writer_watch::watch_writer(registry.writer_health(), &readiness) => {
                tracing::error!("stopping: {}", failure.message);
                shutdown.cancel();
                let _ = serving.await;
                Err(failure)
            }
            never = index_watch::watch_index(indexing, &readiness) => match never {},
            never = store_watch::watch_store(registry.store_health(), &readiness) => match never {},
        };
        if let Some(announcing) = announcing {
            let _ = tokio::time::timeout(presence::WITHDRAWAL_TIMEOUT, announcing).await;
        }
        drop((file, link_file, socket, collection, imports));
        // Queued writes are still stored, even if their callers are gone.
        let close = run_own("closing of the registry", move || {
            published.close();
            foundation.close();
        });
        if tokio::time::timeout(CLOSE_TIMEOUT, close).await.is_err() {
            tracing::error!("close timeout, unacknowledged writes are lost");
        }
        outcome
    }
}
