//! The command line, as data. Help, completions and parsing all come from here.

mod people;

use std::{fmt, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use skills_core::Tier;
use skills_mcp::Profile;

pub use people::{GrantArgs, KeyCommand, KeyCreate, KeyRevoke, SecretArgs, SecretCommand};

/// One registry for the skills and prompts that AI agents use.
///
/// Without a command: attach to the iii engine at --url as a worker.
#[derive(Debug, Parser)]
#[command(name = "skills", version, about, max_term_width = 100)]
pub struct Cli {
    /// Print the worker manifest as JSON and exit
    #[arg(long)]
    pub manifest: bool,

    #[command(flatten)]
    pub target: Target,

    /// Configuration file [default: ./config.yaml]
    #[arg(long, value_name = "PATH", global = true)]
    pub config: Option<PathBuf>,

    /// A header of the handshake with the engine, as name=value; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE")]
    pub headers: Vec<String>,

    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Where the registry is.
#[derive(Clone, Args)]
pub struct Target {
    /// A running bus [default: ws://127.0.0.1:49134, if one answers there]
    #[arg(long, value_name = "URL", global = true)]
    pub url: Option<String>,

    /// Directory of the embedded store [default: ./data]
    #[arg(long, value_name = "DIR", global = true)]
    pub data_dir: Option<PathBuf>,

    /// Bearer token of the bus; `serve` asks for it over HTTP too
    #[arg(long, value_name = "TOKEN", global = true)]
    pub token: Option<String>,

    /// Key of the user who asks, which shows their private skills; better given as SKILLS_KEY
    #[arg(long, value_name = "KEY", global = true)]
    pub key: Option<String>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, data_dir, token: _, key: _ } = self;
        f.debug_struct("Target")
            .field("url", url)
            .field("data_dir", data_dir)
            .finish_non_exhaustive()
    }
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
    /// Serve MCP over standard input and output, for a host that starts this program
    Mcp {
        /// How much is offered
        #[arg(long, value_enum, value_name = "PROFILE", default_value_t)]
        profile: McpProfile,
    },
    /// Be an ACP agent on standard input and output, for an editor that starts this program
    Acp {
        /// Who is sent the list of skills, which is a proposal and not part of ACP yet
        #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
        skills_update: WhenSkills,
    },
    /// List all skills
    #[command(visible_alias = "ls")]
    List {
        /// Of every tier, also those that others shadow
        #[arg(long)]
        all: bool,
        /// Only those of a tier
        #[arg(long, value_enum, value_name = "TIER")]
        tier: Option<TierName>,
        #[command(flatten)]
        format: Format,
    },
    /// Find skills by words in their id, title or description
    Search {
        /// The words
        #[arg(required = true)]
        words: Vec<String>,
        /// At most so many
        #[arg(long, default_value_t = 20)]
        limit: usize,
        #[command(flatten)]
        format: Format,
    },
    /// Show a skill with what is known of it
    Show {
        /// The skill's id
        id: String,
        /// Say in which tier it is stored, what it shadows, and where was looked
        #[arg(long)]
        explain: bool,
        /// The copy that a tier holds
        #[arg(long, value_enum, value_name = "TIER")]
        tier: Option<TierName>,
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
    /// Register skills: folders with a SKILL.md, folders of such folders, archives, Markdown files
    Add(Add),
    /// Write the files of a skill into a folder, or everything as lines of the key space
    Export(Export),
    /// Keep the folders that agents read in step with the registry
    Sync(Sync),
    /// Remove skills
    #[command(visible_alias = "rm")]
    Remove {
        /// The skills' ids
        #[arg(required = true)]
        ids: Vec<String>,
        /// From which tier; private needs a key
        #[arg(long, value_enum, value_name = "TIER", default_value_t)]
        tier: TierName,
        #[command(flatten)]
        format: Format,
    },
    /// Say what the specification of Agent Skills thinks of skills on disk
    Validate(Validate),
    /// Take in a file of the key space, or copy between an engine's state and the embedded store
    Import(Import),
    /// Slash commands
    Prompt {
        #[command(subcommand)]
        command: PromptCommand,
    },
    /// Keys of users, in --data-dir, also while a server runs on it: that knows at once
    Key {
        #[command(subcommand)]
        command: KeyCommand,
    },
    /// Secrets of users, in --data-dir, also while a server runs on it: that knows at once
    Secret {
        #[command(subcommand)]
        command: SecretCommand,
    },
    /// Print the completions of a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

/// Where skills are stored, in the order in which names are resolved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum TierName {
    /// Of the user whose key is given
    Private,
    /// Curated; what workers register
    #[default]
    Official,
    /// Published by the community
    Market,
}

impl From<TierName> for Tier {
    fn from(tier: TierName) -> Self {
        match tier {
            TierName::Private => Self::Private,
            TierName::Official => Self::Official,
            TierName::Market => Self::Market,
        }
    }
}

/// How much MCP offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum McpProfile {
    /// Resources, prompts and all tools
    #[default]
    Full,
    /// The four tools of the Model Drive Protocol, and nothing else
    Mdp,
}

impl From<McpProfile> for Profile {
    fn from(profile: McpProfile) -> Self {
        match profile {
            McpProfile::Full => Self::Full,
            McpProfile::Mdp => Self::Mdp,
        }
    }
}

