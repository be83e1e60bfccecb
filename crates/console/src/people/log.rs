//! The logs, newest first, with a filter: changes of accounts in the vault, changes of skills in the registry.

use axum::response::Response;
use maud::{Markup, html};
use skills_registry::{LogInfo, LogRequest};
use skills_vault::AuditEntry;

use super::{PATH, authorize, vault};
use crate::{
    components::{skill_path, tier, user_text, with_query},
    error::ConsoleError,
    layout::{Page, Section},
    units::ago_text,
    visit::Visit,
};

/// Path of the page.
const LOG_PATH: &str = "/ui/people/log";
/// Entries of a page.
const PAGE_SIZE: usize = 100;
/// Longest filter, in characters.
const MAX_FILTER_CHARS: usize = 100;

/// Log that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LogName {
    #[default]
    Accounts,
    Skills,
}

impl LogName {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Accounts => "",
            Self::Skills => "skills",
        }
    }

    /// Returns what the filter is compared with.
    const fn filtered_fields(self) -> &'static str {
        match self {
            Self::Accounts => "actor, action or subject",
            Self::Skills => "actor",
        }
    }
}

/// Filter and position of a log.
#[derive(Default)]
struct LogQuery {
    log: LogName,
    text: String,
    before: Option<String>,
}

impl LogQuery {
    fn parse(target: &str) -> Self {
        let (_, query) = target.split_once('?').unwrap_or_default();
        let mut parsed = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "q" => parsed.text = value.chars().take(MAX_FILTER_CHARS).collect(),
                "log" if value == LogName::Skills.as_str() => parsed.log = LogName::Skills,
                "before" => parsed.before = Some(value.into_owned()),
                _ => {}
            }
        }
        parsed
    }

    fn path(&self, before: &str) -> String {
        with_query(LOG_PATH, &[("log", self.log.as_str()), ("q", &self.text), ("before", before)])
    }
}

/// Renders a page of a log.
pub(crate) async fn log(visit: Visit) -> Result<Response, ConsoleError> {
    authorize(&visit)?;
    let query = LogQuery::parse(&visit.target);
    let (table, next) = match query.log {
        LogName::Accounts => accounts(&visit, &query).await?,
        LogName::Skills => skills(&visit, &query).await?,
    };
    let logs = [(LogName::Accounts, "Accounts"), (LogName::Skills, "Skills")];
    let body = html! {
        nav.crumbs aria-label="Breadcrumb" { a href=(PATH) { "People" } span aria-hidden="true" { "/" } span { "Log" } }
        h1 { "Log" }
        nav.tabs aria-label="Logs" { @for (log, label) in logs {
            a href=(with_query(LOG_PATH, &[("log", log.as_str())])) aria-current=[(log == query.log).then_some("page")] { (label) }
        } }
        form.inline-form role="search" method="get" action=(LOG_PATH) {
            @if query.log == LogName::Skills { input type="hidden" name="log" value=(query.log.as_str()); }
            label for="q" { "Filter" }
            input #q name="q" value=(query.text) placeholder=(query.log.filtered_fields());
            button type="submit" { "Filter" }
        }
        (table)
        @if let Some(next) = next { nav.pager aria-label="Pages" { a.button href=(query.path(&next)) { "Older" } } }
    };
    Ok(Page::new("Log", Section::People, body).respond(&visit))
}

/// Returns a page of the audit log, and the position of the next one.
async fn accounts(
    visit: &Visit,
    query: &LogQuery,
) -> Result<(Markup, Option<String>), ConsoleError> {
    let before = query.before.as_deref().and_then(|before| before.parse().ok());
    let text = query.text.clone();
    let entries = vault(visit, move |vault| vault.matching_audit(before, &text, PAGE_SIZE)).await?;
    let last = entries.last().filter(|_| entries.len() == PAGE_SIZE);
    let next = last.map(|entry| entry.number.to_string());
    Ok((accounts_table(&entries), next))
}

fn accounts_table(entries: &[AuditEntry]) -> Markup {
    html! {
        @if entries.is_empty() { p { "No entry matches." } }
        @else {
            div.scroll tabindex="0" role="region" aria-label="Entries" { table {
                thead { tr { th scope="col" { "Time" } th scope="col" { "Actor" } th scope="col" { "Action" } th scope="col" { "Subject" } } }
                tbody { @for entry in entries { tr {
                    td { (ago_text(&entry.at)) } td { (user_text(&entry.actor)) } td { code { (user_text(&entry.action)) } } td { (user_text(&entry.subject)) }
                } } }
            } }
        }
    }
}

/// Returns a page of the change log, and the position of the next one.
async fn skills(visit: &Visit, query: &LogQuery) -> Result<(Markup, Option<String>), ConsoleError> {
    let request = LogRequest {
        by: Some(query.text.clone()).filter(|text| !text.is_empty()),
        limit: Some(PAGE_SIZE),
        after: query.before.clone(),
        ..LogRequest::default()
    };
    let page = visit.skills()?.log(&request).await?;
    Ok((skills_table(&page.data), page.next))
}

fn skills_table(entries: &[LogInfo]) -> Markup {
    html! {
        @if entries.is_empty() { p { "No entry matches." } }
        @else {
            div.scroll tabindex="0" role="region" aria-label="Entries" { table {
                thead { tr { th scope="col" { "Time" } th scope="col" { "Actor" } th scope="col" { "Action" } th scope="col" { "Entry" } th scope="col" { "Message" } } }
                tbody { @for entry in entries { tr {
                    td { (ago_text(&entry.at)) }
                    td { (user_text(&entry.by)) }
                    td { code { (user_text(&entry.action)) } }
                    td {
                        (tier(entry.tier)) " "
                        @if entry.action.starts_with("skill.") { a href=(with_query(&skill_path(&entry.id), &[("tier", entry.tier.as_str())])) { (user_text(&entry.id)) } } @else { (user_text(&entry.id)) }
                        @if let Some(version) = entry.version { " " (version) }
                        @if let Some(label) = &entry.label { " " span.badge { (user_text(label)) } }
                    }
                    td { @if let Some(message) = &entry.message { (user_text(message)) } }
                } } }
            } }
        }
    }
}
