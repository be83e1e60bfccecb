//! Facts to judge a skill by: digest, provenance, what it may do, findings of the validator.

use maud::{Markup, html};
use skills_agent_skills::validate::{Finding, FindingLevel};
use skills_core::skill::ROOT_PATH;

use super::{ShownSkill, Tab};
use crate::{
    components::{size, source_text, tier, user_text},
    error::ConsoleError,
    units::{ago, counted},
    validation::validate,
};

/// Renders the facts.
pub(super) async fn render(skill: &ShownSkill) -> Result<Markup, ConsoleError> {
    let row = &skill.row;
    skill.visit.reserve(skill.table_memory())?;
    let (id, paths) = (row.id.to_string(), skill.paths());
    let document = skill.document().await?;
    let report = validate(&skill.visit, Some(id), document, Some(paths)).await?;
    let agent = row.meta.agent.as_deref();
    Ok(html! {
        dl.facts {
            dt { "Digest" } dd { code.digest { "sha256:" (row.meta.digest()) } }
            dt { "Tier" } dd { (tier(row.tier)) }
            dt { "Registered" } dd { (ago(row.registered_at)) }
            dt { "Source" }
            dd {
                @match &row.meta.provenance {
                    Some(source) => {
                        (source_text("", source))
                        @if let Some(commit) = &source.commit { " at commit " code { (user_text(commit)) } }
                    }
                    None => span.muted { "unknown: it was registered without one" },
                }
            }
            @if let Some(license) = agent.and_then(|agent| agent.license.as_deref()) {
                dt { "License" } dd { (user_text(license)) }
            }
            @if let Some(compatibility) = agent.and_then(|agent| agent.compatibility.as_deref()) {
                dt { "Needs" } dd { (user_text(compatibility)) }
            }
            dt { "Allowed tools" }
            dd {
                @match agent.map(|agent| agent.allowed_tools.as_slice()) {
                    Some(tools @ [_, ..]) => ul.inline { @for tool in tools { li { code { (user_text(tool)) } } } },
                    _ => span.muted { "none without asking" },
                }
            }
            dt { "Executable files" }
            dd {
                @let executable: Vec<_> = row.meta.files.iter().filter(|file| file.executable == Some(true)).collect();
                @if executable.is_empty() { span.muted { "none" } }
                @else { ul.inline { @for file in executable { li { code { (user_text(&file.path)) } } } } }
            }
        }
        h2 { "Findings" }
        @if report.findings.is_empty() { p { "The validator of Agent Skills found nothing to say." } }
        @else {
            p { (summary(&report.findings)) }
            ul.findings { @for finding in &report.findings { (render_finding(skill, finding)) } }
        }
        h2 { "Files" }
        div.scroll tabindex="0" role="region" aria-label="Digests of files" {
            table { thead { tr { th scope="col" { "Path" } th.number scope="col" { "Size" } th scope="col" { "SHA-256" } } }
                tbody { @for file in &row.meta.files { tr {
                    td { (user_text(&file.path)) } td.number { (size(file.size)) } td { code.digest { (file.digest) } }
                } } } }
        }
        p { a href=(skill.tab_path(Tab::Files)) { "Look at the files" } }
    })
}

fn summary(findings: &[Finding]) -> String {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    [
        counted(count(FindingLevel::Error), "error"),
        counted(count(FindingLevel::Warning), "warning"),
        format!("{} advice", count(FindingLevel::Advice)),
    ]
    .join(", ")
}

fn render_finding(skill: &ShownSkill, finding: &Finding) -> Markup {
    let path = skill.address(&[("tab", "files"), ("path", ROOT_PATH)]);
    finding_row(finding, LineLink::Page(&path))
}

/// Way from a finding to its line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LineLink<'a> {
    /// Address of the page that shows the document.
    Page(&'a str),
    /// The document is in a field of the same page, where a script selects the line.
    Field,
    /// The document is not shown.
    None,
}

/// Renders a finding.
pub(crate) fn finding_row(finding: &Finding, link: LineLink<'_>) -> Markup {
    html! {
        li.(finding.level.as_str()) {
            span.level { (finding.level.as_str()) }
            @match link {
                LineLink::Page(path) => a href=(format!("{path}#L{}", finding.line)) { "line " (finding.line) },
                LineLink::Field => button.link type="button" data-line=(finding.line) { "line " (finding.line) },
                LineLink::None => span { "line " (finding.line) },
            }
            span.message { (user_text(&finding.message)) }
            @if !finding.hint.is_empty() { span.hint { (user_text(&finding.hint)) } }
            code { (finding.code) }
        }
    }
}
