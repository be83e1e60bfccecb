//! `status`: the registry in use, its content, and the processes that are connected to it.

use std::{collections::BTreeMap, fmt, io, path::Path};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use skills_bus::{BusClient, Json};
use skills_core::{Code, Tier};
use skills_registry::SkillRegistry;

use super::sources;
use crate::{
    Failure,
    cli::{OutputFormat, Target},
    config::Config,
    connect::{self, CONNECT_TIMEOUT, RegistrySource},
    console_link, data_dir,
    default_bus::DefaultBus,
    output, registry_socket, server_file,
    sources::SourceState,
};

/// Function in which a server describes itself.
const CAPABILITIES: &str = "skills::capabilities";

/// Process that is connected to the bus of a registry.
#[derive(Debug, Deserialize)]
struct ConnectedWorker {
    name: Option<String>,
    version: Option<String>,
    pid: Option<u64>,
}

/// Problem of the store of a server: reads go on, writes fail.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Degraded {
    reason: String,
    /// Seconds since which changes of other servers may be missing.
    catalog_age: Option<u64>,
}

impl fmt::Display for Degraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "degraded: {}", output::plain(&self.reason))?;
        self.catalog_age.map_or(Ok(()), |age| write!(f, " (catalog {age} s old)"))
    }
}

/// State of the process that serves a registry.
#[derive(Debug, Default)]
struct ServerState {
    version: Option<String>,
    workers: Vec<ConnectedWorker>,
    degraded: Option<Degraded>,
}

/// Registry in use and its content.
struct Status {
    /// Location, for people.
    location: String,
    registry: Value,
    version: Option<String>,
    /// Addresses of bus and HTTP, if a server runs on the data directory.
    addresses: Option<(String, String)>,
    /// One-time link of the console of that server.
    link: Option<String>,
    skills: usize,
    tiers: BTreeMap<String, usize>,
    prompts: usize,
    workers: Vec<ConnectedWorker>,
    degraded: Option<Degraded>,
    /// Configured sources whose last import failed, with the error; or the reason why their states are unknown.
    failed_sources: Result<Vec<(String, String)>, String>,
}

pub(super) async fn run(
    target: &Target,
    config: &Config,
    format: OutputFormat,
) -> Result<(), Failure> {
    let mut status = match connect::open_with_source(target, config, false).await {
        Ok((skills, source)) => Status::read(&*skills, &source, target).await?,
        Err(failure) if failure.code == Code::NothingToOpen => {
            Status::without_store(&data_dir::locate(target)?)
        }
        Err(failure) => return Err(failure),
    };
    if !config.sources.is_empty() {
        // The registry may answer over its bus while the database with the states cannot be reached from here.
        let states = sources::states(target, config).await;
        status.failed_sources = states.map(failed_sources).map_err(|failure| failure.message);
    }
    Ok(if format.json { output::json(&status.to_json()) } else { status.print() }?)
}

impl Status {
    async fn read(
        skills: &dyn SkillRegistry,
        source: &RegistrySource,
        target: &Target,
    ) -> Result<Self, Failure> {
        let mut tiers = BTreeMap::<String, usize>::new();
        for row in skills.all_skills().await? {
            *tiers.entry(row.tier.map_or("live", Tier::as_str).to_owned()).or_default() += 1;
        }
        let server = match connect_to(source, target).await? {
            Some(client) => Some(query(&client).await),
            None => None,
        };
        let server = server.unwrap_or_else(|| ServerState {
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            ..ServerState::default()
        });
        let addresses = match source {
            RegistrySource::Served(dir) => addresses(dir),
            _ => None,
        };
        Ok(Self {
            location: source.to_string(),
            registry: registry_json(source),
            version: server.version,
            addresses,
            link: match source {
                RegistrySource::Served(dir) => console_link::read(dir),
                RegistrySource::Database(_) => {
                    data_dir::locate(target).ok().and_then(|dir| console_link::read(&dir))
                }
                RegistrySource::Bus(_)
                | RegistrySource::DefaultBus { .. }
                | RegistrySource::Opened(_) => None,
            },
            skills: skills.catalog().await?.skills().len(),
            tiers,
            prompts: skills.prompts().await?.len(),
            workers: server.workers,
            degraded: server.degraded,
            failed_sources: Ok(vec![]),
        })
    }

