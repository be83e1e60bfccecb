//! `completion/complete`: ids in resource templates, and arguments of prompts.

use rmcp::{
    ErrorData,
    model::{ArgumentInfo, CompleteRequestParams, CompleteResult, CompletionInfo, Reference},
};
use skills_core::{
    EntryKind,
    uri::SCHEME,
    version::{LATEST, VERSION_SEPARATOR},
};
use skills_registry::{
    HistoryRequest, VersionInfo,
    search::{HitKind, SearchRequest},
};

use crate::{
    error::{invalid, to_mcp},
    resources::{SECTION_TEMPLATE, SKILL_TEMPLATE},
    server::Shared,
    skills_extension::sections,
};

/// Names of prompt arguments that take a skill id, by convention.
const SKILL_ARGUMENTS: [&str; 3] = ["skill", "skill_id", "skill-id"];

pub(crate) async fn complete(
    shared: &Shared,
    request: CompleteRequestParams,
) -> Result<CompleteResult, ErrorData> {
    let CompleteRequestParams { r#ref: reference, argument, context, .. } = request;
    let completion = match &reference {
        Reference::Resource(template) => match (template.uri.as_str(), argument.name.as_str()) {
            (SKILL_TEMPLATE | SECTION_TEMPLATE, "id") => skill_ids(shared, &argument.value).await?,
            (SECTION_TEMPLATE, "function_id") => {
                let id = context.and_then(|context| context.arguments?.remove("id"));
                let functions = match id {
                    Some(id) => section_functions(shared, &id).await,
                    None => vec![],
                };
                matching(functions, &argument.value)
            }
            (SKILL_TEMPLATE | SECTION_TEMPLATE, other) => {
                return Err(invalid(format!("{} has no argument {other}", template.uri)));
            }
            (other, _) => return Err(invalid(format!("unknown template: {other}"))),
        },
        Reference::Prompt(prompt) => prompt_argument(shared, &prompt.name, &argument).await?,
        // The enum may grow with the protocol.
        _ => return Err(invalid("unknown kind of reference")),
    };
    Ok(CompleteResult::new(completion))
}

/// Results of a search that are offered where no id begins with the typed text.
const MAX_FOUND: usize = 10;

/// Completes a skill id, or its version after `@`: ids that begin with the text, else those that a search for it finds.
/// Ids with a common prefix are adjacent in the catalog.
async fn skill_ids(shared: &Shared, typed: &str) -> Result<CompletionInfo, ErrorData> {
    if let Some((id, _)) = typed.split_once(VERSION_SEPARATOR) {
        return Ok(matching(versions(shared, id).await, typed));
    }
    let catalog = shared.skills.catalog().await.map_err(|error| to_mcp(&error))?;
    let exact = catalog.skill(typed).map(|row| row.id.to_string());
    let after = catalog
        .skills_after(Some(typed))
        .take_while(|row| row.id.starts_with(typed))
        .map(|row| row.id.to_string());
    let values: Vec<String> =
        exact.into_iter().chain(after).take(CompletionInfo::MAX_VALUES + 1).collect();
    if values.is_empty() {
        // The beginning of an id is no query that found nothing.
        let (limit, unlogged) = (Some(MAX_FOUND), true);
        let request = SearchRequest { limit, unlogged, ..SearchRequest::new(typed) };
        let found = shared.skills.search(request).await.map_err(|error| to_mcp(&error))?;
        let skills = found.results.into_iter().filter(|result| result.kind != HitKind::Prompt);
        return Ok(limited(skills.map(|result| result.id).collect()));
    }
    Ok(limited(values))
}

/// Returns the addresses of the newest versions of a skill: labels, then numbers.
async fn versions(shared: &Shared, id: &str) -> Vec<String> {
    let request = HistoryRequest { id: id.to_owned(), tier: None, limit: None, after: None };
    // While a user types, an unknown id is not an error.
    let Ok(page) = shared.skills.history(EntryKind::Skill, &request).await else { return vec![] };
    let readable = || page.data.iter().filter(|version| !version.purged);
    let labels = readable().flat_map(|version| version.labels.iter().cloned());
    let numbers = readable().map(|version: &VersionInfo| version.version.to_string());
    let names = [LATEST.to_owned()].into_iter().chain(labels).chain(numbers);
    names.map(|name| format!("{id}{VERSION_SEPARATOR}{name}")).collect()
}

async fn section_functions(shared: &Shared, id: &str) -> Vec<String> {
    match shared.skills.read(&format!("{SCHEME}{id}")).await {
        Ok(resource) => sections(id, resource.text().unwrap_or_default())
            .iter()
            .map(ToString::to_string)
            .collect(),
        // While a user types, an unknown id is not an error.
        Err(_) => vec![],
    }
}

async fn prompt_argument(
    shared: &Shared,
    prompt: &str,
    argument: &ArgumentInfo,
) -> Result<CompletionInfo, ErrorData> {
    let catalog = shared.skills.catalog().await.map_err(|error| to_mcp(&error))?;
    let row =
        catalog.prompt(prompt).ok_or_else(|| invalid(format!("prompt not found: {prompt}")))?;
    let mut arguments = row.definition.arguments.iter();
    let definition = arguments
        .find(|definition| definition.name == argument.name)
        .ok_or_else(|| invalid(format!("{prompt} has no argument {}", argument.name)))?;
    if SKILL_ARGUMENTS.contains(&definition.name.as_str()) {
        return skill_ids(shared, &argument.value).await;
    }
    Ok(matching(choices(definition.description.as_deref().unwrap_or_default()), &argument.value))
}

/// Parses the values that a description lists as `a|b|c`.
fn choices(description: &str) -> Vec<String> {
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    description
        .split(|c: char| !word(c) && c != '|')
        .find(|run| run.contains('|') && run.split('|').all(|choice| !choice.is_empty()))
        .map(|run| run.split('|').map(str::to_owned).collect())
        .unwrap_or_default()
}

fn matching(values: Vec<String>, typed: &str) -> CompletionInfo {
    limited(values.into_iter().filter(|value| value.starts_with(typed)).collect())
}

fn limited(mut values: Vec<String>) -> CompletionInfo {
    let has_more = values.len() > CompletionInfo::MAX_VALUES;
    values.truncate(CompletionInfo::MAX_VALUES);
    // The values are within the limit, so the fallback is never used.
    let mut completion = CompletionInfo::new(values).unwrap_or_default();
    completion.has_more = Some(has_more);
    completion
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_parsed_from_a_description() {
        assert_eq!(choices("How long: short|medium|long."), ["short", "medium", "long"]);
        assert_eq!(choices("One of (a|b)"), ["a", "b"]);
        assert!(choices("a or b").is_empty());
        assert!(choices("| not | these |").is_empty());
    }
}
