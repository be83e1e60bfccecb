//! `label`, `rollback` and `yank`.

use serde::Serialize;
use skills_core::{Code, EntryKind, uri::SCHEME};
use skills_registry::{
    LabelRequest, Published, RollbackRequest, SkillRegistry, VersionState, YankRequest,
};

use super::{command, parse_address, parse_version_address};
use crate::{
    Failure,
    cli::{LabelArgs, OutputFormat, RollbackArgs, YankArgs},
    output::{self, Answer},
};

pub(super) async fn label(
    skills: &dyn SkillRegistry,
    kind: EntryKind,
    args: LabelArgs,
) -> Result<(), Failure> {
    let LabelArgs { address, label, remove, expected, tier, format } = args;
    let (id, version) = if remove {
        match parse_address(&address)? {
            (id, None) => (id, None),
            (id, Some(_)) => {
                let message = "a label is removed from the entry, not from a version";
                return Err(Failure::new(Code::BadArgument, message).hint(format!(
                    "`skills {}label {id} {label} --remove`; --expected N checks its version",
                    command(kind)
                )));
            }
        }
    } else {
        let (id, version) = parse_version_address(kind, &address)?;
        (id, Some(version))
    };
    let tier = tier.map(Into::into);
    let request = LabelRequest { id, tier, label: label.clone(), version, expected };
    let state = skills.set_label(kind, &request).await?;
    let id = &state.id;
    let sentence = match (state.changed, state.version.filter(|_| !remove)) {
        (true, Some(version)) => format!("{label} of {id} is version {version} now"),
        (false, Some(version)) => format!("{label} of {id} was version {version} already"),
        (true, None) => format!("removed the label {label} of {id}"),
        (false, None) => format!("{id} had no label {label}"),
    };
    print(format, &state, &format!("{sentence}; {}", served(kind, &state)))
}

pub(super) async fn rollback(
    skills: &dyn SkillRegistry,
    kind: EntryKind,
    args: RollbackArgs,
) -> Result<(), Failure> {
    let RollbackArgs { address, publish, tier, format } = args;
    let (id, to) = parse_version_address(kind, &address)?;
    let tier = tier.map(Into::into);
    let request = RollbackRequest { id: id.clone(), tier, to, publish: publish.into() };
    let published = skills.rollback(kind, &request).await?;
    let Published { version, created, served, .. } = &published;
    let number = version.map(|version| version.to_string()).unwrap_or_default();
    let sentence = if *created {
        format!("version {number} of {id} has the content of {address}")
    } else {
        format!("version {number} of {id} has the content of {address} already")
    };
    let address = displayed(kind, &id);
    let note = match served {
        Some(served) if Some(*served) != *version => {
            format!("; {address} still reads version {served}, which is stable")
        }
        _ => String::new(),
    };
    print(format, &published, &format!("{sentence}{note}"))
}

pub(super) async fn yank(
    skills: &dyn SkillRegistry,
    kind: EntryKind,
    args: YankArgs,
) -> Result<(), Failure> {
    let YankArgs { address, reason, undo, purge, yes, tier, format } = args;
    let (id, version) = parse_version_address(kind, &address)?;
    if purge && !yes {
        confirm_purge(&id, &address, format)?;
    }
    let (tier, reason) = (tier.map(Into::into), reason.unwrap_or_default());
    let request = YankRequest { id, tier, version, reason, undo, purge };
    let state = skills.yank(kind, &request).await?;
    let number = state.version.map(|version| version.to_string()).unwrap_or_default();
    let action = match (purge, undo, state.changed) {
        (true, _, true) => "purged",
        (true, _, false) => "is purged already:",
        (false, true, true) => "undid the yank of",
        (false, true, false) => "is not yanked:",
        (false, false, true) => "yanked",
        (false, false, false) => "is yanked already:",
    };
    let sentence = format!("{action} version {number} of {}; {}", state.id, served(kind, &state));
    print(format, &state, &sentence)
}

/// Asks for the id again before content is removed for good.
fn confirm_purge(id: &str, address: &str, format: OutputFormat) -> Result<(), Failure> {
    let question = format!("Purging {address} removes its content for good. Type {id} to go on:");
    let answer = if format.json { Answer::NotAsked } else { output::ask(&question)? };
    match answer {
        Answer::Given(answer) if answer == id => Ok(()),
        Answer::Given(_) => {
            Err(Failure::new(Code::BadArgument, "that is not the id; nothing was purged"))
        }
        Answer::NotAsked => {
            let message = format!("purging {address} removes its content for good");
            Err(Failure::new(Code::BadArgument, message).hint("confirm it with --yes"))
        }
    }
}

/// Says which version is served.
fn served(kind: EntryKind, state: &VersionState) -> String {
    let address = displayed(kind, &state.id);
    match state.served {
        Some(served) => format!("{address} reads version {served}"),
        None => format!("{address} reads none"),
    }
}

fn displayed(kind: EntryKind, id: &str) -> String {
    match kind {
        EntryKind::Skill => format!("{SCHEME}{id}"),
        EntryKind::Prompt => format!("prompt {id}"),
        EntryKind::Collection => format!("collection {id}"),
    }
}

fn print(format: OutputFormat, answer: &impl Serialize, sentence: &str) -> Result<(), Failure> {
    if format.json {
        return Ok(output::json(answer)?);
    }
    Ok(output::line(&output::plain(sentence))?)
}
