//! `import FILE`: imports, migrates or skips each line.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
    sync::Arc,
};

use futures_util::future::join_all;
use skills_bundles::open_named_file;
use skills_core::{
    Code, Coded, Digest, Layer, SkillId,
    keyspace::{CreditsAccount, KeyspaceLine, LogicalKey},
};
use skills_manifest::{self as manifest, ManifestFormat, ParseMode, Severity};
use skills_registry::{ManifestSkill, Registry};
use skills_vault::Actor;

use super::{
    DataDir,
    lines::{LineReader, RawLine},
    remote,
    report::Report,
};
use crate::{
    Failure,
    blocking::blocking,
    cli::{OutputFormat, Target},
    commands::accounts,
    config::Config,
    data_dir, output,
    registry_socket::{self, StoreAccess},
};

/// Most lines of a batch: enough to share a flush of the disk.
const BATCH_LINES: usize = 256;
/// Most bytes of a batch.
const BATCH_BYTES: usize = 64 << 20;
/// Longest value of a deferred line.
const MAX_DEFERRED_BYTES: usize = 64;

pub(in super::super) async fn import(
    file: &Path,
    format: OutputFormat,
    target: &Target,
    config: &Config,
) -> Result<(), Failure> {
    let lines = LineReader::new(open_file(file)?);
    let access = match remote::connect_explicit(target).await? {
        Some(client) => StoreAccess::Served(client),
        // The process that serves the directory has another registry.
        None if config.database.is_some() => {
            StoreAccess::Opened(super::open(target, config).await?)
        }
        None => {
            let dir = data_dir::locate(target)?;
            registry_socket::access(&dir, async || super::open(target, config).await).await?
        }
    };
    let mut report = match access {
        StoreAccess::Opened(data_dir) => import_all(&data_dir, lines).await?,
        StoreAccess::Served(client) => remote::import(&client, config, lines).await?,
    };
    report.sort();
    if format.json {
        output::json(&report.to_json())?;
    } else {
        for (line, code, message) in &report.failed {
            Failure::new(Code::from_remote(code), format!("line {line}: {message}")).print(false);
        }
        report.print()?;
    }
    match report.failed.len() {
        0 => Ok(()),
        failed => {
            let message = format!("{} could not be imported", output::counted(failed, "line"));
            Err(Failure::new(Code::NotAllImported, message))
        }
    }
}

/// Imports all lines into a data directory.
async fn import_all(data_dir: &DataDir, mut lines: Input) -> Result<Report, Failure> {
    let user = accounts::user();
    let (mut report, mut deferred) = (Report::default(), Vec::new());
    loop {
        let (batch, reader) = blocking(move || next_batch(lines)).await??;
        lines = reader;
        if batch.is_empty() {
            break;
        }
        import_batch(data_dir, &user, batch, &mut deferred, &mut report).await?;
    }
    finish(data_dir, &user, deferred, &mut report).await?;
    Ok(report)
}

/// Imports lines that another process has read.
pub(super) async fn import_lines(
    data_dir: &DataDir,
    user: &str,
    lines: Vec<(usize, RawLine)>,
) -> Result<Report, Failure> {
    let (mut report, mut deferred) = (Report::default(), Vec::new());
    import_batch(data_dir, user, lines, &mut deferred, &mut report).await?;
    finish(data_dir, user, deferred, &mut report).await?;
    Ok(report)
}

/// Imports the deferred lines.
async fn finish(
    data_dir: &DataDir,
    user: &str,
    mut deferred: Vec<(usize, KeyspaceLine)>,
    report: &mut Report,
) -> Result<(), Failure> {
    while !deferred.is_empty() {
        let rest = deferred.split_off(deferred.len().min(BATCH_LINES));
        let batch = std::mem::replace(&mut deferred, rest);
        import_into_vault(data_dir, user, batch, report).await?;
    }
    report.warn_about_resolved_names(&data_dir.registry);
    Ok(())
}

pub(super) type Input = LineReader<Box<dyn BufRead + Send>>;

fn open_file(file: &Path) -> Result<Box<dyn BufRead + Send>, Failure> {
    if file.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let unreadable = |error: io::Error| {
        Failure::new(Code::Unreadable, format!("cannot read {}: {error}", output::path(file)))
            .hint("give a file written by `skills export --kv`, or - for standard input")
    };
    // A pipe that the process was given has a writer; opening another one would wait for one.
    let is_given = ["/dev/stdin", "/dev/fd", "/proc/self/fd"].iter().any(|it| file.starts_with(it));
    let opened = if is_given { File::open(file) } else { open_named_file(file) };
    Ok(Box::new(BufReader::new(opened.map_err(unreadable)?)))
}

pub(super) fn next_batch(mut lines: Input) -> io::Result<(Vec<(usize, RawLine)>, Input)> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while batch.len() < BATCH_LINES && bytes < BATCH_BYTES {
        let Some((number, raw)) = lines.next()? else { break };
        if let RawLine::Text(text) = &raw {
            bytes += text.len();
        }
        batch.push((number, raw));
    }
    Ok((batch, lines))
}

