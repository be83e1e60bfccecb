//! The difference of two versions: what the change allows, fields, and files side by side.

use maud::{Markup, html};
use serde_json::Value;
use skills_core::{EntryKind, VersionSelector};
use skills_registry::{
    DiffRequest,
    diff::{Allowance, AllowanceKind, FieldChange, FileDiff, FileStatus, VersionDiff},
};

use super::ShownSkill;
use crate::{components::user_text, diff::render_unified, error::ConsoleError};

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
    Ok(html! {
        section.comparison aria-label="Difference" {
            h2 { "From version " (user_text(&from.to_string())) " to " (user_text(&to.to_string())) }
            (changes(&diff))
        }
    })
}

/// Renders a difference.
pub(crate) fn changes(diff: &VersionDiff) -> Markup {
    html! {
        @if !diff.allows.is_empty() { (allowances(&diff.allows)) }
        @if !diff.frontmatter.is_empty() { (fields(&diff.frontmatter)) }
        @if diff.files.is_empty() { p { "No file is different." } }
        @for file in &diff.files { (file_changes(file)) }
        @if diff.truncated { p.muted { "The difference is too large to be shown whole." } }
    }
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
    let text = |value: &Option<Value>| match value {
        None => "–".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Changed fields" { table {
            thead { tr { th scope="col" { "Field" } th scope="col" { "Before" } th scope="col" { "After" } } }
            tbody { @for change in changes { tr {
                th scope="row" { (user_text(&change.field)) }
                td { (user_text(&text(&change.before))) }
                td { (user_text(&text(&change.after))) }
            } } }
        } }
    }
}

fn file_changes(file: &FileDiff) -> Markup {
    let status = match file.status {
        FileStatus::Added => "added",
        FileStatus::Removed => "removed",
        FileStatus::Changed => "changed",
        FileStatus::Renamed => "renamed",
    };
    html! {
        @match &file.diff {
            Some(diff) => (render_unified(diff, &format!("{} ({status})", file.path))),
            None => p { code { (user_text(&file.path)) } " is " (status) @if file.binary { " and not text" } "." },
        }
        @if file.truncated { p.muted { "The rest of this file is not shown." } }
    }
}
