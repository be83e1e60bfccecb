//! What is printed of a sync: a line for each skill that changed or was left alone, and a summary.

use std::{collections::HashSet, path::PathBuf};

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use skills_bundles::sync::Outcome;

use super::{
    keep::{Kept, Row},
    names::LeftOut,
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
    fn of(rows: &[Row]) -> Self {
        let mut summary = Self::default();
        for row in rows {
            *match row.outcome {
                Ok(Outcome::Written(_)) => &mut summary.written,
                Ok(Outcome::Updated) => &mut summary.updated,
                Ok(Outcome::Unchanged) => &mut summary.unchanged,
                Ok(Outcome::Removed) => &mut summary.removed,
                Ok(Outcome::Kept(_)) => &mut summary.kept,
                Err(_) => &mut summary.failed,
            } += 1;
        }
        summary
    }
}

/// Prints everything, and returns why the whole is a failure, if it is.
pub(super) fn all(kept: &Kept, dry_run: bool, json: bool) -> Result<(), Failure> {
    let Summary { written, updated, unchanged, removed, kept: left_alone, failed } =
        Summary::of(&kept.rows);
    if json {
        let mut answer = json!({
            "skills": kept.rows.iter().map(to_json).collect::<Vec<_>>(),
            "left_out": kept.left_out.iter().map(left_out).collect::<Vec<_>>(),
            "summary": {
                "written": written, "updated": updated, "unchanged": unchanged,
                "removed": removed, "kept": left_alone, "failed": failed,
            },
        });
        if dry_run {
            answer["dry_run"] = json!(true);
        }
        output::json(&answer)?;
    } else {
        kept.left_out.iter().for_each(warning);
        kept.rows.iter().try_for_each(|row| text(row, dry_run))?;
        let note = if dry_run { " (nothing was written)" } else { "" };
        output::line(&format!(
            "written {written}, updated {updated}, unchanged {unchanged}, removed {removed}, \
             kept {left_alone}, failed {failed}{note}"
        ))?;
    }
    match (left_alone, failed) {
        (0, 0) => Ok(()),
        (kept, 0) => {
            let message =
                format!("{} left alone: not everything is in step", counted(kept, "skill"));
            Err(Failure::new("kept", message)
                .hint("add your changes to the registry, or give them up with --force"))
        }
        (_, failed) => {
            let message = format!("{} could not be dealt with", counted(failed, "skill"));
            Err(Failure::new("not_all_synced", message))
        }
    }
}

/// Prints what was not said the last time, and returns what is known to have been said now.
pub(super) fn news(
    kept: &Kept,
    said: &HashSet<String>,
    json: bool,
) -> Result<HashSet<String>, Failure> {
    let mut lasting = HashSet::new();
    for row in kept.rows.iter().filter(|row| row.outcome != Ok(Outcome::Unchanged)) {
        let line = to_json(row).to_string();
        let lasts = matches!(row.outcome, Ok(Outcome::Kept(_)) | Err(_));
        if !(lasts && said.contains(&line)) {
            match json {
                true => output::line(&line)?,
                false => text(row, false)?,
            }
        }
        if lasts {
            lasting.insert(line);
        }
    }
    for left in &kept.left_out {
        let line = left_out(left).to_string();
        if !said.contains(&line) {
            match json {
                true => output::line(&line)?,
                false => warning(left),
            }
        }
        lasting.insert(line);
    }
    Ok(lasting)
}

/// The first look is done.
pub(super) fn ready(folders: &[PathBuf], json: bool) -> Result<(), Failure> {
    let folders: Vec<String> = folders.iter().map(|folder| path(folder)).collect();
    if json {
        let line = json!({ "status": "watching", "folders": folders });
        return Ok(output::line(&line.to_string())?);
    }
    anstream::eprintln!("watching the registry for {}", folders.join(", "));
    Ok(())
}

fn text(row: &Row, dry_run: bool) -> Result<(), Failure> {
    let place = path(&row.folder.join(&row.name));
    let would = if dry_run { "would have " } else { "" };
    let line = match &row.outcome {
        Ok(Outcome::Written(files)) => {
            format!("{would}written {place} ({})", counted(*files, "file"))
        }
        Ok(Outcome::Updated) => format!("{would}updated {place}"),
        Ok(Outcome::Removed) => format!("{would}removed {place}"),
        Ok(Outcome::Unchanged) => return Ok(()),
        Ok(Outcome::Kept(kept)) => {
            say("kept", &plain(&kept.to_string()));
            return Ok(());
        }
        Err(failure) => {
            let Failure { code, message, hint } = failure;
            let message = format!("{place}: {message}");
            Failure { code: code.clone(), message, hint: hint.clone() }.print(false);
            return Ok(());
        }
    };
    Ok(output::line(&line)?)
}

fn warning(left: &LeftOut) {
    say("left out", &format!("{}: {}", left.id, left.reason));
}

/// On stderr, as what is not in step.
fn say(what: &str, sentence: &str) {
    let yellow = Style::new().bold().fg_color(Some(AnsiColor::Yellow.into()));
    anstream::eprintln!("{yellow}{what}:{yellow:#} {sentence}");
}

fn to_json(row: &Row) -> Value {
    let mut shown = json!({ "folder": row.folder.to_string_lossy(), "name": row.name });
    if let Some(id) = &row.id {
        shown["id"] = json!(id);
    }
    shown["status"] = match &row.outcome {
        Ok(Outcome::Written(_)) => json!("written"),
        Ok(Outcome::Updated) => json!("updated"),
        Ok(Outcome::Unchanged) => json!("unchanged"),
        Ok(Outcome::Removed) => json!("removed"),
        Ok(Outcome::Kept(kept)) => {
            shown["reason"] = json!(kept.to_string());
            json!("kept")
        }
        Err(failure) => {
            shown["error"] = failure.to_json();
            json!("failed")
        }
    };
    shown
}

fn left_out(left: &LeftOut) -> Value {
    json!({ "id": left.id, "status": "left_out", "reason": left.reason })
}
