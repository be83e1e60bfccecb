//! `gc`: removes the content of old versions.

use skills_core::Code;
use skills_registry::{CollectRequest, Collected};

use crate::{
    Failure,
    cli::{GcArgs, Target},
    config::Config,
    connect::{self, RegistrySource},
    output,
};

pub(in super::super) async fn run(
    args: GcArgs,
    target: &Target,
    config: &Config,
) -> Result<(), Failure> {
    let GcArgs { versions, days, dry_run, format } = args;
    let (versions, days) = match (versions, days) {
        (None, None) => (config.retention.versions, config.retention.days),
        given => given,
    };
    let (skills, source) = connect::open_with_source(target, config, false).await?;
    // A server has a rule of its own.
    let is_local = matches!(source, RegistrySource::Opened(_) | RegistrySource::Database(_));
    if is_local && versions.is_none() && days.is_none() {
        let message = "no rule says which versions are old";
        return Err(Failure::new(Code::BadArgument, message).hint(
            "give --versions N or --days D, or set retention in the configuration; a version that either keeps is kept",
        ));
    }
    let collected = skills.collect(&CollectRequest { versions, days, dry_run }).await?;
    if format.json {
        return Ok(output::json(&collected)?);
    }
    let Collected { versions, bytes, dry_run } = collected;
    let versions = output::counted(usize::try_from(versions).unwrap_or(usize::MAX), "version");
    let verb = if dry_run { "would remove" } else { "removed" };
    let freed = if dry_run { "would be freed" } else { "freed" };
    Ok(output::line(&format!("{verb} {versions}; {} {freed}", output::size(bytes)))?)
}
