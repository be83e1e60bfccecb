//! Versions of skills and prompts.
//!
//! - `history`: `history`
//! - `diff`: `diff`, against another version or a folder; `print_diff`: its output
//! - `changes`: `label`, `rollback` and `yank`
//! - `log`: `log`
//! - `gc`: `gc`

mod changes;
mod diff;
pub(super) mod gc;
mod history;
pub(super) mod log;
mod print_diff;

use skills_core::{Code, EntryKind, VersionSelector, version::split_version};
use skills_registry::{HistoryRequest, RegistryError, SkillRegistry, VersionInfo};

use super::suggestions;
use crate::{
    Failure,
    cli::{PublishArgs, VersionCommand},
    output,
};

/// Runs a command about the versions of an entry.
pub(super) async fn run(
    skills: &dyn SkillRegistry,
    kind: EntryKind,
    command: VersionCommand,
) -> Result<(), Failure> {
    let address = command.address().to_owned();
    let result = match command {
        VersionCommand::History(args) => history::history(skills, kind, args).await,
        VersionCommand::Diff(args) => diff::diff(skills, kind, args).await,
        VersionCommand::Label(args) => changes::label(skills, kind, args).await,
        VersionCommand::Rollback(args) => changes::rollback(skills, kind, args).await,
        VersionCommand::Yank(args) => changes::yank(skills, kind, args).await,
    };
    match kind {
        EntryKind::Skill => suggestions::for_skill(skills, &address, result).await,
        EntryKind::Prompt => suggestions::for_prompt(skills, &address, result).await,
        EntryKind::Collection => result,
    }
}

impl From<PublishArgs> for skills_registry::PublishRequest {
    fn from(PublishArgs { message, if_version }: PublishArgs) -> Self {
        Self { message, expected_version: if_version }
    }
}

/// Splits an address into the id, or the name of a prompt, and the version.
pub(super) fn parse_address(text: &str) -> Result<(String, Option<VersionSelector>), Failure> {
    let (id, version) = split_version(text).map_err(RegistryError::from)?;
    Ok((id.into_owned(), version))
}

/// Splits an address that must name a version.
fn parse_version_address(
    kind: EntryKind,
    text: &str,
) -> Result<(String, VersionSelector), Failure> {
    let (id, version) = parse_address(text)?;
    let Some(version) = version else {
        let command = command(kind);
        let message = format!("{id} names no version");
        return Err(Failure::new(Code::BadArgument, message).hint(format!(
            "add one, such as {id}@3; `skills {command}history {id}` lists the versions"
        )));
    };
    Ok((id, version))
}

/// Returns the command that the commands about a kind of entry are below.
const fn command(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Skill => "",
        EntryKind::Prompt => "prompt ",
        EntryKind::Collection => "collection ",
    }
}

/// Finds the newest version of an entry that a predicate accepts.
async fn find_version(
    skills: &dyn SkillRegistry,
    kind: EntryKind,
    mut request: HistoryRequest,
    is_wanted: impl Fn(&VersionInfo) -> bool,
) -> Result<Option<VersionInfo>, RegistryError> {
    loop {
        let page = skills.history(kind, &request).await?;
        if let Some(found) = page.data.into_iter().find(&is_wanted) {
            return Ok(Some(found));
        }
        match page.next {
            Some(next) => request.after = Some(next),
            None => return Ok(None),
        }
    }
}

/// Warns that a version is yanked.
pub(super) fn warn_if_yanked(address: &str, yanked: Option<&str>) {
    if let Some(reason) = yanked {
        output::notice("yanked", &output::plain(&format!("{address}: {reason}")));
    }
}
