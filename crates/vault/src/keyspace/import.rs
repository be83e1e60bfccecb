//! Import of lines into the vault. Existing data is merged, never replaced as a whole.

use serde::Deserialize;
use serde_json::Value;
use skills_core::{
    Digest, Owner, SkillId, Timestamp,
    keyspace::{self, CreditsAccount, Expiry, KeyspaceLine, LogicalKey},
};

use crate::{
    Actor, NewKey, ProfileChange, RateWindow, Vault, VaultError,
    backend::Tables,
    crypt::{Envelope, SecretBinding},
    keys,
    profiles::{self, plan_or_free},
    rate_limits::{self, minute_of},
    secrets::{self, MAX_VALUE_BYTES, SecretName},
};

/// Time to live of a migrated `user:uid:` key without an expiry.
const MIGRATED_KEY_SECONDS: u64 = 30 * 24 * 60 * 60;
/// Longest envelope, in bytes.
const MAX_ENVELOPE_BYTES: usize = 2 * MAX_VALUE_BYTES + 128;

/// Result of importing one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyspaceImport {
    /// Stored.
    Imported {
        /// Warnings.
        notes: Vec<String>,
    },
    /// Stored under the key that replaces a deprecated one.
    Migrated {
        /// Deprecated key.
        from: String,
        /// Its replacement.
        to: String,
        /// Warnings.
        notes: Vec<String>,
    },
    /// Not stored.
    Skipped {
        /// Reason.
        reason: String,
    },
}

fn skipped(reason: impl Into<String>) -> Result<KeyspaceImport, VaultError> {
    Ok(KeyspaceImport::Skipped { reason: reason.into() })
}

fn imported(notes: Vec<String>) -> Result<KeyspaceImport, VaultError> {
    Ok(KeyspaceImport::Imported { notes })
}

/// Returns whether an error concerns only the line and not the vault.
const fn is_line_error(error: &VaultError) -> bool {
    matches!(
        error,
        VaultError::KeyTaken(_)
            | VaultError::KeyRevoked(_)
            | VaultError::NilOwner
            | VaultError::TooMany { .. }
            | VaultError::BadUsername
            | VaultError::BadCredits
    )
}

impl Vault {
    /// Imports lines in one transaction and returns the result of each. An unusable line is skipped.
    ///
    /// # Errors
    /// When the vault cannot be written; then no line is imported.
    pub fn import(
        &self,
        actor: Actor<'_>,
        lines: &[KeyspaceLine],
    ) -> Result<Vec<KeyspaceImport>, VaultError> {
        self.backend.write(|tables| {
            let mut outcomes = Vec::with_capacity(lines.len());
            for line in lines {
                tables.begin_savepoint()?;
                let outcome = match self.import_line(tables, actor, line) {
                    Ok(outcome) => {
                        tables.end_savepoint(true)?;
                        outcome
                    }
                    Err(error) if is_line_error(&error) => {
                        tables.end_savepoint(false)?;
                        KeyspaceImport::Skipped { reason: error.to_string() }
                    }
                    Err(error) => return Err(error),
                };
                outcomes.push(outcome);
            }
            Ok(outcomes)
        })
    }

    fn import_line(
        &self,
        tables: &mut dyn Tables,
        actor: Actor<'_>,
        line: &KeyspaceLine,
    ) -> Result<KeyspaceImport, VaultError> {
        let expires_at = line.expiry.map(|expiry| expiry.to_timestamp(actor.at));
        if expires_at.is_some_and(|end| end <= actor.at) {
            return skipped("expired");
        }
        let text = line.value.trim();
        let migrated = |to: LogicalKey, notes| {
            Ok(KeyspaceImport::Migrated { from: line.key.to_string(), to: to.to_string(), notes })
        };
        let fill_missing = |tables: &mut dyn Tables, owner: &Owner, change, notes| {
            if profiles::fill_missing(tables, actor, owner, change)? {
                return migrated(LogicalKey::Profile(owner.clone()), notes);
            }
            skipped("already set in the profile")
        };
        match &line.key {
            LogicalKey::AuthHash(hash) => match adopt(tables, actor, hash, text, expires_at)? {
                Ok(()) => imported(vec![]),
                Err(reason) => skipped(reason),
            },
            LogicalKey::UserUid(hash) => {
                if tables.key_by_hash(hash)?.is_some() {
                    return skipped("the key exists already");
                }
                let default = || Expiry::After(MIGRATED_KEY_SECONDS).to_timestamp(actor.at);
                let expires_at = expires_at.unwrap_or_else(default);
                match adopt(tables, actor, hash, text, Some(expires_at))? {
                    Ok(()) => migrated(LogicalKey::AuthHash(*hash), vec![]),
                    Err(reason) => skipped(reason),
                }
            }
            LogicalKey::Profile(owner) => match ProfileChange::from_keyspace(text) {
                Ok((change, notes)) => {
                    profiles::put(tables, actor, owner, &change)?;
                    imported(notes)
                }
                Err(reason) => skipped(reason),
            },
            LogicalKey::Tier(owner) => {
                let (plan, note) = plan_or_free(text);
                let change = ProfileChange { plan: Some(plan), ..ProfileChange::default() };
                fill_missing(tables, owner, change, note.into_iter().collect())
            }
            LogicalKey::Credits(account) => {
                let Ok(credits) = text.parse::<f64>() else {
                    return skipped("the credits are not a number");
                };
                let owner = match account {
                    CreditsAccount::Owner(owner) => owner.clone(),
                    CreditsAccount::Key(hash) => match tables.key_by_hash(hash)? {
                        Some(row) => row.owner,
                        None => return skipped("the credits belong to an unknown key"),
                    },
                };
                let change = ProfileChange { credits: Some(credits), ..ProfileChange::default() };
                fill_missing(tables, &owner, change, vec![])
            }
            LogicalKey::Secrets { owner, skill } => {
                self.import_secrets(tables, actor, (owner, skill.as_ref()), text)
            }
            LogicalKey::RateLimit { hash, minute } => {
                let present = minute_of(actor.at);
                let Ok(used) = text.parse() else { return skipped("the count is not a number") };
                if *minute < present {
                    return skipped("the minute is over");
                }
                if *minute > present + 1 {
                    return skipped("the minute is too far in the future");
                }
                rate_limits::save(
                    tables,
                    &RateWindow { hash: *hash, minute: *minute, used },
                    actor.at,
                )?;
                imported(vec![])
            }
            LogicalKey::Skill { .. } | LogicalKey::ToolsCache | LogicalKey::ToolsChanged => {
                skipped("not part of the vault")
            }
        }
    }