async fn import_batch(
    data_dir: &DataDir,
    user: &str,
    batch: Vec<(usize, RawLine)>,
    deferred: &mut Vec<(usize, KeyspaceLine)>,
    report: &mut Report,
) -> Result<(), Failure> {
    let (mut skills, mut others) = (Vec::new(), Vec::new());
    for (number, raw) in batch {
        let line = match raw {
            RawLine::Invalid(reason) => {
                report.failed.push((number, Code::MalformedLine.into(), reason.to_owned()));
                continue;
            }
            RawLine::Text(text) => KeyspaceLine::parse(number, &text),
        };
        match line {
            Ok(None) => {}
            Ok(Some(KeyspaceLine { key: LogicalKey::Skill { layer, id }, value, .. })) => {
                skills.push((number, layer, id, value));
            }
            Ok(Some(KeyspaceLine {
                key: key @ (LogicalKey::ToolsCache | LogicalKey::ToolsChanged),
                ..
            })) => {
                let reason = "derived from the stored tools".to_owned();
                report.skipped.push((number, key.to_string(), reason));
            }
            Ok(Some(line)) if is_deferred(&line) => deferred.push((number, line)),
            Ok(Some(line)) => others.push((number, line)),
            Err(error) => {
                let problem = error.problem.to_string();
                report.failed.push((number, error.code().into(), problem));
            }
        }
    }
    // In order: of two lines for one entry the last one counts.
    let mut writes = Vec::new();
    let mut queued = HashSet::new();
    for (number, layer, id, value) in skills {
        let is_queued = queued.contains(&(layer.clone(), id.clone()));
        match prepare(&data_dir.registry, &layer, &id, value, is_queued) {
            Ok(None) => report.unchanged += 1,
            Ok(Some(PreparedSkill { skill, notes })) => {
                let key = LogicalKey::Skill { layer: layer.clone(), id: id.clone() }.to_string();
                report.notes.extend(notes.into_iter().map(|note| (number, key.clone(), note)));
                let write = data_dir.registry.move_skill(user, &layer, id.as_str(), skill, None);
                writes.push((number, write));
                queued.insert((layer, id));
            }
            Err((code, message)) => {
                report.failed.push((number, code.into(), format!("{id}: {message}")));
            }
        }
    }
    // All of them are queued already.
    let writes = writes.into_iter().map(|(number, write)| async move { (number, write.await) });
    let written = join_all(writes).await;
    for (number, written) in written {
        match written {
            Ok(_) => report.imported += 1,
            Err(error) => {
                report.failed.push((number, error.code_text().into_owned(), error.to_string()));
            }
        }
    }
    import_into_vault(data_dir, user, others, report).await
}

/// Returns whether a line is imported last. Credits of a key hash need the line of that key, which comes later in a sorted
/// file.
pub(super) fn is_deferred(line: &KeyspaceLine) -> bool {
    // A longer value is not a number and fails at once.
    matches!(line.key, LogicalKey::Credits(CreditsAccount::Key(_)))
        && line.value.len() <= MAX_DEFERRED_BYTES
}

async fn import_into_vault(
    data_dir: &DataDir,
    user: &str,
    others: Vec<(usize, KeyspaceLine)>,
    report: &mut Report,
) -> Result<(), Failure> {
    let scope = |(number, line): &(usize, KeyspaceLine)| match &line.key {
        LogicalKey::Secrets { owner, skill } => Some((*number, owner.clone(), skill.clone()?)),
        _ => None,
    };
    report.skill_secrets.extend(others.iter().filter_map(scope));
    let (vault, name) = (Arc::clone(&data_dir.vault), user.to_owned());
    let (numbers, others): (Vec<usize>, Vec<KeyspaceLine>) = others.into_iter().unzip();
    let keys: Vec<String> = others.iter().map(|line| line.key.to_string()).collect();
    let outcomes = blocking(move || {
        let actor = Actor { name: &name, at: skills_vault::now() };
        vault.import(actor, &others)
    });
    for ((number, key), outcome) in numbers.into_iter().zip(keys).zip(outcomes.await??) {
        report.add(number, key, outcome);
    }
    Ok(())
}

/// A skill to store, and remarks about its manifest.
struct PreparedSkill {
    skill: ManifestSkill,
    notes: Vec<String>,
}

/// Parses a value: a manifest is a tool, Markdown without an endpoint a document. `None` if it is stored already.
fn prepare(
    registry: &Registry,
    layer: &Layer,
    id: &SkillId,
    value: String,
    is_queued: bool,
) -> Result<Option<PreparedSkill>, (Code, String)> {
    let parsed = manifest::parse(&value, ParseMode::Lenient, Some(id))
        .map_err(|error| (error.code(), error.to_string()))?;
    let is_markdown = matches!(parsed.format, ManifestFormat::Markdown);
    if is_markdown && value.trim_start().starts_with('{') {
        // Broken JSON is rejected: stored as a document it would shadow a valid entry of a lower tier.
        let error = parsed.diagnostics.iter().find(|found| found.severity == Severity::Error);
        let reason = error.map_or_else(|| "not valid JSON".to_owned(), ToString::to_string);
        return Err((Code::InvalidManifest, reason));
    }
    let skill = ManifestSkill::new(id, &parsed, value)
        .map_err(|error| (Code::InvalidManifest, error.to_string()))?;
    let catalog = registry.catalog();
    // A queued write replaces the stored entry.
    let stored = catalog.stored_skill(layer, id.as_str()).filter(|_| !is_queued);
    let is_stored = stored.is_some_and(|row| match (&skill, &row.meta.tool) {
        (ManifestSkill::Tool(tool), Some(stored)) => stored.source == tool.meta.source,
        (ManifestSkill::Document(body), None) => row.meta.digest() == Digest::of(body.as_bytes()),
        _ => false,
    });
    if is_stored {
        return Ok(None);
    }
    let is_warning = |found: &&manifest::Diagnostic| {
        matches!(skill, ManifestSkill::Tool(_)) && found.severity != Severity::Note
    };
    let notes = parsed.diagnostics.iter().filter(is_warning).map(ToString::to_string).collect();
    Ok(Some(PreparedSkill { skill, notes }))
}
