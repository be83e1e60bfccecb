//! Arguments of `init`, `connect` and `prompt add`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use skills_client_setup::{CLIENTS, INSTALLERS};

use super::{OutputFormat, PublishArgs, TierArg};

/// Optional part of a new skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SkillPart {
    /// An executable script in scripts/
    Scripts,
    /// A document in references/
    References,
    /// A template in assets/
    Assets,
}

#[derive(Debug, Clone, Args)]
pub struct InitArgs {
    /// Name of the skill: lowercase letters, digits and hyphens
    pub name: String,
    /// Folder to create the skill in
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// What the skill does and when to use it
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Parts to create in addition to SKILL.md; can be repeated
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    pub with: Vec<SkillPart>,
    #[command(flatten)]
    pub format: OutputFormat,
}

/// Returns the names of all clients, each once.
fn client_names() -> impl Iterator<Item = &'static str> {
    let is_new = |name: &&str| !CLIENTS.iter().any(|client| client.name == *name);
    let installers = INSTALLERS.iter().map(|installer| installer.name).filter(is_new);
    CLIENTS.iter().map(|client| client.name).chain(installers)
}

#[derive(Debug, Clone, Args)]
pub struct ConnectArgs {
    /// Client to set up
    #[arg(
        required_unless_present = "list",
        value_parser = PossibleValuesParser::new(client_names())
    )]
    pub client: Option<String>,
    /// Change the client's settings file, after printing the difference and making a backup
    #[arg(long)]
    pub write: bool,
    /// URL of the server that the client installs skills from [default: public_url of the configuration, else the server of the data directory, or http://127.0.0.1:47372]
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Print the key in the lines for the installer instead of KEY
    #[arg(long)]
    pub show_key: bool,
    /// List the clients and their settings files
    #[arg(long, conflicts_with_all = ["client", "write"])]
    pub list: bool,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct PromptAddArgs {
    /// Name of the prompt
    pub name: String,
    /// Function that renders it
    #[arg(long, value_name = "ID")]
    pub function: String,
    /// What the prompt does
    #[arg(long, value_name = "TEXT")]
    pub description: String,
    /// Required argument; can be repeated
    #[arg(long, value_name = "NAME[=TEXT]")]
    pub required: Vec<String>,
    /// Optional argument; can be repeated
    #[arg(long, value_name = "NAME[=TEXT]")]
    pub optional: Vec<String>,
    /// Tier to register in; private requires a key
    #[arg(long, value_enum, value_name = "TIER", default_value_t)]
    pub tier: TierArg,
    #[command(flatten)]
    pub publish: PublishArgs,
    #[command(flatten)]
    pub format: OutputFormat,
}
