//! `skills acp`: an ACP agent on standard input and output.

use skills_acp::SkillsUpdate;
use tokio_util::sync::CancellationToken;

use crate::{
    Failure,
    cli::{Target, WhenSkills},
    config::Config,
    open,
};

pub(super) async fn run(when: WhenSkills, target: &Target, config: &Config) -> Result<(), Failure> {
    let shutdown = CancellationToken::new();
    super::stop_on_signal(shutdown.clone())?;
    let skills_update = match when {
        WhenSkills::OptIn => SkillsUpdate::OptIn,
        WhenSkills::Always => SkillsUpdate::Always,
        WhenSkills::Never => SkillsUpdate::Never,
    };
    open::run("acp", target, config, async |skills| {
        let served = skills_acp::stdio::serve(skills, skills_update, shutdown).await;
        served.map_err(|error| Failure::new("acp", error.to_string()))
    })
    .await
}
