//! The clients that can be set up.

use crate::{ServerCommand, SettingsFormat};

/// Settings file of a client.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Path in the home directory.
    pub path: &'static str,
    /// Path in the home directory on macOS.
    pub macos_path: &'static str,
    /// Format of the file.
    pub format: SettingsFormat,
}

/// An MCP client.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    /// Name on the command line.
    pub name: &'static str,
    /// Name of the product.
    pub title: &'static str,
    /// Settings file; `None` if the client is set up by its command line alone.
    pub settings: Option<Settings>,
    /// Command of the client that sets it up, in front of the command of the server.
    pub setup: Option<&'static str>,
    /// Where skills and prompts appear.
    pub note: &'static str,
}

impl Client {
    /// Returns the command of the client that sets up a server.
    #[must_use]
    pub fn setup_line(&self, command: &ServerCommand) -> Option<String> {
        Some(format!("{} {}", self.setup?, command.shell_line()))
    }
}

const MCP_SERVERS: SettingsFormat = SettingsFormat::Json { servers: "mcpServers", has_type: false };

const fn json(path: &'static str, format: SettingsFormat) -> Option<Settings> {
    Some(Settings { path, macos_path: path, format })
}

/// All clients, in the order of the documentation. The settings are taken from the documentation of the programs.
pub const CLIENTS: &[Client] = &[
    Client {
        name: "claude",
        title: "Claude Code",
        settings: json(
            ".claude.json",
            SettingsFormat::Json { servers: "mcpServers", has_type: true },
        ),
        setup: Some("claude mcp add --scope user skills --"),
        note: "Skills are resources (`@skills:iii://weather`), prompts are commands (`/mcp__skills__forecast Lisbon`).",
    },
    Client {
        name: "claude-desktop",
        title: "Claude Desktop",
        settings: Some(Settings {
            path: ".config/Claude/claude_desktop_config.json",
            macos_path: "Library/Application Support/Claude/claude_desktop_config.json",
            format: MCP_SERVERS,
        }),
        setup: None,
        note: "Restart the program afterwards. The file opens with Settings, Developer, Edit Config.",
    },
    Client {
        name: "cursor",
        title: "Cursor",
        settings: json(".cursor/mcp.json", MCP_SERVERS),
        setup: None,
        note: "A project can have the same in `.cursor/mcp.json`.",
    },
    Client {
        name: "vscode",
        title: "VS Code",
        settings: Some(Settings {
            path: ".config/Code/User/mcp.json",
            macos_path: "Library/Application Support/Code/User/mcp.json",
            format: SettingsFormat::Json { servers: "servers", has_type: true },
        }),
        setup: None,
        note: "A project can have the same in `.vscode/mcp.json`.",
    },
    Client {
        name: "zed",
        title: "Zed",
        settings: json(
            ".config/zed/settings.json",
            SettingsFormat::Json { servers: "context_servers", has_type: false },
        ),
        setup: None,
        note: "Prompts appear as slash commands of the agent panel.",
    },
    Client {
        name: "codex",
        title: "Codex",
        settings: json(".codex/config.toml", SettingsFormat::Toml { servers: "mcp_servers" }),
        setup: Some("codex mcp add skills --"),
        note: "The command line and the editor extension share the file.",
    },
    Client {
        name: "gemini",
        title: "Gemini CLI",
        settings: json(".gemini/settings.json", MCP_SERVERS),
        setup: Some("gemini mcp add --scope user skills"),
        note: "Prompts are slash commands. The program starts servers only in folders that you trust.",
    },
    Client {
        name: "windsurf",
        title: "Windsurf",
        settings: json(".codeium/windsurf/mcp_config.json", MCP_SERVERS),
        setup: None,
        note: "Press refresh in the MCP panel afterwards.",
    },
    Client {
        name: "inspector",
        title: "Inspector",
        settings: None,
        setup: Some("npx @modelcontextprotocol/inspector"),
        note: "It has no settings file; the command starts it.",
    },
];
