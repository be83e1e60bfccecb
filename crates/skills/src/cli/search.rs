//! Arguments of `search`, `index` and `doctor`.

use clap::{Args, Subcommand, ValueEnum};
use skills_registry::search::DEFAULT_LIMIT;

use super::{OutputFormat, TierArg};

/// Kind of entries to search for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KindArg {
    /// Skills without a manifest
    Skill,
    /// Prompts
    Prompt,
    /// Skills that can be called
    Tool,
    /// Entries of live clients
    Live,
}

impl KindArg {
    /// Returns the name of the kind.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Skill => "skill",
            Self::Prompt => "prompt",
            Self::Tool => "tool",
            Self::Live => "live",
        }
    }
}

#[derive(Debug, Clone, Args)]
pub struct SearchArgs {
    /// Words or a sentence; "phrases", -word after another word, and filters: tag:, tool:, tier:, kind:
    #[arg(required = true, value_name = "WORD")]
    pub words: Vec<String>,
    /// Only search entries of this kind
    #[arg(long, value_enum, value_name = "KIND")]
    pub kind: Option<KindArg>,
    /// Only search this tier, including skills that are shadowed by another
    #[arg(long, value_enum, value_name = "TIER")]
    pub tier: Option<TierArg>,
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LIMIT)]
    pub limit: usize,
    /// Go on after a page: the cursor that it printed
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct IndexArgs {
    /// Task or words; skills that match come first
    #[arg(long, value_name = "TEXT")]
    pub query: Option<String>,
    /// Most tokens of the index
    #[arg(long, value_name = "TOKENS")]
    pub budget: Option<usize>,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// Part to check
    #[command(subcommand)]
    pub command: Option<DoctorCommand>,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum DoctorCommand {
    /// Report skills that are hard to find, or that compete for the same searches
    Search {
        /// List the queries that found nothing in the last 30 days instead
        #[arg(long)]
        misses: bool,
        #[command(flatten)]
        format: OutputFormat,
    },
}
