//! The caller behind a bearer token: an administrator, a user, or unknown.

use std::sync::Arc;

use skills_core::{Caller, KeyDirectory, KeyLookup, User, caller::KEY_PREFIX};

use crate::{AdminSecrets, Vault, now};

/// Directory of the vault's keys and the administrator secrets.
#[derive(Debug, Clone)]
pub struct VaultKeyDirectory {
    vault: Arc<Vault>,
    admins: AdminSecrets,
}

impl VaultKeyDirectory {
    /// Creates a directory.
    #[must_use]
    pub const fn new(vault: Arc<Vault>, admins: AdminSecrets) -> Self {
        Self { vault, admins }
    }
}

impl KeyDirectory for VaultKeyDirectory {
    fn lookup(&self, bearer: &str) -> KeyLookup {
        if let Some(name) = self.admins.find(bearer) {
            return KeyLookup::Found(Caller::Admin(name));
        }
        match self.vault.find_key(bearer, now()) {
            Ok(Some(key)) => {
                self.vault.record_use(&key.hash);
                KeyLookup::Found(Caller::User(User { owner: key.owner, key: key.hash }))
            }
            Ok(None) if bearer.starts_with(KEY_PREFIX) => KeyLookup::UnknownKey,
            Ok(None) => KeyLookup::NotAKey,
            Err(error) => {
                tracing::error!(%error, "key lookup failed, key rejected");
                KeyLookup::Unavailable
            }
        }
    }

    fn is_active(&self, caller: &Caller) -> bool {
        let Caller::User(User { owner, key }) = caller else { return true };
        let found = self.vault.find_key_by_hash(key, now()).inspect_err(|error| {
            tracing::error!(%error, "key lookup failed, key treated as ended");
        });
        matches!(found, Ok(Some(found)) if found.owner == *owner)
    }
}

#[cfg(test)]
mod tests {
    use skills_core::{Digest, caller::AdminName};

    use super::*;
    use crate::{
        KeySelector, NewKey,
        vault::testing::{TestSite, actor, contract, owner},
    };

    contract! {
        administrators_users_and_unknown_callers_are_distinguished,
    }

    fn administrators_users_and_unknown_callers_are_distinguished(site: &TestSite) {
        let vault = site.vault();
        let ann = owner("ann");
        let new = NewKey::for_owner(&ann);
        let key = vault.create_key(actor(), &new).unwrap().key;
        let (admins, _) = AdminSecrets::from_env(Some("0123456789abcdef"), None).unwrap();
        let keys = VaultKeyDirectory::new(Arc::new(vault), admins);
        let lookup = |bearer: &str| keys.lookup(bearer);
        assert_eq!(
            lookup("0123456789abcdef"),
            KeyLookup::Found(Caller::Admin(AdminName::AdminKey))
        );
        assert!(matches!(lookup(&key), KeyLookup::Found(Caller::User(user)) if user.owner == ann));
        assert_eq!(lookup("us-made-up"), KeyLookup::UnknownKey);
        let KeyLookup::Found(caller) = lookup(&key) else { panic!("the key is known") };
        assert!(keys.is_active(&caller) && keys.is_active(&Caller::Anonymous));
        let foreign = User { owner: owner("bob"), key: Digest::of(key.as_bytes()) };
        assert!(!keys.is_active(&Caller::User(foreign)));
        keys.vault.revoke_keys(actor(), KeySelector::Key(&key)).unwrap();
        assert!(!keys.is_active(&caller), "from now on");
        for other in ["", "token", "Bearer us-x", "US-x"] {
            assert_eq!(lookup(other), KeyLookup::NotAKey, "{other}");
        }
    }
}
