//! Documents of skills, tools and prompts.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Map, Value};
use skills_agent_skills::{frontmatter, markdown::split_frontmatter};
use skills_core::{
    PromptDefinition, SkillMeta,
    skill::ROOT_PATH,
    text::{ELLIPSIS, one_line},
    uri::linked_sections,
};

use crate::document::{HitKind, SearchDocument};

/// Fields of the frontmatter that hold words to be found by.
const TAG_FIELDS: [&str; 9] = [
    "tags",
    "keywords",
    "triggers",
    "trigger",
    "aliases",
    "category",
    "categories",
    "topics",
    "trigger-phrases",
];
/// Fields of the frontmatter that describe when to use a skill.
const USE_FIELDS: [&str; 4] = ["when_to_use", "when-to-use", "whenToUse", "use_when"];
/// Most tags of a document.
const MAX_TAGS: usize = 64;
/// Most names of files and parameters of a document.
const MAX_NAMES: usize = 256;

impl SearchDocument {
    /// Creates the document of a skill or a tool. `root` is its root document.
    #[must_use]
    pub fn from_skill(id: Arc<str>, meta: &SkillMeta, root: &str) -> Self {
        let kind = if meta.tool.is_some() { HitKind::Tool } else { HitKind::Skill };
        let mut document = Self::new(kind, id);
        let (yaml, body) = split_frontmatter(root);
        body.clone_into(&mut document.body);
        meta.title().unwrap_or_default().clone_into(&mut document.title);
        document.description = meta.description().unwrap_or_default().into_owned();
        if let Some(agent) = &meta.agent {
            let is_other = !agent.name.is_empty() && *agent.name != *document.key.id;
            document.name = is_other.then(|| agent.name.clone());
            document.allowed_tools.clone_from(&agent.allowed_tools);
        }
        // Parsing YAML costs more than all else here, and most skills have none of the fields.
        let is_truncated = document.description.ends_with(ELLIPSIS);
        if yaml.is_some_and(|yaml| is_truncated || has_words_field(yaml))
            && let Some(fields) = frontmatter::fields(root)
        {
            document.add_frontmatter(&fields);
        }
        if let Some(tool) = &meta.tool {
            document.tags.extend(tool.tags.iter().cloned());
            if let Some(name) = &tool.name {
                document.name.get_or_insert_with(|| name.clone());
            }
            document.add_text(tool.description.as_deref().unwrap_or_default());
            add_properties(&tool.parameters, &mut document.parameters);
        }
        let files = meta.files.iter().map(|file| &file.path).filter(|path| *path != ROOT_PATH);
        document.files = files.take(MAX_NAMES).cloned().collect();
        document.add_sections();
        document.tags.truncate(MAX_TAGS);
        document
    }

    /// Creates the document of a prompt.
    #[must_use]
    pub fn from_prompt(name: Arc<str>, definition: &PromptDefinition) -> Self {
        let mut document = Self::new(HitKind::Prompt, name);
        document.description.clone_from(&definition.description);
        for argument in &definition.arguments {
            document.parameters.push(argument.name.clone());
            document.body.push_str(argument.description.as_deref().unwrap_or_default());
            document.body.push('\n');
        }
        document
    }

    /// Adds the names of the sections that the body links.
    fn add_sections(&mut self) {
        let mut sections = BTreeSet::new();
        for function in linked_sections(&self.key.id, &self.body).take(MAX_NAMES) {
            sections.insert(function.to_string());
        }
        let room = MAX_NAMES.saturating_sub(self.files.len());
        self.files.extend(sections.into_iter().take(room));
    }

    fn add_frontmatter(&mut self, fields: &Map<String, Value>) {
        // Rows of the catalog have a truncated one.
        let description = fields.get("description").and_then(Value::as_str).map(one_line);
        if let Some(description) = description
            && let Some(start) = self.description.strip_suffix(ELLIPSIS)
            && description.starts_with(start)
        {
            self.description = description.into_owned();
        }
        let nested = fields.get("metadata").and_then(Value::as_object);
        for fields in [Some(fields), nested].into_iter().flatten() {
            for name in TAG_FIELDS {
                add_words(fields.get(name), &mut self.tags);
            }
            for name in USE_FIELDS {
                let text = fields.get(name).and_then(Value::as_str).unwrap_or_default();
                self.add_text(text);
            }
        }
    }

