//! Search and lists of skills.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use axum::{Json, extract::Query, extract::rejection::QueryRejection};
use serde::Deserialize;
use skills_core::SkillId;
use skills_registry::{SkillRow, available::to_agent_skill};

use super::{
    error::ClawHubError,
    owner,
    request::ApiRequest,
    wire::{ListedSkill, SearchHit, SearchResponse, Skill, SkillList, Version, number_of},
};
use crate::search::find;

/// Results if the request names no limit.
const DEFAULT_LIMIT: usize = 25;
/// Most results, which is what the client asks for at most.
const MAX_LIMIT: usize = 200;

#[derive(Deserialize)]
pub(super) struct SearchQuery {
    #[serde(default)]
    q: String,
    limit: Option<usize>,
    mode: Option<String>,
}

pub(super) async fn search(
    request: ApiRequest,
    query: Result<Query<SearchQuery>, QueryRejection>,
) -> Result<Json<SearchResponse>, ClawHubError> {
    let Query(SearchQuery { q, limit, mode }) = query?;
    let limit = page_limit(limit);
    let found = if mode.as_deref() == Some("exact") {
        let catalog = request.skills.catalog().await?;
        let id: Option<SkillId> = q.parse().ok();
        let row = id.and_then(|id| catalog.stored(id.as_str()).cloned());
        row.filter(|row| to_agent_skill(row).is_ok()).map(|row| (1.0, row)).into_iter().collect()
    } else {
        find(&*request.skills, q, limit).await?
    };
    let mut results = Vec::with_capacity(found.len());
    for (score, row) in found {
        let versions = request.versions(&row).await?;
        let Skill { slug, display_name, summary, updated_at, .. } = Skill::new(&row, &versions);
        results.push(SearchHit {
            slug,
            owner_handle: owner::handle_of(row.tier, &request.caller),
            display_name,
            summary,
            version: versions.name(number_of(&row)).to_string(),
            score,
            updated_at,
        });
    }
    Ok(Json(SearchResponse { results }))
}

#[derive(Deserialize)]
pub(super) struct ListQuery {
    limit: Option<usize>,
    cursor: Option<String>,
    prefix: Option<String>,
}

/// Position in a list: newest first, then by id; or by id alone.
type Position = (Reverse<i64>, Arc<str>);

/// Lists skills, the newest first, or by id those whose ids begin with a prefix. Stars, downloads and installs are not
/// counted, so other orders are the same.
pub(super) async fn list(
    request: ApiRequest,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<SkillList>, ClawHubError> {
    let Query(ListQuery { limit, cursor, prefix }) = query?;
    let (limit, after) = (page_limit(limit), cursor.as_deref().map(parse_cursor).transpose()?);
    let catalog = request.skills.catalog().await?;
    // The largest of the first positions is at the top, so that it can be replaced.
    let mut first: BinaryHeap<(Position, usize)> = BinaryHeap::with_capacity(limit + 2);
    let mut rows: Vec<&Arc<SkillRow>> = Vec::new();
    for row in catalog.skills_after(None) {
        let has_prefix = prefix.as_deref().is_none_or(|prefix| row.id.starts_with(prefix));
        if row.stored_tier().is_none() || !has_prefix {
            continue;
        }
        let time = if prefix.is_some() { 0 } else { row.registered_at.as_micros() };
        let position = (Reverse(time), Arc::clone(&row.id));
        let is_before = after.as_ref().is_some_and(|after| position <= *after);
        let is_full = first.len() > limit;
        let is_last = first.peek().is_some_and(|(largest, _)| position >= *largest);
        if is_before || (is_full && is_last) || to_agent_skill(row).is_err() {
            continue;
        }
        rows.push(row);
        first.push((position, rows.len() - 1));
        if first.len() > limit + 1 {
            first.pop();
        }
    }
    let mut page = first.into_sorted_vec();
    let has_more = page.len() > limit;
    page.truncate(limit);
    let last = page.last().filter(|_| has_more);
    let next_cursor = last.map(|((Reverse(time), id), _)| format!("{time}:{id}"));
    let mut items = Vec::with_capacity(page.len());
    for (_, index) in page {
        let row = rows[index];
        let versions = request.versions(row).await?;
        let latest_version = Version::of_row(row, &versions);
        items.push(ListedSkill { skill: Skill::new(row, &versions), latest_version });
    }
    Ok(Json(SkillList { items, next_cursor }))
}

fn page_limit(limit: Option<usize>) -> usize {
    limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT)
}

fn parse_cursor(cursor: &str) -> Result<Position, ClawHubError> {
    let parse = |(time, id): (&str, &str)| Some((Reverse(time.parse().ok()?), id.into()));
    let position = cursor.split_once(':').and_then(parse);
    position.ok_or_else(|| ClawHubError::Body("unknown cursor: start again without one".to_owned()))
}
