//! Attached to an iii engine: this process as a worker there.
//!
//! The engine may come before or after us and may go at any time. Content lives in the engine's state, or
//! in the embedded store where the engine has none.

use std::{path::PathBuf, sync::Arc, time::Duration};

use skills_bus::{
    Bus, CallError,
    engine::{Connection, EngineBus, EngineConfig},
};
use skills_core::Identify;
use skills_http::{Access, Guard, Readiness};
use skills_mdp::Host;
use skills_registry::{
    Execute, Registry, RegistryConfig, Skills, StateStore,
    state_store::{self, Place, sync::Follower},
};
use skills_vault::Vault;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    Failure,
    config::{Config, StoreChoice},
    late::Late,
    mdp::{self, Joined},
    people::People,
    serve::{Door, app, bind, open_registry, surfaces},
    state_events::listen,
    work::blocking,
};

/// How long a state worker may take to appear before the engine counts as one without: workers of one
/// site start side by side.
const STATE_GRACE: Duration = Duration::from_secs(3);
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// Between two attempts to compare everything with the state.
const RESYNC_AGAIN: Duration = Duration::from_secs(1);

/// What to attach to, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the engine is and who we are there.
    pub engine: EngineConfig,
    /// The embedded store's directory, should it be needed.
    pub data_dir: PathBuf,
    /// Who may ask over HTTP, should it be served.
    pub access: Access,
    /// The configuration file's settings.
    pub config: Config,
}

/// Runs as a worker until `shutdown`.
///
/// # Errors
/// When the settings are wrong, the engine rejects this worker, or the store cannot be used.
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<(), Failure> {
    let Options { engine, data_dir, access, config } = options;
    let door = Door {
        flag: "http:",
        token: "http_token: or SKILLS_HTTP_TOKEN",
        has_token: access.token.is_some(),
    };
    let is_private = door.has_token;
    // A server that does not start leaves nothing behind.
    Guard::new(access.clone())?;
    // Without HTTP and without keys there is nothing to keep: a worker leaves no directory that nobody asked for.
    let people = match config.http.is_some() || Vault::is_in(&data_dir) {
        true => Some(People::open(&data_dir, &config).await?),
        false => None,
    };
    let access = match &people {
        Some(people) => people.known(access),
        None => access,
    };
    let keys = Arc::clone(&access.keys);
    let guard = Guard::new(access)?;
    let http = match &config.http {
        Some(address) => Some(bind(address, &door).await?),
        None => None,
    };
    let bus = EngineBus::connect(EngineConfig { telemetry: config.telemetry, ..engine })
        .map_err(|error| Failure::new("bad_engine", error.to_string()))?;
    let (late, skills) = Late::new();
    let (registry, opened) = watch::channel(None);
    let executor = people.as_ref().map(|people| people.executor() as Arc<dyn Execute>);
    let mut opening =
        Opening { readiness: Readiness::default(), skills, registry, executor, mdp: None };
    let served = http.zip(people.as_ref()).map(|(listener, people)| {
        let gateway = people.gateway(opened);
        let skills: Arc<dyn Skills> = Arc::new(late);
        let routes = surfaces(Arc::clone(&skills), is_private, &shutdown);
        let mdp = Host::start(config.mdp.clone(), Some(skills), shutdown.clone());
        opening.mdp = Some(mdp.clone());
        let app = mdp::mount(app(routes, &gateway, guard, opening.readiness.clone()), &mdp);
        let serving = skills_http::serve(listener, app, shutdown.clone());
        tokio::spawn(async move {
            let served = serving.await;
            mdp.ended().await;
            served
        })
    });
    let worked = tokio::select! {
        worked = work(&bus, &data_dir, &config, &keys, &opening) => worked,
        () = shutdown.cancelled() => Ok(()),
    };
    opening.readiness.set(false);
    shutdown.cancel();
    bus.shutdown().await;
    if let Some(served) = served {
        let _ = served.await;
    }
    if let Some(people) = people {
        blocking(move || people.close()).await?;
    }
    worked
}

