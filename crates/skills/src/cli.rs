//! The command line as data. Help, completions and parsing are derived from it.

mod accounts;
mod bundles;
mod collections;
mod copies;
mod duration;
mod help_options;
mod lock;
mod prompts;
mod search;
mod serve;
mod set_up;
mod sources;
mod target;
mod versions;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand, ValueEnum, error::ErrorKind};
use clap_complete::Shell;
use skills_core::{Code, Tier};

use self::target::COMMON_OPTIONS;
use crate::{Failure, connect, environment, token_rules::TokenUse};

pub(crate) use self::duration::parse_duration;
pub use self::{
    accounts::{GrantArgs, KeyCommand, KeyCreateArgs, KeyRevokeArgs, SecretArgs, SecretCommand},
    bundles::{AddArgs, ConflictArg, RemoveArgs, UpdateArgs, ValidateArgs},
    collections::{CollectionCommand, CollectionSkillsArgs, CreateCollectionArgs},
    copies::{
        AgentFolders, BackupArgs, ExportArgs, ImportArgs, RestoreArgs, StoreCommand, StoreCopyArgs,
        SyncArgs,
    },
    help_options::command,
    lock::{InstallArgs, LockArgs, OutdatedArgs, VerifyArgs},
    prompts::PromptCommand,
    search::{DoctorArgs, DoctorCommand, IndexArgs, KindArg, SearchArgs},
    serve::{ProfileArg, ServeArgs, SkillsUpdateArg},
    set_up::{ConnectArgs, InitArgs, PromptAddArgs, SkillPart},
    sources::SourceCommand,
    target::Target,
    versions::{
        DiffArgs, GcArgs, HistoryArgs, LabelArgs, LogArgs, PublishArgs, RollbackArgs,
        VersionCommand, YankArgs,
    },
};

/// Registry of skills and prompts for AI agents.
///
/// Without a command, attaches to the iii engine at --url as a worker.
#[derive(Debug, Parser)]
#[command(name = "skills", version, about, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// Print the worker manifest as JSON and exit
    #[arg(long)]
    pub manifest: bool,

    #[command(flatten)]
    pub target: Target,

    /// Configuration file [env: III_CONFIG] [default: ./config.yaml, if it exists]
    #[arg(long, value_name = "PATH", global = true, help_heading = COMMON_OPTIONS)]
    pub config: Option<PathBuf>,

    /// Format of the log on stderr
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        global = true,
        help_heading = COMMON_OPTIONS,
        env = "SKILLS_LOG_FORMAT",
        hide_env_values = true
    )]
    pub log_format: LogFormat,

    /// Header to send in the handshake with the engine; can be repeated
    #[arg(long = "header", value_name = "NAME=VALUE")]
    pub headers: Vec<String>,

    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Format of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line of text per event
    #[default]
    Text,
    /// One JSON object per event
    Json,
}