/// Which ACP clients are sent `available_skills_update`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum WhenSkills {
    /// Clients that ask for it when they connect
    #[default]
    OptIn,
    /// All; strict clients fail on it
    Always,
    /// None
    Never,
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
pub struct Validate {
    /// A SKILL.md, the folder it is in, or a folder of such folders
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Judge as a client that loads skills does: what it can live with is a warning
    #[arg(long)]
    pub lenient: bool,
    /// Allow letters and digits of every script in names
    #[arg(long)]
    pub unicode: bool,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Clone, Args)]
pub struct Add {
    /// Folders, .tar.gz, .tgz and .zip archives, and documents; - reads a document from standard input
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// The skill's id, if there is one skill [default: its name, else that of its folder or file]
    #[arg(long)]
    pub id: Option<String>,
    /// Into which tier; private needs a key
    #[arg(long, value_enum, value_name = "TIER", default_value_t)]
    pub tier: TierName,
    /// Keep the registry in step with the folders until interrupted
    #[arg(long, conflicts_with_all = ["id", "dry_run"])]
    pub watch: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Clone, Args)]
pub struct Export {
    /// The skill's id
    #[arg(required_unless_present = "kv")]
    pub id: Option<String>,
    /// The folder that its files are written into
    #[arg(required_unless_present = "kv")]
    pub dir: Option<PathBuf>,
    /// Overwrite what is there and something else
    #[arg(long)]
    pub force: bool,
    /// Print all tiers, keys, profiles and secrets of --data-dir as lines of the key space
    #[arg(long, conflicts_with_all = ["id", "dir", "force", "json"])]
    pub kv: bool,
    #[command(flatten)]
    pub format: Format,
}

/// Whose folders are meant, unless they are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Agents {
    /// .agents/skills, which most agents read
    Agents,
    /// .claude/skills
    Claude,
    /// Both
    Both,
}

#[derive(Debug, Clone, Args)]
pub struct Sync {
    /// Folders of skills [default: .agents/skills and .claude/skills, if .agents or .claude is there]
    #[arg(value_name = "DIR", conflicts_with_all = ["to", "user"])]
    pub dirs: Vec<PathBuf>,
    /// Whose folders, also where they are not there yet; may be repeated
    #[arg(long, value_enum, value_name = "AGENTS", value_delimiter = ',')]
    pub to: Vec<Agents>,
    /// The folders in the home directory, not in the present one
    #[arg(long)]
    pub user: bool,
    /// Overwrite and take back also what was edited, or is somebody else's
    #[arg(long)]
    pub force: bool,
    /// Keep the folders in step with a running server until interrupted
    #[arg(long, conflicts_with = "dry_run")]
    pub watch: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("direction").required(true).args(["file", "from_state", "to_state"]))]
pub struct Import {
    /// Lines of the key space, as `export --kv` writes them, into --data-dir; - reads standard input
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// From the state of the engine at --url into --data-dir
    #[arg(long)]
    pub from_state: bool,
    /// From --data-dir into the state of the engine at --url
    #[arg(long)]
    pub to_state: bool,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// Where iii workers connect; port 0 picks a free one [default: 127.0.0.1:49134]
    #[arg(long, value_name = "ADDR")]
    pub bus: Option<String>,

    /// Where HTTP is served; port 0 picks a free one [default: 127.0.0.1:47372]
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,

    /// A name that HTTP requests may be addressed to, beside localhost; may be repeated
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,

    /// An origin whose web pages may ask over HTTP, beside localhost; may be repeated, * is all
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<String>,

    /// What clients of the Model Drive Protocol must present to register
    #[arg(long, value_name = "TOKEN")]
    pub mdp_token: Option<String>,

    /// An origin that tools may call whatever its address is, such as http://127.0.0.1:8080; with official= before it,
    /// the tools of that tier only; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    pub allow_upstream: Vec<String>,
}

impl Cli {
    /// Takes from the environment what no flag has set. A variable that is empty is one that is not set.
    #[must_use]
    pub fn with_environment(mut self) -> Self {
        let path = |name| environment(name).map(PathBuf::from);
        self.config = self.config.or_else(|| path("III_CONFIG"));
        self.target.data_dir = self.target.data_dir.or_else(|| path("SKILLS_DATA_DIR"));
        self.target.token = self.target.token.or_else(|| environment("III_TOKEN"));
        self.target.key = self.target.key.or_else(|| environment("SKILLS_KEY"));
        if let Some(Command::Serve(serve)) = &mut self.command {
            serve.bus = serve.bus.take().or_else(|| environment("SKILLS_BUS"));
            serve.http = serve.http.take().or_else(|| environment("SKILLS_HTTP"));
        }
        self
    }

    /// Whether the answer, and so also an error, is wanted as JSON.
    #[must_use]
    pub fn wants_json(&self) -> bool {
        match &self.command {
            Some(
                Command::List { format, .. }
                | Command::Search { format, .. }
                | Command::Show { format, .. }
                | Command::Read { format, .. }
                | Command::Add(Add { format, .. })
                | Command::Export(Export { format, .. })
                | Command::Sync(Sync { format, .. })
                | Command::Remove { format, .. }
                | Command::Import(Import { format, .. })
                | Command::Validate(Validate { format, .. })
                | Command::Prompt {
                    command: PromptCommand::List { format } | PromptCommand::Get { format, .. },
                },
            ) => format.json,
            Some(Command::Key { command }) => command.format().json,
            Some(Command::Secret { command }) => command.format().json,
            _ => false,
        }
    }
}

/// A variable of the environment, unless it is empty.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
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
