//! Arguments of `source`.

use clap::Subcommand;

use super::OutputFormat;

#[derive(Debug, Clone, Subcommand)]
pub enum SourceCommand {
    /// List the sources of the configuration
    List {
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Import sources now
    Sync {
        /// Names of the sources [default: all]
        names: Vec<String>,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Show the result of the last import of each source
    Status {
        #[command(flatten)]
        format: OutputFormat,
    },
}

impl SourceCommand {
    /// Returns the output format.
    #[must_use]
    pub const fn format(&self) -> OutputFormat {
        match self {
            Self::List { format } | Self::Sync { format, .. } | Self::Status { format } => *format,
        }
    }
}
