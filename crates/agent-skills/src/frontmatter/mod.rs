//! YAML frontmatter of documents, and the names of Agent Skills.
//!
//! - `parse`: the only YAML reader, which locates every value
//! - `quote_colons`: the second attempt for unquoted values with a colon
//! - `skill_name`: rules for names
//!
//! The meaning of fields is not known here.

mod parse;
mod quote_colons;
mod skill_name;

use serde_json::{Map, Value};

pub use self::{
    parse::{
        FrontmatterEntry, FrontmatterError, FrontmatterFields, Located, YamlNode, YamlScalar,
        parse, parse_core_schema,
    },
    skill_name::{
        MAX_NAME_CHARS, NameAlphabet, NameFault, is_skill_name, name_faults, normalise_name,
    },
};
use crate::markdown::split_frontmatter;

/// Returns the frontmatter of a document as JSON; `None` unless it is a YAML mapping with fields.
#[must_use]
pub fn fields(document: &str) -> Option<Map<String, Value>> {
    let (yaml, _) = split_frontmatter(document);
    let fields = parse(yaml?).ok()?;
    (!fields.entries.is_empty()).then(|| parse::to_object(&fields.entries))
}

/// Derives a valid Agent Skill name from a skill id, which may have underscores and hyphens anywhere.
#[must_use]
pub fn name_from_id(id: &str) -> String {
    let parts: Vec<&str> = id.split(['-', '_']).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "skill".to_owned() } else { parts.join("-") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_mapping_has_fields() {
        let document = "---\nname: a\nmetadata: {v: 1}\n---\n# A\n";
        let found = fields(document).unwrap();
        assert_eq!(Value::Object(found), json!({"name": "a", "metadata": {"v": 1}}));
        for other in ["# A", "---\n- a\n---\n", "---\nname: a", "---\na: [\n---\n", "---\n---\n"] {
            assert_eq!(fields(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn every_id_has_a_name(id in "[a-z0-9_-]{1,64}") {
            prop_assert!(is_skill_name(&name_from_id(&id)));
        }
    }
}
