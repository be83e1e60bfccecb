//! The command line, as data. Help, completions and parsing all come from here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

/// One registry for the skills and prompts that AI agents use.
#[derive(Debug, Parser)]
#[command(name = "skills", version, about, long_about = None, max_term_width = 100)]
pub struct Cli {
    /// Print the worker manifest as JSON and exit
    #[arg(long)]
    pub manifest: bool,

    #[command(flatten)]
    pub target: Target,

    /// Configuration file [default: ./config.yaml]
    #[arg(long, value_name = "PATH", env = "III_CONFIG", global = true, hide_env_values = true)]
    pub config: Option<PathBuf>,

    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Where the registry is.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// A running bus [default: ws://127.0.0.1:49134, if one answers there]
    #[arg(long, value_name = "URL", global = true)]
    pub url: Option<String>,

    /// Directory of the embedded store [default: ./data]
    #[arg(
        long,
        value_name = "DIR",
        env = "SKILLS_DATA_DIR",
        global = true,
        hide_env_values = true
    )]
    pub data_dir: Option<PathBuf>,

    /// Bearer token of the bus
    #[arg(long, value_name = "TOKEN", env = "III_TOKEN", global = true, hide_env_values = true)]
    pub token: Option<String>,
}

/// How a command answers.
#[derive(Debug, Clone, Copy, Args)]
pub struct Format {
    /// Answer as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve bus, registry and HTTP in one process
    Serve(Serve),
    /// List all skills
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        format: Format,
    },
    /// Show a skill with what is known of it
    Show {
        /// The skill's id
        id: String,
        #[command(flatten)]
        format: Format,
    },
    /// Print what a URI names: iii://skills, iii://{id} or iii://{id}/{function}
    Read {
        /// The URI
        uri: String,
        #[command(flatten)]
        format: Format,
    },
    /// Register a Markdown file as a skill
    Add {
        /// The file; - reads standard input
        file: PathBuf,
        /// The skill's id [default: the file's name without .md]
        #[arg(long)]
        id: Option<String>,
        #[command(flatten)]
        format: Format,
    },
    /// Remove skills
    #[command(visible_alias = "rm")]
    Remove {
        /// The skills' ids
        #[arg(required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        format: Format,
    },
    /// Slash commands
    Prompt {
        #[command(subcommand)]
        command: PromptCommand,
    },
    /// Print the completions of a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

#[derive(Debug, Subcommand)]
pub enum PromptCommand {
    /// List all prompts
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        format: Format,
    },
    /// Render a prompt
    Get {
        /// The prompt's name
        name: String,
        /// Its arguments, as name=value
        #[arg(value_name = "NAME=VALUE")]
        arguments: Vec<String>,
        #[command(flatten)]
        format: Format,
    },
}

#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// Where iii workers connect; port 0 picks a free one
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:49134",
        env = "SKILLS_BUS",
        hide_env_values = true
    )]
    pub bus: String,

    /// Where HTTP is served; port 0 picks a free one
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:47372",
        env = "SKILLS_HTTP",
        hide_env_values = true
    )]
    pub http: String,
}

impl Cli {
    /// Whether the answer, and so also an error, is wanted as JSON.
    #[must_use]
    pub fn wants_json(&self) -> bool {
        match &self.command {
            Some(
                Command::List { format }
                | Command::Show { format, .. }
                | Command::Read { format, .. }
                | Command::Add { format, .. }
                | Command::Remove { format, .. }
                | Command::Prompt {
                    command: PromptCommand::List { format } | PromptCommand::Get { format, .. },
                },
            ) => format.json,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
