//! Completion of what a user types: ids in templates, and arguments of prompts.

use rmcp::{
    ErrorData,
    model::{ArgumentInfo, CompleteRequestParams, CompleteResult, CompletionInfo, Reference},
};
use skills_core::uri::SCHEME;

use crate::{
    error::{invalid, to_mcp},
    resources::{SECTION_TEMPLATE, SKILL_TEMPLATE},
    server::Shared,
    skills_extension::sections,
};

/// Arguments of prompts that mean a skill, by convention.
const MEANS_A_SKILL: [&str; 3] = ["skill", "skill_id", "skill-id"];

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
                    Some(id) => functions_of(shared, &id).await,
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

/// The skills whose ids begin with what was typed. They lie together in the catalog.
async fn skill_ids(shared: &Shared, typed: &str) -> Result<CompletionInfo, ErrorData> {
    let catalog = shared.skills.catalog().await.map_err(|error| to_mcp(&error))?;
    let exact = catalog.skill(typed).map(|row| row.id.to_string());
    let after = catalog
        .skills_after(Some(typed))
        .take_while(|row| row.id.starts_with(typed))
        .map(|row| row.id.to_string());
    let values: Vec<String> =
        exact.into_iter().chain(after).take(CompletionInfo::MAX_VALUES + 1).collect();
    Ok(limited(values))
}

async fn functions_of(shared: &Shared, id: &str) -> Vec<String> {
    match shared.skills.read(&format!("{SCHEME}{id}")).await {
        Ok(resource) => sections(id, resource.text().unwrap_or_default())
            .iter()
            .map(ToString::to_string)
            .collect(),
        // Nothing to suggest is no error while someone types.
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
    let known = row.definition.arguments.iter().find(|known| known.name == argument.name);
    let known =
        known.ok_or_else(|| invalid(format!("{prompt} has no argument {}", argument.name)))?;
    if MEANS_A_SKILL.contains(&known.name.as_str()) {
        return skill_ids(shared, &argument.value).await;
    }
    Ok(matching(choices(known.description.as_deref().unwrap_or_default()), &argument.value))
}

/// The values that a description lists as `a|b|c`.
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
    // Within the limit by now; the fallback keeps this total.
    let mut completion = CompletionInfo::new(values).unwrap_or_default();
    completion.has_more = Some(has_more);
    completion
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_of_a_description() {
        assert_eq!(choices("How long: short|medium|long."), ["short", "medium", "long"]);
        assert_eq!(choices("One of (a|b)"), ["a", "b"]);
        assert!(choices("a or b").is_empty());
        assert!(choices("| not | these |").is_empty());
    }
}
