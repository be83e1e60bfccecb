//! From lines into the vault. What is there already is merged, never replaced as a whole.

use serde::Deserialize;
use serde_json::Value;
use skills_core::{
    Digest, Owner, SkillId, Timestamp,
    keyspace::{self, Account, Expiry, Line, LogicalKey},
};

use crate::{
    Act, NewKey, ProfileChange, Vault, VaultError, Window,
    crypt::{Envelope, Place},
    file::Stop,
    keys,
    limits::{self, minute_of},
    profiles::{self, tier_or_free},
    secrets::{self, MAX_VALUE_BYTES, SecretName},
};

/// How long a hash of before is good for that does not say it itself.
const MIGRATED_KEY_SECONDS: u64 = 30 * 24 * 60 * 60;
/// Longest sealed value, in characters.
const MAX_ENVELOPE_BYTES: usize = 2 * MAX_VALUE_BYTES + 128;

/// What became of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the vault.
    Imported {
        /// What was not as expected.
        notes: Vec<String>,
    },
    /// What it said has another place now.
    Migrated {
        /// The deprecated key.
        from: String,
        /// Where it is.
        to: String,
        /// What was not as expected.
        notes: Vec<String>,
    },
    /// It was left out.
    Skipped {
        /// Why.
        reason: String,
    },
}

fn skipped(reason: impl Into<String>) -> Result<Outcome, Stop> {
    Ok(Outcome::Skipped { reason: reason.into() })
}

fn imported(notes: Vec<String>) -> Result<Outcome, Stop> {
    Ok(Outcome::Imported { notes })
}

/// Whether it is the line that cannot be used, and not the vault.
const fn is_about_the_line(error: &VaultError) -> bool {
    matches!(
        error,
        VaultError::KeyTaken(_)
            | VaultError::KeyRevoked(_)
            | VaultError::NilOwner
            | VaultError::TooMany { .. }
            | VaultError::BadLabel
            | VaultError::BadCredits
    )
}

impl Vault {
    /// Takes lines, in one transaction, and says what became of each. A line that cannot be used is skipped.
    ///
    /// # Errors
    /// When the file cannot be written; then none of them is in it.
    pub fn import(&self, act: Act<'_>, lines: &[Line]) -> Result<Vec<Outcome>, VaultError> {
        self.file.write(|transaction| {
            let mut outcomes = Vec::with_capacity(lines.len());
            for line in lines {
                let savepoint = transaction.savepoint()?;
                let outcome = match self.import_line(&savepoint, act, line) {
                    Ok(outcome) => {
                        savepoint.commit()?;
                        outcome
                    }
                    Err(Stop::Refused(error)) if is_about_the_line(&error) => {
                        savepoint.finish()?;
                        Outcome::Skipped { reason: error.to_string() }
                    }
                    Err(stop) => return Err(stop),
                };
                outcomes.push(outcome);
            }
            Ok(outcomes)
        })
    }

    fn import_line(
        &self,
        transaction: &rusqlite::Connection,
        act: Act<'_>,
        line: &Line,
    ) -> Result<Outcome, Stop> {
        let moment = line.expiry.map(|expiry| expiry.moment(act.at));
        if moment.is_some_and(|moment| moment <= act.at) {
            return skipped("it has expired");
        }
        let text = line.value.trim();
        let migrated = |to: LogicalKey, notes| {
            Ok(Outcome::Migrated { from: line.key.to_string(), to: to.to_string(), notes })
        };
        let complete = |owner: &Owner, change, notes| {
            if profiles::complete(transaction, act, owner, change)? {
                return migrated(LogicalKey::Profile(owner.clone()), notes);
            }
            skipped("the profile says it already")
        };
        match &line.key {
            LogicalKey::AuthHash(hash) => match adopt(transaction, act, hash, text, moment)? {
                Ok(()) => imported(vec![]),
                Err(reason) => skipped(reason),
            },
            LogicalKey::UserUid(hash) => {
                if keys::by_hash(transaction, hash)?.is_some() {
                    return skipped("the key is known already");
                }
                let default = || Expiry::After(MIGRATED_KEY_SECONDS).moment(act.at);
                let moment = moment.unwrap_or_else(default);
                match adopt(transaction, act, hash, text, Some(moment))? {
                    Ok(()) => migrated(LogicalKey::AuthHash(*hash), vec![]),
                    Err(reason) => skipped(reason),
                }
            }
            LogicalKey::Profile(owner) => match ProfileChange::read(text) {
                Ok((change, notes)) => {
                    profiles::put(transaction, act, owner, &change)?;
                    imported(notes)
                }
                Err(reason) => skipped(reason),
            },
            LogicalKey::Tier(owner) => {
                let (tier, note) = tier_or_free(text);
                let change = ProfileChange { tier: Some(tier), ..ProfileChange::default() };
                complete(owner, change, note.into_iter().collect())
            }
            LogicalKey::Credits(account) => {
                let Ok(credits) = text.parse::<f64>() else {
                    return skipped("the credits are not a number");
                };
                let owner = match account {
                    Account::Owner(owner) => owner.clone(),
                    Account::Key(hash) => match keys::by_hash(transaction, hash)? {
                        Some(row) => row.owner,
                        None => return skipped("they are of a key that is not known"),
                    },
                };
                let change = ProfileChange { credits: Some(credits), ..ProfileChange::default() };
                complete(&owner, change, vec![])
            }
            LogicalKey::Secrets { owner, skill } => {
                self.import_secrets(transaction, act, (owner, skill.as_ref()), text)
            }
            LogicalKey::RateLimit { hash, minute } => {
                let present = minute_of(act.at);
                let Ok(used) = text.parse() else { return skipped("the count is not a number") };
                if *minute < present {
                    return skipped("that minute is over");
                }
                if *minute > present + 1 {
                    return skipped("that minute is far from now");
                }
                limits::save(transaction, &Window { hash: *hash, minute: *minute, used }, act.at)?;
                imported(vec![])
            }
            LogicalKey::Skill { .. } | LogicalKey::ToolsCache | LogicalKey::ToolsChanged => {
                skipped("it is not kept in the vault")
            }
        }
    }

