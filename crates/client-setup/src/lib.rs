//! Set-up of MCP clients: one table of clients, from which `skills connect`, the console and docs/clients.md are made.
//!
//! - `clients`: the table
//! - `installers`: commands that install skills as files
//! - `json_edit`, `toml_edit`: changes of settings files that keep the rest as it is, comments included
//! - `page`: docs/clients.md
//!
//! Everything here is a pure function of its input: the command reads and writes the files.

mod clients;
mod installers;
mod json_edit;
mod page;
mod toml_edit;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Serialize;

pub use self::{
    clients::{CLIENTS, Client, Settings},
    installers::{
        INSTALLERS, InstallTarget, Installer, KEY_PLACEHOLDER, MARKETPLACE, NAME_PLACEHOLDER,
        OWN_MARKETPLACE,
    },
    page::page,
};

/// Name of the server in the settings of a client.
pub const SERVER_NAME: &str = "skills";

/// Format of a client's settings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsFormat {
    /// JSON with comments: an object of servers under a key of the document.
    Json {
        /// Key of the object of servers.
        servers: &'static str,
        /// Set if an entry names its transport.
        has_type: bool,
    },
    /// TOML: a table for each server.
    Toml {
        /// Name of the table of servers.
        servers: &'static str,
    },
}

/// Error of an edit: the file has another form than expected and is not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EditError(String);

/// Command that a client starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCommand {
    /// Program, with its path unless it is on the client's `PATH`.
    pub program: String,
    /// Arguments.
    pub arguments: Vec<String>,
}

impl ServerCommand {
    /// Returns the command as a line for a shell.
    #[must_use]
    pub fn shell_line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.arguments);
        words.map(|word| shell_quote(word)).collect::<Vec<_>>().join(" ")
    }
}

/// Quotes a word for a POSIX shell, if it needs quotes.
#[must_use]
pub fn shell_quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl SettingsFormat {
    /// Returns the settings of a client that has no others.
    #[must_use]
    pub fn document(self, command: &ServerCommand) -> String {
        match self {
            Self::Json { servers, .. } => {
                let entry = BTreeMap::from([(SERVER_NAME, self.entry(command))]);
                let document = BTreeMap::from([(servers, entry)]);
                let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
                text.push('\n');
                text
            }
            Self::Toml { servers } => toml_edit::document(servers, SERVER_NAME, command),
        }
    }

    /// Returns whether the text of a settings file has an entry of the server.
    #[must_use]
    pub fn has_server(self, text: &str) -> bool {
        match self {
            Self::Json { servers, .. } => {
                json_edit::has(text, &[servers, SERVER_NAME]).unwrap_or_default()
            }
            Self::Toml { servers } => toml_edit::has(text, servers, SERVER_NAME),
        }
    }

    /// Adds the server to the text of a settings file, or replaces its entry.
    ///
    /// # Errors
    /// When the text does not have the form of the client's settings.
    pub fn edit(self, text: &str, command: &ServerCommand) -> Result<String, EditError> {
        if text.trim().is_empty() {
            return Ok(self.document(command));
        }
        let edited = match self {
            Self::Json { servers, .. } => self.edit_json(text, servers, command),
            Self::Toml { servers } => toml_edit::set(text, servers, SERVER_NAME, command),
        }?;
        // A file of Windows keeps its line ends.
        if text.contains('\n') && text.replace("\r\n", "").find('\n').is_none() {
            return Ok(edited.replace("\r\n", "\n").replace('\n', "\r\n"));
        }
        Ok(edited)
    }

    /// Sets the entry of the server. One that has a command keeps its other members, such as `env`.
    fn edit_json(
        self,
        text: &str,
        servers: &str,
        command: &ServerCommand,
    ) -> Result<String, EditError> {
        let entry = self.entry(command);
        if !json_edit::has(text, &[servers, SERVER_NAME, "command"])? {
            return json_edit::set(text, &[servers], SERVER_NAME, &entry);
        }
        let mut edited = text.to_owned();
        if let Some(kind) = entry.kind {
            edited = json_edit::set(&edited, &[servers, SERVER_NAME], "type", &kind)?;
        }
        edited = json_edit::set(&edited, &[servers, SERVER_NAME], "command", &entry.command)?;
        json_edit::set(&edited, &[servers, SERVER_NAME], "args", &entry.args)
    }

    /// Returns the entry of the server in JSON.
    fn entry(self, command: &ServerCommand) -> ServerEntry<'_> {
        let ServerCommand { program, arguments } = command;
        let has_type = matches!(self, Self::Json { has_type: true, .. });
        ServerEntry { kind: has_type.then_some("stdio"), command: program, args: arguments }
    }
}

/// Entry of a server in JSON, with the fields in the order of the clients' documentation.
#[derive(Debug, Serialize)]
struct ServerEntry<'a> {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    command: &'a str,
    args: &'a [String],
}

impl Client {
    /// Returns the path of the settings file of a user; `None` if the client has none. `config_home` replaces `~/.config`.
    #[must_use]
    pub fn settings_path(&self, home: &Path, config_home: Option<&Path>) -> Option<PathBuf> {
        let settings = self.settings.as_ref()?;
        let is_macos = cfg!(target_os = "macos");
        let path = if is_macos { settings.macos_path } else { settings.path };
        Some(match (path.strip_prefix(".config/"), config_home) {
            (Some(rest), Some(config_home)) => config_home.join(rest),
            _ => home.join(path),
        })
    }
}
