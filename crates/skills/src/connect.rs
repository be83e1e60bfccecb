//! Opens the registry of a command: through a running process if there is one, else the data directory.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Once},
    time::Duration,
};

use skills_bus::{BusClient, address::without_query, client::Dialer};
use skills_core::{Caller, Code, KeyDirectory};
use skills_engine::EngineConfig;
use skills_registry::{Registry, RegistryConfig, SkillRegistry};
use skills_remote::RemoteRegistry;

use crate::{
    Failure, authentication,
    cli::Target,
    composition::{open_registry, open_store},
    config::Config,
    data_dir,
    default_bus::{DEFAULT_ADDRESS, DefaultBus, DefaultBusError, DefaultRegistry, ServerTrust},
    environment,
    key_watch::KeyWatch,
    output,
    registry_socket::{self, StoreAccess},
    store_host::StoreHost,
    vault_location::VaultLocation,
};

pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time of a call in addition to the timeout of a handler.
const CALL_MARGIN: Duration = Duration::from_secs(20);

/// Next step of a user without a registry.
const REGISTRY_HINT: &str = "register skills with `skills add PATH`, start a server with `skills serve`, or give another registry with --data-dir or --url";

/// Reads the URL of the bus from the environment variables of iii.
pub(crate) fn url_from_environment() -> Result<Option<String>, Failure> {
    match environment::text("III_URL")? {
        None => environment::text("III_ENGINE_URL"),
        url => Ok(url),
    }
}

/// Returns the URL of the bus: from the flag, the environment, or the default.
pub(crate) fn url(target: &Target) -> String {
    explicit_url(target).unwrap_or_else(default_url)
}

/// Returns the URL of the bus at the default address.
fn default_url() -> String {
    format!("ws://{DEFAULT_ADDRESS}")
}

/// Returns whether the user gave the address of the bus, which may then get credentials.
pub(crate) fn is_explicit(target: &Target) -> bool {
    explicit_url(target).is_some()
}

/// Rejects a token for an engine at the default address: an engine cannot prove its identity with a data directory.
///
/// # Errors
/// When there is a token and no explicit address.
pub(crate) fn require_explicit_engine(target: &Target) -> Result<(), Failure> {
    if is_explicit(target) || target.token.is_none() {
        return Ok(());
    }
    let url = default_url();
    let message =
        format!("the token (--token or III_TOKEN) is not sent to the default address {url}");
    Err(Failure::new(Code::AddressNotNamed, message)
        .hint(format!("give the address of the engine: --url {url} or III_URL")))
}

/// Returns the URL from the flag or the environment.
pub(crate) fn explicit_url(target: &Target) -> Option<String> {
    target.url.clone().or_else(|| target.env_url.clone())
}

/// Pins a target to the default bus if that is its registry now. A command that reconnects must not open the store of a
/// server that restarts.
///
/// # Errors
/// See [`data_dir::locate`].
pub(crate) async fn pin_default_bus(mut target: Target) -> Result<Target, Failure> {
    if explicit_url(&target).is_none()
        && target.data_dir.is_none()
        && target.store.is_none()
        && matches!(DefaultBus::new(&target)?.choose().await, DefaultRegistry::Bus(_))
    {
        target.is_default_bus_only = true;
    }
    Ok(target)
}

/// Returns the dialer of a worker of the engine at the default address; `None` if the user gave the address.
///
/// # Errors
/// See [`data_dir::locate`].
pub(crate) fn engine_dialer(target: &Target) -> Result<Option<Arc<dyn Dialer>>, Failure> {
    if is_explicit(target) {
        return Ok(None);
    }
    Ok(Some(DefaultBus::without_credentials(target)?.dialer()))
}

/// Returns the timeout of a call, including a handler that it may invoke.
pub(crate) fn call_timeout(config: &Config) -> Duration {
    config.handler_timeout() + CALL_MARGIN
}

/// Returns the settings of a worker's connection to an engine.
pub(crate) fn engine(
    target: &Target,
    url: String,
    name: String,
    headers: Vec<(String, String)>,
) -> Result<EngineConfig, Failure> {
    Ok(EngineConfig {
        url,
        name,
        namespace: environment::text("III_NAMESPACE")?,
        token: target.token.clone(),
        dialer: engine_dialer(target)?,
        headers,
        description: env!("CARGO_PKG_DESCRIPTION").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..EngineConfig::default()
    })
}