/// What HTTP waits for: it listens before there is a registry.
struct Opening {
    readiness: Readiness,
    skills: watch::Sender<Option<Arc<dyn Skills>>>,
    registry: watch::Sender<Option<Arc<Registry>>>,
    /// What calls tools, where there may be keys.
    executor: Option<Arc<dyn Execute>>,
    mdp: Option<Host>,
}

impl Opening {
    /// Lets everyone in. Live clients are part of it for as long as what is returned is kept.
    #[must_use]
    fn done(
        &self,
        bus: &dyn Bus,
        registry: &Arc<Registry>,
        keys: &Arc<dyn Identify>,
    ) -> Option<Joined> {
        let joined = self.mdp.as_ref().map(|mdp| mdp::join(mdp, bus, registry, keys));
        if let Some(executor) = &self.executor {
            registry.execute_with(Arc::clone(executor));
        }
        registry.identify_with(Arc::clone(keys));
        self.skills.send_replace(Some(registry.clone()));
        self.registry.send_replace(Some(Arc::clone(registry)));
        self.readiness.set(true);
        joined
    }
}

/// Waits for the engine, offers the contract, and follows the connection. Ends only with an error.
async fn work(
    engine: &EngineBus,
    data_dir: &std::path::Path,
    config: &Config,
    keys: &Arc<dyn Identify>,
    opening: &Opening,
) -> Result<(), Failure> {
    let bus: Arc<dyn Bus> = Arc::new(engine.clone());
    let mut connection = engine.connection();
    connected(&mut connection).await?;
    let place = find_state(&bus, &mut connection, config).await?;
    let settings = config.registry();
    let Some(place) = place else {
        let registry = open_registry(data_dir, Some(Arc::downgrade(&bus)), settings).await?;
        skills_worker::serve(&bus, &registry, keys);
        let joined = opening.done(&*bus, &registry, keys);
        let outcome = rejected(&mut connection).await;
        drop(joined);
        return close(registry, outcome).await;
    };
    // Listening comes first, so that what is written while everything is read is not missed.
    let ear = listen(engine, config)?;
    let store = Arc::new(state_store(&bus, place, config));
    let (registry, epoch) = open_state(&bus, &mut connection, &store, settings).await?;
    let follower = Follower::new(Arc::clone(&registry), store);
    ear.follow(&follower);
    skills_worker::serve(&bus, &registry, keys);
    let joined = opening.done(&*bus, &registry, keys);
    let outcome = keep_in_step(&follower, &mut connection, epoch).await;
    drop(joined);
    close(registry, outcome).await
}

async fn close(registry: Arc<Registry>, outcome: Result<(), Failure>) -> Result<(), Failure> {
    let closed = tokio::task::spawn_blocking(move || registry.close()).await;
    outcome?;
    closed.map_err(|error| Failure::new("internal", error.to_string()))
}

/// Waits until there is a connection and returns its number.
async fn connected(connection: &mut watch::Receiver<Connection>) -> Result<u64, Failure> {
    loop {
        match &*connection.borrow_and_update() {
            Connection::Connected { epoch } => return Ok(*epoch),
            Connection::Rejected { reason } => return Err(refused(reason)),
            Connection::Connecting | Connection::Lost { .. } => {}
        }
        if connection.changed().await.is_err() {
            return Err(Failure::new("internal", "the connection to the engine is gone"));
        }
    }
}

fn refused(reason: &str) -> Failure {
    Failure::new("rejected", format!("the engine does not take this worker: {reason}"))
        .hint("another worker of this name is probably running; III_WORKER_NAME gives this one another name")
}

/// Waits for the engine to reject this worker, which it may do on any connection.
async fn rejected(connection: &mut watch::Receiver<Connection>) -> Result<(), Failure> {
    loop {
        connected(connection).await?;
        if connection.changed().await.is_err() {
            return Ok(());
        }
    }
}

