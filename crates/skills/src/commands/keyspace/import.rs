//! `import FILE`: each line is taken in, moved to where it belongs now, or left out with the reason.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
    sync::Arc,
};

use futures_util::{StreamExt as _, stream};
use skills_core::{
    Layer, SkillId,
    keyspace::{Account, Line, LogicalKey},
    manifest::{self, Format as Written, Mode, Severity},
};
use skills_registry::{Registry, Tool};
use skills_vault::Act;

use super::{
    House,
    lines::{Lines, Raw},
    report::Report,
};
use crate::{
    Failure,
    cli::{Format, Target},
    commands::people,
    config::Config,
    output,
    work::blocking,
};

/// Lines that are taken in together: enough that they share a flush of the disk.
const TOGETHER: usize = 256;
/// And no more than fit in memory, whatever they hold.
const TOGETHER_BYTES: usize = 64 << 20;
/// Longest value of a line that waits for the others.
const MAX_WAITING_BYTES: usize = 64;

pub(in super::super) async fn import(
    file: &Path,
    format: Format,
    target: &Target,
    config: &Config,
) -> Result<(), Failure> {
    let mut lines = Lines::new(opened(file)?);
    let house = super::open(target, config).await?;
    let user = people::user();
    let (mut report, mut waiting) = (Report::default(), Vec::new());
    loop {
        // Read where waiting hurts nobody.
        let (batch, rest) = blocking(move || next_lines(lines)).await??;
        lines = rest;
        if batch.is_empty() {
            break;
        }
        take_in(&house, &user, batch, &mut waiting, &mut report).await?;
    }
    while !waiting.is_empty() {
        let rest = waiting.split_off(waiting.len().min(TOGETHER));
        let batch = std::mem::replace(&mut waiting, rest);
        take_in_people(&house, &user, batch, &mut report).await?;
    }
    report.tell_of_ids(&house.registry);
    report.sort();
    if format.json {
        output::json(&report.to_json())?;
    } else {
        for (line, code, message) in &report.failed {
            Failure::new(code, format!("line {line}: {message}")).print(false);
        }
        report.print()?;
    }
    match report.failed.len() {
        0 => Ok(()),
        failed => {
            let message = format!("{} could not be used", output::counted(failed, "line"));
            Err(Failure::new("not_all_imported", message))
        }
    }
}

type Input = Lines<Box<dyn BufRead + Send>>;

fn opened(file: &Path) -> Result<Box<dyn BufRead + Send>, Failure> {
    if file.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let unreadable = |error: io::Error| {
        Failure::new("unreadable", format!("{}: {error}", output::path(file)))
            .hint("the file has one JSON object a line, as `skills export --kv` prints it")
    };
    Ok(Box::new(BufReader::new(File::open(file).map_err(unreadable)?)))
}

fn next_lines(mut lines: Input) -> io::Result<(Vec<(usize, Raw)>, Input)> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while batch.len() < TOGETHER && bytes < TOGETHER_BYTES {
        let Some((number, raw)) = lines.next()? else { break };
        if let Raw::Text(text) = &raw {
            bytes += text.len();
        }
        batch.push((number, raw));
    }
    Ok((batch, lines))
}

async fn take_in(
    house: &House,
    user: &str,
    batch: Vec<(usize, Raw)>,
    waiting: &mut Vec<(usize, Line)>,
    report: &mut Report,
) -> Result<(), Failure> {
    let (mut skills, mut others) = (Vec::new(), Vec::new());
    for (number, raw) in batch {
        let line = match raw {
            Raw::Bad(reason) => {
                report.failed.push((number, "malformed_line".to_owned(), reason.to_owned()));
                continue;
            }
            Raw::Text(text) => Line::read(number, &text),
        };
        match line {
            Ok(None) => {}
            Ok(Some(Line { key: LogicalKey::Skill { layer, id }, value, .. })) => {
                skills.push((number, layer, id, value));
            }
            Ok(Some(Line {
                key: key @ (LogicalKey::ToolsCache | LogicalKey::ToolsChanged),
                ..
            })) => {
                let reason = "it is derived from the tools that are stored".to_owned();
                report.skipped.push((number, key.to_string(), reason));
            }
            Ok(Some(line)) if has_to_wait(&line) => waiting.push((number, line)),
            Ok(Some(line)) => others.push((number, line)),
            Err(error) => {
                let problem = error.problem.to_string();
                report.failed.push((number, error.code().to_owned(), problem));
            }
        }
    }
    // In order where two lines are of one entry: the last one counts, as it did where they come from.
    let mut writes = Vec::new();
    let mut queued = HashSet::new();
    for (number, layer, id, value) in skills {
        let is_queued = queued.contains(&(layer.clone(), id.clone()));
        match prepared(&house.registry, &layer, &id, value, is_queued) {
            Ok((Prepared::Unchanged, _)) => report.unchanged += 1,
            Ok((write, notes)) => {
                let key = LogicalKey::Skill { layer: layer.clone(), id: id.clone() }.to_string();
                report.notes.extend(notes.into_iter().map(|note| (number, key.clone(), note)));
                writes.push((number, write.queued(&house.registry, user, &layer, &id)));
                queued.insert((layer, id));
            }
            Err((code, message)) => {
                report.failed.push((number, code.to_owned(), format!("{id}: {message}")));
            }
        }
    }
    let written: Vec<_> = stream::iter(writes)
        .map(|(number, write)| async move { (number, write.await) })
        .buffered(TOGETHER)
        .collect()
        .await;
    for (number, written) in written {
        match written {
            Ok(_) => report.imported += 1,
            Err(error) => {
                report.failed.push((number, error.code().to_owned(), error.to_string()));
            }
        }
    }
    take_in_people(house, user, others, report).await
}