/// Opens the registry of a target. `create` allows to create an empty store.
pub(crate) async fn open(
    target: &Target,
    config: &Config,
    create: bool,
) -> Result<Arc<dyn SkillRegistry>, Failure> {
    Ok(open_with_source(target, config, create).await?.0)
}

/// Opens the registry of a target and returns where it is.
pub(crate) async fn open_with_source(
    target: &Target,
    config: &Config,
    create: bool,
) -> Result<(Arc<dyn SkillRegistry>, RegistrySource), Failure> {
    let opened = locate(target, config, create, async |dir| {
        let (registry, caller) = local_registry(target, config, dir, create).await?;
        Ok(registry.view(&caller)?)
    });
    let (RegistryAccess::Remote(registry) | RegistryAccess::Local(registry), source) =
        opened.await?;
    Ok((registry, source))
}

/// A registry that is used for long. The store of a directory is served to other processes meanwhile.
pub(crate) struct LongRegistry {
    pub(crate) skills: Arc<dyn SkillRegistry>,
    /// Owner of the store, if this process has it open. The user closes it.
    pub(crate) host: Option<StoreHost>,
    pub(crate) source: RegistrySource,
}

/// Opens or creates the registry of a target for a long-running command. A database that cannot be reached is waited for.
pub(crate) async fn open_long(target: &Target, config: &Config) -> Result<LongRegistry, Failure> {
    let opened = locate(target, config, true, async |dir| {
        let host = match &config.database {
            Some(database) => StoreHost::open_when_reachable(dir, database, config, drop).await?,
            None => StoreHost::open(dir, config).await?,
        };
        let (caller, _) =
            authentication::caller(&VaultLocation::new(dir, config), target.key.as_deref())?;
        let (skills, _) = host.view(&caller)?;
        Ok((skills, host))
    });
    let (access, source) = opened.await?;
    Ok(match access {
        RegistryAccess::Remote(skills) => LongRegistry { skills, host: None, source },
        RegistryAccess::Local((skills, host)) => LongRegistry { skills, host: Some(host), source },
    })
}

/// Location of a registry in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RegistrySource {
    /// A bus at a URL that the user gave.
    Bus(String),
    /// The bus at the default address, in place of a data directory.
    DefaultBus { trust: ServerTrust, data_dir: PathBuf },
    /// The store of a directory, through the process that has it open.
    Served(PathBuf),
    /// The store of a directory, in this process.
    Opened(PathBuf),
    /// A database, in this process.
    Database(String),
}

impl fmt::Display for RegistrySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bus(url) => write!(f, "the bus at {}", without_query(url)),
            Self::DefaultBus { .. } => write!(f, "the bus at {}", default_url()),
            Self::Served(dir) => {
                write!(f, "{}, through the process that has it open", dir.display())
            }
            Self::Opened(dir) => write!(f, "{}, opened by this process", dir.display()),
            Self::Database(url) => write!(f, "the database {url}"),
        }
    }
}

impl RegistrySource {
    /// Returns a text that is the same for the same registry: the URL of the bus, or the data directory.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Bus(url) => without_query(url).to_owned(),
            Self::DefaultBus { .. } => default_url(),
            Self::Database(url) => url.clone(),
            Self::Served(dir) | Self::Opened(dir) => {
                let dir = dir.canonicalize().unwrap_or_else(|_| dir.clone());
                dir.to_string_lossy().into_owned()
            }
        }
    }

    /// Prints which registry is used, if the user wants to know or may expect another.
    pub(crate) fn print(&self, target: &Target) {
        let sentence = match self {
            Self::DefaultBus { trust: ServerTrust::Owner, data_dir } => {
                let dir = data_dir::display(data_dir);
                format!("{self}, because the data directory {dir} has no store")
            }
            _ if target.verbose => self.to_string(),
            _ => return,
        };
        output::notice("registry", &output::plain(&sentence));
    }
}

/// Registry of a target: behind a bus, or in this process.
enum RegistryAccess<T> {
    Remote(Arc<dyn SkillRegistry>),
    Local(T),
}

