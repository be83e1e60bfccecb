//! The fields of a document's frontmatter, and the names that Agent Skills may have.
//!
//! - `read`: the one way in which YAML is read here, with the place of everything
//! - `repair`: the second try for values that hold a colon and should have been quoted
//! - `name`: what a name may be
//!
//! What the fields mean is not known here.

mod name;
mod read;
mod repair;

use serde_json::{Map, Value};

pub use self::{
    name::{Alphabet, MAX_NAME_CHARS, NameFault, is_skill_name, name_faults, normalised},
    read::{Entry, Fields, Node, Scalar, Spot, Unreadable, read, read_core},
};
use crate::markdown::split_frontmatter;

/// The fields of a document's frontmatter; `None` when it has none that is a YAML mapping.
#[must_use]
pub fn fields(document: &str) -> Option<Map<String, Value>> {
    let (yaml, _) = split_frontmatter(document);
    let fields = read(yaml?).ok()?;
    (!fields.entries.is_empty()).then(|| read::to_object(&fields.entries))
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

    proptest! {
        #[test]
        fn every_id_has_a_name(id in "[a-z0-9_-]{1,64}") {
            prop_assert!(is_skill_name(&skill_name(&id)));
        }
    }
}
