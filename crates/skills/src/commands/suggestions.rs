//! Suggestions for names that were not found.

use skills_core::{Code, EntryKind, uri::SCHEME, version::VERSION_SEPARATOR};
use skills_registry::{HistoryRequest, SkillRegistry};

use crate::Failure;

/// Smallest similarity of a suggestion; 1 is equal.
const MIN_SIMILARITY: f64 = 0.6;

/// Adds the most similar id to the error of a skill that was not found.
pub(super) async fn for_skill<T>(
    skills: &dyn SkillRegistry,
    name: &str,
    result: Result<T, Failure>,
) -> Result<T, Failure> {
    let name = name.strip_prefix(SCHEME).unwrap_or(name);
    suggest(skills, EntryKind::Skill, name, result, async || {
        let catalog = skills.catalog().await.ok()?;
        Some(catalog.skills().iter().map(|row| row.id.to_string()).collect())
    })
    .await
}

/// Adds the most similar name to the error of a prompt that was not found.
pub(super) async fn for_prompt<T>(
    skills: &dyn SkillRegistry,
    name: &str,
    result: Result<T, Failure>,
) -> Result<T, Failure> {
    suggest(skills, EntryKind::Prompt, name, result, async || {
        let prompts = skills.prompts().await.ok()?;
        Some(prompts.iter().map(|row| row.name.to_string()).collect())
    })
    .await
}

/// Adds a hint to an error without one that says that a name was not found: the most similar name, or the command that
/// lists the names; for a name that has versions, the command that lists them.
async fn suggest<T>(
    skills: &dyn SkillRegistry,
    kind: EntryKind,
    name: &str,
    result: Result<T, Failure>,
    names: impl AsyncFnOnce() -> Option<Vec<String>>,
) -> Result<T, Failure> {
    let failure = match result {
        Err(failure) if failure.code == Code::NotFound && failure.hint.is_none() => failure,
        result => return result,
    };
    let (listing, history) = match kind {
        EntryKind::Skill => ("skills list", "skills history"),
        EntryKind::Prompt => ("skills prompt list", "skills prompt history"),
        EntryKind::Collection => ("skills collection list", "skills log"),
    };
    let id = name.split(VERSION_SEPARATOR).next().unwrap_or(name);
    let request = HistoryRequest { id: id.to_owned(), tier: None, limit: Some(1), after: None };
    if skills.history(kind, &request).await.is_ok_and(|page| !page.data.is_empty()) {
        return Err(failure.hint(format!("list its versions with `{history} {id}`")));
    }
    let Some(names) = names().await else { return Err(failure) };
    Err(match nearest(id, names.iter().map(String::as_str)) {
        Some(near) => failure.hint(format!("did you mean {near}?")),
        None => failure.hint(format!("list what there is with `{listing}`")),
    })
}

/// Returns the most similar name, if it is similar enough.
fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let similarity = |other: &str| strsim::normalized_damerau_levenshtein(name, other);
    let scored = names.map(|other| (similarity(other), other));
    let scored = scored.filter(|(score, _)| *score >= MIN_SIMILARITY);
    scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, near)| near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_name_is_suggested() {
        let names = ["pdf", "pptx", "xlsx", "web-search"];
        let near = |name| nearest(name, names.into_iter());
        assert_eq!(near("pfd"), Some("pdf"));
        assert_eq!(near("xslx"), Some("xlsx"));
        assert_eq!(near("websearch"), Some("web-search"));
        assert_eq!(near("weather"), None);
        assert_eq!(nearest("a", [].into_iter()), None);
    }
}
