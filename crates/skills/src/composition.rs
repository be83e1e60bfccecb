//! Composition of a server from its parts, for `serve` and for attached mode.
//!
//! Each stage is a type, so a part cannot be used before what it needs:
//!
//! | stage | has | allows |
//! |---|---|---|
//! | [`Foundation`] | access rules, accounts, key directory, memory budget | HTTP on a registry that may still be opening |
//! | [`ExecutableRegistry`] | a registry with the executor of its tools | publishing it on a bus |
//! | [`PublishedRegistry`] | functions on the bus, live clients | closing |

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::Router;
use skills_bus::{Bus, Hub};
use skills_client_setup::ServerCommand;
use skills_console::{Console, ConsoleParts, LocalLink};
use skills_core::{
    Caller, KeyDirectory, MemoryBudget, PublicUrl, RequestStats, SurfaceCounter, caller::AdminName,
};
use skills_execution::{Executor, NoExecutor, PendingExecutor, ToolExecutor};
use skills_gateway::Gateway;
use skills_http::{
    Access, App, ErrorBody, ErrorFormat, Guard, Readiness, ResponseDecorator, RouteGroup,
    RoutePolicy, ServerInfo,
};
use skills_mcp::{Mcp, Settings};
use skills_mdp::MdpHost;
use skills_registry::{CollectRequest, Registry, RegistryConfig, RegistryError, SkillRegistry};
use skills_store::{SqliteStore, Store};
use tokio_util::sync::CancellationToken;

use crate::{
    Failure,
    accounts::Accounts,
    authentication,
    blocking::blocking,
    commands::keyspace,
    config::Config,
    console_link::ConsoleLinkFile,
    mdp::{self, LiveClients},
    search_miss_log::VaultMissLog,
    server_state::ServerState,
    sources::SourceStates,
};

/// Opens or creates the store of a directory, or that of the configured database.
pub(crate) async fn open_store(
    data_dir: &Path,
    config: &Config,
) -> Result<Arc<dyn Store>, Failure> {
    if let Some(database) = &config.database {
        return database.open().await;
    }
    let data_dir = data_dir.to_owned();
    let opened = blocking(move || SqliteStore::open(&data_dir).map_err(RegistryError::from));
    Ok(Arc::new(opened.await??))
}

/// Opens the registry of a store.
pub(crate) async fn open_registry(
    store: Arc<dyn Store>,
    bus: Option<std::sync::Weak<dyn Bus>>,
    config: RegistryConfig,
) -> Result<Arc<Registry>, Failure> {
    Ok(blocking(move || Registry::open(store, bus, config)).await??)
}

/// Settings of the HTTP surfaces.
pub(crate) struct HttpSettings {
    /// Data directory, whose size is shown.
    pub(crate) data_dir: PathBuf,
    /// Command by which MCP clients of this machine use the registry, for the console; `None` without a console.
    pub(crate) console: Option<ServerCommand>,
    /// One-time link of the console; `None` on a server with a token.
    pub(crate) link: Option<LocalLink>,
    /// Names of the configured sources.
    pub(crate) sources: Vec<String>,
    pub(crate) source_states: SourceStates,
}

/// Parts that exist before the registry.
pub(crate) struct Foundation {
    accounts: Option<Accounts>,
    keys: Arc<dyn KeyDirectory>,
    guard: Guard,
    /// Memory that untrusted clients may hold, on all surfaces together.
    budget: MemoryBudget,
    /// Set if HTTP requires a token.
    is_private: bool,
    /// Set if an administrator has a secret, so that nobody is one without it.
    has_admin_key: bool,
    /// Counters of the requests of all surfaces.
    stats: RequestStats,
    /// Versions that are kept.
    retention: CollectRequest,
    /// Address by which clients reach the server.
    public_url: Option<PublicUrl>,
}

impl Foundation {
    /// Checks the access rules and opens the accounts of a data directory, if there is one.
    ///
    /// # Errors
    /// When an access rule or an administrator secret is unusable, or the vault cannot be opened.
    pub(crate) async fn open(
        access: Access,
        data_dir: Option<&Path>,
        config: &Config,
    ) -> Result<Self, Failure> {
        // Checked before the vault is created: a server that does not start leaves no files.
        Guard::new(access.clone())?;
        let admins = authentication::admin_secrets()?;
        let is_private = access.token.is_some();
        let has_admin_key = admins.has(AdminName::AdminKey);
        let (accounts, access) = match data_dir {
            Some(data_dir) => {
                let accounts = Accounts::open(data_dir, config).await?;
                let access = accounts.with_keys(access, admins);
                (Some(accounts), access)
            }
            None => (None, access),
        };
        let keys = Arc::clone(&access.keys);
        let (guard, budget) = (Guard::new(access)?, MemoryBudget::default());
        let (stats, retention) = (RequestStats::default(), config.retention.into());
        let public_url = config.public_url.clone();
        Ok(Self {
            accounts,
            keys,
            guard,
            budget,
            is_private,
            has_admin_key,
            stats,
            retention,
            public_url,
        })
    }

