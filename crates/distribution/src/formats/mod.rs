//! Generated files: one module per client, each with the version of the client that it was tried with, if it was. Fields are written
//! in the order of the structs, so the same input has the same bytes in every build.

pub(crate) mod agent_plugin;
pub(crate) mod claude;
pub(crate) mod codex;
pub(crate) mod cursor;
pub(crate) mod readme;

use std::sync::{Arc, OnceLock};

use serde::Serialize;

use crate::plugin_version::PluginVersion;

/// Fields of a skill that manifests show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PluginInfo {
    /// Name of the skill, which is also the name of its folder and of its plugin.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) version: PluginVersion,
    pub(crate) license: Option<String>,
    pub(crate) lines: ListLines,
}

/// Cache of a skill's lines in lists without versions. Every commit renders the lists of all skills, so formatting each line
/// again would make the first clone of a long history slow.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListLines(OnceLock<Arc<[String; 3]>>);

impl ListLines {
    fn get(&self, plugin: &PluginInfo) -> &[String; 3] {
        self.0.get_or_init(|| {
            Arc::new([codex::entry(plugin), cursor::entry(plugin), readme::line(plugin)])
        })
    }
}

/// The lines follow from the other fields.
impl PartialEq for ListLines {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ListLines {}

impl PluginInfo {
    /// Returns the fields that lists without versions show.
    pub(crate) fn listed(&self) -> (&str, &str) {
        (&self.name, &self.description)
    }

    /// Returns the line in the marketplace of Codex.
    fn codex_entry(&self) -> &str {
        &self.lines.get(self)[0]
    }

    /// Returns the line in the marketplace of Cursor.
    fn cursor_entry(&self) -> &str {
        &self.lines.get(self)[1]
    }

    /// Returns the line in the README.
    fn readme_line(&self) -> &str {
        &self.lines.get(self)[2]
    }
}

/// Owner of a marketplace.
#[derive(Serialize)]
struct Owner<'a> {
    name: &'a str,
}

/// Name of the owner of all marketplaces: who runs a server is not known to it.
const OWNER: Owner<'static> = Owner { name: "skills" };

/// Returns a value as JSON text with a line end. Structs of texts have no values that could fail.
fn to_line(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string(value).unwrap_or_default();
    text.push('\n');
    text
}

/// Returns a JSON object with a list of plugins, one a line, so that a change of one plugin changes one line.
fn listing(head: &str, entries: impl Iterator<Item = impl AsRef<str>>) -> String {
    // Every commit has these lists, so their size is guessed rather than grown into: the entries are much alike.
    let (count, _) = entries.size_hint();
    let mut entries = entries.peekable();
    let entry = entries.peek().map_or(0, |entry| entry.as_ref().len() + 16);
    let mut text = String::with_capacity(head.len() + 16 + count * entry);
    text.push_str(head.strip_suffix('}').unwrap_or(head));
    text.push_str(",\"plugins\":[");
    for (index, entry) in entries.enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(entry.as_ref());
    }
    text.push_str("\n]}\n");
    text
}

#[cfg(test)]
pub(crate) fn example() -> PluginInfo {
    PluginInfo {
        name: "pdf".to_owned(),
        description: "Reads \"PDF\" files.".to_owned(),
        version: PluginVersion::parse("1.2.0").unwrap(),
        license: Some("MIT".to_owned()),
        lines: ListLines::default(),
    }
}
