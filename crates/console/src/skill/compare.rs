//! The difference of two versions: what the change allows, fields, and files side by side.

use maud::{Markup, html};
use serde_json::Value;
use skills_core::{
    EntryKind, VersionSelector, WorkKind,
    text::truncate,
    work::{StopFlag, Stopped},
};
use skills_registry::{
    DiffRequest,
    diff::{Allowance, AllowanceKind, FieldChange, FileDiff, FileStatus, VersionDiff},
};

use super::ShownSkill;
use crate::{
    components::user_text,
    diff::{self, ShownLines, render_unified},
    error::ConsoleError,
    rendering::Rendering,
    visit::Visit,
};

const DIFFERENCE: WorkKind = WorkKind::compute("rendering of a difference in the console");
/// Most fields that are shown.
const MAX_FIELDS: usize = 200;
/// Longest value of a field that is shown, in characters.
const MAX_VALUE_CHARS: usize = 1000;
/// Memory of a changed field, with both values.
const FIELD_MEMORY: usize = 64 << 10;
/// Memory of a row besides its text.
const ROW_MEMORY: usize = 1 << 10;
/// Memory of a text for each of its bytes: hidden characters and escaped ones become six bytes or more.
const TEXT_FACTOR: usize = 16;

/// Renders the difference of two versions of a skill.
pub(super) async fn render(
    skill: &ShownSkill,
    from: &VersionSelector,
    to: &VersionSelector,
) -> Result<Markup, ConsoleError> {
    let request = DiffRequest {
        id: skill.row.id.to_string(),
        tier: Some(skill.row.tier),
        from: from.clone(),
        to: to.clone(),
    };
    let diff = skill.skills.diff(EntryKind::Skill, &request).await?;
    let changes = changes(&skill.visit, diff).await?;
    Ok(html! {
        section.comparison aria-label="Difference" {
            h2 { "From version " (user_text(&from.to_string())) " to " (user_text(&to.to_string())) }
            (changes)
        }
    })
}

/// Renders a difference on a blocking thread.
pub(crate) async fn changes(visit: &Visit, diff: VersionDiff) -> Result<Markup, ConsoleError> {
    let rendering = Rendering::start(visit, DIFFERENCE, memory(&diff)).await?;
    rendering.run(move |stop| sections(&diff, stop)).await
}

/// Returns the memory that rendering a difference takes at most.
fn memory(diff: &VersionDiff) -> usize {
    let lines = diff::memory(diff.files.iter().filter_map(|file| file.diff.as_deref()));
    let files = diff.files.iter().map(|file| ROW_MEMORY + file.path.len() * TEXT_FACTOR);
    let allows = diff.allows.iter().map(|it| {
        let path = it.path.as_ref().map_or(0, String::len);
        ROW_MEMORY + (it.value.len() + path) * TEXT_FACTOR
    });
    let fields = diff.frontmatter.len().min(MAX_FIELDS) * FIELD_MEMORY;
    files.chain(allows).sum::<usize>() + fields + lines
}

fn sections(diff: &VersionDiff, stop: &StopFlag) -> Result<Markup, Stopped> {
    let mut shown = ShownLines::default();
    let files = diff.files.iter().map(|file| {
        stop.check()?;
        Ok(file_changes(file, &mut shown))
    });
    let files = files.collect::<Result<Vec<Markup>, Stopped>>()?;
    Ok(html! {
        @if !diff.allows.is_empty() { (allowances(&diff.allows)) }
        @if !diff.frontmatter.is_empty() { (fields(&diff.frontmatter)) }
        @if diff.files.is_empty() { p { "No file is different." } }
        @for file in &files { (file) }
        @if diff.truncated { p.muted { "The difference is too large to be shown whole." } }
    })
}

/// Renders what the later version may do and the earlier one may not.
fn allowances(allows: &[Allowance]) -> Markup {
    html! {
        div.notice.warning {
            p { strong { "This change allows more:" } }
            ul { @for allowance in allows { li {
                (match allowance.kind {
                    AllowanceKind::AllowedTool => "may use the tool ",
                    AllowanceKind::Script => "has the script ",
                    AllowanceKind::Url => "mentions ",
                    AllowanceKind::Endpoint => "calls ",
                })
                code { (user_text(&allowance.value)) }
                @if let Some(path) = &allowance.path { span.muted { " in " (user_text(path)) } }
            } } }
        }
    }
}

fn fields(changes: &[FieldChange]) -> Markup {
    let text = |value: &Option<Value>| {
        let text = match value {
            None => "–".into(),
            Some(Value::String(text)) => truncate(text, MAX_VALUE_CHARS),
            Some(value) => truncate(value.to_string(), MAX_VALUE_CHARS),
        };
        user_text(&text)
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Changed fields" { table {
            thead { tr { th scope="col" { "Field" } th scope="col" { "Before" } th scope="col" { "After" } } }
            tbody { @for change in changes.iter().take(MAX_FIELDS) { tr {
                th scope="row" { (user_text(&truncate(&change.field, MAX_VALUE_CHARS))) }
                td { (text(&change.before)) }
                td { (text(&change.after)) }
            } } }
        } }
        @if changes.len() > MAX_FIELDS { p.muted { "Further fields are not shown." } }
    }
}

fn file_changes(file: &FileDiff, shown: &mut ShownLines) -> Markup {
    let status = match file.status {
        FileStatus::Added => "added",
        FileStatus::Removed => "removed",
        FileStatus::Changed => "changed",
        FileStatus::Renamed => "renamed",
    };
    html! {
        @match &file.diff {
            Some(diff) => (render_unified(diff, &format!("{} ({status})", file.path), shown)),
            None => p { code { (user_text(&file.path)) } " is " (status) @if file.binary { " and not text" } "." },
        }
        @if file.truncated { p.muted { "The rest of this file is not shown." } }
    }
}
