//! The server: hub, registry and HTTP in one process.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use axum::Router;
use skills_bus::{Bus, Hub, HubConfig};
use skills_gateway::Gateway;
use skills_http::{Access, App, Guard, Mark, Readiness, Terms, Wing, Wording};
use skills_mcp::{Mcp, Settings};
use skills_mdp::Host;
use skills_registry::{Registry, RegistryConfig, Skills};
use skills_store::SqliteStore;
use tokio::{
    net::{TcpListener, lookup_host},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Failure,
    config::Config,
    mdp::{self, Joined},
    people::People,
};

/// Everything is over this long after the signal, whatever still runs.
const STOP_WITHIN: Duration = Duration::from_millis(2400);
/// How long the writes that are still queued may then take.
const CLOSE_WITHIN: Duration = Duration::from_millis(400);

/// What to serve, where.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where iii workers connect.
    pub bus: String,
    /// Where HTTP is served.
    pub http: String,
    /// The store's directory.
    pub data_dir: PathBuf,
    /// What workers must present; needed when the bus is reachable from other machines.
    pub token: Option<String>,
    /// Who may ask over HTTP; whom keys stand for that the data directory does not know.
    pub access: Access,
    /// The configuration file's settings.
    pub config: Config,
}

/// A server that listens and is ready to run.
pub struct Server {
    hub: Hub,
    /// The same hub as the registry knows it, which holds it weakly.
    offered: Arc<dyn Bus>,
    registry: Arc<Registry>,
    people: People,
    bus: TcpListener,
    http: TcpListener,
    guard: Guard,
    /// Clients of the Model Drive Protocol, who part when `parting` is cancelled.
    mdp: Host,
    /// Makes clients part of the registry and the bus.
    joined: Joined,
    parting: CancellationToken,
    data_dir: PathBuf,
    has_token: bool,
}

impl Server {
    /// Opens the store, binds both addresses and offers the contract on the hub.
    ///
    /// # Errors
    /// When a rule of the access or the store cannot be used, or an address cannot be bound.
    pub async fn start(options: Options) -> Result<Self, Failure> {
        let Options { bus, http, data_dir, token, access, config } = options;
        let bus = bind_bus(&bus, token.is_some()).await?;
        let has_token = access.token.is_some();
        let door = Door { flag: "--http", token: HTTP_TOKEN, has_token };
        let http = bind(&http, &door).await?;
        // A server that does not start leaves nothing behind.
        Guard::new(access.clone())?;
        let people = People::open(&data_dir, &config).await?;
        let access = people.known(access);
        let keys = Arc::clone(&access.keys);
        let guard = Guard::new(access)?;
        let hub = Hub::new(HubConfig {
            name: "skills".to_owned(),
            token,
            inject_caller_id: config.inject_caller_id,
            ..HubConfig::default()
        });
        let offered: Arc<dyn Bus> = Arc::new(hub.clone());
        let weak = Some(Arc::downgrade(&offered));
        let registry = open_registry(&data_dir, weak, config.registry()).await?;
        registry.execute_with(people.executor());
        registry.identify_with(Arc::clone(&keys));
        skills_worker::serve(&offered, &registry, &keys);
        skills_worker::state::serve(&offered, &registry);
        let parting = CancellationToken::new();
        let mdp = Host::start(config.mdp, Some(registry.clone()), parting.clone());
        let joined = mdp::join(&mdp, &*offered, &registry, &keys);
        Ok(Self {
            hub,
            offered,
            registry,
            people,
            bus,
            http,
            guard,
            mdp,
            joined,
            parting,
            data_dir,
            has_token,
        })
    }

    /// Where iii workers connect.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn bus_address(&self) -> std::io::Result<SocketAddr> {
        self.bus.local_addr()
    }

    /// Where HTTP is served.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn http_address(&self) -> std::io::Result<SocketAddr> {
        self.http.local_addr()
    }

    /// What a person wants to know when it has started.
    ///
    /// # Errors
    /// When a socket is gone.
    pub fn banner(&self) -> std::io::Result<String> {
        let catalog = self.registry.catalog();
        let http = self.http_address()?;
        let count = |number: usize, what: &str| {
            format!("{number} {what}{}", if number == 1 { "" } else { "s" })
        };
        Ok(format!(
            "skills {} is serving\n  bus   ws://{}\n  http  http://{http}\n  mcp   http://{http}/mcp\n  mdp   ws://{http}\n  data  {} ({}, {})",
            env!("CARGO_PKG_VERSION"),
            self.bus_address()?,
            self.data_dir.display(),
            count(catalog.skills().len(), "skill"),
            count(catalog.prompts().len(), "prompt"),
        ))
    }

    /// Serves until `shutdown`, then lets what runs finish and closes the store.
    ///
    /// # Errors
    /// When a listener fails.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Failure> {
        let Self { hub, offered: _offered, registry, people, bus, http, guard, .. } = self;
        let Self { mdp, joined, parting, has_token, .. } = self;
        // Kept to the end: what waits for the registry would otherwise be told that it is gone.
        let (_opened, opened) = watch::channel(Some(Arc::clone(&registry)));
        let gateway = people.gateway(opened);
        let routes = surfaces(registry.clone(), has_token, &shutdown);
        let readiness = Readiness::default();
        readiness.set(true);
        let draining = readiness.clone();
        let signal = shutdown.clone();
        tokio::spawn(async move {
            signal.cancelled().await;
            draining.set(false);
            parting.cancel();
        });
        let serving = async {
            let hub = hub.serve(bus, shutdown.clone());
            let app = mdp::mount(app(routes, &gateway, guard, readiness), &mdp);
            let http = skills_http::serve(http, app, shutdown.clone());
            let served = tokio::try_join!(hub, http).map(drop);
            if served.is_ok() {
                mdp.ended().await;
            }
            served
        };
        let deadline = async {
            shutdown.cancelled().await;
            tokio::time::sleep(STOP_WITHIN).await;
        };
        let outcome = tokio::select! {
            served = serving => served,
            () = deadline => {
                tracing::warn!("some connections did not end in time");
                Ok(())
            }
        };
        drop(joined);
        // Queued writes are still stored; their callers may be gone, the promise is not.
        let close = tokio::task::spawn_blocking(move || {
            registry.close();
            people.close();
        });
        if tokio::time::timeout(CLOSE_WITHIN, close).await.is_err() {
            tracing::error!(
                "the disk did not take the last writes in time; they were not acknowledged"
            );
        }
        Ok(outcome?)
    }
}

