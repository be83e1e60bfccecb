//! The commands for user keys and secrets.

use std::time::Duration;

use clap::{
    ArgGroup, Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use skills_core::{Owner, SkillId, keyspace, limits::MAX_KEY_SECONDS};
use skills_vault::{Plan, SecretName};

use super::{OutputFormat, duration::parse_duration};

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Create a key and print it once
    Create(KeyCreateArgs),
    /// List keys by id (the keys themselves are not stored)
    #[command(visible_alias = "ls")]
    List {
        /// Only list keys of this user
        #[arg(long, value_name = "UID", value_parser = keyspace::parse_owner)]
        uid: Option<Owner>,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Revoke keys, with effect from the next request
    Revoke(KeyRevokeArgs),
}

#[derive(Debug, Clone, Args)]
pub struct KeyCreateArgs {
    /// User to create the key for
    #[arg(long, value_name = "UID", value_parser = keyspace::parse_owner)]
    pub uid: Owner,
    /// Plan of the user, for all their keys [default: unchanged, initially FREE]
    #[arg(long = "tier", value_name = "TIER", ignore_case = true, value_parser = plan_parser())]
    pub plan: Option<Plan>,
    /// Purpose of the key
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Time to live, such as 90s, 15m, 12h, 30d or 4w [default: until revoked]
    #[arg(long, value_name = "TIME", value_parser = parse_ttl)]
    pub ttl: Option<Duration>,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["id", "uid"]))]
pub struct KeyRevokeArgs {
    /// Id of the key, from `skills key list`; - reads the key itself from stdin
    #[arg(value_name = "KEYID")]
    pub id: Option<String>,
    /// Revoke all keys of this user
    #[arg(long, value_name = "UID", value_parser = keyspace::parse_owner)]
    pub uid: Option<Owner>,
    #[command(flatten)]
    pub format: OutputFormat,
}

/// Identity of a secret: name, owner and optionally skill.
#[derive(Debug, Clone, Args)]
pub struct SecretArgs {
    /// Name of the secret: letters, digits, _ and -
    pub name: SecretName,
    /// Owner of the secret
    #[arg(long, value_name = "UID", value_parser = keyspace::parse_owner)]
    pub uid: Owner,
    /// Use the secret only for this skill, where it takes precedence over a global one
    #[arg(long, value_name = "ID")]
    pub skill: Option<SkillId>,
    #[command(flatten)]
    pub format: OutputFormat,
}

/// A secret and a skill of the market tier.
#[derive(Debug, Clone, Args)]
pub struct GrantArgs {
    /// Name of the secret
    pub name: SecretName,
    /// Owner of the secret
    #[arg(long, value_name = "UID", value_parser = keyspace::parse_owner)]
    pub uid: Owner,
    /// Id of the skill in the market tier
    #[arg(long, value_name = "ID")]
    pub skill: SkillId,
    #[command(flatten)]
    pub format: OutputFormat,
}

#[derive(Debug, Subcommand)]
pub enum SecretCommand {
    /// Set a secret to a value read from stdin; requires MASTER_ENCRYPTION_KEY
    Set(SecretArgs),
    /// List secrets without their values
    #[command(visible_alias = "ls")]
    List {
        /// Owner of the secrets
        #[arg(long, value_name = "UID", value_parser = keyspace::parse_owner)]
        uid: Owner,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Remove a secret
    #[command(visible_alias = "rm")]
    Remove(SecretArgs),
    /// Let a skill of the market tier use a secret; other tiers need no grant
    Grant(GrantArgs),
    /// Revoke a grant
    RevokeGrant(GrantArgs),
    /// Encrypt all secrets again with MASTER_ENCRYPTION_KEY; reads those of MASTER_ENCRYPTION_KEY_PREVIOUS
    Rotate {
        #[command(flatten)]
        format: OutputFormat,
    },
}

impl KeyCommand {
    pub(super) const fn format(&self) -> OutputFormat {
        match self {
            Self::Create(KeyCreateArgs { format, .. })
            | Self::List { format, .. }
            | Self::Revoke(KeyRevokeArgs { format, .. }) => *format,
        }
    }
}

impl SecretCommand {
    pub(super) const fn format(&self) -> OutputFormat {
        match self {
            Self::Set(SecretArgs { format, .. })
            | Self::Remove(SecretArgs { format, .. })
            | Self::List { format, .. }
            | Self::Grant(GrantArgs { format, .. })
            | Self::RevokeGrant(GrantArgs { format, .. })
            | Self::Rotate { format } => *format,
        }
    }
}

fn plan_parser() -> impl clap::builder::TypedValueParser<Value = Plan> {
    PossibleValuesParser::new(Plan::ALL.map(Plan::as_str)).try_map(|name| name.parse::<Plan>())
}

/// Parses the time to live of a key.
fn parse_ttl(text: &str) -> Result<Duration, &'static str> {
    match parse_duration(text)? {
        Duration::ZERO => Err("the time to live must be at least 1s"),
        time if time.as_secs() <= MAX_KEY_SECONDS => Ok(time),
        _ => Err("the time to live must be at most 100 years"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_live_is_a_number_and_a_unit() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000)] {
            assert_eq!(parse_ttl(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        let longest = parse_ttl(&format!("{MAX_KEY_SECONDS}s")).unwrap();
        assert_eq!(longest.as_secs(), MAX_KEY_SECONDS);
        assert!(parse_ttl(&format!("{}s", MAX_KEY_SECONDS + 1)).is_err());
        for text in ["", "d", "30", "+3d", "-3d", "1.5h", "3 d", "0d", "999999999999w", "3ä"] {
            assert!(parse_ttl(text).is_err(), "{text}");
        }
    }
}
