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
    /// Nothing if the document has such frontmatter; otherwise frontmatter, made of what is known.
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
        let name = skill_name(id);
        let known = [description, meta.description.as_deref(), meta.title.as_deref()];
        let description = known.into_iter().flatten().next().unwrap_or(id);
        let fields = Map::from_iter([
            ("name".to_owned(), json!(name)),
            ("description".to_owned(), json!(description)),
        ]);
        // A JSON string is a YAML string too.
        let lines = fields.iter().map(|(key, value)| format!("{key}: {value}\n"));
        let header = format!("---\n{}---\n\n", lines.collect::<String>());
        Self { name, fields, header }
    }
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
            let whole = format!("{}{body}", document.header);
            assert_eq!(frontmatter::fields(&whole).as_ref(), Some(&document.fields), "{whole}");
        }
    }
}
