//! What is printed of an import: a line for each bundle that changed, findings, and a summary.

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use skills_core::{
    uri::SCHEME,
    validate::{Finding, Level},
};

use super::import::{Outcome, Registered, Row};
use crate::{
    Failure,
    output::{self, path as shown},
};

#[derive(Default)]
struct Summary {
    added: usize,
    changed: usize,
    unchanged: usize,
    failed: usize,
}

impl Summary {
    fn of(rows: &[Row]) -> Self {
        let mut summary = Self::default();
        for row in rows {
            *match row.outcome {
                Outcome::Added(_) => &mut summary.added,
                Outcome::Changed(_) => &mut summary.changed,
                Outcome::Unchanged(_) => &mut summary.unchanged,
                Outcome::Failed(_) => &mut summary.failed,
            } += 1;
        }
        summary
    }
}

/// Prints everything, and returns why the whole is a failure, if it is.
pub(super) fn all(
    rows: Vec<Row>,
    dry_run: bool,
    json: bool,
    lost: Option<Failure>,
) -> Result<(), Failure> {
    if rows.is_empty() {
        return lost.map_or(Ok(()), Err);
    }
    let Summary { added, changed, unchanged, failed } = Summary::of(&rows);
    let total = rows.len();
    if total == 1 && failed == 1 {
        let row = rows.into_iter().next();
        return row.map_or(Ok(()), |row| {
            if !json {
                warnings(&row);
            }
            refusal(row.outcome)
        });
    }
    if json {
        let mut answer = json!({
            "skills": rows.iter().map(to_json).collect::<Vec<_>>(),
            "summary": {
                "added": added, "changed": changed, "unchanged": unchanged, "failed": failed,
            },
        });
        if dry_run {
            answer["dry_run"] = json!(true);
        }
        output::json(&answer)?;
    } else {
        for row in &rows {
            text(row, dry_run, total == 1)?;
        }
        if total > 1 {
            let note = if dry_run { " (nothing was written)" } else { "" };
            output::line(&format!(
                "added {added}, changed {changed}, unchanged {unchanged}, failed {failed}{note}"
            ))?;
        }
    }
    match (lost, failed) {
        (Some(failure), _) => Err(failure),
        (None, 0) => Ok(()),
        (None, failed) => {
            let total = output::counted(total, "skill");
            Err(Failure::new("not_all_added", format!("{failed} of {total} could not be added")))
        }
    }
}

fn refusal(outcome: Outcome) -> Result<(), Failure> {
    match outcome {
        Outcome::Failed(failure) => Err(failure),
        _ => Ok(()),
    }
}

/// Prints a row for people: warnings and refusals on stderr, what was done on stdout.
pub(super) fn text(row: &Row, dry_run: bool, is_only: bool) -> Result<(), Failure> {
    warnings(row);
    let verb = if dry_run { "would register" } else { "registered" };
    match &row.outcome {
        Outcome::Added(registered) | Outcome::Changed(registered) => {
            Ok(output::line(&format!("{verb} {} ({})", uri(row), extent(registered)))?)
        }
        Outcome::Unchanged(_) if is_only => Ok(output::line(&format!("unchanged {}", uri(row)))?),
        Outcome::Unchanged(_) => Ok(()),
        Outcome::Failed(failure) => {
            failure.print(false);
            Ok(())
        }
    }
}

fn uri(row: &Row) -> String {
    row.id.as_ref().map(|id| format!("{SCHEME}{id}")).unwrap_or_default()
}

/// `24 B`, or `3 files, 24 B`.
fn extent(registered: &Registered) -> String {
    let size = output::size(registered.bytes);
    match registered.files {
        1 => size,
        files => format!("{files} files, {size}"),
    }
}

/// What was found and does not stand in the way.
fn warnings(row: &Row) {
    let document = shown(&row.document);
    let yellow = Style::new().bold().fg_color(Some(AnsiColor::Yellow.into()));
    for finding in row.findings.iter().filter(|finding| finding.level == Level::Warning) {
        let Finding { code, line, column, message, .. } = finding;
        let message = output::plain(message);
        anstream::eprintln!(
            "{yellow}warning[{code}]:{yellow:#} {document}:{line}:{column}: {message}"
        );
    }
}

/// A row for machines.
pub(super) fn to_json(row: &Row) -> Value {
    let mut shown = json!({ "path": row.place.to_string_lossy() });
    if let Some(id) = &row.id {
        shown["id"] = json!(id.as_str());
    }
    let (status, registered) = match &row.outcome {
        Outcome::Added(registered) => ("added", Some(registered)),
        Outcome::Changed(registered) => ("changed", Some(registered)),
        Outcome::Unchanged(registered) => ("unchanged", Some(registered)),
        Outcome::Failed(failure) => {
            shown["error"] = failure.to_json();
            ("failed", None)
        }
    };
    shown["status"] = json!(status);
    if let Some(registered) = registered {
        shown["files"] = json!(registered.files);
        shown["bytes"] = json!(registered.bytes);
        if let Some(moment) = &registered.registered_at {
            shown["registered_at"] = json!(moment);
        }
    }
    if !row.findings.is_empty() {
        shown["findings"] = json!(row.findings);
    }
    shown
}
