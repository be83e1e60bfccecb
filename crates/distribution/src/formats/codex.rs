//! `.agents/plugins/marketplace.json` and `.codex-plugin/plugin.json`, read by Codex (tried with 0.169.0).
//!
//! The model is told of a skill only if it is at `skills/<name>/SKILL.md` below the plugin's own folder, so each skill has
//! a wrapper below `dist`.

use serde::Serialize;

use super::{PluginInfo, listing, to_line};

#[derive(Serialize)]
struct Head<'a> {
    name: &'a str,
    interface: Interface<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Interface<'a> {
    display_name: &'a str,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    source: LocalSource,
    policy: Policy,
    category: &'static str,
}

#[derive(Serialize)]
struct LocalSource {
    source: &'static str,
    path: String,
}

#[derive(Serialize)]
struct Policy {
    installation: &'static str,
    authentication: &'static str,
}

/// Manifest of a wrapper, for Codex and for Cursor.
#[derive(Serialize)]
struct Manifest<'a> {
    name: &'a str,
    version: String,
    description: &'a str,
    skills: &'static str,
}

/// Returns the marketplace. It changes only when plugins are added or removed.
pub(crate) fn marketplace<'a>(name: &str, plugins: impl Iterator<Item = &'a PluginInfo>) -> String {
    let head = Head { name, interface: Interface { display_name: name } };
    let head = serde_json::to_string(&head).unwrap_or_default();
    listing(&head, plugins.map(PluginInfo::codex_entry))
}

/// Returns the line of a plugin in the marketplace.
pub(super) fn entry(plugin: &PluginInfo) -> String {
    let entry = Entry {
        name: &plugin.name,
        source: LocalSource { source: "local", path: format!("./dist/{}", plugin.name) },
        policy: Policy { installation: "AVAILABLE", authentication: "ON_INSTALL" },
        category: "Skills",
    };
    serde_json::to_string(&entry).unwrap_or_default()
}

/// Returns the manifest of a wrapper.
pub(crate) fn manifest(plugin: &PluginInfo) -> String {
    to_line(&Manifest {
        name: &plugin.name,
        version: plugin.version.to_string(),
        description: &plugin.description,
        skills: "./skills/",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::example;

    #[test]
    fn the_files_are_as_codex_reads_them() {
        assert_eq!(
            marketplace("skills", [&example()].into_iter()),
            "{\"name\":\"skills\",\"interface\":{\"displayName\":\"skills\"},\"plugins\":[\n\
             {\"name\":\"pdf\",\"source\":{\"source\":\"local\",\"path\":\"./dist/pdf\"},\
             \"policy\":{\"installation\":\"AVAILABLE\",\"authentication\":\"ON_INSTALL\"},\
             \"category\":\"Skills\"}\n]}\n"
        );
        assert_eq!(
            manifest(&example()),
            "{\"name\":\"pdf\",\"version\":\"1.2.0\",\"description\":\"Reads \\\"PDF\\\" files.\",\
             \"skills\":\"./skills/\"}\n"
        );
    }
}
