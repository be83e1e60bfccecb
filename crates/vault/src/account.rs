//! Several changes to one account in one transaction: all of them are made, or none.

use std::convert::Infallible;

use skills_core::{Digest, Owner, SkillId};
use zeroize::Zeroizing;

use crate::{
    Actor, KeySelector, NewKey, OtherSecrets, ProfileChange, SecretName, Vault, VaultError,
    keys::{self, key_id},
    profiles,
    secrets::EncryptedSecrets,
};

/// Changes to one account. Absent parts stay as they are.
#[derive(Debug)]
pub struct AccountChange<'a> {
    /// Account that changes.
    pub owner: &'a Owner,
    /// Changes to the profile.
    pub profile: ProfileChange,
    /// Hash of a key to add.
    pub key: Option<Digest>,
    /// Hash of a key to revoke, if the vault has it.
    pub old_key: Option<Digest>,
    /// Secrets to set.
    pub secrets: Option<SecretsChange<'a>>,
}

impl<'a> AccountChange<'a> {
    /// Creates an empty change.
    #[must_use]
    pub fn new(owner: &'a Owner) -> Self {
        Self { owner, profile: ProfileChange::default(), key: None, old_key: None, secrets: None }
    }
}

/// Secrets to set in one scope.
#[derive(Debug)]
pub struct SecretsChange<'a> {
    /// Skill that the secrets are for; `None` for all skills.
    pub skill: Option<&'a SkillId>,
    /// Names and values to set.
    pub values: &'a [(SecretName, Zeroizing<String>)],
    /// Treatment of the scope's other secrets.
    pub others: OtherSecrets,
}

/// Error of a joint write to the vault and to another store.
#[derive(Debug)]
pub enum JointWriteError<E> {
    /// The vault rejected the change; the other store was not touched.
    Vault(VaultError),
    /// The other store failed; the vault was not changed.
    Other(E),
    /// The other store was changed and then the vault could not commit: the caller undoes the other change.
    CommitFailed(VaultError),
}

impl Vault {
    /// Applies a change to an account.
    ///
    /// # Errors
    /// When a key belongs to another account or was revoked, as for [`Vault::set_secret`] and [`Vault::set_profile`], or the
    /// file cannot be written. The account is then unchanged.
    pub fn apply_account_change(
        &self,
        actor: Actor<'_>,
        change: &AccountChange<'_>,
    ) -> Result<(), VaultError> {
        match self.apply_account_change_with(actor, change, || Ok::<_, Infallible>(())) {
            Ok(()) => Ok(()),
            Err(JointWriteError::Vault(error) | JointWriteError::CommitFailed(error)) => Err(error),
            Err(JointWriteError::Other(never)) => match never {},
        }
    }