/// What is served over HTTP.
pub(crate) fn app(routes: Router, gateway: &Gateway, guard: Guard, readiness: Readiness) -> App {
    let wording = Wording { under: "/v1/", body: skills_gateway::refused };
    let shared = gateway.clone();
    let mark = Mark::new(move |caller, answer| skills_gateway::mark(&shared, caller, answer));
    let terms = Terms { mark: Some(mark), ..Terms::default() };
    let gateway = Wing::new(skills_gateway::routes(gateway), terms);
    App { wings: vec![gateway], wordings: vec![wording], ..App::new(routes, guard, readiness) }
}

/// The surfaces that speak HTTP.
pub(crate) fn surfaces(
    skills: Arc<dyn Skills>,
    is_private: bool,
    shutdown: &CancellationToken,
) -> Router {
    let discovery = skills_discovery::Settings { is_private };
    let discovery = skills_discovery::routes(Arc::clone(&skills), discovery);
    let settings = Settings { is_private, shutdown: shutdown.clone(), ..Settings::default() };
    let mcp = Mcp::new(skills, settings);
    skills_mcp::http::routes(&mcp).merge(discovery)
}

/// Opens the store in a directory and the registry on it, away from the async threads.
pub(crate) async fn open_registry(
    data_dir: &Path,
    bus: Option<Weak<dyn Bus>>,
    config: RegistryConfig,
) -> Result<Arc<Registry>, Failure> {
    let data_dir = data_dir.to_owned();
    let open = move || {
        let store = SqliteStore::open(&data_dir).map_err(skills_registry::RegistryError::from)?;
        Registry::open(Arc::new(store), bus, config)
    };
    let opened = tokio::task::spawn_blocking(open)
        .await
        .map_err(|error| Failure::new("internal", error.to_string()))?;
    Ok(opened?)
}

async fn resolve(address: &str, flag: &str) -> Result<Vec<SocketAddr>, Failure> {
    let addresses = lookup_host(address).await.map(Iterator::collect::<Vec<_>>);
    addresses.ok().filter(|found| !found.is_empty()).ok_or_else(|| {
        Failure::new("bad_address", format!("{flag} {address} is not an address"))
            .hint(format!("it looks like {flag} 127.0.0.1:49134; port 0 picks a free one"))
    })
}

/// A listener, as whoever set it knows it.
pub(crate) struct Door {
    /// What sets its address.
    pub(crate) flag: &'static str,
    /// What sets its token.
    pub(crate) token: &'static str,
    /// Whether it has one.
    pub(crate) has_token: bool,
}

const BUS_TOKEN: &str = "--token or III_TOKEN";
const HTTP_TOKEN: &str = "--token, III_TOKEN or SKILLS_HTTP_TOKEN";

/// Resolves an address, which must be a loopback one where nobody is asked for a token.
async fn listenable(address: &str, door: &Door) -> Result<Vec<SocketAddr>, Failure> {
    let addresses = resolve(address, door.flag).await?;
    if !door.has_token && addresses.iter().any(|address| !address.ip().is_loopback()) {
        let message = format!("{address} can be reached from other machines, and no token is set");
        let hint = format!("give one with {}, or listen on 127.0.0.1", door.token);
        return Err(Failure::new("token_needed", message).hint(hint));
    }
    Ok(addresses)
}

pub(crate) async fn bind(address: &str, door: &Door) -> Result<TcpListener, Failure> {
    let addresses = listenable(address, door).await?;
    TcpListener::bind(addresses.as_slice()).await.map_err(|error| {
        Failure::new("bind", format!("cannot listen on {address}: {error}"))
            .hint(format!("choose another address with {}, or port 0 for a free one", door.flag))
    })
}

async fn bind_bus(address: &str, has_token: bool) -> Result<TcpListener, Failure> {
    let door = Door { flag: "--bus", token: BUS_TOKEN, has_token };
    let addresses = listenable(address, &door).await?;
    match TcpListener::bind(addresses.as_slice()).await {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let message = format!(
                "{address} is taken: an iii engine or another skills server is probably running there"
            );
            Err(Failure::new("address_in_use", message).hint(format!(
                "talk to it with --url ws://{address}, or serve on a free port with --bus 127.0.0.1:0"
            )))
        }
        Err(_) => bind(address, &door).await,
        Ok(listener) => Ok(listener),
    }
}
