//! Generated files: one module per client, each with the version of the client that it was tried with, if it was. Fields are written
//! in the order of the structs, so the same input has the same bytes in every build.

pub(crate) mod agent_plugin;
pub(crate) mod claude;
pub(crate) mod codex;
pub(crate) mod cursor;
pub(crate) mod readme;

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
}

impl PluginInfo {
    /// Returns the fields that lists without versions show.
    pub(crate) fn listed(&self) -> (&str, &str) {
        (&self.name, &self.description)
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
    let mut text = format!("{},\"plugins\":[", head.strip_suffix('}').unwrap_or(head));
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
    }
}
