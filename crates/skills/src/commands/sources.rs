//! `source`: the sources of the configuration, and the results of their imports.

use std::sync::{Arc, atomic::AtomicBool};

use serde_json::{Value, json};
use skills_core::Code;

use crate::{
    Failure,
    cli::{SourceCommand, Target},
    config::{Config, SourceSettings},
    connect, data_dir,
    fetch::{DEFAULT_HOST, Fetcher, public_url},
    interrupt::interruptible,
    output::{self, plain},
    sources::{self, SourceState, SourceStates},
};

const NO_SOURCES: &str =
    "The configuration has no sources. `skills help sources` shows how to add one.";

pub(super) async fn run(
    command: SourceCommand,
    mut target: Target,
    config: &Config,
) -> Result<(), Failure> {
    if target.url.is_some() {
        let message = "the state of sources is in a data directory";
        return Err(Failure::new(Code::NeedsDataDir, message).hint("name it with --data-dir"));
    }
    // The registry is that of the directory with the state.
    target.data_dir = Some(data_dir::locate(&target)?);
    match command {
        SourceCommand::List { format } => list(config, format.json),
        SourceCommand::Status { format } => status(&target, config, format.json).await,
        SourceCommand::Sync { names, format } => {
            let cancelled = Arc::new(AtomicBool::new(false));
            let host = config.git_host.as_deref().unwrap_or(DEFAULT_HOST);
            let fetcher = Fetcher::new(host, false, format.json, Arc::clone(&cancelled));
            let sync = sync(&names, &target, config, fetcher, format.json);
            interruptible(&cancelled, sync).await
        }
    }
}

fn list(config: &Config, json: bool) -> Result<(), Failure> {
    if json {
        let row = |source: &SourceSettings| {
            json!({
                "name": source.name,
                "from": public_url(&source.from),
                "ref": source.reference,
                "tier": source.tier,
                "interval_seconds": source.interval.as_secs(),
                "label": source.label.as_ref().map(ToString::to_string),
            })
        };
        let sources: Vec<Value> = config.sources.iter().map(row).collect();
        return Ok(output::json(&json!({ "sources": sources }))?);
    }
    if config.sources.is_empty() {
        return Ok(output::line(NO_SOURCES)?);
    }
    let cells = |source: &SourceSettings| {
        let seconds = source.interval.as_secs();
        let (name, tier) = (source.name.clone(), source.tier.to_string());
        vec![name, tier, format!("{seconds}s"), plain(&public_url(&source.from))]
    };
    let rows: Vec<Vec<String>> = config.sources.iter().map(cells).collect();
    Ok(output::table(&["NAME", "TIER", "INTERVAL", "FROM"], &rows)?)
}

/// Returns the place of the states of the sources: the database of the registry, or its data directory.
///
/// # Errors
/// When the database cannot be reached.
async fn open_states(target: &Target, config: &Config) -> Result<SourceStates, Failure> {
    let shared = match &config.database {
        Some(database) => database.open().await?.import_records(),
        None => None,
    };
    Ok(SourceStates::new(data_dir::locate(target)?, shared))
}

/// Returns the state of each source of the configuration.
///
/// # Errors
/// When the database that has them cannot be reached.
pub(super) async fn states(target: &Target, config: &Config) -> Result<Vec<SourceState>, Failure> {
    let known = open_states(target, config).await?.load_all().await?;
    let state = |source: &SourceSettings| {
        let known = known.iter().find(|state| state.name == source.name);
        known.cloned().unwrap_or_else(|| SourceState {
            name: source.name.clone(),
            from: public_url(&source.from),
            tier: source.tier.to_string(),
            ..SourceState::default()
        })
    };
    Ok(config.sources.iter().map(state).collect())
}

async fn status(target: &Target, config: &Config, json: bool) -> Result<(), Failure> {
    let states = states(target, config).await?;
    if json {
        let row = |state: &SourceState| {
            let mut row = json!(state);
            row["status"] = json!(state.status());
            row
        };
        let rows: Vec<Value> = states.iter().map(row).collect();
        return Ok(output::json(&json!({ "sources": rows }))?);
    }
    if states.is_empty() {
        return Ok(output::line(NO_SOURCES)?);
    }
    let cells = |state: &SourceState| {
        let time =
            state.last_success.as_deref().map_or_else(|| "-".to_owned(), output::format_time);
        let note = state.error.clone().unwrap_or_default();
        let (skills, skipped) = (state.skills.len().to_string(), state.skipped.len().to_string());
        vec![state.name.clone(), state.status().to_owned(), time, skills, skipped, plain(&note)]
    };
    let rows: Vec<Vec<String>> = states.iter().map(cells).collect();
    output::table(&["NAME", "STATE", "LAST SUCCESS", "SKILLS", "SKIPPED", "ERROR"], &rows)?;
    for state in &states {
        for (id, reason) in &state.skipped {
            output::notice("skipped", &plain(&format!("{} {id}: {reason}", state.name)));
        }
    }
    Ok(())
}

async fn sync(
    names: &[String],
    target: &Target,
    config: &Config,
    fetcher: Fetcher,
    json: bool,
) -> Result<(), Failure> {
    let is_known = |name: &&String| config.sources.iter().any(|source| source.name == **name);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        let message = format!("the configuration has no source {name}");
        return Err(
            Failure::new(Code::NotFound, message).hint("list them with `skills source list`")
        );
    }
    let is_wanted = |source: &&SourceSettings| names.is_empty() || names.contains(&source.name);
    let states = open_states(target, config).await?;
    let skills = connect::open(target, config, true).await?;
    let (mut rows, mut failure) = (Vec::new(), None);
    for source in config.sources.iter().filter(is_wanted) {
        let imported = match sources::open_state(&states, source).await {
            Ok(mut locked) => sources::import_source(source, &*skills, &fetcher, &mut locked).await,
            Err(failure) => Err(failure),
        };
        match imported {
            Ok(summary) => {
                rows.push(json!({
                    "name": source.name, "added": summary.added, "changed": summary.changed,
                    "unchanged": summary.unchanged, "removed": summary.removed,
                    "skipped": summary.skipped,
                }));
                if !json {
                    output::line(&format!(
                        "{}: added {}, changed {}, unchanged {}, removed {}, skipped {}",
                        source.name,
                        summary.added,
                        summary.changed,
                        summary.unchanged,
                        summary.removed,
                        summary.skipped
                    ))?;
                }
            }
            Err(error) if error.code == Code::Interrupted => return Err(error),
            Err(error) => {
                rows.push(json!({ "name": source.name, "error": error.to_json() }));
                let message = format!("{}: {}", source.name, error.message);
                failure = Some(Failure { message, ..error });
            }
        }
    }
    if json {
        output::json(&json!({ "sources": rows }))?;
    }
    failure.map_or(Ok(()), Err)
}
