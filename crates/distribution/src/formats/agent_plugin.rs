//! `plugin.json` of Agent Plugins 1.0.0: of each wrapper, and of the whole repository, which Copilot CLI installs by its URL.

use serde::Serialize;

use super::{PluginInfo, to_line};
use crate::plugin_version::PluginVersion;

/// Identifier of the format, which a manifest must have.
const SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";

/// Identifier of the format of `mcp.json`.
const MCP_SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json";

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

#[derive(Serialize)]
struct McpFile<'a> {
    #[serde(rename = "$schema")]
    schema: &'a str,
    #[serde(rename = "mcpServers")]
    servers: McpServers<'a>,
}

#[derive(Serialize)]
struct McpServers<'a> {
    skills: McpServer<'a>,
}

#[derive(Serialize)]
struct McpServer<'a> {
    r#type: &'a str,
    url: &'a str,
}

/// Returns `mcp.json` with this server. Its address must be https, or of this machine.
pub(crate) fn mcp(url: &str) -> String {
    let servers = McpServers { skills: McpServer { r#type: "streamable-http", url } };
    to_line(&McpFile { schema: MCP_SCHEMA, servers })
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
        version: PluginVersion::of_revision(revision).to_string(),
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
        assert_eq!(
            mcp("https://skills.example/mcp"),
            "{\"$schema\":\"https://agent-plugins.org/schemas/1.0.0/mcp.schema.json\",\"mcpServers\":\
             {\"skills\":{\"type\":\"streamable-http\",\"url\":\"https://skills.example/mcp\"}}}\n"
        );
        let whole: serde_json::Value =
            serde_json::from_str(&repository_manifest("skills", 7)).unwrap();
        assert_eq!(
            (whole["name"].as_str(), whole["version"].as_str()),
            (Some("skills"), Some("1.0.7"))
        );
    }
}
