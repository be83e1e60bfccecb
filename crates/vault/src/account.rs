//! What somebody else knows of a user, taken over as one: all of it, or none.

use skills_core::{Digest, Owner, SkillId};
use zeroize::Zeroizing;

use crate::{
    Act, NewKey, Others, ProfileChange, SecretName, Vault, VaultError, WhichKeys,
    keys::{self, key_id},
    profiles,
    secrets::SealedSecrets,
};

/// What is to be different about a user; what is not said stays.
#[derive(Debug)]
pub struct AccountChange<'a> {
    /// Who.
    pub owner: &'a Owner,
    /// Their profile.
    pub profile: ProfileChange,
    /// The hash of a key of theirs from now on.
    pub key: Option<Digest>,
    /// The hash of one that is revoked, if it is known.
    pub old_key: Option<Digest>,
    /// Their secrets.
    pub secrets: Option<SecretsChange<'a>>,
}

impl<'a> AccountChange<'a> {
    /// One that says nothing yet.
    #[must_use]
    pub fn of(owner: &'a Owner) -> Self {
        Self { owner, profile: ProfileChange::default(), key: None, old_key: None, secrets: None }
    }
}

/// Secrets of one scope.
#[derive(Debug)]
pub struct SecretsChange<'a> {
    /// The skill that they are for; all of them without one.
    pub skill: Option<&'a SkillId>,
    /// The values.
    pub values: &'a [(SecretName, Zeroizing<String>)],
    /// What becomes of others there.
    pub others: Others,
}

impl Vault {
    /// Takes over what is known of a user.
    ///
    /// # Errors
    /// When a key is somebody else's or was revoked, as for [`Vault::set_secret`] and [`Vault::set_profile`], or the
    /// file cannot be written. Then nothing is different.
    pub fn take_over(&self, act: Act<'_>, change: &AccountChange<'_>) -> Result<(), VaultError> {
        let AccountChange { owner, profile, key, old_key, secrets } = change;
        // A key does not replace itself.
        let old_key = old_key.filter(|old| Some(*old) != *key);
        let is_empty = *profile == ProfileChange::default() && secrets.is_none();
        if is_empty && key.is_none() && old_key.is_none() {
            return Ok(());
        }
        keys::refuse_nobody(owner)?;
        let sealed =
            secrets.as_ref().map(|change| self.sealed_secrets(owner, change)).transpose()?;
        self.file.write(|transaction| {
            let old = old_key.map(|hash| keys::by_hash(transaction, &hash)).transpose()?.flatten();
            if let Some(old) = old.filter(|old| old.is_live(act.at)) {
                // Nobody's key is revoked in somebody else's name.
                if old.owner != **owner {
                    return Err(VaultError::KeyTaken(key_id(&old.hash)).into());
                }
                keys::revoke(transaction, act, WhichKeys::Id(&old.hash.to_string()))?;
            }
            if let Some(hash) = key {
                let new = NewKey { owner, tier: None, label: None, expires_at: None };
                keys::adopt(transaction, act, hash, &new)?;
            }
            if let Some(sealed) = &sealed {
                sealed.put(transaction, act)?;
            }
            if *profile != ProfileChange::default() {
                profiles::put(transaction, act, owner, profile)?;
            }
            Ok(())
        })
    }

    fn sealed_secrets<'a>(
        &self,
        owner: &'a Owner,
        change: &'a SecretsChange<'_>,
    ) -> Result<SealedSecrets<'a>, VaultError> {
        let SecretsChange { skill, values, others } = change;
        SealedSecrets::new(self, owner, *skill, values, *others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AccountTier,
        vault::testing::{act, owner, vault},
    };

    #[test]
    fn all_of_it_or_none() {
        let (vault, _dir) = vault();
        let (ann, bob) = (owner("ann"), owner("bob"));
        let hash = |text: &str| Digest::of(text.as_bytes());
        let values = [("A".parse().unwrap(), Zeroizing::new("v".to_owned()))];
        let change = |key: &str, credits: f64| AccountChange {
            owner: &ann,
            profile: ProfileChange {
                tier: Some(AccountTier::Pro),
                credits: Some(credits),
                username: None,
            },
            key: Some(hash(key)),
            old_key: Some(hash("us-old")),
            secrets: Some(SecretsChange { skill: None, values: &values, others: Others::Go }),
        };
        let new = NewKey { owner: &ann, tier: None, label: None, expires_at: None };
        vault.adopt_key(act(), &hash("us-old"), &new).unwrap();
        vault.adopt_key(act(), &hash("us-bobs"), &NewKey { owner: &bob, ..new }).unwrap();
        let log = vault.audit(0, 100).unwrap().len();

        // The last thing that is written is what cannot be.
        let refused = vault.take_over(act(), &change("us-new", f64::NAN));
        assert!(matches!(refused, Err(VaultError::BadCredits)), "{refused:?}");
        let refused = vault.take_over(act(), &change("us-bobs", 1.0));
        assert!(matches!(refused, Err(VaultError::KeyTaken(_))), "{refused:?}");
        assert!(vault.secrets(&ann).unwrap().is_empty());
        assert!(vault.profile(&ann).unwrap().is_none());
        assert!(vault.find_hash(&hash("us-old"), act().at).unwrap().is_some());
        assert!(vault.find_hash(&hash("us-new"), act().at).unwrap().is_none());
        assert_eq!(vault.audit(0, 100).unwrap().len(), log, "what did not happen is not logged");

        vault.take_over(act(), &change("us-new", 1.0)).unwrap();
        assert_eq!(vault.secrets(&ann).unwrap().len(), 1);
        assert!(vault.find_hash(&hash("us-old"), act().at).unwrap().is_none());
        let found = vault.find_hash(&hash("us-new"), act().at).unwrap().unwrap();
        assert_eq!((found.owner, found.tier), (ann.clone(), AccountTier::Pro));
        let nobody = owner("00000000-0000-0000-0000-000000000000");
        let refused =
            vault.take_over(act(), &AccountChange { owner: &nobody, ..change("us-x", 1.0) });
        assert!(matches!(refused, Err(VaultError::NilOwner)));
        // Of whom nothing is kept may be anybody, and a key does not replace itself.
        vault.take_over(act(), &AccountChange::of(&nobody)).unwrap();
        let same = AccountChange { old_key: Some(hash("us-new")), ..change("us-new", 2.0) };
        vault.take_over(act(), &same).unwrap();
        assert!(vault.find_hash(&hash("us-new"), act().at).unwrap().is_some());
    }
}
