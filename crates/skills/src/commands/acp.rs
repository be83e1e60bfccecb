//! `skills acp`: an ACP agent on stdin and stdout.

use skills_acp::SkillsUpdate;
use skills_core::Code;
use tokio_util::sync::CancellationToken;

use crate::{
    Failure,
    cli::{SkillsUpdateArg, Target},
    config::Config,
    surface_registry,
};

pub(super) async fn run(
    when: SkillsUpdateArg,
    target: &Target,
    config: &Config,
) -> Result<(), Failure> {
    let shutdown = CancellationToken::new();
    super::stop_on_signal(shutdown.clone())?;
    let skills_update = match when {
        SkillsUpdateArg::OptIn => SkillsUpdate::OptIn,
        SkillsUpdateArg::Always => SkillsUpdate::Always,
        SkillsUpdateArg::Never => SkillsUpdate::Never,
    };
    surface_registry::run("acp", target, config, async |skills, _| {
        let served = skills_acp::stdio::serve(skills, skills_update, shutdown).await;
        served.map_err(|error| Failure::new(Code::Acp, error.to_string()))
    })
    .await
}