/// Where the content is to live: in the state found at a place, or in the embedded store (`None`).
async fn find_state(
    bus: &Arc<dyn Bus>,
    connection: &mut watch::Receiver<Connection>,
    config: &Config,
) -> Result<Option<Place>, Failure> {
    if config.store == StoreChoice::Embedded {
        return Ok(None);
    }
    let mut deadline = tokio::time::Instant::now() + STATE_GRACE;
    let mut has_warned = false;
    let mut is_known_silent = false;
    loop {
        connected(connection).await?;
        match StateStore::find(bus, config.handler_timeout()).await {
            Ok(Some(place)) => return Ok(Some(place)),
            Ok(None) if tokio::time::Instant::now() < deadline => {}
            Ok(None) if config.store == StoreChoice::Auto => {
                tracing::warn!(
                    "the engine has no state worker; skills and prompts are kept in the embedded store"
                );
                return Ok(None);
            }
            Ok(None) if !has_warned => {
                has_warned = true;
                tracing::warn!("the engine has no state worker yet; waiting for it (store: state)");
            }
            Ok(None) => {}
            Err(error) => {
                // That there is no connection is said elsewhere.
                let is_silent = !matches!(error, CallError::Disconnected(_));
                if is_silent && !std::mem::replace(&mut is_known_silent, true) {
                    tracing::warn!(%error, "the state worker does not answer; waiting until it does");
                }
                deadline = tokio::time::Instant::now() + STATE_GRACE;
            }
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// The store in the state of an engine, as it is configured.
pub(crate) fn state_store(bus: &Arc<dyn Bus>, place: Place, config: &Config) -> StateStore {
    StateStore::new(
        Arc::clone(bus),
        place,
        state_store::Scopes {
            skills: config.scopes.skills.clone(),
            prompts: config.scopes.prompts.clone(),
        },
        config.handler_timeout(),
        tokio::runtime::Handle::current(),
    )
}

/// Reads everything, and returns the number of the connection on which it began.
async fn open_state(
    bus: &Arc<dyn Bus>,
    connection: &mut watch::Receiver<Connection>,
    store: &Arc<StateStore>,
    settings: RegistryConfig,
) -> Result<(Arc<Registry>, u64), Failure> {
    let mut has_warned = false;
    loop {
        let epoch = connected(connection).await?;
        let (stand, weak, settings) = (Arc::clone(store), Arc::downgrade(bus), settings.clone());
        let open = move || Registry::open(stand, Some(weak), settings);
        let opened = tokio::task::spawn_blocking(open)
            .await
            .map_err(|error| Failure::new("internal", error.to_string()))?;
        match opened {
            Ok(registry) => return Ok((registry, epoch)),
            Err(error) => {
                if !std::mem::replace(&mut has_warned, true) {
                    tracing::warn!(%error, "the state cannot be read; trying again until it can");
                }
                tokio::time::sleep(RESYNC_AGAIN).await;
            }
        }
    }
}

/// Compares everything with the state after each reconnection, since events of the time without a
/// connection never come.
async fn keep_in_step(
    follower: &Follower,
    connection: &mut watch::Receiver<Connection>,
    mut in_step_with: u64,
) -> Result<(), Failure> {
    let mut has_warned = false;
    loop {
        let epoch = connected(connection).await?;
        if epoch != in_step_with {
            match follower.resync().await {
                Ok(differences) => {
                    tracing::debug!(epoch, differences, "in step with the state");
                    in_step_with = epoch;
                    has_warned = false;
                }
                Err(error) => {
                    if !std::mem::replace(&mut has_warned, true) {
                        tracing::warn!(%error, "the state cannot be compared; trying again until it can");
                    }
                    tokio::time::sleep(RESYNC_AGAIN).await;
                }
            }
            continue;
        }
        if connection.changed().await.is_err() {
            return Ok(());
        }
    }
}