/// Finds the registry of a target and prints which it is, see [`find`].
async fn locate<T>(
    target: &Target,
    config: &Config,
    create: bool,
    open: impl AsyncFn(&Path) -> Result<T, Failure>,
) -> Result<(RegistryAccess<T>, RegistrySource), Failure> {
    let (access, source) = find(target, config, create, open).await?;
    source.print(target);
    Ok((access, source))
}

/// Returns the first that applies: an explicit bus, the database, the explicit directory, [the default
/// registry](DefaultBus::choose).
async fn find<T>(
    target: &Target,
    config: &Config,
    create: bool,
    open: impl AsyncFn(&Path) -> Result<T, Failure>,
) -> Result<(RegistryAccess<T>, RegistrySource), Failure> {
    let remote = |client| RegistryAccess::Remote(remote_registry(client, target, config));
    if let Some(url) = explicit_bus(target) {
        let client = BusClient::connect(&url, target.token.as_deref(), CONNECT_TIMEOUT).await?;
        return Ok((remote(client), RegistrySource::Bus(url)));
    }
    let dir = data_dir::locate(target)?;
    if let Some(database) = &config.database {
        let opened = RegistryAccess::Local(open(&dir).await?);
        return Ok((opened, RegistrySource::Database(database.to_string())));
    }
    if target.data_dir.is_none()
        && let Some((client, source)) = default_bus(target, create).await?
    {
        return Ok((remote(client), source));
    }
    Ok(match registry_socket::access(&dir, async || open(&dir).await).await? {
        StoreAccess::Served(client) => (remote(client), RegistrySource::Served(dir)),
        StoreAccess::Opened(opened) => (RegistryAccess::Local(opened), RegistrySource::Opened(dir)),
    })
}

/// Connects to the bus at the default address if it is the registry of a target without an explicit one.
async fn default_bus(
    target: &Target,
    create: bool,
) -> Result<Option<(BusClient, RegistrySource)>, Failure> {
    let bus = DefaultBus::new(target)?;
    let chosen = if target.is_default_bus_only {
        DefaultRegistry::Bus(bus.connect().await)
    } else {
        bus.choose().await
    };
    match chosen {
        DefaultRegistry::Bus(connected) => {
            let (client, trust) = connected?;
            Ok(Some((client, bus.source(trust))))
        }
        DefaultRegistry::Directory(None) => Ok(None),
        DefaultRegistry::Directory(Some(refusal)) => {
            print_refusal(&refusal);
            if create {
                return Ok(None);
            }
            let dir = data_dir::locate(target)?;
            let message = format!("{} has no store", dir.display());
            Err(Failure::new(Code::NothingToOpen, message).hint(REGISTRY_HINT))
        }
    }
}

/// Prints once that the server at the default address is not used.
pub(crate) fn print_refusal(refusal: &DefaultBusError) {
    static NOTICE: Once = Once::new();
    NOTICE.call_once(|| output::notice("ignored", &refusal.sentence()));
}

/// Returns the URL of an explicit bus, unless a data directory precedes it.
pub(crate) fn explicit_bus(target: &Target) -> Option<String> {
    let is_local = target.data_dir.is_some() || target.store.is_some();
    explicit_url(target).filter(|_| target.url.is_some() || !is_local)
}

fn remote_registry(client: BusClient, target: &Target, config: &Config) -> Arc<dyn SkillRegistry> {
    let remote = RemoteRegistry::new(client, call_timeout(config));
    Arc::new(remote.with_key(target.key.clone()))
}

async fn local_registry(
    target: &Target,
    config: &Config,
    dir: &Path,
    create: bool,
) -> Result<(Arc<Registry>, Caller), Failure> {
    if !create && config.database.is_none() && !data_dir::has_store(dir)? {
        let message = if target.data_dir.is_some() {
            format!("{} has no store", dir.display())
        } else {
            format!("no server answers at {}, and {} has no store", default_url(), dir.display())
        };
        return Err(Failure::new(Code::NothingToOpen, message).hint(REGISTRY_HINT));
    }
    let store = open_store(dir, config).await?;
    let (caller, keys) =
        authentication::caller(&VaultLocation::new(dir, config), target.key.as_deref())?;
    let keys = keys.map(|keys| Arc::new(KeyWatch::new(Arc::new(keys))) as Arc<dyn KeyDirectory>);
    let registry = open_registry(store, None, RegistryConfig { keys, ..config.registry() }).await?;
    Ok((registry, caller))
}
