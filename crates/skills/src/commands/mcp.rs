//! `skills mcp`: MCP on stdin and stdout.

use skills_core::Code;
use skills_mcp::{Mcp, Settings};
use tokio_util::sync::CancellationToken;

use crate::{
    Failure,
    cli::{ProfileArg, Target},
    config::Config,
    surface_registry,
};

pub(super) async fn run(
    profile: ProfileArg,
    target: &Target,
    config: &Config,
) -> Result<(), Failure> {
    let shutdown = CancellationToken::new();
    super::stop_on_signal(shutdown.clone())?;
    surface_registry::run("mcp", target, config, async |skills, executor| {
        let settings = Settings { profile: profile.into(), shutdown, ..Settings::default() };
        let mcp = Mcp::new(skills, executor, settings);
        let served = skills_mcp::stdio::serve(&mcp).await;
        served.map_err(|error| Failure::new(Code::Mcp, error.to_string()))
    })
    .await
}
