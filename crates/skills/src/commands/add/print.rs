//! Output of `add`: a line for each changed bundle, findings, and a summary.

use std::fmt;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use skills_agent_skills::validate::{Finding, FindingLevel};
use skills_core::{Code, uri::SCHEME};
use skills_registry::Published;

use super::row::{Outcome, Registered, Row};
use crate::{
    Failure,
    output::{self, path as display},
};

#[derive(Default)]
struct Summary {
    added: usize,
    changed: usize,
    unchanged: usize,
    replaced: usize,
    skipped: usize,
    duplicates: usize,
    failed: usize,
}

impl Summary {
    fn new(rows: &[Row]) -> Self {
        let mut summary = Self::default();
        for row in rows {
            *match row.outcome {
                Outcome::Added(_) => &mut summary.added,
                Outcome::Changed(_) => &mut summary.changed,
                Outcome::Unchanged(_) => &mut summary.unchanged,
                Outcome::Replaced(..) => &mut summary.replaced,
                Outcome::Skipped(_) => &mut summary.skipped,
                Outcome::Duplicate(_) => &mut summary.duplicates,
                Outcome::Failed(_) => &mut summary.failed,
            } += 1;
        }
        summary
    }

    fn to_json(&self) -> Value {
        let Self { added, changed, unchanged, replaced, skipped, duplicates, failed } = self;
        json!({
            "added": added, "changed": changed, "unchanged": unchanged, "replaced": replaced,
            "skipped": skipped, "duplicates": duplicates, "failed": failed,
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { added, changed, unchanged, failed, .. } = self;
        write!(f, "added {added}, changed {changed}, unchanged {unchanged}")?;
        let rare = [
            ("replaced", self.replaced),
            ("skipped", self.skipped),
            ("duplicates", self.duplicates),
        ];
        for (label, count) in rare.into_iter().filter(|(_, count)| *count > 0) {
            write!(f, ", {label} {count}")?;
        }
        write!(f, ", failed {failed}")
    }
}

/// Prints the results and returns an error if the import as a whole failed.
pub(super) fn print_report(
    rows: Vec<Row>,
    dry_run: bool,
    json: bool,
    aborted: Option<Failure>,
) -> Result<(), Failure> {
    if rows.is_empty() {
        return aborted.map_or(Ok(()), Err);
    }
    let summary = Summary::new(&rows);
    let (total, failed) = (rows.len(), summary.failed);
    if total == 1 && failed == 1 {
        return rows.into_iter().next().map_or(Ok(()), |row| {
            if !json {
                print_warnings(&row);
            }
            match row.outcome {
                Outcome::Failed(failure) => Err(failure),
                _ => Ok(()),
            }
        });
    }
    if json {
        let mut answer = json!({
            "skills": rows.iter().map(to_json).collect::<Vec<_>>(),
            "summary": summary.to_json(),
        });
        if dry_run {
            answer["dry_run"] = json!(true);
        }
        output::json(&answer)?;
    } else {
        for row in &rows {
            print_row(row, dry_run, total == 1)?;
        }
        if total > 1 {
            let note = if dry_run { " (nothing was written)" } else { "" };
            output::line(&format!("{summary}{note}"))?;
        }
    }
    match (aborted, failed) {
        (Some(failure), _) => Err(failure),
        (None, 0) => Ok(()),
        (None, failed) => {
            let total = output::counted(total, "skill");
            Err(Failure::new(Code::NotAllAdded, format!("{failed} of {total} could not be added")))
        }
    }
}

/// Prints a result as text: warnings and errors on stderr, changes on stdout. A dry run prints every result.
pub(super) fn print_row(row: &Row, dry_run: bool, is_only: bool) -> Result<(), Failure> {
    print_warnings(row);
    let is_verbose = dry_run || is_only;
    let uri = uri(row);
    let verb = |now: &'static str, planned: &'static str| if dry_run { planned } else { now };
    let line = match &row.outcome {
        Outcome::Added(registered) => {
            format!("{} {uri} ({})", verb("registered", "new"), size_label(registered))
        }
        Outcome::Changed(registered) => {
            let (verb, size) = (verb("registered", "changed"), size_label(registered));
            format!("{verb} {uri} ({size}){}", served_note(registered))
        }
        Outcome::Replaced(registered, other) => {
            let (verb, other) = (verb("replaced", "replaces"), output::plain(other));
            let (size, note) = (size_label(registered), served_note(registered));
            format!("{verb} {uri} ({size}), which came from {other}{note}")
        }
        Outcome::Skipped(reason) => format!("skipped {uri}: {}", output::plain(reason)),
        Outcome::Unchanged(registered) if is_verbose => {
            format!("unchanged {uri}{}", served_note(registered))
        }
        Outcome::Duplicate(place) if is_verbose => {
            format!("duplicate {uri}: {} is a copy of {}", display(&row.place), display(place))
        }
        Outcome::Unchanged(_) | Outcome::Duplicate(_) => return Ok(()),
        Outcome::Failed(failure) => {
            if dry_run {
                let place = if uri.is_empty() { display(&row.place) } else { uri };
                output::line(&format!("refused {place}"))?;
            }
            failure.print(false);
            return Ok(());
        }
    };
    Ok(output::line(&line)?)
}

fn uri(row: &Row) -> String {
    row.id.as_ref().map(|id| format!("{SCHEME}{id}")).unwrap_or_default()
}

/// Says which version is served, unless it is the registered one.
fn served_note(registered: &Registered) -> String {
    match registered.published {
        Some(Published { version: Some(version), served: Some(served), .. })
            if version != served =>
        {
            format!(" as version {version}; version {served} stays served")
        }
        Some(Published { version: Some(version), served: None, .. }) => {
            format!(" as version {version}; no version is served")
        }
        _ => String::new(),
    }
}

/// Formats the size as `24 B` or `3 files, 24 B`.
fn size_label(registered: &Registered) -> String {
    let size = output::size(registered.bytes);
    match registered.files {
        1 => size,
        files => format!("{files} files, {size}"),
    }
}

/// Prints the warnings of the validation, and why the id is not the expected one.
fn print_warnings(row: &Row) {
    if let (Some(name), Some(id)) = (&row.shortened_from, &row.id) {
        let sentence = format!("{name} is too long for an id and becomes {id}");
        output::notice("shortened", &output::plain(&sentence));
    }
    if let (Some(from), Some(id)) = (&row.renamed_from, &row.id) {
        output::notice(
            "renamed",
            &format!("{} becomes {id}, since {from} is taken", display(&row.place)),
        );
    }
    let document = display(&row.document);
    let yellow = Style::new().bold().fg_color(Some(AnsiColor::Yellow.into()));
    for finding in row.findings.iter().filter(|finding| finding.level == FindingLevel::Warning) {
        let Finding { code, line, column, message, .. } = finding;
        let message = output::plain(message);
        let sentence = format!("{document}:{line}:{column}: {message}");
        output::labelled(yellow, &format!("warning[{code}]"), &sentence);
    }
}

/// Converts a result to JSON.
pub(super) fn to_json(row: &Row) -> Value {
    let mut answer = json!({ "path": row.place.to_string_lossy() });
    if let Some(id) = &row.id {
        answer["id"] = json!(id.as_str());
    }
    if let Some(name) = &row.shortened_from {
        answer["shortened_from"] = json!(name);
    }
    if let Some(id) = &row.renamed_from {
        answer["renamed_from"] = json!(id.as_str());
    }
    let status = match &row.outcome {
        Outcome::Added(_) => "added",
        Outcome::Changed(_) => "changed",
        Outcome::Unchanged(_) => "unchanged",
        Outcome::Replaced(_, other) => {
            answer["replaces"] = json!(other);
            "replaced"
        }
        Outcome::Skipped(reason) => {
            answer["reason"] = json!(reason);
            "skipped"
        }
        Outcome::Duplicate(place) => {
            answer["copy_of"] = json!(place.to_string_lossy());
            "duplicate"
        }
        Outcome::Failed(failure) => {
            answer["error"] = failure.to_json();
            "failed"
        }
    };
    answer["status"] = json!(status);
    if let Some(registered) = row.outcome.registered() {
        answer["files"] = json!(registered.files);
        answer["bytes"] = json!(registered.bytes);
        if let Some(Published { registered_at, version, served, .. }) = &registered.published {
            answer["registered_at"] = json!(registered_at);
            for (name, number) in [("version", version), ("served", served)] {
                if let Some(number) = number {
                    answer[name] = json!(number);
                }
            }
        }
    }
    if !row.findings.is_empty() {
        answer["findings"] = json!(row.findings);
    }
    answer
}
