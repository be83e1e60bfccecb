//! `list_skills` and `search_skills`.
//!
//! Their results are text alone: hosts differ in whether they pass text or structured content to the model, and one list
//! in both would cost some of them twice the tokens.

use std::{borrow::Cow, fmt::Write as _};

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Deserialize;
use skills_core::{Tier, text::truncate, uri::SCHEME};
use skills_registry::{
    Catalog, RegistryError, SkillRow,
    search::{
        HitKind, KindFilter, MAX_LIMIT, SearchPage, SearchRequest, SearchResult, estimate_tokens,
    },
};

use crate::server::Shared;

/// Default token budget of a listing.
pub(super) const DEFAULT_BUDGET: usize = 2000;
/// Largest token budget: no host has more context to spare.
const MAX_BUDGET: usize = 100_000;
/// Tokens of the line about skills that were left out.
const REMARK_TOKENS: usize = 40;
/// Lengths of descriptions in characters. A listing uses the first with which all skills fit, or else the last.
const DESCRIPTION_CHARS: [usize; 4] = [1024, 280, 140, 60];

#[derive(Deserialize)]
pub(super) struct ListInput {
    budget_tokens: Option<usize>,
    query: Option<String>,
    context: Option<String>,
    after: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct SearchInput {
    query: String,
    limit: Option<usize>,
    kind: Option<String>,
    tier: Option<Tier>,
    cursor: Option<String>,
    budget_tokens: Option<usize>,
}

/// Entry of a listing.
struct Entry<'a> {
    /// URI of a skill, or the name of a prompt, with a mark for tools and for what is live.
    label: String,
    text: Option<Cow<'a, str>>,
}

impl<'a> From<&'a SkillRow> for Entry<'a> {
    fn from(row: &'a SkillRow) -> Self {
        let text = row.description().or_else(|| row.meta.title().map(Cow::Borrowed));
        Self { label: format!("{SCHEME}{}", row.id), text }
    }
}

impl<'a> From<&'a SearchResult> for Entry<'a> {
    fn from(result: &'a SearchResult) -> Self {
        let mut label = match (&result.uri, result.kind) {
            (Some(uri), _) => uri.clone(),
            (None, HitKind::Prompt) => format!("prompt {}", result.id),
            (None, HitKind::Skill | HitKind::Tool) => format!("{SCHEME}{}", result.id),
        };
        match (result.kind, &result.live) {
            (HitKind::Tool, None) => label.push_str(" (tool)"),
            (HitKind::Tool, Some(_)) => label.push_str(" (live tool)"),
            (HitKind::Skill | HitKind::Prompt, Some(_)) => label.push_str(" (live)"),
            (HitKind::Skill | HitKind::Prompt, None) => {}
        }
        let title = (result.title != result.id).then_some(&result.title);
        let text = result.description.as_ref().or(title).map(|text| Cow::Borrowed(text.as_str()));
        Self { label, text }
    }
}

pub(super) async fn list(shared: &Shared, input: ListInput) -> Result<CallToolResult, String> {
    let budget = line_budget(input.budget_tokens.unwrap_or(DEFAULT_BUDGET));
    let task = [input.query, input.context].into_iter().flatten().collect::<Vec<_>>().join(" ");
    if !task.trim().is_empty() {
        return relevant(shared, task, budget).await.map(result).map_err(|error| error.to_string());
    }
    let catalog = shared.skills.catalog().await.map_err(|error| error.to_string())?;
    let after = input.after.as_deref().map(|id| (id.contains('/'), id));
    // Stored skills first: a live client may have any number of skills, and any id.
    let rows =
        |is_live: bool| catalog.skills_after(None).filter(move |row| row.is_live() == is_live);
    let rows: Vec<_> = rows(false)
        .chain(rows(true))
        .filter(|row| row.is_model_invocable())
        .filter(|row| after.is_none_or(|after| (row.is_live(), &*row.id) > after))
        .collect();
    let entries: Vec<Entry<'_>> = rows.iter().map(|row| row.as_ref().into()).collect();
    let (mut text, shown) = lines(&entries, budget);
    match (rows.get(shown), shown.checked_sub(1).and_then(|last| rows.get(last))) {
        (None, _) if rows.is_empty() => text.push_str(no_skills(&catalog, "No more skills.")),
        (None, _) => {}
        (Some(_), last) => {
            let after =
                last.map_or_else(String::new, |row| format!(" `after`: {:?}, or with", row.id));
            let omitted = rows.len() - shown;
            let _ = writeln!(text, "{omitted} more: call again with{after} the task as `query`.");
        }
    }
    Ok(result(text))
}