    /// Adds a text to the description, unless it is there.
    fn add_text(&mut self, text: &str) {
        if !text.is_empty() && !self.description.contains(text) {
            self.description.push('\n');
            self.description.push_str(text);
        }
    }
}

fn has_words_field(yaml: &str) -> bool {
    TAG_FIELDS.iter().chain(&USE_FIELDS).any(|name| yaml.contains(name))
}

/// Adds the words of a list, or of a text with commas.
fn add_words(value: Option<&Value>, words: &mut Vec<String>) {
    let texts: Vec<&str> = match value {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        _ => return,
    };
    let split = texts.iter().flat_map(|text| text.split([',', '\n', ';', '、']));
    let trimmed = split.map(|word| word.trim().trim_matches(['"', '\'', '#', '[', ']']).trim());
    let room = MAX_TAGS.saturating_sub(words.len());
    words.extend(trimmed.filter(|word| !word.is_empty()).take(room).map(str::to_owned));
}

/// Adds the names of the properties of a JSON Schema, at any depth.
fn add_properties(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key == "properties"
                    && let Value::Object(properties) = value
                {
                    let room = MAX_NAMES.saturating_sub(names.len());
                    names.extend(properties.keys().take(room).cloned());
                }
                add_properties(value, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_properties(item, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use skills_agent_skills::skill_meta;

    use super::*;

    #[test]
    fn a_skill_has_the_words_of_its_frontmatter() {
        let root = "---\nname: pdf-tables\ndescription: Reads tables.\ntags: [PDF, \"data entry\"]\n\
                    when_to_use: Asked for cells\nallowed-tools: Bash(git:*), Read\n\
                    metadata:\n  keywords: ocr, scan\n---\n# Tables\n\nBody.\n";
        let document = SearchDocument::from_skill("x".into(), &skill_meta(root).unwrap(), root);
        assert_eq!(document.tags, ["PDF", "data entry", "ocr", "scan"]);
        assert_eq!(document.description, "Reads tables.\nAsked for cells");
        assert_eq!(document.allowed_tools, ["Bash(git:*)", "Read"]);
        assert_eq!(document.name.as_deref(), Some("pdf-tables"));
        assert_eq!(
            (document.title.as_str(), document.body.trim()),
            ("Tables", "# Tables\n\nBody.")
        );
    }

    #[test]
    fn a_long_description_is_indexed_in_full() {
        let description =
            format!("Starts here. {} Ends with wombats.", "Filler words. ".repeat(200));
        let root = format!(
            "---\nname: x\ndescription: |\n  {}\n---\n# X\n",
            description.replace(". ", ".\n  ")
        );
        let meta = skill_meta(&root).unwrap();
        assert!(meta.description().unwrap().chars().count() <= 1024);
        let document = SearchDocument::from_skill("x".into(), &meta, &root);
        assert!(document.description.starts_with("Starts here."));
        assert!(document.description.ends_with("Ends with wombats."), "{}", document.description);
    }

    #[test]
    fn linked_sections_are_names_of_a_skill() {
        let root = "# Brain\n\nSee [notes](iii://brain/brain::take_notes), iii://brain/brain::take_notes \
                    and iii://other/other::f.\n";
        let document = SearchDocument::from_skill("brain".into(), &skill_meta(root).unwrap(), root);
        assert_eq!(document.files, ["brain::take_notes"]);
    }

    #[test]
    fn names_of_parameters_are_found_at_any_depth() {
        let schema = serde_json::json!({
            "properties": { "city": {}, "range": { "properties": { "from": {} } } },
            "anyOf": [{ "properties": { "zip": {} } }],
        });
        let mut names = Vec::new();
        add_properties(&schema, &mut names);
        names.sort();
        assert_eq!(names, ["city", "from", "range", "zip"]);
    }
}
