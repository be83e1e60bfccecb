//! `label`, `rollback` and `yank`.

use serde::Serialize;
use skills_core::{
    Code, EntryKind, Tier, VersionSelector, uri::SCHEME, version::VERSION_SEPARATOR,
};
use skills_registry::{
    FileHolder, HistoryRequest, LabelRequest, Published, PurgeReport, RollbackRequest,
    SkillRegistry, VersionInfo, VersionState, YankRequest,
};

use super::{command, find_version, parse_address, parse_version_address};
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
    let (id, mut version) = parse_version_address(kind, &address)?;
    let (tier, reason) = (tier.map(Into::into), reason.unwrap_or_default());
    if purge && !yes {
        // The version that the question names is the one that is purged, even if a label moves meanwhile.
        let number = withdrawn_number(skills, kind, tier, &id, &version).await?;
        confirm_purge(&id, number, format)?;
        version = VersionSelector::Number(number);
    }
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
    let freed = state.purged.as_ref().and_then(|purged| purged.freed_bytes);
    let freed = freed.map(|bytes| format!(", freed {}", output::size(bytes))).unwrap_or_default();
    let served = served(kind, &state);
    let sentence = format!("{action} version {number} of {}{freed}; {served}", state.id);
    print(format, &state, &sentence)?;
    if let Some(purged) = &state.purged {
        warn_of_holders(purged);
    }
    Ok(())
}

/// Warns that files of a purged version can still be read elsewhere.
fn warn_of_holders(PurgeReport { held_by, held_privately, .. }: &PurgeReport) {
    let address = |FileHolder { tier, id, version }: &FileHolder| format!("{tier}/{id}@{version}");
    let mut holders: Vec<String> = held_by.iter().map(address).collect();
    if *held_privately > 0 {
        let count = usize::try_from(*held_privately).unwrap_or(usize::MAX);
        holders.push(output::counted(count, "private entry"));
    }
    if !holders.is_empty() {
        let sentence = format!("files of this version are still in {}", holders.join(", "));
        output::notice("warning", &output::plain(&sentence));
    }
}

/// Returns the number of the version that a yank or a purge is about, as the store decides it: the version that a label
/// points at, and otherwise the newest match, whether it is yanked or not.
async fn withdrawn_number(
    skills: &dyn SkillRegistry,
    kind: EntryKind,
    tier: Option<Tier>,
    id: &str,
    selector: &VersionSelector,
) -> Result<u64, Failure> {
    let request = || HistoryRequest { id: id.to_owned(), tier, limit: None, after: None };
    let found = match selector {
        VersionSelector::Number(number) => return Ok(*number),
        VersionSelector::Latest => find_version(skills, kind, request(), |_| true).await?,
        VersionSelector::Digest(prefix) => {
            find_version(skills, kind, request(), |version| prefix.matches(&version.digest)).await?
        }
        VersionSelector::Name(name) => {
            let has_label = |version: &VersionInfo| version.labels.contains(name);
            let is_of_author =
                |version: &VersionInfo| version.author_version.as_ref() == Some(name);
            match find_version(skills, kind, request(), has_label).await? {
                Some(labelled) => Some(labelled),
                None => find_version(skills, kind, request(), is_of_author).await?,
            }
        }
    };
    match found {
        Some(version) => Ok(version.version),
        // The registry knows why there is none.
        None => Ok(skills.version(kind, tier, id, selector).await?.version),
    }
}

/// Asks for the id again before content is removed for good.
fn confirm_purge(id: &str, version: u64, format: OutputFormat) -> Result<(), Failure> {
    let address = format!("{id}{VERSION_SEPARATOR}{version}");
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