/// Output format of a command.
#[derive(Debug, Clone, Copy, Args)]
pub struct OutputFormat {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server: bus, registry and HTTP in one process
    Serve(ServeArgs),
    /// Serve MCP on stdin and stdout, for a host that starts this program
    Mcp {
        /// Features to offer
        #[arg(long, value_enum, value_name = "PROFILE", default_value_t)]
        profile: ProfileArg,
    },
    /// Run as an ACP agent on stdin and stdout, for an editor that starts this program
    Acp {
        /// Clients that get the list of skills, a proposed extension of ACP
        #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
        skills_update: SkillsUpdateArg,
    },
    /// List skills
    #[command(visible_alias = "ls")]
    List {
        /// Include skills that are shadowed by another tier
        #[arg(long)]
        all: bool,
        /// Only list skills of this tier
        #[arg(long, value_enum, value_name = "TIER")]
        tier: Option<TierArg>,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Search skills, tools and prompts by words of their names, descriptions and texts
    Search(SearchArgs),
    /// Print the index of skills, those that match a query first
    Index(IndexArgs),
    /// Show a skill and its metadata
    Show {
        /// Id of the skill, or ID@VERSION
        id: String,
        /// Show the tier it is stored in, the entries it shadows, and the layers searched
        #[arg(long)]
        explain: bool,
        /// Show the copy in this tier
        #[arg(long, value_enum, value_name = "TIER")]
        tier: Option<TierArg>,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Print a resource: iii://skills, iii://{id}, iii://{id}@{version} or iii://{id}/{path}
    Read {
        /// URI of the resource
        uri: String,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Register skills from folders with a SKILL.md, folders of such folders, archives, Markdown files or repositories
    Add(AddArgs),
    /// Fetch skills again, of skills-lock.json or of the registry, and show what would change
    Update(UpdateArgs),
    /// Write the files of a skill to a folder, or export the whole registry
    Export(ExportArgs),
    /// Write the registry's skills to the folders that agents read
    Sync(SyncArgs),
    /// Write the skills in the folders of agents to skills-lock.json
    Lock(LockArgs),
    /// Write the skills of skills-lock.json to the folders that agents read
    Install(InstallArgs),
    /// Compare the skills in the folders of agents with skills-lock.json
    Verify(VerifyArgs),
    /// List the skills of skills-lock.json whose sources have other content
    Outdated(OutdatedArgs),
    /// Remove skills
    #[command(visible_alias = "rm")]
    Remove(RemoveArgs),
    #[command(flatten)]
    Version(VersionCommand),
    /// Show who changed what, newest first
    Log(LogArgs),
    /// Remove the content of old versions
    Gc(GcArgs),
    /// Create a skill in a new folder
    Init(InitArgs),
    /// Set up an MCP client to use this registry
    Connect(ConnectArgs),
    /// Show which registry is used, what it holds and who is connected
    Status {
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Check the set-up of this machine
    Doctor(DoctorArgs),
    /// Validate skills on disk against the Agent Skills specification
    Validate(ValidateArgs),
    /// Import an export file, or copy between an engine's state and the registry
    Import(ImportArgs),
    /// Write the whole registry to one file, also while a server runs
    Backup(BackupArgs),
    /// Read a backup into an empty registry: that of --data-dir or --store
    Restore(RestoreArgs),
    /// Copy a whole registry into another store
    Store {
        #[command(subcommand)]
        command: StoreCommand,
    },
    /// List and render prompts (slash commands)
    Prompt {
        #[command(subcommand)]
        command: PromptCommand,
    },
    /// Manage user keys of the registry (safe while servers run; takes effect immediately)
    Key {
        #[command(subcommand)]
        command: KeyCommand,
    },
    /// Manage user secrets of the registry (safe while servers run; takes effect immediately)
    Secret {
        #[command(subcommand)]
        command: SecretCommand,
    },
    /// Manage named lists of skills
    Collection {
        #[command(subcommand)]
        command: CollectionCommand,
    },
    /// Manage the places that the server imports skills from
    Source {
        #[command(subcommand)]
        command: SourceCommand,
    },
    /// Print the help of a command, or a page of the documentation
    Help {
        /// Command or page
        topic: Vec<String>,
    },
    /// Print a shell completion script
    Completions {
        /// Shell to generate the script for
        shell: Shell,
    },
}

/// Storage tier, in order of resolution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum TierArg {
    /// Skills of the user whose key is given
    Private,
    /// Curated skills, and what workers register
    #[default]
    Official,
    /// Skills published by the community
    Market,
}

impl From<TierArg> for Tier {
    fn from(tier: TierArg) -> Self {
        match tier {
            TierArg::Private => Self::Private,
            TierArg::Official => Self::Official,
            TierArg::Market => Self::Market,
        }
    }
}

impl Cli {
    /// Parses the arguments of this process.
    ///
    /// # Errors
    /// The exit code, after help or a usage error was printed; with `--json` the error is JSON.
    pub fn parse_arguments() -> Result<Self, ExitCode> {
        Self::try_parse().map_err(|error| {
            let is_json = || std::env::args_os().any(|argument| argument == "--json");
            if error.kind() == ErrorKind::DisplayHelp {
                help_options::print(std::env::args());
            } else if error.use_stderr() && is_json() {
                let message = error.render().to_string();
                let message = message.trim_start_matches("error: ").trim();
                Failure::new(Code::BadArgument, message).print(true);
            } else {
                let _ = error.print();
            }
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        })
    }

    /// Fills in settings that no flag sets from the environment.
    ///
    /// # Errors
    /// When a security setting is set and cannot be used.
    pub fn with_environment(mut self) -> Result<Self, Failure> {
        if self.manifest
            || matches!(
                self.command,
                Some(
                    Command::Completions { .. }
                        | Command::Validate(_)
                        | Command::Init(_)
                        | Command::Help { .. }
                )
            )
        {
            return Ok(self);
        }
        let Self { target, config, command, .. } = &mut self;
        if config.is_none() {
            *config = environment::required_path("III_CONFIG")?;
        }
        // For a server the directory is no choice of the store: a unit file names it, and it has the files of imports.
        let is_server = matches!(command, None | Some(Command::Serve(_)));
        target.is_data_dir_chosen =
            target.data_dir.is_some() && target.store.is_none() && !is_server;
        target.data_dir = target.data_dir.take().or_else(|| environment::path("SKILLS_DATA_DIR"));
        if target.store.is_none() && !target.is_data_dir_chosen {
            target.store = environment::text("SKILLS_STORE")?;
        }
        let token_use = match command {
            Some(Command::Serve(_)) => TokenUse::Required,
            _ => TokenUse::Presented,
        };
        let token = target.token.take();
        target.token = environment::flag_or_token("--token", token, "III_TOKEN", token_use)?;
        if target.key.is_none() {
            target.key = environment::text("SKILLS_KEY")?;
        }
        if target.url.is_none() {
            target.env_url = connect::url_from_environment()?;
        }
        if let Some(Command::Serve(serve)) = command {
            for (slot, name) in [(&mut serve.bus, "SKILLS_BUS"), (&mut serve.http, "SKILLS_HTTP")] {
                if slot.is_none() {
                    *slot = environment::text(name)?;
                }
            }
        }
        Ok(self)
    }

    /// Returns whether this is a process that runs until it is stopped, whose log is read by an operator.
    #[must_use]
    pub const fn is_service(&self) -> bool {
        match &self.command {
            None | Some(Command::Serve(_) | Command::Mcp { .. } | Command::Acp { .. }) => true,
            Some(Command::Add(AddArgs { watch, .. }) | Command::Sync(SyncArgs { watch, .. })) => {
                *watch
            }
            Some(_) => false,
        }
    }

    /// Returns whether output and errors are printed as JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        match &self.command {
            Some(
                Command::List { format, .. }
                | Command::Search(SearchArgs { format, .. })
                | Command::Index(IndexArgs { format, .. })
                | Command::Show { format, .. }
                | Command::Read { format, .. }
                | Command::Add(AddArgs { format, .. })
                | Command::Update(UpdateArgs { format, .. })
                | Command::Export(ExportArgs { format, .. })
                | Command::Sync(SyncArgs { format, .. })
                | Command::Lock(LockArgs { format, .. })
                | Command::Install(InstallArgs { format, .. })
                | Command::Verify(VerifyArgs { format, .. })
                | Command::Outdated(OutdatedArgs { format, .. })
                | Command::Remove(RemoveArgs { format, .. })
                | Command::Import(ImportArgs { format, .. })
                | Command::Backup(BackupArgs { format, .. })
                | Command::Restore(RestoreArgs { format, .. })
                | Command::Init(InitArgs { format, .. })
                | Command::Connect(ConnectArgs { format, .. })
                | Command::Status { format }
                | Command::Doctor(
                    DoctorArgs { command: None, format }
                    | DoctorArgs { command: Some(DoctorCommand::Search { format, .. }), .. },
                )
                | Command::Validate(ValidateArgs { format, .. })
                | Command::Log(LogArgs { format, .. })
                | Command::Gc(GcArgs { format, .. }),
            ) => format.json,
            Some(Command::Store { command: StoreCommand::Copy(args) }) => args.format.json,
            Some(Command::Version(command)) => command.format().json,
            Some(Command::Prompt { command }) => command.format().json,
            Some(Command::Key { command }) => command.format().json,
            Some(Command::Secret { command }) => command.format().json,
            Some(Command::Source { command }) => command.format().json,
            Some(Command::Collection { command }) => command.format().json,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
