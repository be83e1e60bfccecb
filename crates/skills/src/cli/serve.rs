//! Arguments of the commands that serve: `serve`, `mcp` and `acp`.

use clap::{Args, ValueEnum};
use skills_mcp::McpProfile;

#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Address for iii workers; port 0 picks a free port [env: SKILLS_BUS] [default: 127.0.0.1:49134]
    #[arg(long, value_name = "ADDR")]
    pub bus: Option<String>,

    /// Address for HTTP; port 0 picks a free port [env: SKILLS_HTTP] [default: 127.0.0.1:47372]
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,

    /// Host name to accept in HTTP requests in addition to localhost; can be repeated
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,

    /// Web origin to accept in addition to localhost; can be repeated; * and null only allow reading the public catalog
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<String>,

    /// Token that clients of the Model Drive Protocol must present [env: SKILLS_MDP_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub mdp_token: Option<String>,

    /// Do not serve the console
    #[arg(long)]
    pub no_console: bool,

    /// Origin that tools may call whatever its address, such as http://127.0.0.1:8080; prefix with official= to allow
    /// only tools of that tier; can be repeated
    #[arg(long, value_name = "ORIGIN")]
    pub allow_upstream: Vec<String>,
}

/// Features that MCP offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ProfileArg {
    /// Resources, prompts and all tools
    #[default]
    Full,
    /// Only the four tools of the Model Drive Protocol
    Mdp,
    /// Like full, with skill://NAME/SKILL.md and its manifest as resources (FastMCP helpers)
    Skills,
}

impl From<ProfileArg> for McpProfile {
    fn from(profile: ProfileArg) -> Self {
        match profile {
            ProfileArg::Full => Self::Full,
            ProfileArg::Mdp => Self::Mdp,
            ProfileArg::Skills => Self::Skills,
        }
    }
}

/// ACP clients that get `available_skills_update`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SkillsUpdateArg {
    /// Clients that ask for it when they connect
    #[default]
    OptIn,
    /// All clients; strict ones fail on it
    Always,
    /// No client
    Never,
}