    fn import_secrets(
        &self,
        tables: &mut dyn Tables,
        actor: Actor<'_>,
        (owner, skill): (&Owner, Option<&SkillId>),
        text: &str,
    ) -> Result<KeyspaceImport, VaultError> {
        keys::reject_nil_owner(owner)?;
        let Some(values) = parse_values(text) else {
            return skipped("the secrets are neither an object nor a list of {key, value}");
        };
        let (mut stored, mut notes) = (0, vec![]);
        for (name, value) in values {
            let excerpt: String = name.chars().take(64).collect();
            let Ok(name) = name.parse::<SecretName>() else {
                notes.push(format!("{excerpt:?} is skipped: {}", VaultError::BadSecretName));
                continue;
            };
            let skill = skill.map_or("", SkillId::as_str);
            let binding = SecretBinding { owner: owner.as_str(), skill, name: name.as_str() };
            match self.to_envelope(binding, value.as_str()) {
                Ok((envelope, note)) => {
                    secrets::put(tables, actor, binding, &envelope)?;
                    notes.extend(note.map(|note| format!("{name} {note}")));
                    stored += 1;
                }
                Err(reason) => notes.push(format!("{name} is skipped: {reason}")),
            }
        }
        match (stored, notes.is_empty()) {
            (0, true) => skipped("no secrets"),
            (0, false) => skipped(notes.join("; ")),
            _ => imported(notes),
        }
    }

    /// Returns the envelope to store, and a warning.
    fn to_envelope(
        &self,
        binding: SecretBinding<'_>,
        value: Option<&str>,
    ) -> Result<(String, Option<&'static str>), String> {
        let Some(value) = value else { return Err("the value is not a string".to_owned()) };
        let envelope = Envelope::parse(value).map_err(|error| error.to_string())?;
        let reason = |error: VaultError| error.to_string();
        match (envelope, &self.master) {
            (None, None) => Err("not encrypted, and MASTER_ENCRYPTION_KEY is not set".to_owned()),
            (None, Some(master)) => {
                secrets::check_value(value).map_err(reason)?;
                let envelope = master.seal(binding, value).map_err(reason)?;
                Ok((envelope, Some("was not encrypted and is now")))
            }
            (Some(_), None) if value.len() > MAX_ENVELOPE_BYTES => {
                Err(VaultError::SecretTooLarge(value.len()).to_string())
            }
            (Some(_), None) => Ok((
                value.to_owned(),
                Some("is stored unchecked: MASTER_ENCRYPTION_KEY is not set"),
            )),
            (Some(envelope), Some(master)) => {
                let is_current = master.is_current(&envelope);
                let note =
                    envelope.is_legacy().then_some("had the legacy format and was encrypted again");
                let opened = master.open(binding, envelope).map_err(reason)?;
                secrets::check_value(&opened).map_err(reason)?;
                if is_current {
                    return Ok((value.to_owned(), note));
                }
                Ok((master.seal(binding, &opened).map_err(reason)?, note))
            }
        }
    }
}

fn adopt(
    tables: &mut dyn Tables,
    actor: Actor<'_>,
    hash: &Digest,
    uid: &str,
    expires_at: Option<Timestamp>,
) -> Result<Result<(), String>, VaultError> {
    let owner = match keyspace::parse_owner(uid) {
        Ok(owner) => owner,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let key = NewKey { owner: &owner, plan: None, label: None, expires_at };
    keys::adopt(tables, actor, hash, &key)?;
    Ok(Ok(()))
}

/// Parses both forms of secrets: an object, and a list of `{key, value}`.
fn parse_values(text: &str) -> Option<Vec<(String, Value)>> {
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
