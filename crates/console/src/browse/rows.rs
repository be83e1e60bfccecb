//! Entries that match a query, and their rendering.

use std::sync::Arc;

use maud::{Markup, html};
use skills_agent_skills::validate::reveal_hidden;
use skills_core::text::{one_line, truncate};
use skills_registry::{
    Catalog, PromptRow, RegistryError, SkillRegistry, SkillRow,
    search::{HitKind, MAX_LIMIT, SearchRequest, SearchResult},
};

use super::{
    PAGE_SIZE,
    facets::{source_of, tags_of},
    filter::{Kind, Place, Query},
};
use crate::{
    components::{origin, size, skill_path, tier, user_text},
    error::ConsoleError,
    rendering::scan,
    units::ago,
};

/// Characters of a description on a card.
const DESCRIPTION_CHARS: usize = 180;
/// Tags on a card.
const SHOWN_TAGS: usize = 4;
/// Most pages of search results that are read for one page of entries. A search has no more results.
const MAX_SEARCH_PAGES: usize = 10;
/// Most search results that the filters are applied to.
pub(super) const MAX_SEARCHED: usize = MAX_SEARCH_PAGES * MAX_LIMIT;

/// Entry of the results.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    Skill(Arc<SkillRow>, Option<String>),
    Prompt(Arc<PromptRow>, Option<String>),
}

/// Entries of a page, and the number of all that match.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) entries: Vec<Entry>,
    pub(super) total: usize,
    /// True if more match than are counted.
    pub(super) has_more: bool,
    /// True if the search has more results than are read, so that entries may be missing.
    pub(super) is_incomplete: bool,
    /// Other queries that may be meant.
    pub(super) did_you_mean: Vec<String>,
    /// Reason why the query cannot be searched for.
    pub(super) problem: Option<String>,
}

impl Found {
    /// Counts an entry, and takes it if it is on the page.
    fn add(&mut self, entry: Entry, page: usize) {
        let first = page * PAGE_SIZE;
        if (first..first + PAGE_SIZE).contains(&self.total) {
            self.entries.push(entry);
        }
        self.total += 1;
    }

    /// Returns whether the page is full and another one follows.
    const fn has_next_page(&self, page: usize) -> bool {
        self.total > (page + 1) * PAGE_SIZE
    }
}

/// Finds the entries of a page: without a text all of them, skills first; with one the best first.
pub(super) async fn find(
    skills: &dyn SkillRegistry,
    catalog: &Arc<Catalog>,
    query: &Query,
) -> Result<Found, ConsoleError> {
    if !query.text.trim().is_empty() {
        return search(skills, catalog, query).await;
    }
    let query = query.clone();
    scan(catalog, move |catalog| list(catalog, &query)).await
}

fn list(catalog: &Catalog, query: &Query) -> Found {
    let skills = catalog.skills_after(None).filter(|row| matches_skill(row, query));
    let prompts = catalog.prompts_after(None).filter(|row| matches_prompt(row, query));
    let skills = skills.map(|row| Entry::Skill(Arc::clone(row), None));
    let prompts = prompts.map(|row| Entry::Prompt(Arc::clone(row), None));
    let mut found = Found::default();
    skills.chain(prompts).for_each(|entry| found.add(entry, query.page));
    found
}

/// Reads search results until the page is full. The search knows neither sources nor each word of a list of tags, so that
/// these filters are applied to its results.
async fn search(
    skills: &dyn SkillRegistry,
    catalog: &Catalog,
    query: &Query,
) -> Result<Found, ConsoleError> {
    let mut request = SearchRequest {
        kind: query.kind.and_then(Kind::filter),
        tier: query.tier(),
        limit: Some(MAX_LIMIT),
        ..SearchRequest::new(query.text.trim())
    };
    let mut found = Found::default();
    for number in 1..=MAX_SEARCH_PAGES {
        let page = match skills.search(request.clone()).await {
            Ok(page) => page,
            Err(error @ RegistryError::Rule(_)) => {
                return Ok(Found { problem: Some(error.to_string()), ..Found::default() });
            }
            Err(error) => return Err(error.into()),
        };
        if number == 1 {
            found.did_you_mean = page.did_you_mean;
        }
        // A search gives no cursor behind its last possible result.
        found.is_incomplete = number == MAX_SEARCH_PAGES && page.results.len() == MAX_LIMIT;
        let entries = page.results.into_iter().filter_map(|result| entry(catalog, query, result));
        entries.for_each(|entry| found.add(entry, query.page));
        request.cursor = page.next;
        found.has_more = request.cursor.is_some() || found.is_incomplete;
        if request.cursor.is_none() || found.has_next_page(query.page) {
            break;
        }
    }
    Ok(found)
}

/// Returns the entry of a search result, if the filters let it through.
fn entry(catalog: &Catalog, query: &Query, result: SearchResult) -> Option<Entry> {
    let snippet = Some(result.snippet).filter(|snippet| !snippet.is_empty());
    if result.kind == HitKind::Prompt {
        let row = catalog.prompt(&result.id).filter(|row| matches_prompt(row, query))?;
        return Some(Entry::Prompt(Arc::clone(row), snippet));
    }
    let row = match result.tier {
        Some(tier) => catalog.skill_in(tier, &result.id),
        None => catalog.skill(&result.id),
    };
    let row = row.filter(|row| matches_skill(row, query))?;
    Some(Entry::Skill(Arc::clone(row), snippet))
}

