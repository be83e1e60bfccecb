//! The fields of a document's frontmatter, and the names that Agent Skills may have.

use serde_json::{Map, Value};

use crate::markdown::split_frontmatter;

/// Longest name of an Agent Skill, in characters.
pub const MAX_NAME_CHARS: usize = 64;

/// The fields of a document's frontmatter; `None` when it has none that is a YAML mapping.
#[must_use]
pub fn fields(document: &str) -> Option<Map<String, Value>> {
    let (yaml, _) = split_frontmatter(document);
    match serde_saphyr::from_str::<Value>(yaml?) {
        Ok(Value::Object(fields)) => Some(fields),
        _ => None,
    }
}

/// Whether a text may be the name of an Agent Skill: 1 to 64 of `[a-z0-9-]`, with no hyphen at an end and
/// none doubled.
#[must_use]
pub fn is_skill_name(name: &str) -> bool {
    let legal = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-');
    !name.is_empty()
        && name.len() <= MAX_NAME_CHARS
        && name.chars().all(legal)
        && name.split('-').all(|part| !part.is_empty())
}

/// The name of an Agent Skill that is closest to a skill's id, which may have underscores and hyphens
/// anywhere.
#[must_use]
pub fn skill_name(id: &str) -> String {
    let parts: Vec<&str> = id.split(['-', '_']).filter(|part| !part.is_empty()).collect();
    match parts.is_empty() {
        true => "skill".to_owned(),
        false => parts.join("-"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_a_mapping() {
        let document = "---\nname: a\nmetadata: {v: 1}\n---\n# A\n";
        let found = fields(document).unwrap();
        assert_eq!(Value::Object(found), json!({"name": "a", "metadata": {"v": 1}}));
        for other in ["# A", "---\n- a\n---\n", "---\nname: a", "---\na: [\n---\n", "---\n---\n"] {
            assert_eq!(fields(other), None, "{other}");
        }
    }

    #[test]
    fn names() {
        for name in ["a", "a-b", "0", "a1-b2-c3", &"a".repeat(64)] {
            assert!(is_skill_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "a--b", "A", "a_b", "é", "a b", &"a".repeat(65)] {
            assert!(!is_skill_name(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn every_id_has_a_name(id in "[a-z0-9_-]{1,64}") {
            prop_assert!(is_skill_name(&skill_name(&id)));
        }
    }
}
