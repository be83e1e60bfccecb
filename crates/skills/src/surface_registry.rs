//! Opens the registry of a long-running surface: a remote one or a data directory.
//!
//! The surface starts at once; its first request waits for the registry. Of several processes on one data directory the
//! first opens the store and serves the others; when it ends, one of them takes over.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use skills_bus::client::Dialer;
use skills_engine::EngineConfig;
use skills_execution::{PendingExecutor, ToolExecutor};
use skills_registry::{RegistryError, SkillRegistry};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    Failure, authentication,
    cli::Target,
    config::Config,
    connect::{self, RegistrySource},
    data_dir,
    database::Database,
    default_bus::{DefaultBus, DefaultRegistry, ServerTrust},
    pending_registry::{PendingRegistry, RegistryOpener},
    registry_socket::{self, StoreAccess},
    remote_mirror::{self, RemoteMirror},
    store_host::StoreHost,
    vault_location::VaultLocation,
};

/// Location of the registry.
enum Location<'a> {
    /// A bus that the user gave.
    Bus(String),
    /// The bus at the default address.
    DefaultBus(DefaultBus, ServerTrust),
    Directory(PathBuf),
    /// A database, with the data directory for what is not in it.
    Database(PathBuf, &'a Database),
}

/// Senders of the parts that a surface waits for.
struct Opened {
    skills: RegistryOpener,
    executor: watch::Sender<Option<Arc<dyn ToolExecutor>>>,
    /// Set on a data directory, whose registry another process may take over.
    is_replaceable: Arc<AtomicBool>,
}

impl Opened {
    fn set(&self, skills: Arc<dyn SkillRegistry>, executor: Arc<dyn ToolExecutor>) {
        self.executor.send_replace(Some(executor));
        self.skills.open(skills);
    }

    /// Makes requests wait for the next registry.
    fn clear(&self) {
        self.executor.send_replace(None);
        self.skills.clear();
    }
}

/// Runs a surface on the registry of a target until one of them ends. The name of the surface is part of its worker's
/// name on the bus.
pub(crate) async fn run<Served>(
    surface: &str,
    target: &Target,
    config: &Config,
    serve: impl FnOnce(Arc<dyn SkillRegistry>, Arc<dyn ToolExecutor>) -> Served,
) -> Result<(), Failure>
where
    Served: Future<Output = Result<(), Failure>>,
{
    let (pending, skills) = PendingRegistry::new();
    let is_replaceable = pending.replaceable_flag();
    let (executor, pending_executor) = PendingExecutor::channel();
    let stop = CancellationToken::new();
    let connection = RegistryConnection {
        surface,
        target,
        config,
        opened: Opened { skills, executor, is_replaceable },
        stop: stop.clone(),
    };
    let connected = connection.run();
    tokio::pin!(connected);
    tokio::select! {
        served = serve(Arc::new(pending), Arc::new(pending_executor)) => {
            stop.cancel();
            // Stores queued writes and lets another process take over.
            let _ = connected.await;
            served
        }
        ended = &mut connected => ended,
    }
}

/// Connection of a surface to its registry, which it opens, follows and reopens.
struct RegistryConnection<'a> {
    surface: &'a str,
    target: &'a Target,
    config: &'a Config,
    opened: Opened,
    /// Cancelled when the surface has ended.
    stop: CancellationToken,
}

