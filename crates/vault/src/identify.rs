//! Who presents a bearer: an administrator, a user, or nobody that is known.

use std::sync::Arc;

use skills_core::{Caller, Identify, Identity, User, caller::KEY_PREFIX};

use crate::{AdminSecrets, Vault, now};

/// What knows keys and admin secrets.
#[derive(Debug, Clone)]
pub struct Identifier {
    vault: Arc<Vault>,
    admins: AdminSecrets,
}

impl Identifier {
    /// From the two that know.
    #[must_use]
    pub const fn new(vault: Arc<Vault>, admins: AdminSecrets) -> Self {
        Self { vault, admins }
    }
}

impl Identify for Identifier {
    fn identify(&self, bearer: &str) -> Identity {
        if let Some(name) = self.admins.find(bearer) {
            return Identity::Known(Caller::Admin(name));
        }
        match self.vault.find(bearer, now()) {
            Ok(Some(key)) => {
                Identity::Known(Caller::User(User { owner: key.owner, key: key.hash }))
            }
            Ok(None) if bearer.starts_with(KEY_PREFIX) => Identity::UnknownKey,
            Ok(None) => Identity::NotOurs,
            Err(error) => {
                tracing::error!(%error, "keys cannot be looked up; nobody is let in by one");
                Identity::UnknownKey
            }
        }
    }

    fn knows(&self, caller: &Caller) -> bool {
        let Caller::User(User { owner, key }) = caller else { return true };
        let found = self.vault.find_hash(key, now()).inspect_err(|error| {
            tracing::error!(%error, "keys cannot be looked up; nobody is known by one");
        });
        matches!(found, Ok(Some(found)) if found.owner == *owner)
    }
}

#[cfg(test)]
mod tests {
    use skills_core::{Digest, caller::AdminName};

    use super::*;
    use crate::{
        NewKey, WhichKeys,
        vault::testing::{act, owner, vault},
    };

    #[test]
    fn tells_administrators_users_and_strangers_apart() {
        let (vault, _dir) = vault();
        let ann = owner("ann");
        let new = NewKey { owner: &ann, tier: None, label: None, expires_at: None };
        let key = vault.create_key(act(), &new).unwrap().key;
        let (admins, _) = AdminSecrets::from_env(Some("0123456789abcdef"), None);
        let identifier = Identifier::new(Arc::new(vault), admins);
        let who = |bearer: &str| identifier.identify(bearer);
        assert_eq!(who("0123456789abcdef"), Identity::Known(Caller::Admin(AdminName::AdminKey)));
        assert!(matches!(who(&key), Identity::Known(Caller::User(user)) if user.owner == ann));
        assert_eq!(who("us-made-up"), Identity::UnknownKey);
        let Identity::Known(caller) = who(&key) else { panic!("it is known") };
        assert!(identifier.knows(&caller) && identifier.knows(&Caller::Anonymous));
        let other = User { owner: owner("bob"), key: Digest::of(key.as_bytes()) };
        assert!(!identifier.knows(&Caller::User(other)));
        identifier.vault.revoke_keys(act(), WhichKeys::Key(&key)).unwrap();
        assert!(!identifier.knows(&caller), "from now on");
        for stranger in ["", "token", "Bearer us-x", "US-x"] {
            assert_eq!(who(stranger), Identity::NotOurs, "{stranger}");
        }
    }
}