    /// Returns the status of a data directory in which nothing was stored yet.
    fn without_store(dir: &Path) -> Self {
        Self {
            location: format!("{}, nothing is stored yet", dir.display()),
            registry: json!({ "data_dir": dir, "opened_by": null }),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            addresses: None,
            link: None,
            skills: 0,
            tiers: BTreeMap::new(),
            prompts: 0,
            workers: vec![],
            degraded: None,
            failed_sources: Ok(vec![]),
        }
    }

    fn to_json(&self) -> Value {
        let worker = |worker: &ConnectedWorker| json!({ "name": worker.name, "version": worker.version, "pid": worker.pid });
        let addresses = self.addresses.as_ref();
        let failed = self.failed_sources.as_ref().ok().map(|failed| {
            let source = |(name, error): &(String, String)| json!({ "name": name, "error": error });
            failed.iter().map(source).collect::<Vec<Value>>()
        });
        json!({
            "registry": self.registry,
            "version": self.version,
            "addresses": addresses.map(|(bus, http)| json!({ "bus": bus, "http": http })),
            "skills": self.skills,
            "tiers": self.tiers,
            "prompts": self.prompts,
            "connected": self.workers.iter().map(worker).collect::<Vec<Value>>(),
            "healthy": self.degraded.is_none(),
            "degraded": self.degraded,
            "failed_sources": failed,
            "sources_error": self.failed_sources.as_ref().err(),
        })
    }

    fn print(&self) -> io::Result<()> {
        let version = self.version.clone().unwrap_or_else(|| "unknown".to_owned());
        let mut fields = vec![("registry", self.location.clone()), ("version", version)];
        if let Some((bus, http)) = &self.addresses {
            fields.push(("addresses", format!("{bus}, {http}")));
        }
        // A credential: not in `--json`, which programs keep.
        if let Some(link) = &self.link {
            fields.push(("console", format!("{} (signs in once)", output::plain(link))));
        }
        let tiers = self.tiers.iter().map(|(tier, count)| format!("{count} {tier}"));
        let tiers = tiers.collect::<Vec<_>>().join(", ");
        let skills = self.skills;
        let skills = if skills == 0 { "0".to_owned() } else { format!("{skills} ({tiers})") };
        fields.push(("skills", skills));
        fields.push(("prompts", self.prompts.to_string()));
        fields.push(("connected", join(&self.workers)));
        let health = self.degraded.as_ref().map_or_else(|| "ok".to_owned(), Degraded::to_string);
        fields.push(("health", health));
        output::fields(&fields)?;
        for notice in self.source_notices() {
            output::notice("source", &output::plain(&notice));
        }
        Ok(())
    }

    fn source_notices(&self) -> Vec<String> {
        match &self.failed_sources {
            Ok(failed) => {
                failed.iter().map(|(name, error)| format!("{name} failed: {error}")).collect()
            }
            Err(reason) => vec![format!("the state of the sources is unknown: {reason}")],
        }
    }
}

/// Returns the sources whose last import failed, with the error.
fn failed_sources(states: Vec<SourceState>) -> Vec<(String, String)> {
    states.into_iter().filter_map(|state| Some((state.name, state.error?))).collect()
}

fn registry_json(source: &RegistrySource) -> Value {
    match source {
        RegistrySource::Bus(_) | RegistrySource::DefaultBus { .. } => {
            json!({ "url": source.identity() })
        }
        RegistrySource::Served(dir) => json!({ "data_dir": dir, "opened_by": "another process" }),
        RegistrySource::Opened(dir) => json!({ "data_dir": dir, "opened_by": "this process" }),
        RegistrySource::Database(url) => json!({ "store": url, "opened_by": "this process" }),
    }
}

