//! `GET /v1/admin/log`: the audit log of the vault and the change log of the registry, merged by time.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_registry::LogInfo;
use skills_vault::AuditEntry;
use utoipa::ToSchema;

use super::auth::Administrator;
use crate::{
    Gateway,
    error::GatewayError,
    extractors::Query,
    response::{Success, json_response},
    skills::{Limit, MAX_CURSOR_BYTES, PageQuery, TierName, row_number},
};

/// Name of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum LogName {
    /// Audit log: keys, profiles, secrets, grants.
    #[serde(rename = "people")]
    Audit,
    /// Change log: skills and prompts.
    Content,
}

/// A recorded change. Changes of content have the fields of `skills::log` too.
#[derive(Debug, Serialize, ToSchema)]
struct LogEntry {
    /// Time, in RFC 3339.
    at: String,
    /// Actor: the name of an administrator's secret, the user and the id of a key, a worker or a user of the machine.
    by: String,
    /// Equal to `by`.
    actor: String,
    /// Action, such as `skill.put`, `skill.label` or `key.create`.
    action: String,
    /// Changed object; never a key or a secret.
    subject: String,
    /// Log that has the entry.
    about: LogName,
    /// Number in that log.
    number: u64,
    #[serde(flatten)]
    #[schema(inline)]
    content: ContentChange,
}

/// Fields of a change of content; other changes have none of them.
#[derive(Debug, Default, Serialize, ToSchema)]
struct ContentChange {
    /// Tier of the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(inline)]
    tier: Option<TierName>,
    /// Owner of a private entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// Id or name of the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Version that the change is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// Label that was set or removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// Message of a version, or reason of a yank.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Version that the plain id read after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    served: Option<u64>,
}

impl From<AuditEntry> for LogEntry {
    fn from(AuditEntry { number, at, actor, action, subject }: AuditEntry) -> Self {
        let by = actor.clone();
        let content = ContentChange::default();
        Self { at, by, actor, action, subject, about: LogName::Audit, number, content }
    }
}

impl From<LogInfo> for LogEntry {
    fn from(info: LogInfo) -> Self {
        let subject = info.subject();
        let LogInfo { number, at, by, action, tier, owner, id, version, label, message, served } =
            info;
        let content = ContentChange {
            tier: Some(tier.into()),
            owner,
            id: Some(id),
            version,
            label,
            message,
            served,
        };
        let actor = by.clone();
        Self { at, by, actor, action, subject, about: LogName::Content, number, content }
    }
}

/// A page of the log, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LogPage {
    success: Success,
    data: Vec<LogEntry>,
    /// Cursor of the next page, also if that page is still empty.
    next_cursor: String,
}

/// Read the log
///
/// All changes with their actors, oldest first.
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
    Query(PageQuery { limit: Limit(limit), cursor }): Query<PageQuery>,
) -> Result<Response, GatewayError> {
    let (mut people, mut content) = match cursor.as_deref() {
        None => (0, 0),
        Some(cursor) => parse_cursor(cursor).ok_or(GatewayError::InvalidCursor)?,
    };
    let audit = gateway.vault(move |vault| vault.audit(people, limit)).await?;
    let changes = gateway.registry().await?.change_log(content, limit).await?;
    let audit = audit.into_iter().map(LogEntry::from);
    let changes = changes.into_iter().map(|change| LogEntry::from(LogInfo::from(change)));
    let data: Vec<_> = merge_by_time(audit, changes).take(limit).collect();
    for entry in &data {
        match entry.about {
            LogName::Audit => people = entry.number,
            LogName::Content => content = entry.number,
        }
    }
    Ok(json_response(LogPage {
        success: Success,
        data,
        next_cursor: format!("{people}.{content}"),
    }))
}

/// Merges two logs. Each keeps its own order, even if its times are not ascending: a cursor has one position for each
/// log and must not skip entries.
fn merge_by_time(
    one: impl Iterator<Item = LogEntry>,
    other: impl Iterator<Item = LogEntry>,
) -> impl Iterator<Item = LogEntry> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        // Timestamps have a fixed width, so they sort as text.
        (Some(first), Some(second)) if second.at < first.at => other.next(),
        (None, _) => other.next(),
        _ => one.next(),
    })
}

/// Parses the positions in both logs.
fn parse_cursor(cursor: &str) -> Option<(u64, u64)> {
    let cursor = Some(cursor).filter(|cursor| cursor.len() <= MAX_CURSOR_BYTES)?;
    let (people, content) = cursor.split_once('.')?;
    Some((row_number(people)?, row_number(content)?))
}
