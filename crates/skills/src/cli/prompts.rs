//! The commands for prompts.

use clap::Subcommand;

use super::{OutputFormat, PromptAddArgs, VersionCommand};

#[derive(Debug, Subcommand)]
pub enum PromptCommand {
    /// List prompts
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Register a prompt that a function of a worker renders
    Add(PromptAddArgs),
    /// Render a prompt
    Get {
        /// Name of the prompt, or NAME@VERSION
        name: String,
        /// Arguments of the prompt
        #[arg(value_name = "NAME=VALUE")]
        arguments: Vec<String>,
        #[command(flatten)]
        format: OutputFormat,
    },
    #[command(flatten)]
    Version(VersionCommand),
}

impl PromptCommand {
    pub(super) const fn format(&self) -> OutputFormat {
        match self {
            Self::List { format }
            | Self::Add(PromptAddArgs { format, .. })
            | Self::Get { format, .. } => *format,
            Self::Version(command) => command.format(),
        }
    }
}