fn matches_skill(row: &Arc<SkillRow>, query: &Query) -> bool {
    let is_kind = match query.kind {
        None | Some(Kind::Skill) => true,
        Some(Kind::Tool) => row.meta.tool.is_some(),
        Some(Kind::Prompt) => false,
    };
    let is_in_place = match query.place {
        None => true,
        Some(Place::Live) => row.is_live(),
        Some(Place::Stored(tier)) => row.stored_tier() == Some(tier),
    };
    is_kind
        && is_in_place
        && query.tag.as_deref().is_none_or(|tag| tags_of(row).any(|it| it == tag))
        && query.source.as_deref().is_none_or(|source| source_of(row) == Some(source))
}

fn matches_prompt(row: &PromptRow, query: &Query) -> bool {
    let is_kind = matches!(query.kind, None | Some(Kind::Prompt));
    let is_in_place = match query.place {
        None => true,
        Some(Place::Live) => row.is_live(),
        Some(Place::Stored(tier)) => !row.is_live() && row.tier == tier,
    };
    is_kind && is_in_place && query.tag.is_none() && query.source.is_none()
}

impl Entry {
    /// Renders a card.
    pub(super) fn card(&self) -> Markup {
        match self {
            Self::Skill(row, snippet) => skill_card(row, snippet.as_deref()),
            Self::Prompt(row, snippet) => prompt_card(row, snippet.as_deref()),
        }
    }

    /// Renders a row of the table.
    pub(super) fn table_row(&self) -> Markup {
        match self {
            Self::Skill(row, _) => html! {
                tr {
                    th scope="row" { a.entry href=(skill_path(&row.id)) { (user_text(&row.id)) } }
                    td { @if row.meta.tool.is_some() { "tool" } @else { "skill" } }
                    td { (origin(row)) }
                    td.number { @if !row.is_live() { (size(row.bytes())) } }
                    td { (ago(row.registered_at)) }
                    td.description { (user_text(&description(row))) }
                }
            },
            Self::Prompt(row, _) => html! {
                tr {
                    th scope="row" { a.entry href=(prompt_path(row)) { "/" (user_text(&row.name)) } }
                    td { "prompt" }
                    td { @if row.is_live() { span.badge.live { "live" } } @else { (tier(row.tier)) } }
                    td {}
                    td { (ago(row.registered_at)) }
                    td.description { (user_text(&summary(&row.definition.description))) }
                }
            },
        }
    }
}

fn skill_card(row: &Arc<SkillRow>, snippet: Option<&str>) -> Markup {
    html! {
        li.card {
            div.card-head {
                h2 { a.entry href=(skill_path(&row.id)) { (user_text(row.title())) } }
                @if row.meta.tool.is_some() { span.badge { "tool" } }
                (origin(row))
            }
            @if row.title() != &*row.id { p.id { code { (user_text(&row.id)) } } }
            p.description { (snippet.map_or_else(|| user_text(&description(row)), passage)) }
            @if row.corruption().is_some() { p.problem { "This entry is corrupt." } }
            p.meta {
                (ago(row.registered_at))
                @if !row.is_live() { span { (size(row.meta.files.iter().map(|file| file.size).sum())) } }
                @for tag in tags_of(row).take(SHOWN_TAGS) { span.tag { (user_text(tag)) } }
            }
        }
    }
}

fn prompt_card(row: &PromptRow, snippet: Option<&str>) -> Markup {
    let arguments = row.definition.arguments.iter().map(|it| format!("{{{}}}", it.name));
    let arguments: Vec<String> = arguments.take(SHOWN_TAGS).collect();
    html! {
        li.card {
            div.card-head {
                h2 { a.entry href=(prompt_path(row)) { "/" (user_text(&row.name)) } }
                span.badge { "prompt" }
                @if row.is_live() { span.badge.live { "live" } } @else { (tier(row.tier)) }
            }
            @if !arguments.is_empty() { p.id { code { (user_text(&arguments.join(" "))) } } }
            p.description { (snippet.map_or_else(|| user_text(&summary(&row.definition.description)), passage)) }
            p.meta { (ago(row.registered_at)) }
        }
    }
}

/// Returns the address of a prompt's page.
fn prompt_path(row: &PromptRow) -> String {
    format!("/ui/prompts/{}", skills_core::uri::percent_encode_component(&row.name))
}

/// Renders the passage of a search result, whose matched words are between `**`.
fn passage(snippet: &str) -> Markup {
    let parts = snippet.split("**").enumerate();
    html! { bdi { @for (at, part) in parts {
        @if at % 2 == 1 { mark { (reveal_hidden(part)) } } @else { (reveal_hidden(part)) }
    } } }
}

fn description(row: &SkillRow) -> String {
    row.description().map_or_else(String::new, |text| summary(&text))
}

fn summary(text: &str) -> String {
    truncate(one_line(text), DESCRIPTION_CHARS).into_owned()
}
