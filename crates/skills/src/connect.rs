//! Which registry a command talks to: a running one if there is one, else the data directory.

use std::{path::Path, sync::Arc, time::Duration};

use skills_bus::{BusClient, ClientError, engine::EngineConfig};
use skills_core::Caller;
use skills_registry::{Registry, RemoteRegistry, Skills};

use crate::{
    Failure,
    cli::{Target, environment},
    config::Config,
    keys,
    people::People,
    serve::open_registry,
};

/// Where a bus is looked for unless one is named.
const DEFAULT_URL: &str = "ws://127.0.0.1:49134";
/// Where the store is unless another directory is named.
pub(crate) const DEFAULT_DATA_DIR: &str = "data";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What a call may take on top of the handler it may lead to.
const CALL_MARGIN: Duration = Duration::from_secs(20);

/// The URL from the environment, by the names that iii gives it.
fn url_from_environment() -> Option<String> {
    ["III_URL", "III_ENGINE_URL"].into_iter().find_map(environment)
}

/// The bus that is meant: by flag, by environment, or by default.
pub(crate) fn url(target: &Target) -> String {
    named_url(target).unwrap_or_else(|| DEFAULT_URL.to_owned())
}

/// The bus that is named, by flag or by environment.
pub(crate) fn named_url(target: &Target) -> Option<String> {
    target.url.clone().or_else(url_from_environment)
}

/// Whether a bus answers where one is looked for unless it is named.
pub(crate) async fn answers_by_default(target: &Target) -> bool {
    BusClient::connect(DEFAULT_URL, target.token.as_deref(), CONNECT_TIMEOUT).await.is_ok()
}

/// The same target, with the bus named if that is what it means now: for those who open it again and again,
/// and must not take a server's store while the server is away.
pub(crate) async fn settled(mut target: Target) -> Target {
    if named_url(&target).is_none()
        && target.data_dir.is_none()
        && answers_by_default(&target).await
    {
        target.url = Some(DEFAULT_URL.to_owned());
    }
    target
}

/// What a call may take, with the handler it may lead to.
pub(crate) fn call_timeout(config: &Config) -> Duration {
    config.handler_timeout() + CALL_MARGIN
}

/// How to be a worker of an engine.
pub(crate) fn engine(
    target: &Target,
    url: String,
    name: String,
    headers: Vec<(String, String)>,
) -> EngineConfig {
    EngineConfig {
        url,
        name,
        namespace: environment("III_NAMESPACE"),
        token: target.token.clone().filter(|token| !token.is_empty()),
        headers,
        description: env!("CARGO_PKG_DESCRIPTION").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..EngineConfig::default()
    }
}

/// Opens the registry that a command means. `create` tells whether an empty store may be made.
pub(crate) async fn open(
    target: &Target,
    config: &Config,
    create: bool,
) -> Result<Arc<dyn Skills>, Failure> {
    let named = named_url(target);
    match (&named, &target.data_dir) {
        (Some(url), None) => Ok(remote(target, config, url).await?),
        (Some(url), Some(_)) if target.url.is_some() => Ok(remote(target, config, url).await?),
        (_, Some(dir)) => local(target, config, dir, create).await,
        (None, None) => match remote(target, config, DEFAULT_URL).await {
            Err(ClientError::Unreachable { .. }) => {
                let dir = Path::new(DEFAULT_DATA_DIR);
                if !create && !dir.join("skills.db").exists() {
                    let message = format!(
                        "no server answers at {DEFAULT_URL}, and there is no store in ./{DEFAULT_DATA_DIR}"
                    );
                    return Err(Failure::new("nothing_to_open", message).hint(
                        "start one with `skills serve`, or name one with --url or --data-dir",
                    ));
                }
                local(target, config, dir, create).await
            }
            connected => Ok(connected?),
        },
    }
}

async fn remote(
    target: &Target,
    config: &Config,
    url: &str,
) -> Result<Arc<dyn Skills>, ClientError> {
    let client = BusClient::connect(url, target.token.as_deref(), CONNECT_TIMEOUT).await?;
    let remote = RemoteRegistry::new(client, call_timeout(config));
    Ok(Arc::new(remote.with_key(target.key.clone())))
}

/// Opens the registry in a directory, as whoever's key is given sees it.
async fn local(
    target: &Target,
    config: &Config,
    dir: &Path,
    create: bool,
) -> Result<Arc<dyn Skills>, Failure> {
    let (registry, caller) = local_registry(target, config, dir, create).await?;
    Ok(registry.view(&caller)?)
}

/// The same, made if it is not there, for a surface that stays and calls tools. Who has it closes what belongs to
/// people.
pub(crate) async fn local_with_tools(
    target: &Target,
    config: &Config,
    dir: &Path,
) -> Result<(Arc<dyn Skills>, People), Failure> {
    let (registry, caller) = local_registry(target, config, dir, true).await?;
    let people = People::open(dir, config).await?;
    registry.execute_with(people.executor());
    Ok((registry.view(&caller)?, people))
}

async fn local_registry(
    target: &Target,
    config: &Config,
    dir: &Path,
    create: bool,
) -> Result<(Arc<Registry>, Caller), Failure> {
    if !create && !dir.join("skills.db").exists() {
        return Err(Failure::new(
            "nothing_to_open",
            format!("there is no store in {}", dir.display()),
        )
        .hint("check --data-dir, or make one with `skills serve` or `skills add`"));
    }
    let (caller, keys) = keys::caller(dir, target.key.as_deref())?;
    let registry = open_registry(dir, None, config.registry()).await?;
    if let Some(keys) = keys {
        registry.identify_with(Arc::new(keys));
    }
    Ok((registry, caller))
}
