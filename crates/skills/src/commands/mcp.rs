//! `skills mcp`: MCP over standard input and output.

use skills_mcp::{Mcp, Settings};
use tokio_util::sync::CancellationToken;

use crate::{
    Failure,
    cli::{McpProfile, Target},
    config::Config,
    open,
};

pub(super) async fn run(
    profile: McpProfile,
    target: &Target,
    config: &Config,
) -> Result<(), Failure> {
    let shutdown = CancellationToken::new();
    super::stop_on_signal(shutdown.clone())?;
    open::run("mcp", target, config, async |skills| {
        let mcp =
            Mcp::new(skills, Settings { profile: profile.into(), shutdown, ..Settings::default() });
        let served = skills_mcp::stdio::serve(&mcp).await;
        served.map_err(|error| Failure::new("mcp", error.to_string()))
    })
    .await
}
