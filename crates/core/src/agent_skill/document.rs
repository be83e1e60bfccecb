//! A skill as a document that clients of Agent Skills can load.

use serde_json::{Map, Value, json};

use crate::{
    SkillMeta,
    frontmatter::{self, is_skill_name, skill_name},
};

/// The frontmatter of a skill's root document, and what has to be put before the document to have it there.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentDocument {
    /// A legal name.
    pub name: String,
    /// All fields. Among them are a legal name and a description.
    pub fields: Map<String, Value>,
    /// Nothing if the document has such frontmatter; otherwise frontmatter: its fields, and what is missing made of what
    /// is known.
    pub header: String,
}

impl AgentDocument {
    /// The document of a skill. `body` is what it was registered with.
    #[must_use]
    pub fn of(id: &str, meta: &SkillMeta, body: &str) -> Self {
        let given = frontmatter::fields(body).unwrap_or_default();
        let text = |key: &str| given.get(key).and_then(Value::as_str);
        let name = text("name").filter(|name| is_skill_name(name));
        let description = text("description").filter(|text| !text.trim().is_empty());
        if let (Some(name), Some(_)) = (name, description) {
            return Self { name: name.to_owned(), header: String::new(), fields: given };
        }
        let own = meta.agent.as_ref().map(|agent| &agent.name).filter(|name| is_skill_name(name));
        let name = own.cloned().unwrap_or_else(|| skill_name(id));
        let known = [description, meta.description.as_deref(), meta.title.as_deref()];
        let description = known.into_iter().flatten().next().unwrap_or(id);
        let mut fields = Map::from_iter([
            ("name".to_owned(), json!(name)),
            ("description".to_owned(), json!(description)),
        ]);
        // Whoever may invoke it, say, must not be lost with a name that is none.
        let rest = given.iter().filter(|(key, _)| !matches!(key.as_str(), "name" | "description"));
        fields.extend(rest.map(|(key, value)| (key.clone(), value.clone())));
        // JSON is YAML too.
        let lines = fields.iter().map(|(key, value)| match is_plain(key) {
            true => format!("{key}: {value}\n"),
            false => format!("{}: {value}\n", json!(key)),
        });
        let header = format!("---\n{}---\n\n", lines.collect::<String>());
        Self { name, fields, header }
    }
}

/// Whether a key needs no quotes: what nobody would take for something else than text.
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
        AgentDocument::of(id, &SkillMeta::of_document(body).unwrap(), body)
    }

    #[test]
    fn good_frontmatter_is_left_alone() {
        let document = of("x", "---\nname: a-b\ndescription: d\nother: [1]\n---\n# T\n");
        assert_eq!((document.name.as_str(), document.header.as_str()), ("a-b", ""));
        assert_eq!(document.fields["other"], json!([1]));
    }

    #[test]
    fn what_is_missing_is_made_of_what_is_known() {
        for (body, description) in [
            ("# T\n\nText: \"quoted\".\n", "Text: \"quoted\"."),
            ("# T\n", "T"),
            ("- list\n", "a_b"),
            ("---\nname: No Name\ndescription: Given.\n---\n# T\n\nText.\n", "Given."),
        ] {
            let document = of("a_b", body);
            assert_eq!(
                (document.name.as_str(), &document.fields["description"]),
                ("a-b", &json!(description))
            );
            assert_eq!(document.fields.len(), 2);
            let whole = format!("{}{body}", document.header);
            assert_eq!(frontmatter::fields(&whole).as_ref(), Some(&document.fields), "{whole}");
        }
    }

    #[test]
    fn other_fields_are_kept_beside_those_that_are_made() {
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
