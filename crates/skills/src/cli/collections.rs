//! Arguments of `collection`.

use clap::{Args, Subcommand};

use super::{OutputFormat, TierArg, VersionCommand};

#[derive(Debug, Subcommand)]
pub enum CollectionCommand {
    /// Create a collection, or change its title and description
    Create(CreateCollectionArgs),
    /// Add skills to a collection
    Add(CollectionSkillsArgs),
    /// Remove skills from a collection
    Remove(CollectionSkillsArgs),
    /// List collections
    List {
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Show a collection and its skills
    Show {
        /// Name of the collection
        name: String,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Delete a collection; its skills stay
    Delete {
        /// Name of the collection
        name: String,
        /// Tier of the collection; private requires a key [default: the one that its name resolves to]
        #[arg(long, value_enum, value_name = "TIER")]
        tier: Option<TierArg>,
        #[command(flatten)]
        format: OutputFormat,
    },
    #[command(flatten)]
    Version(VersionCommand),
}

#[derive(Debug, Clone, Args)]
pub struct CreateCollectionArgs {
    /// Name of the collection: lowercase letters, digits, '-' and '_'
    pub name: String,
    /// Skills: ID or ID@LABEL
    #[arg(value_name = "SKILL")]
    pub skills: Vec<String>,
    /// Title for people [default: the name]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// What the collection is for
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Tier to store it in; private requires a key
    #[arg(long, value_enum, value_name = "TIER", default_value_t)]
    pub tier: TierArg,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct CollectionSkillsArgs {
    /// Name of the collection
    pub name: String,
    /// Skills: ID or ID@LABEL
    #[arg(required = true, value_name = "SKILL")]
    pub skills: Vec<String>,
    #[command(flatten)]
    pub format: OutputFormat,
}

impl CollectionCommand {
    /// Returns the output format.
    #[must_use]
    pub const fn format(&self) -> OutputFormat {
        match self {
            Self::Create(CreateCollectionArgs { format, .. })
            | Self::Add(CollectionSkillsArgs { format, .. })
            | Self::Remove(CollectionSkillsArgs { format, .. })
            | Self::List { format }
            | Self::Show { format, .. }
            | Self::Delete { format, .. } => *format,
            Self::Version(command) => command.format(),
        }
    }
}