pub(super) async fn find(shared: &Shared, input: SearchInput) -> Result<CallToolResult, String> {
    let SearchInput { query, limit, kind, tier, cursor, budget_tokens } = input;
    let kind =
        kind.as_deref().map(KindFilter::parse).transpose().map_err(|error| error.to_string())?;
    let for_model = true;
    let request =
        SearchRequest { kind, tier, limit, cursor, for_model, ..SearchRequest::new(query) };
    let page = shared.skills.search(request).await.map_err(|error| error.to_string())?;
    let entries: Vec<Entry<'_>> = page.results.iter().map(Into::into).collect();
    let (mut text, shown) = lines(&entries, budget_tokens.map_or(usize::MAX, line_budget));
    if entries.is_empty() {
        let catalog = shared.skills.catalog().await.map_err(|error| error.to_string())?;
        text.push_str(no_skills(&catalog, "No skill matches."));
    } else if shown < entries.len() {
        let omitted = entries.len() - shown;
        let _ =
            writeln!(text, "{omitted} more match less well; raise `budget_tokens` to see them.");
    } else if let Some(next) = &page.next {
        let _ = writeln!(text, "More: call again with `cursor`: {next:?}.");
    }
    add_remarks(&mut text, &page);
    Ok(result(text))
}

/// Lists the skills that match a task, the best first.
async fn relevant(shared: &Shared, task: String, budget: usize) -> Result<String, RegistryError> {
    let request =
        SearchRequest { limit: Some(MAX_LIMIT), for_model: true, ..SearchRequest::new(task) };
    let page = shared.skills.search(request).await?;
    let entries: Vec<Entry<'_>> = page.results.iter().map(Into::into).collect();
    let (mut text, shown) = lines(&entries, budget);
    if entries.is_empty() {
        let catalog = shared.skills.catalog().await?;
        text.push_str(no_skills(&catalog, "No skill matches; without `query`, all are listed.\n"));
    } else if shown < entries.len() {
        let omitted = entries.len() - shown;
        let at_least = if page.next.is_some() { "At least " } else { "" };
        let _ = writeln!(
            text,
            "{at_least}{omitted} more match less well; raise `budget_tokens` to see them."
        );
    } else if page.next.is_some() {
        let _ =
            writeln!(text, "More than {shown} match; call `search_skills` to page through them.");
    }
    add_remarks(&mut text, &page);
    Ok(text)
}

/// Adds what else a page says: other spellings, and that not everything is indexed yet.
fn add_remarks(text: &mut String, page: &SearchPage) {
    if !page.did_you_mean.is_empty() {
        let separator = if text.ends_with('\n') { "" } else { "\n" };
        let _ = writeln!(text, "{separator}Did you mean: {}?", page.did_you_mean.join(", "));
    }
    if page.indexing {
        text.push_str("Skills are still being indexed; search again in a moment.\n");
    }
}

/// Returns the tokens that the lines of a listing may take.
fn line_budget(budget_tokens: usize) -> usize {
    budget_tokens.clamp(1, MAX_BUDGET).saturating_sub(REMARK_TOKENS)
}

fn no_skills(catalog: &Catalog, otherwise: &'static str) -> &'static str {
    let has_any = catalog.skills_after(None).any(|row| row.is_model_invocable());
    if has_any { otherwise } else { "No skills are registered." }
}

/// Returns a line for each entry, as many as fit, and their number.
fn lines(entries: &[Entry<'_>], budget: usize) -> (String, usize) {
    let mut listed = (String::new(), 0);
    for description_chars in DESCRIPTION_CHARS {
        listed = lines_with(entries, description_chars, budget);
        if listed.1 == entries.len() {
            break;
        }
    }
    listed
}

fn lines_with(entries: &[Entry<'_>], description_chars: usize, budget: usize) -> (String, usize) {
    let (mut text, mut tokens) = (String::new(), 0);
    for (shown, entry) in entries.iter().enumerate() {
        let line = line(entry, description_chars);
        tokens += estimate_tokens(&line);
        if tokens > budget {
            return (text, shown);
        }
        text.push_str(&line);
    }
    (text, entries.len())
}

fn line(entry: &Entry<'_>, description_chars: usize) -> String {
    match &entry.text {
        Some(text) => {
            let text = truncate(text.as_ref(), description_chars);
            format!("- {}: {text}\n", entry.label)
        }
        None => format!("- {}\n", entry.label),
    }
}

fn result(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_marked() {
        let label = |kind: &str, uri: Option<&str>, live: Option<&str>| {
            let result = json!({
                "id": "x", "uri": uri, "kind": kind, "title": "X", "score": 1.0, "live": live,
            });
            Entry::from(&serde_json::from_value::<SearchResult>(result).unwrap()).label
        };
        assert_eq!(label("skill", Some("iii://x"), None), "iii://x");
        assert_eq!(label("tool", Some("iii://x"), None), "iii://x (tool)");
        assert_eq!(label("skill", Some("iii://x"), Some("desk")), "iii://x (live)");
        assert_eq!(label("prompt", None, None), "prompt x");
        assert_eq!(label("prompt", None, Some("desk")), "prompt x (live)");
    }
}