async fn connect_to(
    source: &RegistrySource,
    target: &Target,
) -> Result<Option<BusClient>, Failure> {
    Ok(match source {
        RegistrySource::Bus(url) => {
            BusClient::connect(url, target.token.as_deref(), CONNECT_TIMEOUT).await.ok()
        }
        RegistrySource::DefaultBus { .. } => {
            DefaultBus::new(target)?.connect().await.ok().map(|(client, _)| client)
        }
        RegistrySource::Served(dir) => registry_socket::connect_client(dir).await?,
        RegistrySource::Opened(_) | RegistrySource::Database(_) => None,
    })
}

/// Answer of a server about itself.
#[derive(Debug, Default, Deserialize)]
struct Capabilities {
    version: Option<String>,
    degraded: Option<Degraded>,
}

/// Calls a function without arguments. `None` if it fails; other registries may not have it.
async fn call<T: DeserializeOwned>(client: &BusClient, function: &str) -> Option<T> {
    let result = client.call(function, Json::from(&json!({})), CONNECT_TIMEOUT).await;
    result.ok()?.parse().ok()
}

/// Asks a server for the problem of its store.
pub(super) async fn query_degraded(client: &BusClient) -> Option<Degraded> {
    call::<Capabilities>(client, CAPABILITIES).await?.degraded
}

/// Asks a server for its version, its health and its workers. Other registries may know none of them.
async fn query(client: &BusClient) -> ServerState {
    let Capabilities { version, degraded } = call(client, CAPABILITIES).await.unwrap_or_default();
    let workers: Option<Value> = call(client, "engine::workers::list").await;
    let workers = workers.and_then(|mut it| serde_json::from_value(it["workers"].take()).ok());
    let mut workers: Vec<ConnectedWorker> = workers.unwrap_or_default();
    // This command is no user of the registry.
    workers.retain(|worker| worker.pid != Some(u64::from(std::process::id())));
    ServerState { version, workers, degraded }
}

fn join(workers: &[ConnectedWorker]) -> String {
    let worker = |worker: &ConnectedWorker| {
        let name = output::plain(worker.name.as_deref().unwrap_or("unnamed"));
        worker.pid.map_or_else(|| name.clone(), |pid| format!("{name} (process {pid})"))
    };
    match workers {
        [] => "none".to_owned(),
        some => some.iter().map(worker).collect::<Vec<_>>().join(", "),
    }
}

/// Returns the addresses of the server that runs on a directory.
fn addresses(dir: &Path) -> Option<(String, String)> {
    let (bus, http) = server_file::addresses(dir)?;
    Some((format!("ws://{bus}"), format!("http://{http}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(failed_sources: Result<Vec<(String, String)>, String>) -> Status {
        Status { failed_sources, ..Status::without_store(Path::new("data")) }
    }

    #[test]
    fn a_server_without_its_database_is_not_healthy() {
        let mut status = status(Ok(vec![]));
        assert_eq!(status.to_json()["healthy"], true);
        let degraded = json!({ "reason": "it is gone", "catalog_age": 12 });
        status.degraded = serde_json::from_value(degraded.clone()).unwrap();
        let json = status.to_json();
        assert_eq!((&json["healthy"], &json["degraded"]), (&json!(false), &degraded));
        let said = status.degraded.unwrap().to_string();
        assert_eq!(said, "degraded: it is gone (catalog 12 s old)");
    }

    #[test]
    fn failed_sources_are_named_with_the_error() {
        let status = status(Ok(vec![("acme".to_owned(), "cannot fetch".to_owned())]));
        let json = status.to_json();
        assert_eq!(json["failed_sources"], json!([{ "name": "acme", "error": "cannot fetch" }]));
        assert_eq!(json["sources_error"], json!(null));
        assert_eq!(status.source_notices(), ["acme failed: cannot fetch"]);
    }

    #[test]
    fn unknown_states_of_sources_are_no_successes() {
        let status = status(Err("cannot connect".to_owned()));
        let json = status.to_json();
        assert_eq!(json["failed_sources"], json!(null));
        assert_eq!(json["sources_error"], json!("cannot connect"));
        let notices = status.source_notices();
        assert_eq!(notices, ["the state of the sources is unknown: cannot connect"]);
    }
}
