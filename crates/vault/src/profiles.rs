//! User profiles. Only the plan has an effect here: it sets the rate limit of the user's keys. The rest is stored and
//! returned.

use std::{fmt, str::FromStr};

use serde::Serialize;
use serde_json::{Map, Number, Value};
use skills_core::{Owner, Timestamp};

use crate::{
    Actor, Vault, VaultError,
    audit::record,
    backend::{ProfileRow, Tables},
    keys::reject_nil_owner,
};

/// Name of a user without one.
const DEFAULT_USERNAME: &str = "user";
/// Longest user name, in bytes.
const MAX_USERNAME_BYTES: usize = 256;

/// Plan of an account, which sets the rate limit of its keys. Its wire name is `tier`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Plan {
    /// Default plan.
    #[default]
    Free,
    /// Second plan.
    Starter,
    /// Third plan.
    Pro,
    /// Largest plan.
    Scale,
}

impl Plan {
    /// All plans, smallest first.
    pub const ALL: [Self; 4] = [Self::Free, Self::Starter, Self::Pro, Self::Scale];

    /// Returns the name in storage and on the wire.
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

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Text that is not the name of a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a tier is FREE, STARTER, PRO or SCALE")]
pub struct UnknownPlan;

impl FromStr for Plan {
    type Err = UnknownPlan;

    fn from_str(text: &str) -> Result<Self, UnknownPlan> {
        let same = |plan: &Self| plan.as_str().eq_ignore_ascii_case(text);
        Self::ALL.into_iter().find(same).ok_or(UnknownPlan)
    }
}

/// Profile of a user.
#[derive(Debug, Clone, PartialEq)]
pub struct UserProfile {
    /// Credits; stored, never spent.
    pub credits: f64,
    /// Plan of the account.
    pub plan: Plan,
    /// Name of the user.
    pub username: String,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

impl UserProfile {
    /// Returns the value of the profile in the key space: `{"credits", "tier", "username", "updated_at"}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("credits".to_owned(), credits_to_json(self.credits));
        fields.insert("tier".to_owned(), self.plan.as_str().into());
        fields.insert("username".to_owned(), self.username.as_str().into());
        fields.insert("updated_at".to_owned(), (self.updated_at.as_micros() / 1000).into());
        Value::Object(fields)
    }
}

/// Converts credits to JSON; whole numbers get no fraction.
fn credits_to_json(credits: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if credits.fract() == 0.0 && credits.abs() < EXACT {
        return Value::from(credits as i64);
    }
    Number::from_f64(credits).map_or(Value::Null, Value::Number)
}

/// Changes to a profile. Absent fields stay as they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProfileChange {
    /// New credits.
    pub credits: Option<f64>,
    /// New plan.
    pub plan: Option<Plan>,
    /// New name.
    pub username: Option<String>,
}

impl ProfileChange {
    /// Parses a value of the key space, and returns warnings about it.
    pub(crate) fn from_keyspace(text: &str) -> Result<(Self, Vec<String>), String> {
        let Ok(Value::Object(fields)) = serde_json::from_str(text) else {
            return Err("the profile is not a JSON object".to_owned());
        };
        let mut notes = vec![];
        let plan = fields.get("tier").and_then(Value::as_str).map(plan_or_free);
        let plan = match plan {
            None => {
                notes.push("the profile has no tier; it stays as it is, or FREE".to_owned());
                None
            }
            Some((plan, note)) => {
                notes.extend(note);
                Some(plan)
            }
        };
        let credits = fields.get("credits").and_then(Value::as_f64);
        if credits.is_none() && fields.get("credits").is_some_and(|value| !value.is_null()) {
            notes.push(
                "the credits of the profile are not a number; they stay as they are, or 0"
                    .to_owned(),
            );
        }
        let username = fields.get("username").and_then(Value::as_str);
        Ok((Self { credits, plan, username: username.map(str::to_owned) }, notes))
    }
}

/// Parses a plan; an unknown one becomes `Free` with a warning.
pub(crate) fn plan_or_free(text: &str) -> (Plan, Option<String>) {
    match text.trim().parse() {
        Ok(plan) => (plan, None),
        Err(UnknownPlan) => {
            let excerpt: String = text.chars().take(40).collect();
            (Plan::Free, Some(format!("{excerpt:?} is not a tier; FREE is used")))
        }
    }
}

/// Changes a profile in the caller's transaction.
pub(crate) fn put(
    tables: &mut dyn Tables,
    actor: Actor<'_>,
    owner: &Owner,
    change: &ProfileChange,
) -> Result<(), VaultError> {
    reject_nil_owner(owner)?;
    let ProfileChange { credits, username, .. } = change;
    if credits.is_some_and(|credits| !credits.is_finite()) {
        return Err(VaultError::BadCredits);
    }
    let is_invalid = |name: &String| name.len() > MAX_USERNAME_BYTES || name.contains('\0');
    if username.as_ref().is_some_and(is_invalid) {
        return Err(VaultError::BadUsername);
    }
    tables.merge_profile(owner, change, actor.at)?;
    record(tables, actor, "profile.set", owner.as_str())
}