/// What names its owner by the hash of a key means nothing before the line that says whose that is, and a dump that
/// is sorted has it first.
fn has_to_wait(line: &Line) -> bool {
    // What is longer is no number, and is said to be none at once.
    matches!(line.key, LogicalKey::Credits(Account::Key(_)))
        && line.value.len() <= MAX_WAITING_BYTES
}

async fn take_in_people(
    house: &House,
    user: &str,
    others: Vec<(usize, Line)>,
    report: &mut Report,
) -> Result<(), Failure> {
    let scope = |(number, line): &(usize, Line)| match &line.key {
        LogicalKey::Secrets { owner, skill } => Some((*number, owner.clone(), skill.clone()?)),
        _ => None,
    };
    report.scoped.extend(others.iter().filter_map(scope));
    let (vault, by) = (Arc::clone(&house.vault), user.to_owned());
    let (numbers, others): (Vec<usize>, Vec<Line>) = others.into_iter().unzip();
    let keys: Vec<String> = others.iter().map(|line| line.key.to_string()).collect();
    let outcomes = blocking(move || {
        let act = Act { by: &by, at: skills_vault::now() };
        vault.import(act, &others)
    });
    for ((number, key), outcome) in numbers.into_iter().zip(keys).zip(outcomes.await??) {
        report.of_vault(number, key, outcome);
    }
    Ok(())
}

/// What is to be written of a line.
enum Prepared {
    Unchanged,
    Tool(Box<Tool>),
    Document(String),
}

impl Prepared {
    fn queued(
        self,
        registry: &Registry,
        user: &str,
        layer: &Layer,
        id: &SkillId,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), skills_registry::RegistryError>> + Send>>
    {
        match self {
            Self::Unchanged => Box::pin(std::future::ready(Ok(()))),
            Self::Tool(tool) => {
                let write = registry.register_tool_in(user, layer, id.as_str(), *tool);
                Box::pin(async move { write.await.map(drop) })
            }
            Self::Document(body) => {
                let write = registry.register_skill_in(user, layer, id.as_str(), body);
                Box::pin(async move { write.await.map(drop) })
            }
        }
    }
}

/// What a value is: a tool, if it is a manifest that says where to call; else a document.
fn prepared(
    registry: &Registry,
    layer: &Layer,
    id: &SkillId,
    value: String,
    is_queued: bool,
) -> Result<(Prepared, Vec<String>), (&'static str, String)> {
    let parsed = manifest::parse(&value, Mode::Lenient, Some(id))
        .map_err(|error| (error.code(), error.to_string()))?;
    let is_markdown = matches!(parsed.format, Written::Markdown);
    if is_markdown && value.trim_start().starts_with('{') {
        // A value that is neither would be guessed at; it would shadow what is good in a tier below.
        let error = parsed.diagnostics.iter().find(|found| found.severity == Severity::Error);
        let what = error.map_or_else(|| "it is not JSON".to_owned(), ToString::to_string);
        return Err(("invalid_manifest", what));
    }
    let catalog = registry.catalog();
    // What is queued will stand there, whatever does now.
    let there = catalog.stored_skill(layer, id.as_str()).filter(|_| !is_queued);
    if is_markdown && parsed.spec.endpoint().is_none() {
        let digest = skills_core::Digest::of(value.as_bytes());
        let is_there =
            there.is_some_and(|row| row.meta.tool.is_none() && row.meta.digest() == digest);
        let prepared = if is_there { Prepared::Unchanged } else { Prepared::Document(value) };
        return Ok((prepared, vec![]));
    }
    let tool = Tool::of_manifest(id, &parsed, value)
        .map_err(|error| ("invalid_manifest", error.to_string()))?;
    let known = there.and_then(|row| row.meta.tool.as_ref());
    if known.is_some_and(|known| known.source == tool.meta.source) {
        return Ok((Prepared::Unchanged, vec![]));
    }
    let worth_saying = |found: &&manifest::Diagnostic| found.severity != Severity::Note;
    let notes = parsed.diagnostics.iter().filter(worth_saying).map(ToString::to_string);
    Ok((Prepared::Tool(Box::new(tool)), notes.collect()))
}
