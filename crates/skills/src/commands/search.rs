//! `search` and `index`.

use std::time::{Duration, Instant};

use anstyle::Style;
use serde_json::json;
use skills_core::RuleError;
use skills_registry::{
    RegistryError, SkillRegistry,
    search::{
        HitKind, IndexPageRequest, KindFilter, SearchPage, SearchRequest, SearchResult, index_page,
    },
};

use crate::{
    Failure,
    cli::{IndexArgs, SearchArgs},
    output,
};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
/// Longest wait for an index that is being built.
const MAX_WAIT: Duration = Duration::from_secs(300);
/// Longest description of a result, in characters.
const MAX_DESCRIPTION: usize = 200;

pub(super) async fn run(skills: &dyn SkillRegistry, args: SearchArgs) -> Result<(), Failure> {
    let SearchArgs { words, kind, tier, limit, cursor, format } = args;
    let kind = kind.map(|kind| KindFilter::parse(kind.as_str()));
    let request = SearchRequest {
        kind: kind.transpose().map_err(|error: RuleError| RegistryError::from(error))?,
        tier: tier.map(Into::into),
        limit: Some(limit),
        cursor,
        ..SearchRequest::new(words.join(" "))
    };
    let page = complete_page(skills, &request).await?;
    if format.json {
        return Ok(output::json(&page)?);
    }
    for (number, result) in page.results.iter().enumerate() {
        if number > 0 {
            output::line("")?;
        }
        print(result)?;
    }
    if page.results.is_empty() {
        output::line("No skill matches.")?;
    }
    if !page.did_you_mean.is_empty() {
        output::notice("did you mean", &output::plain(&page.did_you_mean.join(", ")));
    }
    if let Some(next) = &page.next {
        output::notice("more", &format!("--cursor {}", output::plain(next)));
    }
    if page.indexing {
        output::notice("incomplete", "the registry is still indexing its skills");
    }
    Ok(())
}

/// Searches, and again while the index is being built.
async fn complete_page(
    skills: &dyn SkillRegistry,
    request: &SearchRequest,
) -> Result<SearchPage, RegistryError> {
    let started = Instant::now();
    loop {
        // Each search waits for the index for a while.
        let page = skills.search(request.clone()).await?;
        if !page.indexing || started.elapsed() > MAX_WAIT {
            return Ok(page);
        }
        output::notice("indexing", "the skills are being indexed");
    }
}

fn print(result: &SearchResult) -> Result<(), Failure> {
    let tier = result.tier.map_or_else(|| "live".to_owned(), |tier| tier.to_string());
    let kind = match result.kind {
        HitKind::Skill => String::new(),
        kind => format!(", {}", kind.as_str()),
    };
    let id = output::plain(&result.id);
    output::line(&format!("{BOLD}{id}{BOLD:#}  {DIM}{tier}{kind}{DIM:#}"))?;
    let description = result.description.as_deref().unwrap_or(&result.title);
    let description: String = output::plain(description).chars().take(MAX_DESCRIPTION).collect();
    output::line(&format!("  {description}"))?;
    if !result.snippet.is_empty() && result.snippet.replace("**", "") != description {
        output::line(&format!("  {DIM}>{DIM:#} {}", with_bold(&output::plain(&result.snippet))))?;
    }
    Ok(())
}

/// Makes the marked words of a snippet bold.
fn with_bold(snippet: &str) -> String {
    let mut styled = String::with_capacity(snippet.len());
    for (number, part) in snippet.split("**").enumerate() {
        if number % 2 == 1 {
            styled.push_str(&format!("{BOLD}{part}{BOLD:#}"));
        } else {
            styled.push_str(part);
        }
    }
    styled
}

/// Prints the index with the skills that match first.
pub(super) async fn index(skills: &dyn SkillRegistry, args: IndexArgs) -> Result<(), Failure> {
    let IndexArgs { query, budget, format } = args;
    let request = IndexPageRequest { query: query.unwrap_or_default(), budget };
    let text = index_page(skills, &request).await?;
    if format.json {
        return Ok(output::json(&json!({ "index": text }))?);
    }
    Ok(output::text(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_words_are_bold() {
        let styled = with_bold("a **b** c");
        assert_eq!(anstream::adapter::strip_str(&styled).to_string(), "a b c");
        assert!(styled.contains("\u{1b}[1mb"), "{styled:?}");
    }
}
