//! The commands for what belongs to people: keys and secrets.

use std::time::Duration;

use clap::{
    ArgGroup, Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use skills_core::{Owner, SkillId, keyspace};
use skills_vault::{AccountTier, SecretName};

use super::Format;

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key, and show it once
    Create(KeyCreate),
    /// List keys, without the keys themselves
    #[command(visible_alias = "ls")]
    List {
        /// Only those of this user
        #[arg(long, value_name = "UID", value_parser = keyspace::owner)]
        uid: Option<Owner>,
        #[command(flatten)]
        format: Format,
    },
    /// Revoke keys; who presents one is refused from the next request on
    Revoke(KeyRevoke),
}

#[derive(Debug, Clone, Args)]
pub struct KeyCreate {
    /// Whose key it will be
    #[arg(long, value_name = "UID", value_parser = keyspace::owner)]
    pub uid: Owner,
    /// The user's tier from now on, for all their keys [default: as it is, at first FREE]
    #[arg(long, value_name = "TIER", ignore_case = true, value_parser = tier())]
    pub tier: Option<AccountTier>,
    /// What the key is for
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// How long it can be used, such as 90s, 15m, 12h, 30d or 4w [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = time_to_live)]
    pub ttl: Option<Duration>,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["id", "uid"]))]
pub struct KeyRevoke {
    /// The key's id, as `key list` shows it; - reads the key itself from standard input
    #[arg(value_name = "KEYID")]
    pub id: Option<String>,
    /// All keys of this user
    #[arg(long, value_name = "UID", value_parser = keyspace::owner)]
    pub uid: Option<Owner>,
    #[command(flatten)]
    pub format: Format,
}

/// A secret, by name, owner and perhaps skill.
#[derive(Debug, Clone, Args)]
pub struct SecretArgs {
    /// The secret's name: letters, digits, _ and -
    pub name: SecretName,
    /// Whose it is
    #[arg(long, value_name = "UID", value_parser = keyspace::owner)]
    pub uid: Owner,
    /// For this skill alone, where it comes before the one for all
    #[arg(long, value_name = "ID")]
    pub skill: Option<SkillId>,
    #[command(flatten)]
    pub format: Format,
}

/// A secret and a skill of the market.
#[derive(Debug, Clone, Args)]
pub struct GrantArgs {
    /// The secret's name
    pub name: SecretName,
    /// Whose it is
    #[arg(long, value_name = "UID", value_parser = keyspace::owner)]
    pub uid: Owner,
    /// The skill's id in the market
    #[arg(long, value_name = "ID")]
    pub skill: SkillId,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Subcommand)]
pub enum SecretCommand {
    /// Keep a value, which is read from standard input; needs MASTER_ENCRYPTION_KEY
    Set(SecretArgs),
    /// List secrets; values are never shown
    #[command(visible_alias = "ls")]
    List {
        /// Whose
        #[arg(long, value_name = "UID", value_parser = keyspace::owner)]
        uid: Owner,
        #[command(flatten)]
        format: Format,
    },
    /// Remove a secret
    #[command(visible_alias = "rm")]
    Remove(SecretArgs),
    /// Let a skill of the market have a secret; those of other tiers need no grant
    Grant(GrantArgs),
    /// Take a grant back
    RevokeGrant(GrantArgs),
    /// Encrypt all secrets anew with MASTER_ENCRYPTION_KEY, those of MASTER_ENCRYPTION_KEY_PREVIOUS too
    Rotate {
        #[command(flatten)]
        format: Format,
    },
}

impl KeyCommand {
    pub(super) const fn format(&self) -> Format {
        match self {
            Self::Create(KeyCreate { format, .. })
            | Self::List { format, .. }
            | Self::Revoke(KeyRevoke { format, .. }) => *format,
        }
    }
}

impl SecretCommand {
    pub(super) const fn format(&self) -> Format {
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

fn tier() -> impl clap::builder::TypedValueParser<Value = AccountTier> {
    PossibleValuesParser::new(AccountTier::ALL.map(AccountTier::as_str))
        .try_map(|name| name.parse::<AccountTier>())
}

/// A whole number and a unit: s, m, h, d or w.
fn time_to_live(text: &str) -> Result<Duration, &'static str> {
    const EXPECTED: &str = "a time is a whole number and s, m, h, d or w, such as 30d";
    let unit = text.chars().last().ok_or(EXPECTED)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return Err(EXPECTED),
    };
    let digits = &text[..text.len() - 1];
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(EXPECTED);
    }
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds)) {
        Some(0) => Err("a key that can be used for no time at all is of no use"),
        Some(seconds) if seconds <= MAX_TTL_SECONDS => Ok(Duration::from_secs(seconds)),
        _ => Err("a key cannot be used for more than 100 years"),
    }
}

const MAX_TTL_SECONDS: u64 = 100 * 366 * 24 * 60 * 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_a_number_and_a_unit() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000)] {
            assert_eq!(time_to_live(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "d", "30", "+3d", "-3d", "1.5h", "3 d", "0d", "999999999999w", "3ä"] {
            assert!(time_to_live(text).is_err(), "{text}");
        }
    }
}
