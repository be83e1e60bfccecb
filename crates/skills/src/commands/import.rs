//! `import`: copies content between an engine's state and the embedded store. `import FILE` is in [`super::keyspace`].

use std::{sync::Arc, time::Duration};

use serde_json::json;
use skills_bus::Bus;
use skills_core::{Code, Coded, Layer, Tier};
use skills_engine::{ConnectionState, EngineBus, EngineConfig, StateStore};
use skills_registry::{
    Registry, RegistryConfig, RegistryError, SkillRow,
    bundles::{read_bundle, unwritable_files},
};
use skills_remote::is_unreachable;

use super::keyspace;
use crate::{
    Failure, attach,
    blocking::blocking,
    cli::{ImportArgs, Target},
    composition::{open_registry, open_store},
    config::Config,
    connect, data_dir,
    default_bus::{DefaultBus, DefaultBusError},
    output,
};

/// Longest wait for the first connection to the engine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Actor in the change log.
const ACTOR: &str = "import";

#[derive(Default)]
struct CopyCount {
    written: usize,
    unchanged: usize,
    /// Entries that the destination rejected.
    rejected: Vec<(String, Failure)>,
}

impl CopyCount {
    /// Counts the result of one entry. A rejected entry does not stop the rest; a lost connection does.
    fn add<T>(&mut self, id: &str, written: Result<T, RegistryError>) -> Result<(), Failure> {
        match written {
            Ok(_) => self.written += 1,
            Err(error) if is_unreachable(error.code()) => return Err(error.into()),
            Err(error) => self.rejected.push((id.to_owned(), error.into())),
        }
        Ok(())
    }
}

pub(super) async fn run(args: ImportArgs, target: &Target, config: &Config) -> Result<(), Failure> {
    if let Some(file) = args.file {
        return keyspace::import(&file, args.format, target, config).await;
    }
    connect::require_explicit_engine(target)?;
    if !connect::is_explicit(target)
        && let Err(refusal @ DefaultBusError::OtherUser { .. }) =
            DefaultBus::without_credentials(target)?.dial().await
    {
        return Err(refusal.into());
    }
    let engine = EngineBus::connect(EngineConfig {
        url: connect::url(target),
        name: format!("skills-import-{}", std::process::id()),
        token: target.token.clone(),
        dialer: connect::engine_dialer(target)?,
        ..EngineConfig::default()
    })
    .map_err(|error| Failure::new(Code::BadUrl, error.to_string()))?;
    let copied = copy_content(&engine, &args, target, config).await;
    engine.shutdown().await;
    let CopyCount { written, unchanged, rejected } = copied?;
    if args.format.json {
        let mut answer = json!({ "written": written, "unchanged": unchanged });
        if !rejected.is_empty() {
            let row =
                |(id, failure): &(String, Failure)| json!({ "id": id, "error": failure.to_json() });
            answer["refused"] = rejected.iter().map(row).collect();
        }
        output::json(&answer)?;
    } else {
        for (id, failure) in &rejected {
            Failure::new(failure.code, format!("{id}: {}", failure.message)).print(false);
        }
        output::line(&format!("{written} written, {unchanged} unchanged"))?;
    }
    match rejected.len() {
        0 => Ok(()),
        rejected => {
            let message = format!("{rejected} could not be copied; the rest was copied");
            Err(Failure::new(Code::NotAllCopied, message))
        }
    }
}

async fn copy_content(
    engine: &EngineBus,
    args: &ImportArgs,
    target: &Target,
    config: &Config,
) -> Result<CopyCount, Failure> {
    let bus: Arc<dyn Bus> = Arc::new(engine.clone());
    wait_for_connection(engine).await?;
    let state = open_state(&bus, config).await?;
    let store = open_store(&data_dir::locate(target)?, config).await?;
    let embedded = open_registry(store, None, RegistryConfig::default()).await?;
    if args.from_state { copy(&state, &embedded).await } else { copy(&embedded, &state).await }
}

async fn wait_for_connection(engine: &EngineBus) -> Result<(), Failure> {
    let mut connection = engine.connection();
    let settled = connection.wait_for(|connection| {
        matches!(connection, ConnectionState::Connected { .. } | ConnectionState::Rejected { .. })
    });
    match tokio::time::timeout(CONNECT_TIMEOUT, settled).await.map(|state| state.map(|c| c.clone()))
    {
        Ok(Ok(ConnectionState::Connected { .. })) => Ok(()),
        Ok(Ok(ConnectionState::Rejected { reason })) => Err(Failure::new(Code::Rejected, reason)),
        _ => Err(Failure::new(Code::Unreachable, "the engine does not answer")
            .hint("check --url and --token")),
    }
}

async fn open_state(bus: &Arc<dyn Bus>, config: &Config) -> Result<Arc<Registry>, Failure> {
    let timeout = config.handler_timeout();
    let location = StateStore::locate(bus, timeout)
        .await
        .map_err(|error| Failure::from_coded(&error))?
        .ok_or_else(|| Failure::new(Code::NoState, "the engine has no state worker"))?;
    let scopes = attach::state_scopes(config);
    let runtime = tokio::runtime::Handle::current();
    let store = StateStore::new(Arc::clone(bus), location, scopes, timeout, runtime);
    let open = move || Registry::open(Arc::new(store), None, RegistryConfig::default());
    Ok(blocking(open).await??)
}

/// Copies the official entries of one registry that another does not have or has in another version.
async fn copy(from: &Registry, to: &Registry) -> Result<CopyCount, Failure> {
    let mut count = CopyCount::default();
    let (source, present) = (from.catalog(), to.catalog());
    let official = |row: &&Arc<SkillRow>| row.tier == Tier::Official;
    for row in source.layered_after(None).filter(official) {
        let existing = present.exact_skill(Tier::Official, &row.id);
        if existing.is_some_and(|existing| existing.meta.digest() == row.meta.digest()) {
            count.unchanged += 1;
            continue;
        }
        let bundle = read_bundle(from, &row.id).await?;
        for (_, error) in unwritable_files(&row.meta) {
            tracing::warn!(id = %row.id, %error, "file not copied");
        }
        count.add(&row.id, to.register_bundle(ACTOR, &Layer::Official, &row.id, bundle).await)?;
    }
    for row in source.prompts() {
        if row.tier != Tier::Official {
            continue;
        }
        let existing = present.prompt(&row.name).filter(|existing| existing.name == row.name);
        if existing.is_some_and(|existing| existing.definition == row.definition) {
            count.unchanged += 1;
            continue;
        }
        count.add(
            &row.name,
            to.register_prompt(ACTOR, &Layer::Official, &row.name, row.definition.clone()).await,
        )?;
    }
    Ok(count)
}