impl RegistryConnection<'_> {
    /// Runs until the surface has ended.
    ///
    /// # Errors
    /// When the registry cannot be opened or used any more.
    async fn run(&self) -> Result<(), Failure> {
        match locate(self.target, self.config).await? {
            Location::Database(dir, database) => {
                let on_wait = |error: RegistryError| self.opened.skills.fail(error);
                let opening = StoreHost::open_when_reachable(&dir, database, self.config, on_wait);
                let host = tokio::select! {
                    () = self.stop.cancelled() => return Ok(()),
                    host = opening => host?,
                };
                self.host_store(&dir, host).await
            }
            Location::Bus(url) => {
                self.follow_bus(url.clone(), RegistrySource::Bus(url), None).await
            }
            Location::DefaultBus(bus, trust) => {
                self.follow_bus(bus.url(), bus.source(trust), Some(bus.dialer())).await
            }
            Location::Directory(dir) => {
                self.opened.is_replaceable.store(true, Ordering::Relaxed);
                self.share_directory(&dir).await
            }
        }
    }

    /// Hosts the store of a directory or follows the process that does, in turns.
    async fn share_directory(&self, dir: &Path) -> Result<(), Failure> {
        let mut max_wait = registry_socket::MAX_WAIT;
        loop {
            let access = async || StoreHost::open(dir, self.config).await;
            let access = tokio::select! {
                () = self.stop.cancelled() => return Ok(()),
                access = registry_socket::access_within(dir, max_wait, access) => access?,
            };
            match access {
                StoreAccess::Opened(host) => self.host_store(dir, host).await?,
                StoreAccess::Served(_) => tokio::select! {
                    () = self.stop.cancelled() => {}
                    followed = self.follow_socket(dir) => followed?,
                },
            }
            if self.stop.is_cancelled() {
                return Ok(());
            }
            self.opened.clear();
            // A surface in use outlasts a server that takes long to start, such as one that converts its store.
            max_wait = Duration::MAX;
        }
    }

    /// Serves the store of a directory until the surface has ended or a server asks for it.
    async fn host_store(&self, dir: &Path, host: StoreHost) -> Result<(), Failure> {
        match &self.config.database {
            Some(database) => RegistrySource::Database(database.to_string()).print(self.target),
            None => RegistrySource::Opened(dir.to_owned()).print(self.target),
        }
        let hosted = async {
            let (caller, _) = authentication::caller(
                &VaultLocation::new(dir, self.config),
                self.target.key.as_deref(),
            )?;
            let (skills, executor) = host.view(&caller)?;
            self.opened.set(skills, executor);
            tokio::select! {
                () = self.stop.cancelled() => Ok(()),
                released = host.wait_until_released() => released,
            }
        };
        let hosted = hosted.await;
        if hosted.is_ok() && !self.stop.is_cancelled() {
            self.opened.clear();
        }
        host.close().await;
        hosted
    }

    /// Mirrors the registry of the process that serves a directory until that process ends.
    async fn follow_socket(&self, dir: &Path) -> Result<(), Failure> {
        RegistrySource::Served(dir.to_owned()).print(self.target);
        // The socket needs no token.
        let target = Target { token: None, ..self.target.clone() };
        let dialer = registry_socket::dialer(dir);
        let remote = self.start_mirror(&target, registry_socket::URL.to_owned(), Some(dialer))?;
        self.opened.set(remote.mirror.clone(), remote.mirror.clone());
        let ended = tokio::select! {
            failure = remote.run() => Err(failure),
            () = remote.wait_until_lost() => Ok(()),
        };
        self.opened.clear();
        // In the background: the store is free already.
        tokio::spawn(async move { remote.stop().await });
        ended
    }

    /// Mirrors the registry of a bus until the surface has ended.
    async fn follow_bus(
        &self,
        url: String,
        source: RegistrySource,
        dialer: Option<Arc<dyn Dialer>>,
    ) -> Result<(), Failure> {
        source.print(self.target);
        let remote = self.start_mirror(self.target, url, dialer)?;
        self.opened.set(remote.mirror.clone(), remote.mirror.clone());
        tokio::select! {
            () = self.stop.cancelled() => Ok(()),
            failure = remote.run() => {
                remote.stop().await;
                Err(failure)
            }
        }
    }

    fn start_mirror(
        &self,
        target: &Target,
        url: String,
        dialer: Option<Arc<dyn Dialer>>,
    ) -> Result<RemoteMirror, Failure> {
        // A unique name, since several workers of one surface may run.
        let id = Uuid::new_v4().simple().to_string();
        let name = format!("skills-{}-{}", self.surface, &id[..8]);
        let engine = EngineConfig { dialer, ..connect::engine(target, url, name, vec![])? };
        let timeout = connect::call_timeout(self.config);
        remote_mirror::start(engine, timeout, target.key.clone(), self.config.sections)
    }
}

/// Returns the first that applies: an explicit bus, the database, an explicit directory, [the default
/// registry](DefaultBus::choose). A server at the default address that is refused for now is waited for.
async fn locate<'a>(target: &Target, config: &'a Config) -> Result<Location<'a>, Failure> {
    if let Some(url) = connect::explicit_bus(target) {
        return Ok(Location::Bus(url));
    }
    let dir = data_dir::locate(target)?;
    if let Some(database) = &config.database {
        return Ok(Location::Database(dir, database));
    }
    if target.data_dir.is_some() {
        return Ok(Location::Directory(dir));
    }
    let bus = DefaultBus::new(target)?;
    Ok(match bus.choose().await {
        DefaultRegistry::Bus(connected) => {
            let trust = connected.map_or(ServerTrust::Owner, |(_, trust)| trust);
            Location::DefaultBus(bus, trust)
        }
        DefaultRegistry::Directory(refusal) => {
            if let Some(refusal) = refusal {
                connect::print_refusal(&refusal);
            }
            Location::Directory(dir)
        }
    })
}