    /// Applies a change to an account together with a change to another store: both or neither.
    ///
    /// `other` runs inside the transaction, after every check of the vault and after the pages have reached the disk, so
    /// that little can fail after it. The vault accepts no other change meanwhile.
    ///
    /// # Errors
    /// One for each party: see [`JointWriteError`].
    pub fn apply_account_change_with<T, E>(
        &self,
        actor: Actor<'_>,
        change: &AccountChange<'_>,
        other: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, JointWriteError<E>> {
        let mut outcome = None;
        let written = self.write_account(actor, change, || {
            let result = other();
            let is_ok = result.is_ok();
            outcome = Some(result);
            is_ok
        });
        match (written, outcome) {
            (Ok(()), Some(Ok(done))) => Ok(done),
            (_, Some(Err(error))) => Err(JointWriteError::Other(error)),
            (Err(error), Some(Ok(_))) => Err(JointWriteError::CommitFailed(error)),
            (Err(error), None) => Err(JointWriteError::Vault(error)),
            (Ok(()), None) => {
                let error = VaultError::internal("the transaction ended before its last step");
                Err(JointWriteError::Vault(error))
            }
        }
    }

    /// Writes a change to an account and commits it if `last` returns true.
    fn write_account(
        &self,
        actor: Actor<'_>,
        change: &AccountChange<'_>,
        last: impl FnOnce() -> bool,
    ) -> Result<(), VaultError> {
        let AccountChange { owner, profile, key, old_key, secrets } = change;
        // A key does not replace itself.
        let old_key = old_key.filter(|old| Some(*old) != *key);
        let is_empty = *profile == ProfileChange::default() && secrets.is_none();
        let aborted = || VaultError::internal("the other store failed");
        if is_empty && key.is_none() && old_key.is_none() {
            return if last() { Ok(()) } else { Err(aborted()) };
        }
        keys::reject_nil_owner(owner)?;
        let secrets = match secrets {
            Some(SecretsChange { skill, values, others }) => {
                Some(EncryptedSecrets::new(self, owner, *skill, values, *others)?)
            }
            None => None,
        };
        self.backend.write(|tables| {
            let old = match old_key {
                Some(hash) => tables.key_by_hash(&hash)?,
                None => None,
            };
            if let Some(old) = old.filter(|old| old.is_active(actor.at)) {
                // An account cannot revoke the key of another.
                if old.owner != **owner {
                    return Err(VaultError::KeyTaken(key_id(&old.hash)));
                }
                keys::revoke(tables, actor, KeySelector::Id(&old.hash.to_string()))?;
            }
            if let Some(hash) = key {
                let new = NewKey::for_owner(owner);
                keys::adopt(tables, actor, hash, &new)?;
            }
            if let Some(secrets) = &secrets {
                secrets.put(tables, actor)?;
            }
            if *profile != ProfileChange::default() {
                profiles::put(tables, actor, owner, profile)?;
            }
            tables.prepare_commit()?;
            if last() { Ok(()) } else { Err(aborted()) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Plan,
        vault::testing::{TestSite, actor, contract, execute_sql, owner, vault},
    };

    contract! {
        an_account_and_another_store_change_together_or_not_at_all,
        a_rejected_account_change_changes_nothing,
    }

    fn an_account_and_another_store_change_together_or_not_at_all(site: &TestSite) {
        let vault = site.vault();
        let ann = owner("ann");
        let values = [("A".parse().unwrap(), Zeroizing::new("v".to_owned()))];
        let change = AccountChange {
            secrets: Some(SecretsChange {
                skill: None,
                values: &values,
                others: OtherSecrets::Keep,
            }),
            ..AccountChange::new(&ann)
        };
        let failed = vault.apply_account_change_with(actor(), &change, || Err::<(), _>("no room"));
        assert!(matches!(failed, Err(JointWriteError::Other("no room"))));
        assert!(vault.secrets(&ann).unwrap().is_empty());
        assert!(
            vault.audit(0, 100).unwrap().is_empty(),
            "a change that was not made is not logged"
        );
        let nothing = AccountChange::new(&ann);
        let failed = vault.apply_account_change_with(actor(), &nothing, || Err::<(), _>("no room"));
        assert!(matches!(failed, Err(JointWriteError::Other("no room"))));
        let done = vault.apply_account_change_with(actor(), &change, || Ok::<_, ()>(7));
        assert!(matches!(done, Ok(7)));
        assert_eq!(vault.secrets(&ann).unwrap().len(), 1);
        // The other store is not called for a change that the vault rejects.
        let nil = owner("00000000-0000-0000-0000-000000000000");
        let refused = AccountChange { owner: &nil, ..change };
        let called = vault.apply_account_change_with(actor(), &refused, || -> Result<(), ()> {
            panic!("called")
        });
        assert!(matches!(called, Err(JointWriteError::Vault(VaultError::NilOwner))));
    }

    #[test]
    fn a_commit_that_fails_after_the_other_store_changed_has_its_own_error() {
        let (vault, dir) = vault();
        let ann = owner("ann");
        let values = [("A".parse().unwrap(), Zeroizing::new("v".to_owned()))];
        let change = AccountChange {
            secrets: Some(SecretsChange {
                skill: None,
                values: &values,
                others: OtherSecrets::Keep,
            }),
            ..AccountChange::new(&ann)
        };
        // A foreign key that is checked when the transaction commits.
        let sql = "CREATE TABLE parent (id INTEGER PRIMARY KEY);
            CREATE TABLE child (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);
            CREATE TRIGGER late AFTER INSERT ON secret BEGIN INSERT INTO child VALUES (1); END";
        execute_sql(dir.path(), sql).unwrap();
        let mut is_called = false;
        let failed = vault.apply_account_change_with(actor(), &change, || {
            is_called = true;
            Ok::<_, ()>(())
        });
        assert!(matches!(failed, Err(JointWriteError::CommitFailed(_))), "{failed:?}");
        assert!(is_called && vault.secrets(&ann).unwrap().is_empty());
    }

    fn a_rejected_account_change_changes_nothing(site: &TestSite) {
        let vault = site.vault();
        let (ann, bob) = (owner("ann"), owner("bob"));
        let hash = |text: &str| Digest::of(text.as_bytes());
        let values = [("A".parse().unwrap(), Zeroizing::new("v".to_owned()))];
        let change = |key: &str, credits: f64| AccountChange {
            owner: &ann,
            profile: ProfileChange {
                plan: Some(Plan::Pro),
                credits: Some(credits),
                username: None,
            },
            key: Some(hash(key)),
            old_key: Some(hash("us-old")),
            secrets: Some(SecretsChange {
                skill: None,
                values: &values,
                others: OtherSecrets::Remove,
            }),
        };
        let new = NewKey::for_owner(&ann);
        vault.adopt_key(actor(), &hash("us-old"), &new).unwrap();
        vault.adopt_key(actor(), &hash("us-bobs"), &NewKey { owner: &bob, ..new }).unwrap();
        let log = vault.audit(0, 100).unwrap().len();

        // The profile, which is written last, is invalid.
        let refused = vault.apply_account_change(actor(), &change("us-new", f64::NAN));
        assert!(matches!(refused, Err(VaultError::BadCredits)), "{refused:?}");
        let refused = vault.apply_account_change(actor(), &change("us-bobs", 1.0));
        assert!(matches!(refused, Err(VaultError::KeyTaken(_))), "{refused:?}");
        assert!(vault.secrets(&ann).unwrap().is_empty());
        assert!(vault.profile(&ann).unwrap().is_none());
        assert!(vault.find_key_by_hash(&hash("us-old"), actor().at).unwrap().is_some());
        assert!(vault.find_key_by_hash(&hash("us-new"), actor().at).unwrap().is_none());
        assert_eq!(
            vault.audit(0, 100).unwrap().len(),
            log,
            "a change that was not made is not logged"
        );

        vault.apply_account_change(actor(), &change("us-new", 1.0)).unwrap();
        assert_eq!(vault.secrets(&ann).unwrap().len(), 1);
        assert!(vault.find_key_by_hash(&hash("us-old"), actor().at).unwrap().is_none());
        let found = vault.find_key_by_hash(&hash("us-new"), actor().at).unwrap().unwrap();
        assert_eq!((found.owner, found.plan), (ann.clone(), Plan::Pro));
        let nil = owner("00000000-0000-0000-0000-000000000000");
        let refused = vault
            .apply_account_change(actor(), &AccountChange { owner: &nil, ..change("us-x", 1.0) });
        assert!(matches!(refused, Err(VaultError::NilOwner)));
        // An empty change needs no valid owner, and a key does not replace itself.
        vault.apply_account_change(actor(), &AccountChange::new(&nil)).unwrap();
        let same = AccountChange { old_key: Some(hash("us-new")), ..change("us-new", 2.0) };
        vault.apply_account_change(actor(), &same).unwrap();
        assert!(vault.find_key_by_hash(&hash("us-new"), actor().at).unwrap().is_some());
    }
}
