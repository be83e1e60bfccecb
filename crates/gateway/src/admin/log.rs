//! `GET /v1/admin/log`: what was changed, when and by whom: the log of the vault and that of the registry, as one.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_core::Kind;
use skills_store::Change;
use skills_vault::AuditEntry;
use utoipa::ToSchema;

use super::door::Administrator;
use crate::{
    Gateway,
    envelope::{Success, answer},
    error::GatewayError,
    input::Asked,
    skills::{Limit, MAX_CURSOR_BYTES, PageQuery},
};

/// Which of the two logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum LogName {
    /// Keys, profiles, secrets, grants.
    People,
    /// Skills and prompts.
    Content,
}

/// Something that was done.
#[derive(Debug, Serialize, ToSchema)]
struct LogEntry {
    /// When, in RFC 3339.
    at: String,
    /// By whom: the name of an administrator's secret, the id of a key, a worker or a user of the machine.
    actor: String,
    /// What, such as `skill.put` or `key.create`.
    action: String,
    /// To what; never a key or a secret.
    subject: String,
    /// Which of the two logs it is in.
    about: LogName,
    /// Its number there.
    number: u64,
}

impl From<AuditEntry> for LogEntry {
    fn from(AuditEntry { number, at, actor, action, subject }: AuditEntry) -> Self {
        Self { at, actor, action, subject, about: LogName::People, number }
    }
}

impl From<Change> for LogEntry {
    fn from(change: Change) -> Self {
        let what = match change.key.kind {
            Kind::Skill => "skill",
            Kind::Prompt => "prompt",
        };
        let how = if change.content.is_some() { "put" } else { "remove" };
        let (layer, id) = (&change.key.layer, &change.key.id);
        let subject = match layer.owner() {
            "" => format!("{}/{id}", layer.tier()),
            owner => format!("{}/{owner}/{id}", layer.tier()),
        };
        Self {
            at: change.at.to_string(),
            actor: change.actor.to_string(),
            action: format!("{what}.{how}"),
            subject,
            about: LogName::Content,
            number: change.revision,
        }
    }
}

/// A page of the log, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LogPage {
    success: Success,
    data: Vec<LogEntry>,
    /// Where the next page begins, also when nothing is there yet.
    next_cursor: String,
}

/// Read the log
///
/// Everything that was changed, with who did it, oldest first.
#[utoipa::path(
    get,
    path = "/v1/admin/log",
    tag = "administration",
    params(PageQuery),
    responses((status = 200, description = "A page of the log", body = LogPage)),
    security(("admin" = [])),
)]
pub(super) async fn read_log(
    State(gateway): State<Gateway>,
    Administrator(_): Administrator,
    Asked(PageQuery { limit: Limit(limit), cursor }): Asked<PageQuery>,
) -> Result<Response, GatewayError> {
    let (mut people, mut content) = match cursor.as_deref() {
        None => (0, 0),
        Some(cursor) => place(cursor).ok_or(GatewayError::Cursor)?,
    };
    let audit = gateway.vault(move |vault| vault.audit(people, limit)).await?;
    let changes = gateway.registry().await?.log(content, limit).await?;
    let audit = audit.into_iter().map(LogEntry::from);
    let data: Vec<_> = merged(audit, changes.into_iter().map(LogEntry::from)).take(limit).collect();
    for done in &data {
        match done.about {
            LogName::People => people = done.number,
            LogName::Content => content = done.number,
        }
    }
    Ok(answer(LogPage { success: Success, data, next_cursor: format!("{people}.{content}") }))
}

/// Two logs as one. Each keeps its own order, also where a moment is not after the one before it: a cursor says how
/// many of each were read, and must not pass over any.
fn merged(
    one: impl Iterator<Item = LogEntry>,
    other: impl Iterator<Item = LogEntry>,
) -> impl Iterator<Item = LogEntry> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        // Moments of one width: their texts sort as they do.
        (Some(first), Some(second)) if second.at < first.at => other.next(),
        (None, _) => other.next(),
        _ => one.next(),
    })
}

/// How far each of the logs was read.
fn place(cursor: &str) -> Option<(u64, u64)> {
    let cursor = Some(cursor).filter(|cursor| cursor.len() <= MAX_CURSOR_BYTES)?;
    let (people, content) = cursor.split_once('.')?;
    // What the stores count with is smaller than what the text can name.
    let number = |text: &str| text.parse().ok().filter(|it| *it <= i64::MAX as u64);
    Some((number(people)?, number(content)?))
}
