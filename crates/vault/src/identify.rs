//! Who presents a bearer: an administrator, a user, or nobody that is known.

use std::sync::Arc;

use skills_core::Timestamp;

use crate::{AdminName, AdminSecrets, KEY_PREFIX, KeyInfo, Vault, VaultError};

/// Who presents a bearer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// Somebody with an admin secret.
    Admin(AdminName),
    /// A user.
    User(KeyInfo),
    /// Nobody: it looks like a key, but is unknown, expired or revoked. To be refused at once.
    UnknownKey,
    /// It is neither a key nor an admin secret.
    NotOurs,
}

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

    /// Who presents this.
    ///
    /// # Errors
    /// When the vault cannot be read. Whoever asks must then let nobody in.
    pub fn identify(&self, bearer: &str, now: Timestamp) -> Result<Identity, VaultError> {
        if let Some(name) = self.admins.find(bearer) {
            return Ok(Identity::Admin(name));
        }
        match self.vault.find(bearer, now)? {
            Some(key) => Ok(Identity::User(key)),
            None if bearer.starts_with(KEY_PREFIX) => Ok(Identity::UnknownKey),
            None => Ok(Identity::NotOurs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        NewKey,
        vault::testing::{NOW, act, owner, vault},
    };

    #[test]
    fn tells_administrators_users_and_strangers_apart() {
        let (vault, _dir) = vault();
        let ann = owner("ann");
        let new = NewKey { owner: &ann, tier: None, label: None, expires_at: None };
        let key = vault.create_key(act(), &new).unwrap().key;
        let (admins, _) = AdminSecrets::from_env(Some("0123456789abcdef"), None);
        let identifier = Identifier::new(Arc::new(vault), admins);
        let who = |bearer: &str| identifier.identify(bearer, NOW).unwrap();
        assert_eq!(who("0123456789abcdef"), Identity::Admin(AdminName::AdminKey));
        assert!(matches!(who(&key), Identity::User(info) if info.owner == ann));
        assert_eq!(who("us-made-up"), Identity::UnknownKey);
        for stranger in ["", "token", "Bearer us-x", "US-x"] {
            assert_eq!(who(stranger), Identity::NotOurs, "{stranger}");
        }
    }
}
