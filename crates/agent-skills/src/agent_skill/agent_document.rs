//! Skill as a document that Agent Skills clients can load.

use serde_json::{Map, Value, json};

use crate::frontmatter::{self, is_skill_name, name_from_id};
use skills_core::SkillMeta;

/// Complete frontmatter of a skill's root document.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentDocument {
    /// Valid Agent Skill name.
    pub name: String,
    /// All fields, including a valid name and a description.
    pub fields: Map<String, Value>,
    /// Frontmatter to put before the document; empty if the document has a complete one. Missing fields are derived
    /// from metadata.
    pub header: String,
}

impl AgentDocument {
    /// Completes the frontmatter of a root document.
    #[must_use]
    pub fn new(id: &str, meta: &SkillMeta, body: &str) -> Self {
        let given = frontmatter::fields(body).unwrap_or_default();
        let text = |key: &str| given.get(key).and_then(Value::as_str);
        let name = text("name").filter(|name| is_skill_name(name));
        let description = text("description").filter(|text| !text.trim().is_empty());
        if let (Some(name), Some(_)) = (name, description) {
            return Self { name: name.to_owned(), header: String::new(), fields: given };
        }
        let own = meta.agent.as_ref().map(|agent| &agent.name).filter(|name| is_skill_name(name));
        let name = own.cloned().unwrap_or_else(|| name_from_id(id));
        let known = meta.description();
        let description = description.or(known.as_deref()).or(meta.title()).unwrap_or(id);
        let mut fields = Map::from_iter([
            ("name".to_owned(), json!(name)),
            ("description".to_owned(), json!(description)),
        ]);
        // Whoever may invoke it, say, must not be lost with a name that is none.
        let rest = given.iter().filter(|(key, _)| !matches!(key.as_str(), "name" | "description"));
        fields.extend(rest.map(|(key, value)| (key.clone(), value.clone())));
        // JSON is YAML too.
        let lines = fields.iter().map(|(key, value)| {
            if is_plain(key) {
                format!("{key}: {value}\n")
            } else {
                format!("{}: {value}\n", json!(key))
            }
        });
        let header = format!("---\n{}---\n\n", lines.collect::<String>());
        Self { name, fields, header }
    }
}

/// Returns whether a YAML key needs no quotes: no parser reads it as anything but text.
fn is_plain(key: &str) -> bool {
    key.starts_with(|first: char| first.is_ascii_alphabetic())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        && !matches!(
            key.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &str, body: &str) -> AgentDocument {
        AgentDocument::new(id, &crate::skill_meta(body).unwrap(), body)
    }

    #[test]
    fn complete_frontmatter_is_unchanged() {
        let document = of("x", "---\nname: a-b\ndescription: d\nother: [1]\n---\n# T\n");
        assert_eq!((document.name.as_str(), document.header.as_str()), ("a-b", ""));
        assert_eq!(document.fields["other"], json!([1]));
    }

    #[test]
    fn missing_fields_are_derived_from_metadata() {
        for (body, description) in [
            ("# T\n\nText: \"quoted\".\n", "Text: \"quoted\"."),
            ("# T\n", "T"),
            ("- list\n", "a_b"),
            ("---\nname: No Name\ndescription: Given.\n---\n# T\n\nText.\n", "Given."),
        ] {
            let document = of("a_b", body);
            assert_eq!(
                (document.name.as_str(), &document.fields["description"]),
                ("a-b", &json!(description)),
                "{body:?}"
            );
            assert_eq!(document.fields.len(), 2, "{body}");
            let whole = format!("{}{body}", document.header);
            assert_eq!(frontmatter::fields(&whole).as_ref(), Some(&document.fields), "{whole}");
        }
    }

    #[test]
    fn other_fields_survive_completion() {
        let body = "---\nname: 12\ndescription: d\nuser-invocable: false\nallowed-tools: [Bash, 'a: b']\n\
                    metadata: {v: \"1.0\"}\n\"x: y\": '#'\n---\n# T\n";
        let document = of("a_b", body);
        assert_eq!((document.name.as_str(), &document.fields["name"]), ("12", &json!("12")));
        assert_eq!(document.fields["user-invocable"], json!(false));
        assert_eq!(document.fields["allowed-tools"], json!(["Bash", "a: b"]));
        let whole = format!("{}{body}", document.header);
        assert_eq!(frontmatter::fields(&whole).as_ref(), Some(&document.fields), "{whole}");
    }
}
