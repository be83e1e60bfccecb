//! What is known of a user. Only the tier matters here, as it says how often a key may be used; the rest is
//! kept and passed on.

use std::{fmt, str::FromStr};

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::Serialize;
use serde_json::{Map, Number, Value};
use skills_core::{Owner, Timestamp};

use crate::{
    Act, Vault, VaultError,
    audit::record,
    file::{Stop, unreadable},
    keys::refuse_nobody,
};

/// Who has no name of their own has this.
const DEFAULT_USERNAME: &str = "user";
/// Longest name that is kept, in bytes.
const MAX_USERNAME_BYTES: usize = 256;

/// What a user pays for, and so how often their keys may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum AccountTier {
    /// Everybody.
    #[default]
    Free,
    /// The next.
    Starter,
    /// The next.
    Pro,
    /// The last.
    Scale,
}

impl AccountTier {
    /// All of them, the smallest first.
    pub const ALL: [Self; 4] = [Self::Free, Self::Starter, Self::Pro, Self::Scale];

    /// The name in storage and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Free => "FREE",
            Self::Starter => "STARTER",
            Self::Pro => "PRO",
            Self::Scale => "SCALE",
        }
    }
}

impl fmt::Display for AccountTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Text that names no tier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a tier is FREE, STARTER, PRO or SCALE")]
pub struct UnknownTier;

impl FromStr for AccountTier {
    type Err = UnknownTier;

    fn from_str(text: &str) -> Result<Self, UnknownTier> {
        let same = |tier: &Self| tier.as_str().eq_ignore_ascii_case(text);
        Self::ALL.into_iter().find(same).ok_or(UnknownTier)
    }
}

/// What is known of a user.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Kept and passed on, never spent.
    pub credits: f64,
    /// What the user pays for.
    pub tier: AccountTier,
    /// How the user is called.
    pub username: String,
    /// When any of it last changed.
    pub updated_at: Timestamp,
}

impl Profile {
    /// As it is in the key space: `{"credits", "tier", "username", "updated_at"}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("credits".to_owned(), number(self.credits));
        fields.insert("tier".to_owned(), self.tier.as_str().into());
        fields.insert("username".to_owned(), self.username.as_str().into());
        fields.insert("updated_at".to_owned(), (self.updated_at.as_micros() / 1000).into());
        Value::Object(fields)
    }
}

/// Whole numbers without a fraction, as everyone else writes them.
fn number(credits: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if credits.fract() == 0.0 && credits.abs() < EXACT {
        return Value::from(credits as i64);
    }
    Number::from_f64(credits).map_or(Value::Null, Value::Number)
}

/// What is to be different in a profile; what is not said stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProfileChange {
    /// New credits.
    pub credits: Option<f64>,
    /// New tier.
    pub tier: Option<AccountTier>,
    /// New name.
    pub username: Option<String>,
}

impl ProfileChange {
    /// Reads a value of the key space, with what was not as expected.
    pub(crate) fn read(text: &str) -> Result<(Self, Vec<String>), String> {
        let Ok(Value::Object(fields)) = serde_json::from_str(text) else {
            return Err("the profile is not a JSON object".to_owned());
        };
        let mut notes = vec![];
        let tier = fields.get("tier").and_then(Value::as_str).map(tier_or_free);
        let tier = match tier {
            None => {
                notes.push("the profile names no tier: it stays, or is FREE".to_owned());
                None
            }
            Some((tier, note)) => {
                notes.extend(note);
                Some(tier)
            }
        };
        let credits = fields.get("credits").and_then(Value::as_f64);
        if credits.is_none() && fields.get("credits").is_some_and(|value| !value.is_null()) {
            notes.push(
                "the credits of the profile are not a number: they stay, or are 0".to_owned(),
            );
        }
        let username = fields.get("username").and_then(Value::as_str);
        Ok((Self { credits, tier, username: username.map(str::to_owned) }, notes))
    }
}

/// A tier that is not known is the smallest, and that is said.
pub(crate) fn tier_or_free(text: &str) -> (AccountTier, Option<String>) {
    match text.trim().parse() {
        Ok(tier) => (tier, None),
        Err(UnknownTier) => {
            let shown: String = text.chars().take(40).collect();
            (AccountTier::Free, Some(format!("{shown:?} is not a tier: FREE")))
        }
    }
}

/// A row of `profile`: tier, credits, username, updated_at.
fn profile(row: &Row<'_>) -> rusqlite::Result<Profile> {
    let tier = match row.get_ref(0)?.as_str_or_null()? {
        Some(text) => text.parse().map_err(|_| unreadable("tier"))?,
        None => AccountTier::default(),
    };
    Ok(Profile {
        tier,
        credits: row.get::<_, Option<f64>>(1)?.unwrap_or_default(),
        username: row.get::<_, Option<String>>(2)?.unwrap_or_else(|| DEFAULT_USERNAME.to_owned()),
        updated_at: Timestamp::from_micros(row.get(3)?),
    })
}

