//! The first page: search and filters over all skills and prompts.

mod facets;
mod filter;
mod rows;

use axum::response::Response;
use maud::{Markup, html};
use skills_agent_skills::validate::reveal_hidden;

pub(crate) use self::facets::{FacetCache, source_of};
use self::{
    facets::Facets,
    filter::{Kind, Query, View},
    rows::{Entry, Found, MAX_SEARCHED, find},
};
use crate::{
    HOME,
    components::{copyable, user_text},
    error::ConsoleError,
    layout::{Page, Section},
    units::number,
    visit::Visit,
};

/// Entries of a page.
const PAGE_SIZE: usize = 48;

/// Renders the page.
pub(crate) async fn page(visit: Visit) -> Result<Response, ConsoleError> {
    let catalog = visit.catalog().await?;
    let (_, query) = visit.target.split_once('?').unwrap_or_default();
    let mut query = Query::parse(query);
    let mut found = find(&*visit.skills()?, &catalog, &query).await?;
    // Entries that were removed may have shortened the list: the last page is nearest.
    if found.entries.is_empty() && found.total > 0 {
        query.page = (found.total - 1) / PAGE_SIZE;
        found = find(&*visit.skills()?, &catalog, &query).await?;
    }
    let results = results(&query, &found);
    let total = catalog.skill_count() + catalog.prompts_after(None).count();
    let body = if total == 0 {
        html! { h1 { "Skills" } div #results data-live { (empty_registry(&visit)) } }
    } else {
        html! {
            h1.visually-hidden { "Skills and prompts" }
            (search_form(&*visit.console.facets.of(&catalog).await?, &query))
            (results)
        }
    };
    Ok(Page::new("Browse", Section::Browse, body).live().respond(&visit))
}

fn search_form(facets: &Facets, query: &Query) -> Markup {
    html! {
        form.search role="search" method="get" action=(HOME) data-search {
            label.visually-hidden for="q" { "Search skills and prompts" }
            input #q name="q" type="search" value=(query.text) placeholder="Search skills and prompts   /"
                autocomplete="off" spellcheck="false" aria-controls="results" aria-keyshortcuts="/";
            div.filters {
                (select("kind", "Kind", "All kinds", Kind::ALL.iter().map(|kind| (kind.as_str(), kind.label())), query.kind.map(Kind::as_str)))
                (select("tier", "Tier", "All tiers", ["private", "official", "market", "live"].map(|it| (it, it)), query.tier_name()))
                @if !facets.tags.is_empty() {
                    (select("tag", "Tag", "All tags", facets.tags.iter().map(|tag| (tag.as_str(), tag.as_str())), query.tag.as_deref()))
                }
                @if !facets.sources.is_empty() {
                    (select("source", "Source", "All sources", facets.sources.iter().map(|it| (it.as_str(), it.as_str())), query.source.as_deref()))
                }
                @if query.view == View::Table { input type="hidden" name="view" value="table"; }
                button type="submit" data-no-script { "Search" }
            }
        }
    }
}

fn select<'a>(
    name: &str,
    label: &str,
    all: &str,
    options: impl IntoIterator<Item = (&'a str, &'a str)>,
    current: Option<&str>,
) -> Markup {
    html! {
        label.visually-hidden for=(name) { (label) }
        select name=(name) id=(name) {
            option value="" { (all) }
            @for (value, text) in options {
                option value=(value) selected[Some(value) == current] { (reveal_hidden(text)) }
            }
        }
    }
}

/// Renders the part of the page that changes with the search and with the registry.
fn results(query: &Query, found: &Found) -> Markup {
    let first = query.page * PAGE_SIZE;
    html! {
        section #results data-live aria-label="Results" {
            div.bar {
                p role="status" {
                    @if found.total == 0 { "Nothing found" }
                    @else if found.total <= PAGE_SIZE { (number(found.total as u64)) @if found.total == 1 { " entry" } @else { " entries" } }
                    @else {
                        (number(first as u64 + 1)) "–" (number((first + found.entries.len()) as u64))
                        " of " (number(found.total as u64)) @if found.has_more { " or more" }
                    }
                }
                nav.views aria-label="View" {
                    @for (view, label) in [(View::Cards, "Cards"), (View::Table, "Table")] {
                        a href=(query.with_view(view).path()) aria-current=[(query.view == view).then_some("true")] { (label) }
                    }
                }
            }
            @if let Some(problem) = &found.problem { div.notice.error role="alert" { p { (user_text(problem)) } } }
            @if found.is_incomplete {
                div.notice { p { "Only the best " (number(MAX_SEARCHED as u64)) " results of this search were looked at. "
                    "Add words to the search to see others." } }
            }
            @if !found.did_you_mean.is_empty() {
                p { "Did you mean " @for (at, text) in found.did_you_mean.iter().enumerate() {
                    @if at > 0 { ", " } a href=(query.with_text(text).path()) { (user_text(text)) }
                } "?" }
            }
            @if found.total == 0 { (nothing_found(query)) }
            @else if query.view == View::Table { (table(&found.entries)) }
            @else { ul.cards { @for entry in &found.entries { (entry.card()) } } }
            (pager(query, found, first))
        }
    }
}

fn table(entries: &[Entry]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Entries" {
            table.entries {
                thead { tr {
                    th scope="col" { "Name" } th scope="col" { "Kind" } th scope="col" { "Tier" }
                    th.number scope="col" { "Size" } th scope="col" { "Registered" } th scope="col" { "Description" }
                } }
                tbody { @for entry in entries { (entry.table_row()) } }
            }
        }
    }
}

fn pager(query: &Query, found: &Found, first: usize) -> Markup {
    let has_next = first + found.entries.len() < found.total;
    html! {
        @if query.page > 0 || has_next {
            nav.pager aria-label="Pages" {
                @if query.page > 0 { a.button rel="prev" href=(query.with_page(query.page - 1).path()) { "Previous" } }
                @if has_next { a.button rel="next" href=(query.with_page(query.page + 1).path()) { "Next" } }
            }
        }
    }
}

fn nothing_found(query: &Query) -> Markup {
    html! {
        div.empty {
            p { "No entry matches" @if !query.text.is_empty() { " “" (query.text) "”" } @if query.has_filters() { " with these filters" } "." }
            p { a href=(HOME) { "Show everything" } }
        }
    }
}

/// Renders the three ways to add the first skill.
fn empty_registry(visit: &Visit) -> Markup {
    let may_publish = visit.identity.as_ref().is_some_and(|it| !it.writable_tiers().is_empty());
    html! {
        div.empty.first {
            p.lead { "This registry is empty. A skill is a Markdown document that tells an agent when and how to do something. Add the first one:" }
            ol.ways {
                li {
                    h2 { "From a folder" }
                    p { "A folder with a " code { "SKILL.md" } ", or a folder of such folders." }
                    (copyable("skills add ./my-skills"))
                }
                li {
                    h2 { "From a repository" }
                    p { "Every skill of a git repository, with the commit it came from." }
                    (copyable("skills add owner/repo"))
                }
                li {
                    h2 { "From this page" }
                    @if may_publish {
                        p { "Paste Markdown, or drop a folder or a zip file." }
                        p { a.button.primary href="/ui/publish" { "Publish a skill" } }
                    } @else {
                        p { "Sign in with a key that may publish." }
                        p { a.button href="/ui/sign-in" { "Sign in" } }
                    }
                }
            }
            h2 { "Then connect an agent" }
            (copyable("skills connect claude --write"))
        }
    }
}
