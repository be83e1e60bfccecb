//! Arguments of the commands about versions: `history`, `diff`, `label`, `rollback`, `yank`, `log` and `gc`.
//!
//! Skills, prompts and collections share them: an address is an id, or the name of a prompt or collection, with a version
//! after `@`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use skills_core::{Label, Timestamp};

use super::{OutputFormat, TierArg, duration::parse_duration};

/// Commands about the versions of a skill or, below `prompt` and `collection`, of those.
#[derive(Debug, Subcommand)]
pub enum VersionCommand {
    /// List the versions, newest first
    History(HistoryArgs),
    /// Compare two versions, or a version of a skill and a folder
    Diff(DiffArgs),
    /// Move or remove a label; the version with the label stable is served
    Label(LabelArgs),
    /// Publish the content of an older version as the newest version
    Rollback(RollbackArgs),
    /// Withdraw a version, or remove its content for good
    Yank(YankArgs),
}

impl VersionCommand {
    pub(super) const fn format(&self) -> OutputFormat {
        match self {
            Self::History(HistoryArgs { format, .. })
            | Self::Diff(DiffArgs { format, .. })
            | Self::Label(LabelArgs { format, .. })
            | Self::Rollback(RollbackArgs { format, .. })
            | Self::Yank(YankArgs { format, .. }) => *format,
        }
    }

    /// Returns the address that the command is about.
    pub(crate) fn address(&self) -> &str {
        match self {
            Self::Diff(DiffArgs { from: address, .. })
            | Self::History(HistoryArgs { address, .. })
            | Self::Label(LabelArgs { address, .. })
            | Self::Rollback(RollbackArgs { address, .. })
            | Self::Yank(YankArgs { address, .. }) => address,
        }
    }
}

#[derive(Debug, Clone, Args)]
pub struct HistoryArgs {
    /// Id of the skill, or name of the prompt or collection; with @VERSION only that version
    #[arg(value_name = "ID")]
    pub address: String,
    /// Show the copy in this tier
    #[arg(long, value_enum, value_name = "TIER")]
    pub tier: Option<TierArg>,
    /// Maximum number of versions
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct DiffArgs {
    /// Earlier version: ID@VERSION [default: the version that ID reads, or the one before if that is the newest]
    #[arg(value_name = "ID[@VERSION]")]
    pub from: String,
    /// Later version, or a folder with a SKILL.md [default: the newest version]
    #[arg(value_name = "ID@VERSION|PATH")]
    pub to: Option<PathBuf>,
    /// Compare the copies in this tier
    #[arg(long, value_enum, value_name = "TIER")]
    pub tier: Option<TierArg>,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct LabelArgs {
    /// Version that gets the label; with --remove, the id alone
    #[arg(value_name = "ID@VERSION")]
    pub address: String,
    /// Label: lowercase letters, digits and hyphens; the version with `stable` is served
    #[arg(value_name = "NAME")]
    pub label: Label,
    /// Remove the label
    #[arg(long)]
    pub remove: bool,
    /// Fail unless the label is at this version now; 0 if there must be none
    #[arg(long, value_name = "N")]
    pub expected: Option<u64>,
    /// Tier of the entry [default: the one that the id resolves to]
    #[arg(long, value_enum, value_name = "TIER")]
    pub tier: Option<TierArg>,
    #[command(flatten)]
    pub format: OutputFormat,
}

/// Message and condition of a new version.
#[derive(Debug, Clone, Default, Args)]
pub struct PublishArgs {
    /// Message of the new version
    #[arg(short, long, value_name = "TEXT")]
    pub message: Option<String>,
    /// Fail unless the newest version has this number; 0 if there must be none
    #[arg(long, value_name = "N")]
    pub if_version: Option<u64>,
}

#[derive(Debug, Clone, Args)]
pub struct RollbackArgs {
    /// Version whose content becomes the newest version
    #[arg(value_name = "ID@VERSION")]
    pub address: String,
    #[command(flatten)]
    pub publish: PublishArgs,
    /// Tier of the entry [default: the one that the id resolves to]
    #[arg(long, value_enum, value_name = "TIER")]
    pub tier: Option<TierArg>,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("yank_action").required(true).args(["reason", "undo"]))]
pub struct YankArgs {
    /// Version to withdraw
    #[arg(value_name = "ID@VERSION")]
    pub address: String,
    /// Reason, which readers of the version get as a warning
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Serve the version again
    #[arg(long)]
    pub undo: bool,
    /// Remove the content for good, such as a secret that was published by mistake
    #[arg(long, conflicts_with = "undo")]
    pub purge: bool,
    /// Purge without asking for the id again
    #[arg(long, short, requires = "purge")]
    pub yes: bool,
    /// Tier of the entry [default: the one that the id resolves to]
    #[arg(long, value_enum, value_name = "TIER")]
    pub tier: Option<TierArg>,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// Id of a skill, or name of a prompt [default: everything, with keys and secrets of the data directory]
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Earliest time: 3d, 2026-01-31 or 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub since: Option<Timestamp>,
    /// Text that the name of the actor contains
    #[arg(long, value_name = "TEXT")]
    pub by: Option<String>,
    /// Maximum number of records
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct GcArgs {
    /// Keep this many of the newest versions of each entry [default: retention.versions of the configuration]
    #[arg(long, value_name = "N")]
    pub versions: Option<u64>,
    /// Keep versions of the last days [default: retention.days of the configuration]
    #[arg(long, value_name = "D")]
    pub days: Option<u64>,
    /// Print what would be removed without removing it
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub format: OutputFormat,
}

/// Parses a time, a date in UTC, or an age.
fn parse_since(text: &str) -> Result<Timestamp, &'static str> {
    const EXPECTED: &str = "expected an age (3d), a date (2026-01-31) or a time in RFC 3339";
    if let Ok(age) = parse_duration(text) {
        let micros = i64::try_from(age.as_micros()).map_err(|_| EXPECTED)?;
        return Ok(Timestamp::from_micros(Timestamp::now().as_micros().saturating_sub(micros)));
    }
    let time = text.parse().or_else(|_| format!("{text}T00:00:00Z").parse());
    time.map_err(|_| EXPECTED)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn since_is_an_age_a_date_or_a_time() {
        let text = |text: &str| parse_since(text).map(|time| time.to_string());
        assert_eq!(text("2026-01-31").as_deref(), Ok("2026-01-31T00:00:00.000000Z"));
        assert_eq!(text("2026-01-31T12:00:00+02:00").as_deref(), Ok("2026-01-31T10:00:00.000000Z"));
        let age = parse_since("3d").unwrap();
        let (now, three_days) = (Timestamp::now(), Duration::from_secs(3 * 24 * 60 * 60));
        assert!(age <= now && age.saturating_add(three_days) <= now);
        for wrong in ["", "3", "yesterday", "2026-13-01", "3x", "-3d", "999999999999999999w"] {
            assert!(parse_since(wrong).is_err(), "{wrong}");
        }
    }
}
