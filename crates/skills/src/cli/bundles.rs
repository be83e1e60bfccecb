//! Arguments of the commands that change skills and check them: `add`, `update`, `remove` and `validate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{OutputFormat, PublishArgs, TierArg};

#[derive(Debug, Clone, Args)]
pub struct AddArgs {
    /// Folders, archives (.zip, .skill, .tar, .tar.gz, .tar.zst), documents, repositories (owner/repo[/path][@ref] or URL[@ref]),
    /// https:// URLs of archives, sites and marketplaces, skills+https://HOST/ID[@VERSION]; - reads a document from stdin
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<PathBuf>,
    /// Id of the skill, if SOURCE is a single skill [default: its name, or that of its folder or file]
    #[arg(long)]
    pub id: Option<String>,
    /// Text to put before every id, such as acme-
    #[arg(long, value_name = "TEXT", conflicts_with = "id")]
    pub prefix: Option<String>,
    /// Tier to register in; private requires a key
    #[arg(long, value_enum, value_name = "TIER", default_value_t)]
    pub tier: TierArg,
    /// Skills whose id has content from another source
    #[arg(long, value_enum, value_name = "ACTION", default_value_t)]
    pub on_conflict: ConflictArg,
    /// Replace content from another source; short for --on-conflict replace
    #[arg(long, conflicts_with = "on_conflict")]
    pub replace: bool,
    /// Register documents that are not valid Agent Skills as plain Markdown
    #[arg(long)]
    pub plain: bool,
    /// Host of owner/repo [default: git_host of the configuration, or github.com]
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Allow http:// to other machines
    #[arg(long)]
    pub insecure: bool,
    /// Watch the folders and update the registry until interrupted
    #[arg(long, conflicts_with_all = ["id", "dry_run", "if_version"])]
    pub watch: bool,
    /// Print what would be done without doing it
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub publish: PublishArgs,
    #[command(flatten)]
    pub format: OutputFormat,
}

/// Treatment of skills that would replace content from another source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ConflictArg {
    /// Report an error and keep the registered skill
    #[default]
    Refuse,
    /// Keep the registered skill
    Skip,
    /// Replace the registered skill
    Replace,
    /// Register under a free id: ID-2, ID-3, …
    Rename,
}

#[derive(Debug, Clone, Args)]
pub struct UpdateArgs {
    /// Ids of the skills, or names in the lockfile [default: all of the lockfile, or all that came from a repository or a URL]
    pub ids: Vec<String>,
    /// Apply the changes without asking
    #[arg(long, short)]
    pub yes: bool,
    /// Print what would change without doing it or asking
    #[arg(long, conflicts_with = "yes")]
    pub plan: bool,
    /// Update the registry, also in a folder with a skills-lock.json
    #[arg(long)]
    pub registry: bool,
    /// Overwrite edited skills in the folders
    #[arg(long)]
    pub force: bool,
    /// Allow http:// to other machines
    #[arg(long)]
    pub insecure: bool,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct RemoveArgs {
    /// Ids of the skills
    #[arg(required = true)]
    pub ids: Vec<String>,
    /// Tier to remove from; private requires a key [default: the tier that `show` shows]
    #[arg(long, value_enum, value_name = "TIER")]
    pub tier: Option<TierArg>,
    /// Do not ask on a terminal
    #[arg(long, short)]
    pub yes: bool,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct ValidateArgs {
    /// A SKILL.md, the folder it is in, a folder of such folders, or an archive such as a .skill file
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Validate like a client that loads skills: report what it tolerates as warnings
    #[arg(long)]
    pub lenient: bool,
    /// Allow letters and digits of all scripts in names
    #[arg(long)]
    pub unicode: bool,
    /// Also report skills that a search would not find, or that compete for the same searches
    #[arg(long)]
    pub routing: bool,
    #[command(flatten)]
    pub format: OutputFormat,
}
