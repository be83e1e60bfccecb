//! `.claude-plugin/marketplace.json`, read by Claude Code (tried with 2.1.327) and Copilot CLI (1.0.102).
//!
//! An entry points at the skill's own folder and says itself what is in it (`strict: false`): `npx skills update` skips
//! skills that it finds twice, and it looks into every folder that this file names.

use serde::Serialize;

use super::{OWNER, Owner, PluginInfo, listing};

#[derive(Serialize)]
struct Head<'a> {
    name: &'a str,
    owner: Owner<'a>,
    description: &'a str,
}

/// Description of every marketplace, without which the client warns.
const DESCRIPTION: &str = "Skills of a skills registry.";

/// Place that a plugin is installed from.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Source {
    /// Folder of the marketplace's repository.
    Path(String),
    /// Folder of a git remote.
    GitSubdir { source: &'static str, url: String, path: String },
    /// Whole git remote.
    Url { source: &'static str, url: String },
    /// Archive with a pinned digest. Its address must be https and public.
    Archive { source: &'static str, url: String, sha256: String },
}

impl Source {
    pub(crate) const fn git_subdir(url: String, path: String) -> Self {
        Self::GitSubdir { source: "git-subdir", url, path }
    }

    pub(crate) const fn archive(url: String, sha256: String) -> Self {
        Self::Archive { source: "archive", url, sha256 }
    }
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    description: &'a str,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    license: Option<&'a str>,
    source: Source,
    strict: bool,
    skills: Vec<String>,
}

/// Returns the entry of a skill.
pub(crate) fn entry(plugin: &PluginInfo, source: Source) -> String {
    entry_with(plugin, source, vec!["./".to_owned()])
}

/// Returns the entry of a collection in its own repository, whose folder is the plugin.
pub(crate) fn collection_entry<'a>(
    collection: &PluginInfo,
    skills: impl Iterator<Item = &'a PluginInfo>,
) -> String {
    let skills = skills.map(|skill| &*skill.name);
    whole_entry(collection, Source::Path("./".to_owned()), skills)
}

/// Returns the entry of a collection of skills with these names whose repository is at another address.
pub(crate) fn remote_collection_entry<'a>(
    collection: &PluginInfo,
    url: String,
    skills: impl Iterator<Item = &'a str>,
) -> String {
    whole_entry(collection, Source::Url { source: "url", url }, skills)
}

fn whole_entry<'a>(
    collection: &PluginInfo,
    source: Source,
    skills: impl Iterator<Item = &'a str>,
) -> String {
    entry_with(collection, source, skills.map(|name| format!("./skills/{name}")).collect())
}

fn entry_with(plugin: &PluginInfo, source: Source, skills: Vec<String>) -> String {
    let entry = Entry {
        name: &plugin.name,
        description: &plugin.description,
        version: plugin.version.to_string(),
        license: plugin.license.as_deref(),
        source,
        strict: false,
        skills,
    };
    serde_json::to_string(&entry).unwrap_or_default()
}

/// Returns the entry of a skill in the repository that has this file.
pub(crate) fn local_entry(plugin: &PluginInfo) -> String {
    entry(plugin, Source::Path(format!("./skills/{}", plugin.name)))
}

/// Returns the file.
pub(crate) fn marketplace(name: &str, entries: impl Iterator<Item = impl AsRef<str>>) -> String {
    let head = serde_json::to_string(&Head { name, owner: OWNER, description: DESCRIPTION })
        .unwrap_or_default();
    listing(&head, entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::example;

    #[test]
    fn the_file_is_as_clients_read_it() {
        let text = marketplace("skills", [local_entry(&example())].into_iter());
        assert_eq!(
            text,
            "{\"name\":\"skills\",\"owner\":{\"name\":\"skills\"},\
             \"description\":\"Skills of a skills registry.\",\"plugins\":[\n\
             {\"name\":\"pdf\",\"description\":\"Reads \\\"PDF\\\" files.\",\"version\":\"1.2.0\",\
             \"license\":\"MIT\",\"source\":\"./skills/pdf\",\"strict\":false,\"skills\":[\"./\"]}\n]}\n"
        );
        assert_eq!(
            collection_entry(&example(), [&example()].into_iter()),
            "{\"name\":\"pdf\",\"description\":\"Reads \\\"PDF\\\" files.\",\"version\":\"1.2.0\",\
             \"license\":\"MIT\",\"source\":\"./\",\"strict\":false,\"skills\":[\"./skills/pdf\"]}"
        );
        let empty: serde_json::Value =
            serde_json::from_str(&marketplace("skills", std::iter::empty::<String>())).unwrap();
        assert_eq!(empty["plugins"].as_array().map(Vec::len), Some(0));
    }
}