    /// Creates the one-time link of the console with its file, for a server without a token.
    pub(crate) fn console_link(
        &self,
        data_dir: &Path,
        http: SocketAddr,
        has_console: bool,
    ) -> Option<(LocalLink, Arc<ConsoleLinkFile>)> {
        ConsoleLinkFile::remove_stale(data_dir);
        let is_needed = has_console && !self.is_private && self.accounts.is_some();
        is_needed.then(|| ConsoleLinkFile::create(data_dir, http)).flatten()
    }

    /// Returns the counter of a surface's requests.
    pub(crate) fn counter(&self, surface: &'static str) -> SurfaceCounter {
        self.stats.surface(surface)
    }

    /// Returns the access rules of HTTP, with the counter of refused credentials of all surfaces.
    pub(crate) const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Starts the host of live clients, which disconnects them on `shutdown`.
    pub(crate) fn start_live_host(
        &self,
        config: skills_mdp::Config,
        skills: Arc<dyn SkillRegistry>,
        shutdown: CancellationToken,
    ) -> MdpHost {
        let budget = self.budget.clone();
        let failed_credentials = self.guard.failed_credentials().clone();
        let config = skills_mdp::Config { budget, failed_credentials, ..config };
        let host = MdpHost::start(config, Some(skills), shutdown);
        host.watch_keys(Arc::clone(&self.keys));
        host
    }

    /// Returns the HTTP surfaces of a registry that may still be opening; `None` without accounts.
    pub(crate) fn http_app(
        &self,
        skills: Arc<dyn SkillRegistry>,
        executor: PendingExecutor,
        host: &MdpHost,
        readiness: Readiness,
        settings: HttpSettings,
        shutdown: &CancellationToken,
    ) -> Option<App> {
        let (is_private, budget) = (self.is_private, self.budget.clone());
        let accounts = self.accounts.as_ref()?;
        let mcp =
            Settings { is_private, budget, shutdown: shutdown.clone(), ..Settings::default() };
        let mcp = Mcp::new(Arc::clone(&skills), Arc::new(executor.clone()), mcp);
        let (mcp, mcp_sessions) = skills_mcp::http::routes_with_sessions(&mcp);
        let HttpSettings { data_dir, console, link, sources, source_states } = settings;
        let server: Arc<dyn ServerInfo> = Arc::new(ServerState::new(
            data_dir,
            self.stats.clone(),
            mcp_sessions,
            readiness.clone(),
            sources,
            source_states,
        ));
        let gateway = accounts.gateway(executor.clone(), Arc::clone(&server), is_private);
        let discovery = skills_discovery::Settings { is_private };
        let discovery = skills_discovery::routes(Arc::clone(&skills), discovery);
        let distribution = skills_distribution::Settings {
            budget: self.budget.clone(),
            public_url: self.public_url.clone(),
            is_private,
            limiter: Some(accounts.limiter()),
            protected_labels: accounts.protected_labels(),
        };
        let distribution = skills_distribution::routes(Arc::clone(&skills), distribution);
        let catalog = discovery.merge(skills_gateway::public_routes(&gateway));
        let public = RoutePolicy { is_public: true, ..RoutePolicy::default() };
        self.warn_about_wildcard_origins();
        let mut app = App {
            route_groups: vec![
                gateway_routes(&gateway),
                surface("discovery", catalog, public),
                surface("mcp", mcp, RoutePolicy::default()),
            ],
            stats: self.stats.clone(),
            error_formats: vec![
                ErrorFormat {
                    path_prefix: "/v1/",
                    body: ErrorBody::Json(skills_gateway::error_body),
                },
                ErrorFormat {
                    path_prefix: skills_distribution::CLAWHUB_PREFIX,
                    body: ErrorBody::Text,
                },
            ],
            budget: self.budget.clone(),
            ..App::new(Router::new(), self.guard.clone(), readiness)
        };
        let distribution = distribution.into_iter();
        let distribution =
            distribution.map(|(name, group)| surface(name, group.routes, group.policy));
        app.route_groups.extend(distribution);
        if let Some(command) = console {
            let console = skills_console::routes(&Console::new(ConsoleParts {
                skills,
                tools: Arc::new(executor),
                guard: self.guard.clone(),
                limiter: accounts.limiter(),
                has_admin_key: self.has_admin_key,
                link,
                protected_labels: accounts.protected_labels(),
                server,
                command,
                public_url: self.public_url.clone(),
            }));
            app.error_formats.push(console.error_format);
            app.route_groups.extend(console.groups);
            app.front_page = Some(console.front_page);
        }
        Some(mdp::mount(app, host))
    }

