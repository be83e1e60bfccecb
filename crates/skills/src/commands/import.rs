//! `import`: moves content between an engine's state and the embedded store.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use skills_bus::{
    Bus,
    engine::{Connection, EngineBus, EngineConfig},
};
use skills_core::Tier;
use skills_registry::{Registry, RegistryConfig, SkillRow, StateStore, bundles::read_bundle};

use crate::{
    Failure, attach,
    cli::{Import, Target},
    config::Config,
    connect::{self, DEFAULT_DATA_DIR},
    output,
    serve::open_registry,
};

/// How long the engine may take to answer at first.
const CONNECT: Duration = Duration::from_secs(10);
/// Who is named in the log.
const ACTOR: &str = "import";

#[derive(Default)]
struct Count {
    written: usize,
    unchanged: usize,
}

pub(super) async fn run(import: Import, target: &Target, config: &Config) -> Result<(), Failure> {
    let engine = EngineBus::connect(EngineConfig {
        url: connect::url(target),
        name: format!("skills-import-{}", std::process::id()),
        token: target.token.clone(),
        ..EngineConfig::default()
    })
    .map_err(|error| Failure::new("bad_url", error.to_string()))?;
    let moved = move_content(&engine, &import, target, config).await;
    engine.shutdown().await;
    let Count { written, unchanged } = moved?;
    if import.format.json {
        return Ok(output::json(&json!({ "written": written, "unchanged": unchanged }))?);
    }
    Ok(output::line(&format!("{written} written, {unchanged} unchanged"))?)
}

async fn move_content(
    engine: &EngineBus,
    import: &Import,
    target: &Target,
    config: &Config,
) -> Result<Count, Failure> {
    let bus: Arc<dyn Bus> = Arc::new(engine.clone());
    connected(engine).await?;
    let state = open_state(&bus, config).await?;
    let data_dir = target.data_dir.clone().unwrap_or_else(|| DEFAULT_DATA_DIR.into());
    let embedded = open_registry(&data_dir, None, RegistryConfig::default()).await?;
    if import.from_state { copy(&state, &embedded).await } else { copy(&embedded, &state).await }
}

async fn connected(engine: &EngineBus) -> Result<(), Failure> {
    let mut connection = engine.connection();
    let arrived = connection.wait_for(|connection| {
        matches!(connection, Connection::Connected { .. } | Connection::Rejected { .. })
    });
    let arrived =
        tokio::time::timeout(CONNECT, arrived).await.map(|found| found.map(|c| c.clone()));
    match arrived {
        Ok(Ok(Connection::Connected { .. })) => Ok(()),
        Ok(Ok(Connection::Rejected { reason })) => Err(Failure::new("rejected", reason)),
        _ => Err(Failure::new("unreachable", "the engine does not answer")
            .hint("check --url, and the token if it wants one")),
    }
}

async fn open_state(bus: &Arc<dyn Bus>, config: &Config) -> Result<Arc<Registry>, Failure> {
    let timeout = config.handler_timeout();
    let place = StateStore::find(bus, timeout)
        .await
        .map_err(|error| Failure::new(error.code(), error.to_string()))?
        .ok_or_else(|| Failure::new("no_state", "the engine has no state worker"))?;
    let store = attach::state_store(bus, place, config);
    let open = move || Registry::open(Arc::new(store), None, RegistryConfig::default());
    let opened = tokio::task::spawn_blocking(open)
        .await
        .map_err(|error| Failure::new("internal", error.to_string()))?;
    Ok(opened?)
}

/// Registers everything of one registry in another that is not there already.
async fn copy(from: &Registry, to: &Registry) -> Result<Count, Failure> {
    let mut count = Count::default();
    let (source, present) = (from.catalog(), to.catalog());
    let official = |row: &&Arc<SkillRow>| row.tier == Tier::Official;
    for row in source.layered_after(None).filter(official) {
        let there = present.held_skill(Tier::Official, &row.id);
        if there.is_some_and(|there| there.meta.digest() == row.meta.digest()) {
            count.unchanged += 1;
            continue;
        }
        to.register_bundle(ACTOR, &row.id, read_bundle(from, &row.id).await?).await?;
        count.written += 1;
    }
    for row in source.prompts() {
        if row.tier != Tier::Official {
            continue;
        }
        let there = present.prompt(&row.name).filter(|there| there.name == row.name);
        if there.is_some_and(|there| there.definition == row.definition) {
            count.unchanged += 1;
            continue;
        }
        to.register_prompt(ACTOR, &row.name, row.definition.clone()).await?;
        count.written += 1;
    }
    Ok(count)
}
