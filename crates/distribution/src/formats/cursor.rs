//! `.cursor-plugin/marketplace.json`, read by Cursor (from its documentation; not tried).

use serde::Serialize;

use super::{OWNER, Owner, PluginInfo, listing};

#[derive(Serialize)]
struct Head<'a> {
    name: &'a str,
    owner: Owner<'a>,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    source: String,
    description: &'a str,
}

/// Returns the marketplace. Versions are in the manifests of the wrappers.
pub(crate) fn marketplace<'a>(name: &str, plugins: impl Iterator<Item = &'a PluginInfo>) -> String {
    let head = serde_json::to_string(&Head { name, owner: OWNER }).unwrap_or_default();
    listing(&head, plugins.map(PluginInfo::cursor_entry))
}

/// Returns the line of a plugin in the marketplace.
pub(super) fn entry(plugin: &PluginInfo) -> String {
    let source = format!("./dist/{}", plugin.name);
    let entry = Entry { name: &plugin.name, source, description: &plugin.description };
    serde_json::to_string(&entry).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::example;

    #[test]
    fn the_file_is_as_documented() {
        assert_eq!(
            marketplace("skills", [&example()].into_iter()),
            "{\"name\":\"skills\",\"owner\":{\"name\":\"skills\"},\"plugins\":[\n\
             {\"name\":\"pdf\",\"source\":\"./dist/pdf\",\"description\":\"Reads \\\"PDF\\\" files.\"}\n]}\n"
        );
    }
}
