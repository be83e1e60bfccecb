//! Arguments of the commands for `skills-lock.json`: `lock`, `install`, `verify` and `outdated`.

use std::path::PathBuf;

use clap::Args;

use super::{AgentFolders, OutputFormat};

#[derive(Debug, Clone, Args)]
pub struct LockArgs {
    /// Skill folders [default: .agents/skills and .claude/skills, if .agents or .claude exists]
    #[arg(value_name = "DIR", conflicts_with = "to")]
    pub dirs: Vec<PathBuf>,
    /// Agents whose folders to read; can be repeated
    #[arg(long, value_enum, value_name = "AGENTS", value_delimiter = ',')]
    pub to: Vec<AgentFolders>,
    /// URL of the server that others install the registry's skills from
    #[arg(long, value_name = "URL")]
    pub from: Option<String>,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct InstallArgs {
    /// Skill folders [default: .agents/skills and .claude/skills, if .agents or .claude exists]
    #[arg(value_name = "DIR", conflicts_with = "to")]
    pub dirs: Vec<PathBuf>,
    /// Agents whose folders to write, created if missing; can be repeated
    #[arg(long, value_enum, value_name = "AGENTS", value_delimiter = ',')]
    pub to: Vec<AgentFolders>,
    /// Fail, and write nothing, if a source does not have the content of the lockfile
    #[arg(long)]
    pub frozen: bool,
    /// Overwrite and remove also edited skills and skills that install did not write
    #[arg(long)]
    pub force: bool,
    /// Print what would be done without doing it
    #[arg(long)]
    pub dry_run: bool,
    /// Allow http:// to other machines
    #[arg(long)]
    pub insecure: bool,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct VerifyArgs {
    /// Skill folders [default: .agents/skills and .claude/skills, if .agents or .claude exists]
    #[arg(value_name = "DIR", conflicts_with = "to")]
    pub dirs: Vec<PathBuf>,
    /// Agents whose folders to read; can be repeated
    #[arg(long, value_enum, value_name = "AGENTS", value_delimiter = ',')]
    pub to: Vec<AgentFolders>,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct OutdatedArgs {
    /// Names of the skills [default: all]
    pub names: Vec<String>,
    /// Allow http:// to other machines
    #[arg(long)]
    pub insecure: bool,
    #[command(flatten)]
    pub format: OutputFormat,
}