/// Sets the fields of a profile that are not set yet, and returns whether there were any.
pub(crate) fn fill_missing(
    tables: &mut dyn Tables,
    actor: Actor<'_>,
    owner: &Owner,
    change: ProfileChange,
) -> Result<bool, VaultError> {
    let (plan, credits) = match tables.profile(owner)? {
        Some(ProfileRow { plan, credits, .. }) => (plan.is_none(), credits.is_none()),
        None => (true, true),
    };
    let change = ProfileChange {
        plan: change.plan.filter(|_| plan),
        credits: change.credits.filter(|_| credits),
        username: None,
    };
    let has_changes = change != ProfileChange::default();
    if has_changes {
        put(tables, actor, owner, &change)?;
    }
    Ok(has_changes)
}

impl Vault {
    /// Returns the profile of a user.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn profile(&self, owner: &Owner) -> Result<Option<UserProfile>, VaultError> {
        let row = self.backend.read(|tables| tables.profile(owner))?;
        Ok(row.map(|row| row.into_profile(DEFAULT_USERNAME)))
    }

    /// Changes the profile of a user; absent fields stay as they are.
    ///
    /// # Errors
    /// When the credits are not a number, the name is too long, or the vault cannot be written.
    pub fn set_profile(
        &self,
        actor: Actor<'_>,
        owner: &Owner,
        change: &ProfileChange,
    ) -> Result<(), VaultError> {
        self.backend.write(|tables| put(tables, actor, owner, change))
    }

    /// Returns a page of profiles after an owner, in the order of owners.
    pub(crate) fn profiles_after(
        &self,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, UserProfile)>, VaultError> {
        let rows = self.backend.read(|tables| tables.profiles_after(after, limit))?;
        let profile = |(owner, row): (_, ProfileRow)| (owner, row.into_profile(DEFAULT_USERNAME));
        Ok(rows.into_iter().map(profile).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use skills_core::Coded as _;

    use super::*;
    use crate::vault::testing::{TestSite, actor, contract, owner};

    contract! {
        absent_fields_of_a_change_stay,
    }

    fn absent_fields_of_a_change_stay(site: &TestSite) {
        let vault = site.vault();
        let ann = owner("ann");
        assert_eq!(vault.profile(&ann).unwrap(), None);
        let set = |change| vault.set_profile(actor(), &ann, &change).unwrap();
        set(ProfileChange {
            credits: Some(2.5),
            username: Some("Ann".into()),
            ..ProfileChange::default()
        });
        set(ProfileChange { plan: Some(Plan::Pro), ..ProfileChange::default() });
        let profile = vault.profile(&ann).unwrap().unwrap();
        assert_eq!(
            profile.to_json(),
            json!({ "credits": 2.5, "tier": "PRO", "username": "Ann", "updated_at": 1_700_000_000_000_i64 })
        );
        let nul = ProfileChange { username: Some("a\0b".into()), ..ProfileChange::default() };
        assert!(matches!(vault.set_profile(actor(), &ann, &nul), Err(VaultError::BadUsername)));
        let bad = ProfileChange { credits: Some(f64::NAN), ..ProfileChange::default() };
        assert_eq!(
            vault.set_profile(actor(), &ann, &bad).unwrap_err().code().as_str(),
            "invalid_input"
        );
    }

    #[test]
    fn an_unknown_plan_becomes_free_with_a_warning() {
        for (text, plan, words) in [
            (r#"{"tier":"pro","credits":5}"#, Some(Plan::Pro), None),
            (r#"{"tier":"GOLD"}"#, Some(Plan::Free), Some("\"GOLD\" is not a tier")),
            (r#"{"tier":7}"#, None, Some("has no tier")),
            (r#"{"tier":"SCALE","credits":"x"}"#, Some(Plan::Scale), Some("not a number")),
        ] {
            let (change, notes) = ProfileChange::from_keyspace(text).unwrap();
            assert_eq!(change.plan, plan, "{text}");
            assert_eq!(notes.len(), usize::from(words.is_some()), "{notes:?}");
            assert!(words.is_none_or(|words| notes[0].contains(words)), "{notes:?}");
        }
        assert!(
            ProfileChange::from_keyspace("[1]").is_err()
                && ProfileChange::from_keyspace("{").is_err()
        );
    }

    #[test]
    fn whole_credits_have_no_fraction() {
        assert_eq!(credits_to_json(50.0).to_string(), "50");
        assert_eq!(credits_to_json(-0.5).to_string(), "-0.5");
        assert_eq!(credits_to_json(1e300).as_f64(), Some(1e300));
    }
}
