//! Output of `diff`: changed frontmatter, what the change allows, then the files with their unified diffs.

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use skills_registry::diff::{
    Allowance, AllowanceKind, DiffFile, DiffSide, FieldChange, FileDiff, FileStatus, VersionDiff,
};

use crate::{Failure, output};

const BOLD: Style = Style::new().bold();
const ADDED: Style = AnsiColor::Green.on_default();
const REMOVED: Style = AnsiColor::Red.on_default();
const HUNK: Style = AnsiColor::Cyan.on_default();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();

pub(super) fn print(id: &str, diff: &VersionDiff) -> Result<(), Failure> {
    let VersionDiff { from, to, frontmatter, files, allows, truncated } = diff;
    output::styled(BOLD, &format!("{} -> {}", side(id, from), side(id, to)))?;
    for (address, yanked) in [(side(id, from), &from.yanked), (side(id, to), &to.yanked)] {
        super::warn_if_yanked(&address, yanked.as_deref());
    }
    if frontmatter.is_empty() && files.is_empty() {
        return Ok(output::line("no difference")?);
    }
    if !frontmatter.is_empty() {
        output::styled(BOLD, "frontmatter")?;
        frontmatter.iter().try_for_each(print_field)?;
    }
    if !allows.is_empty() {
        output::styled(WARNING, "new permissions and addresses")?;
        allows.iter().try_for_each(print_allowance)?;
    }
    files.iter().try_for_each(print_file)?;
    if *truncated {
        output::notice("note", "the difference is too large to be shown in full");
    }
    Ok(())
}

fn side(id: &str, side: &DiffSide) -> String {
    match side.version {
        Some(version) => format!("{id}@{version}"),
        None => "folder".to_owned(),
    }
}

fn print_field(change: &FieldChange) -> Result<(), Failure> {
    let FieldChange { field, before, after } = change;
    if let Some(before) = before {
        output::styled(REMOVED, &format!("- {field}: {}", value(before)))?;
    }
    if let Some(after) = after {
        output::styled(ADDED, &format!("+ {field}: {}", value(after)))?;
    }
    Ok(())
}

/// Returns a value on one line; text without quotes.
fn value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), output::plain)
}

fn print_allowance(Allowance { kind, value, path }: &Allowance) -> Result<(), Failure> {
    let kind = match kind {
        AllowanceKind::AllowedTool => "allowed tool",
        AllowanceKind::Script => "script",
        AllowanceKind::Url => "URL",
        AllowanceKind::Endpoint => "endpoint",
    };
    let place = match path {
        Some(path) if path != value => format!("  ({})", output::plain(path)),
        _ => String::new(),
    };
    Ok(output::styled(WARNING, &format!("! {kind:<12}  {}{place}", output::plain(value)))?)
}

fn print_file(file: &FileDiff) -> Result<(), Failure> {
    let FileDiff { path, status, before, after, diff, binary, truncated } = file;
    let path = output::plain(path);
    let title = match (status, before) {
        (FileStatus::Added, _) => format!("added {path}"),
        (FileStatus::Removed, _) => format!("removed {path}"),
        (FileStatus::Renamed, Some(before)) => {
            format!("renamed {} to {path}", output::plain(&before.path))
        }
        (FileStatus::Changed | FileStatus::Renamed, _) => format!("changed {path}"),
    };
    output::styled(BOLD, &format!("{title} ({})", sizes(before.as_ref(), after.as_ref())))?;
    if let Some(diff) = diff {
        for line in diff.lines() {
            output::styled(line_style(line), line)?;
        }
    } else if *binary {
        for (style, sign, file) in [(REMOVED, '-', before), (ADDED, '+', after)] {
            if let Some(file) = file {
                output::styled(style, &format!("{sign} binary, sha256:{}", file.digest))?;
            }
        }
    }
    if *truncated {
        output::styled(HUNK, "@@ the rest is left out: the difference is too large @@")?;
    }
    Ok(())
}

fn sizes(before: Option<&DiffFile>, after: Option<&DiffFile>) -> String {
    let size = |file: &DiffFile| output::size(file.size);
    match (before.map(size), after.map(size)) {
        (Some(before), Some(after)) if before != after => format!("{before} -> {after}"),
        (before, after) => after.or(before).unwrap_or_default(),
    }
}

fn line_style(line: &str) -> Style {
    match line.as_bytes().first() {
        Some(b'+') => ADDED,
        Some(b'-') => REMOVED,
        Some(b'@') => HUNK,
        _ => Style::new(),
    }
}
