//! Output of `sync`: a line for each changed or kept skill, and a summary.

use std::collections::HashSet;

use serde_json::{Value, json};
use skills_bundles::sync::{FolderLocation, SyncOutcome};
use skills_core::Code;

use super::{
    names::SkippedSkill,
    sync_once::{Row, SyncReport},
};
use crate::{
    Failure,
    output::{self, counted, path, plain},
};

#[derive(Default)]
struct Summary {
    written: usize,
    updated: usize,
    unchanged: usize,
    removed: usize,
    kept: usize,
    failed: usize,
}

impl Summary {
    fn new(rows: &[Row]) -> Self {
        let mut summary = Self::default();
        for row in rows {
            *match row.outcome {
                Ok(SyncOutcome::Written(_)) => &mut summary.written,
                Ok(SyncOutcome::Updated) => &mut summary.updated,
                Ok(SyncOutcome::Unchanged) => &mut summary.unchanged,
                Ok(SyncOutcome::Removed) => &mut summary.removed,
                Ok(SyncOutcome::Skipped(_)) => &mut summary.kept,
                Err(_) => &mut summary.failed,
            } += 1;
        }
        summary
    }
}

/// Prints the report and returns an error if a skill was kept or failed.
pub(in super::super) fn print_report(
    report: &SyncReport,
    dry_run: bool,
    json: bool,
) -> Result<(), Failure> {
    let Summary { written, updated, unchanged, removed, kept, failed } = Summary::new(&report.rows);
    if json {
        let mut answer = json!({
            "skills": report.rows.iter().map(to_json).collect::<Vec<_>>(),
            "left_out": report.skipped.iter().map(skipped_to_json).collect::<Vec<_>>(),
            "summary": {
                "written": written, "updated": updated, "unchanged": unchanged,
                "removed": removed, "kept": kept, "failed": failed,
            },
        });
        if dry_run {
            answer["dry_run"] = json!(true);
        }
        output::json(&answer)?;
    } else {
        report.skipped.iter().for_each(print_skipped);
        report.rows.iter().try_for_each(|row| print_row(row, dry_run))?;
        let note = if dry_run { " (nothing was written)" } else { "" };
        output::line(&format!(
            "written {written}, updated {updated}, unchanged {unchanged}, removed {removed}, \
             kept {kept}, failed {failed}{note}"
        ))?;
    }
    match (kept, failed) {
        (0, 0) => Ok(()),
        (kept, 0) => {
            let message = format!("{} kept: the folders are not in sync", counted(kept, "skill"));
            Err(Failure::new(Code::Kept, message)
                .hint("register your changes with `skills add`, or discard them with --force"))
        }
        (_, failed) => {
            let message = format!("{} could not be synchronized", counted(failed, "skill"));
            Err(Failure::new(Code::NotAllSynced, message))
        }
    }
}

/// Prints what was not printed the last time, and returns the persistent lines.
pub(super) fn print_changes(
    report: &SyncReport,
    printed: &HashSet<String>,
    json: bool,
) -> Result<HashSet<String>, Failure> {
    let mut persistent = HashSet::new();
    for row in report.rows.iter().filter(|row| row.outcome != Ok(SyncOutcome::Unchanged)) {
        let line = to_json(row).to_string();
        let is_persistent = matches!(row.outcome, Ok(SyncOutcome::Skipped(_)) | Err(_));
        if !is_persistent || !printed.contains(&line) {
            if json {
                output::json_line(&line)?;
            } else {
                print_row(row, false)?;
            }
        }
        if is_persistent {
            persistent.insert(line);
        }
    }
    for skipped in &report.skipped {
        let line = skipped_to_json(skipped).to_string();
        if !printed.contains(&line) {
            if json {
                output::json_line(&line)?;
            } else {
                print_skipped(skipped);
            }
        }
        persistent.insert(line);
    }
    Ok(persistent)
}

/// Prints that the first synchronization is done.
pub(super) fn print_ready(folders: &[FolderLocation], json: bool) -> Result<(), Failure> {
    let folders: Vec<String> = folders.iter().map(|folder| path(folder.path())).collect();
    if json {
        let line = json!({ "status": "watching", "folders": folders });
        return Ok(output::json_line(&line.to_string())?);
    }
    output::error_line(&format!("watching the registry for {}", folders.join(", ")));
    Ok(())
}

fn print_row(row: &Row, dry_run: bool) -> Result<(), Failure> {
    let path = path(&row.folder.join(&row.name));
    let would = if dry_run { "would have " } else { "" };
    let line = match &row.outcome {
        Ok(SyncOutcome::Written(files)) => {
            format!("{would}written {path} ({})", counted(*files, "file"))
        }
        Ok(SyncOutcome::Updated) => format!("{would}updated {path}"),
        Ok(SyncOutcome::Removed) => format!("{would}removed {path}"),
        Ok(SyncOutcome::Unchanged) => return Ok(()),
        Ok(SyncOutcome::Skipped(kept)) => {
            output::notice("kept", &plain(&kept.to_string()));
            return Ok(());
        }
        Err(failure) => {
            let message = format!("{path}: {}", failure.message);
            Failure { message, ..failure.clone() }.print(false);
            return Ok(());
        }
    };
    Ok(output::line(&line)?)
}

fn print_skipped(skipped: &SkippedSkill) {
    output::notice("left out", &plain(&format!("{}: {}", skipped.id, skipped.reason)));
}

fn to_json(row: &Row) -> Value {
    let mut answer = json!({ "folder": row.folder.to_string_lossy(), "name": row.name });
    if let Some(id) = &row.id {
        answer["id"] = json!(id);
    }
    answer["status"] = match &row.outcome {
        Ok(SyncOutcome::Written(_)) => json!("written"),
        Ok(SyncOutcome::Updated) => json!("updated"),
        Ok(SyncOutcome::Unchanged) => json!("unchanged"),
        Ok(SyncOutcome::Removed) => json!("removed"),
        Ok(SyncOutcome::Skipped(kept)) => {
            answer["reason"] = json!(kept.to_string());
            json!("kept")
        }
        Err(failure) => {
            answer["error"] = failure.to_json();
            json!("failed")
        }
    };
    answer
}

fn skipped_to_json(skipped: &SkippedSkill) -> Value {
    json!({ "id": skipped.id, "status": "left_out", "reason": skipped.reason })
}