    /// Adds the key directory and the log of the search to the settings of a registry.
    pub(crate) fn registry_config(&self, config: &Config) -> RegistryConfig {
        let mut registry =
            RegistryConfig { keys: Some(Arc::clone(&self.keys)), ..config.registry() };
        if let Some(accounts) = self.accounts.as_ref().filter(|_| config.search.log) {
            registry.search.misses =
                Some(Arc::new(VaultMissLog::start(Arc::clone(accounts.vault()))));
        }
        registry
    }

    /// Creates the executor of a registry's tools. Without accounts, every tool call is refused.
    pub(crate) fn with_executor(&self, registry: Arc<Registry>) -> ExecutableRegistry {
        let executor =
            self.accounts.as_ref().map(|accounts| Arc::new(accounts.executor(&registry)));
        let (keys, retention) = (Arc::clone(&self.keys), self.retention);
        ExecutableRegistry { registry, executor, keys, retention }
    }

    /// Creates an executor whose calls are those of one caller; `None` without accounts.
    pub(crate) fn executor_for(
        &self,
        registry: &Arc<Registry>,
        caller: &Caller,
    ) -> Option<Executor> {
        let accounts = self.accounts.as_ref()?;
        Some(accounts.executor(registry).with_default_caller(caller.clone()))
    }

    /// Offers functions for the user of this process and for administrators on a hub.
    pub(crate) fn serve_administration(
        &self,
        hub: &Hub,
        bus: &Arc<dyn Bus>,
        registry: &Arc<Registry>,
    ) {
        if let Some(accounts) = &self.accounts {
            keyspace::serve_import(hub, bus, registry, accounts.vault(), &self.keys, &self.guard);
        }
    }

    /// Saves the rate counters. Blocks.
    pub(crate) fn close(&self) {
        if let Some(accounts) = &self.accounts {
            accounts.close();
        }
    }

    fn warn_about_wildcard_origins(&self) {
        for origin in self.guard.wildcard_origins() {
            tracing::warn!(
                origin,
                "allow_origin names no page in particular: it only allows reading the public catalog; \
                 list the origins of pages that need more"
            );
        }
    }
}

/// Returns the gateway's routes, whose answers have rate limit headers.
fn gateway_routes(gateway: &Gateway) -> RouteGroup {
    let shared = gateway.clone();
    let decorator = ResponseDecorator::new(move |caller, headers| {
        skills_gateway::add_rate_limit_headers(&shared, caller, headers);
    });
    let policy = RoutePolicy { decorator: Some(decorator), ..RoutePolicy::default() };
    surface("gateway", skills_gateway::routes(gateway), policy)
}

/// Returns routes whose requests are counted for a surface.
fn surface(name: &'static str, routes: Router, policy: RoutePolicy) -> RouteGroup {
    RouteGroup::new(routes, RoutePolicy { surface: Some(name), ..policy })
}

/// A registry with the executor of its tools. Only this stage can be published, so no function is offered before.
pub(crate) struct ExecutableRegistry {
    registry: Arc<Registry>,
    executor: Option<Arc<Executor>>,
    keys: Arc<dyn KeyDirectory>,
    retention: CollectRequest,
}

impl ExecutableRegistry {
    /// Offers the registry's functions on a bus and connects it with the host of live clients.
    pub(crate) fn publish(self, bus: &Arc<dyn Bus>, host: Option<&MdpHost>) -> PublishedRegistry {
        let Self { registry, executor, keys, retention } = self;
        let tools: Arc<dyn ToolExecutor> = match &executor {
            Some(executor) => Arc::clone(executor) as _,
            None => Arc::new(NoExecutor),
        };
        let live_clients = host.map(|host| mdp::join(host, &**bus, &registry, &keys));
        skills_worker::serve(bus, &registry, &tools, &keys, retention);
        PublishedRegistry { registry, executor, live_clients }
    }
}

/// A registry on a bus.
pub(crate) struct PublishedRegistry {
    pub(crate) registry: Arc<Registry>,
    /// `None` without accounts.
    pub(crate) executor: Option<Arc<Executor>>,
    live_clients: Option<LiveClients>,
}

impl PublishedRegistry {
    /// Disconnects live clients from the registry and stores the queued writes. Blocks.
    pub(crate) fn close(self) {
        drop(self.live_clients);
        self.registry.close();
    }
}