    fn import_secrets(
        &self,
        transaction: &rusqlite::Connection,
        act: Act<'_>,
        (owner, skill): (&Owner, Option<&SkillId>),
        text: &str,
    ) -> Result<Outcome, Stop> {
        keys::refuse_nobody(owner)?;
        let Some(values) = named_values(text) else {
            return skipped("the secrets are neither an object nor a list of key and value");
        };
        let (mut kept, mut notes) = (0, vec![]);
        for (name, value) in values {
            let shown: String = name.chars().take(64).collect();
            let Ok(name) = name.parse::<SecretName>() else {
                notes.push(format!("{shown:?} is left out: {}", VaultError::BadSecretName));
                continue;
            };
            let skill = skill.map_or("", SkillId::as_str);
            let place = Place { owner: owner.as_str(), skill, name: name.as_str() };
            match self.sealed(place, value.as_str()) {
                Ok((envelope, note)) => {
                    secrets::put(transaction, act, place, &envelope)?;
                    notes.extend(note.map(|note| format!("{name} {note}")));
                    kept += 1;
                }
                Err(reason) => notes.push(format!("{name} is left out: {reason}")),
            }
        }
        match (kept, notes.is_empty()) {
            (0, true) => skipped("there are no secrets in it"),
            (0, false) => skipped(notes.join("; ")),
            _ => imported(notes),
        }
    }

    /// The value as it is to be kept, and what is to be said about it.
    fn sealed(
        &self,
        place: Place<'_>,
        value: Option<&str>,
    ) -> Result<(String, Option<&'static str>), String> {
        let Some(value) = value else { return Err("its value is not a text".to_owned()) };
        let envelope = Envelope::parse(value).map_err(|error| error.to_string())?;
        let say = |error: VaultError| error.to_string();
        match (envelope, &self.master) {
            (None, None) => {
                Err("it is not encrypted, and there is no master key to do it".to_owned())
            }
            (None, Some(master)) => {
                secrets::check_value(value).map_err(say)?;
                let envelope = master.seal(place, value).map_err(say)?;
                Ok((envelope, Some("was not encrypted; it is now")))
            }
            (Some(_), None) if value.len() > MAX_ENVELOPE_BYTES => {
                Err(VaultError::SecretTooLarge(value.len()).to_string())
            }
            (Some(_), None) => {
                Ok((value.to_owned(), Some("is kept as it is: no master key is there to open it")))
            }
            (Some(envelope), Some(master)) => {
                let is_current = master.is_current(&envelope);
                let note =
                    envelope.is_legacy().then_some("was of the older form; it is sealed anew");
                let opened = master.open(place, envelope).map_err(say)?;
                secrets::check_value(&opened).map_err(say)?;
                if is_current {
                    return Ok((value.to_owned(), note));
                }
                Ok((master.seal(place, &opened).map_err(say)?, note))
            }
        }
    }
}

fn adopt(
    transaction: &rusqlite::Connection,
    act: Act<'_>,
    hash: &Digest,
    uid: &str,
    expires_at: Option<Timestamp>,
) -> Result<Result<(), String>, Stop> {
    let owner = match keyspace::owner(uid) {
        Ok(owner) => owner,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let key = NewKey { owner: &owner, tier: None, label: None, expires_at };
    keys::adopt(transaction, act, hash, &key)?;
    Ok(Ok(()))
}

/// Both forms that secrets are stored in: an object, and a list of key and value.
fn named_values(text: &str) -> Option<Vec<(String, Value)>> {
    #[derive(Deserialize)]
    struct Named {
        key: String,
        value: Value,
    }
    match serde_json::from_str(text).ok()? {
        Value::Object(fields) => Some(fields.into_iter().collect()),
        list @ Value::Array(_) => {
            let list: Vec<Named> = serde_json::from_value(list).ok()?;
            Some(list.into_iter().map(|Named { key, value }| (key, value)).collect())
        }
        _ => None,
    }
}
