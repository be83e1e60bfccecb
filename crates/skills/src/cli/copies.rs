//! Arguments of the commands that copy content out of the registry and into it: `export`, `sync`, `import`,
//! `backup`, `restore` and `store copy`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::OutputFormat;

#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    /// Id of the skill, or ID@VERSION
    #[arg(required_unless_present = "kv")]
    pub id: Option<String>,
    /// Folder to write the files to
    #[arg(required_unless_present = "kv")]
    pub dir: Option<PathBuf>,
    /// Overwrite files that differ
    #[arg(long)]
    pub force: bool,
    /// Print skills of all tiers, keys, profiles and secrets of the registry as key-value lines
    #[arg(long, conflicts_with_all = ["id", "dir", "force", "json"])]
    pub kv: bool,
    #[command(flatten)]
    pub format: OutputFormat,
}

/// Agents whose skill folders are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AgentFolders {
    /// .agents/skills, which most agents read
    Agents,
    /// .claude/skills
    Claude,
    /// Both folders
    Both,
}

#[derive(Debug, Clone, Args)]
pub struct SyncArgs {
    /// Skill folders [default: .agents/skills and .claude/skills, if .agents or .claude exists]
    #[arg(value_name = "DIR", conflicts_with_all = ["to", "user"])]
    pub dirs: Vec<PathBuf>,
    /// Agents whose folders to write, created if missing; can be repeated
    #[arg(long, value_enum, value_name = "AGENTS", value_delimiter = ',')]
    pub to: Vec<AgentFolders>,
    /// Use the folders in the home directory instead of the current one
    #[arg(long)]
    pub user: bool,
    /// Only write this skill, ID or ID@VERSION, and leave others as they are; can be repeated
    #[arg(long = "skill", value_name = "ID")]
    pub skills: Vec<String>,
    /// Overwrite and remove also edited skills and skills that sync did not write
    #[arg(long)]
    pub force: bool,
    /// Watch a running server and update the folders until interrupted
    #[arg(long, conflicts_with = "dry_run")]
    pub watch: bool,
    /// Print what would be done without doing it
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("direction").required(true).args(["file", "from_state", "to_state"]))]
pub struct ImportArgs {
    /// File written by `export --kv`, to import into the registry; - reads stdin
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Copy from the state of the engine at --url to the registry of --data-dir or --store
    #[arg(long)]
    pub from_state: bool,
    /// Copy from the registry of --data-dir or --store to the state of the engine at --url
    #[arg(long)]
    pub to_state: bool,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct BackupArgs {
    /// File to write
    pub file: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct RestoreArgs {
    /// File written by `backup`
    pub file: PathBuf,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Clone, Subcommand)]
pub enum StoreCommand {
    /// Copy everything, keys and secrets included, into an empty store
    Copy(StoreCopyArgs),
}

#[derive(Clone, Args)]
pub struct StoreCopyArgs {
    /// Store to copy: sqlite:DIR, also while a server runs on it, or postgres://…
    #[arg(long, value_name = "STORE")]
    pub from: String,
    /// Empty store to copy to: sqlite:DIR or postgres://…
    #[arg(long, value_name = "STORE")]
    pub to: String,
    #[command(flatten)]
    pub format: OutputFormat,
}

impl std::fmt::Debug for StoreCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The addresses may have passwords.
        f.write_str("StoreCommand")
    }
}