/// Writes what is said into a profile, in the transaction of who asks.
pub(crate) fn put(
    transaction: &Connection,
    act: Act<'_>,
    owner: &Owner,
    change: &ProfileChange,
) -> Result<(), Stop> {
    refuse_nobody(owner)?;
    let ProfileChange { credits, tier, username } = change;
    if credits.is_some_and(|credits| !credits.is_finite()) {
        return Err(VaultError::BadCredits.into());
    }
    if username.as_ref().is_some_and(|name| name.len() > MAX_USERNAME_BYTES) {
        return Err(VaultError::BadUsername.into());
    }
    let sql = "INSERT INTO profile (owner, tier, credits, username, updated_at)
               VALUES (?1, ?2, ?3, ?4, ?5)
               ON CONFLICT (owner) DO UPDATE SET
                   tier = coalesce(excluded.tier, tier),
                   credits = coalesce(excluded.credits, credits),
                   username = coalesce(excluded.username, username),
                   updated_at = excluded.updated_at";
    let tier = tier.map(AccountTier::as_str);
    let row = params![owner.as_str(), tier, credits, username, act.at.as_micros()];
    transaction.prepare_cached(sql)?.execute(row)?;
    record(transaction, act, "profile.set", owner.as_str())?;
    Ok(())
}

/// Puts into a profile what nobody has said yet, in the transaction of who asks. Tells whether that was
/// anything.
pub(crate) fn complete(
    transaction: &Connection,
    act: Act<'_>,
    owner: &Owner,
    change: ProfileChange,
) -> Result<bool, Stop> {
    let sql = "SELECT tier IS NULL, credits IS NULL FROM profile WHERE owner = ?1";
    let unknown = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let (tier, credits) = transaction
        .prepare_cached(sql)?
        .query_row([owner.as_str()], unknown)
        .optional()?
        .unwrap_or((true, true));
    let change = ProfileChange {
        tier: change.tier.filter(|_| tier),
        credits: change.credits.filter(|_| credits),
        username: None,
    };
    let says_something = change != ProfileChange::default();
    if says_something {
        put(transaction, act, owner, &change)?;
    }
    Ok(says_something)
}

impl Vault {
    /// What is known of a user, if anything is.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn profile(&self, owner: &Owner) -> Result<Option<Profile>, VaultError> {
        self.file.read(|connection| {
            let sql = "SELECT tier, credits, username, updated_at FROM profile WHERE owner = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            Ok(statement.query_row([owner.as_str()], profile).optional()?)
        })
    }

    /// Changes what is known of a user; what the change does not say stays as it is.
    ///
    /// # Errors
    /// When the credits are no number, the name is too long, or the file cannot be written.
    pub fn set_profile(
        &self,
        act: Act<'_>,
        owner: &Owner,
        change: &ProfileChange,
    ) -> Result<(), VaultError> {
        self.file.write(|transaction| put(transaction, act, owner, change))
    }

    /// Profiles by owner, after one, for an export.
    pub(crate) fn profiles_after(
        &self,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Profile)>, VaultError> {
        self.file.read(|connection| {
            let sql = "SELECT tier, credits, username, updated_at, owner FROM profile
                       WHERE owner > ?1 ORDER BY owner LIMIT ?2";
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement
                .query_map(params![after, limit], |row| Ok((row.get(4)?, profile(row)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::vault::testing::{act, owner, vault};

    #[test]
    fn a_change_leaves_alone_what_it_does_not_say() {
        let (vault, _dir) = vault();
        let ann = owner("ann");
        assert_eq!(vault.profile(&ann).unwrap(), None);
        let set = |change| vault.set_profile(act(), &ann, &change).unwrap();
        set(ProfileChange {
            credits: Some(2.5),
            username: Some("Ann".into()),
            ..ProfileChange::default()
        });
        set(ProfileChange { tier: Some(AccountTier::Pro), ..ProfileChange::default() });
        let profile = vault.profile(&ann).unwrap().unwrap();
        assert_eq!(
            profile.to_json(),
            json!({ "credits": 2.5, "tier": "PRO", "username": "Ann", "updated_at": 1_700_000_000_000_i64 })
        );
        let bad = ProfileChange { credits: Some(f64::NAN), ..ProfileChange::default() };
        assert_eq!(vault.set_profile(act(), &ann, &bad).unwrap_err().code(), "invalid_input");
    }

    #[test]
    fn an_unknown_tier_is_free_and_that_is_said() {
        for (text, tier, words) in [
            (r#"{"tier":"pro","credits":5}"#, Some(AccountTier::Pro), None),
            (r#"{"tier":"GOLD"}"#, Some(AccountTier::Free), Some("\"GOLD\" is not a tier")),
            (r#"{"tier":7}"#, None, Some("names no tier")),
            (r#"{"tier":"SCALE","credits":"x"}"#, Some(AccountTier::Scale), Some("not a number")),
        ] {
            let (change, notes) = ProfileChange::read(text).unwrap();
            assert_eq!(change.tier, tier, "{text}");
            assert_eq!(notes.len(), usize::from(words.is_some()), "{notes:?}");
            assert!(words.is_none_or(|words| notes[0].contains(words)), "{notes:?}");
        }
        assert!(ProfileChange::read("[1]").is_err() && ProfileChange::read("{").is_err());
    }

    #[test]
    fn whole_credits_have_no_fraction() {
        assert_eq!(number(50.0).to_string(), "50");
        assert_eq!(number(-0.5).to_string(), "-0.5");
        assert_eq!(number(1e300).as_f64(), Some(1e300));
    }
}
