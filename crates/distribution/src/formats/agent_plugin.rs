//! `plugin.json` of Agent Plugins 1.0.0: of each wrapper, and of the whole repository, which Copilot CLI installs by its URL.

use serde::Serialize;

use super::{PluginInfo, to_line};

/// Identifier of the format, which a manifest must have.
const SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";

/// Fields are closed: a validator refuses others.
#[derive(Serialize)]
struct Manifest<'a> {
    #[serde(rename = "$schema")]
    schema: &'a str,
    name: &'a str,
    version: String,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    license: Option<&'a str>,
}

/// Returns the manifest of a skill's wrapper.
pub(crate) fn manifest(plugin: &PluginInfo) -> String {
    to_line(&Manifest {
        schema: SCHEMA,
        name: &plugin.name,
        version: plugin.version.to_string(),
        description: &plugin.description,
        license: plugin.license.as_deref(),
    })
}

/// Returns the manifest of a repository, whose version rises with each change.
pub(crate) fn repository_manifest(name: &str, revision: u64) -> String {
    to_line(&Manifest {
        schema: SCHEMA,
        name,
        version: format!("1.0.{revision}"),
        description: "All skills of this repository.",
        license: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::example;

    #[test]
    fn manifests_have_only_fields_of_the_schema() {
        assert_eq!(
            manifest(&example()),
            "{\"$schema\":\"https://agent-plugins.org/schemas/1.0.0/plugin.schema.json\",\"name\":\"pdf\",\
             \"version\":\"1.2.0\",\"description\":\"Reads \\\"PDF\\\" files.\",\"license\":\"MIT\"}\n"
        );
        let whole: serde_json::Value =
            serde_json::from_str(&repository_manifest("skills", 7)).unwrap();
        assert_eq!(
            (whole["name"].as_str(), whole["version"].as_str()),
            (Some("skills"), Some("1.0.7"))
        );
    }
}
