//! Caller of a request, identified by a credential.
//!
//! Identity comes from the credential and from nothing else: no field of a request names a caller. Storage of keys is
//! not known here; it implements [`KeyDirectory`].

use std::{fmt, pin::Pin};

use crate::{Digest, Layer, Owner, Tier};

/// Prefix of every user key.
pub const KEY_PREFIX: &str = "us-";

/// Author of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Caller {
    /// Caller without a credential. Sees the official and the market tier.
    #[default]
    Anonymous,
    /// Caller who presented a user key. Sees the user's private layer before the other tiers.
    User(User),
    /// Caller who presented an administrator secret. It grants access to administration and to no private layer.
    Admin(AdminName),
}

/// User whom a key belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct User {
    /// Owner of the private layer.
    pub owner: Owner,
    /// SHA-256 of the presented key.
    pub key: Digest,
}

/// Name of the administrator secret that was presented; never the secret itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AdminName {
    /// `ADMIN_KEY`.
    AdminKey,
    /// `INTERNAL_API_SECRET`.
    InternalApiSecret,
}

impl AdminName {
    /// Returns the environment variable of the secret, which is also its name in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AdminKey => "ADMIN_KEY",
            Self::InternalApiSecret => "INTERNAL_API_SECRET",
        }
    }
}

impl fmt::Display for AdminName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Caller {
    /// Returns the owner of the private layer that the caller sees.
    #[must_use]
    pub const fn owner(&self) -> Option<&Owner> {
        match self {
            Self::User(user) => Some(&user.owner),
            Self::Anonymous | Self::Admin(_) => None,
        }
    }

    /// Returns the caller's layer of a tier. Callers without a key have no private layer.
    #[must_use]
    pub fn layer(&self, tier: Tier) -> Option<Layer> {
        match tier {
            Tier::Private => self.owner().cloned().map(Layer::Private),
            Tier::Official => Some(Layer::Official),
            Tier::Market => Some(Layer::Market),
        }
    }

    /// Returns the caller's name in the change log and the audit log: the user and the first digits of the key's digest,
    /// as key lists show them, or the name of the administrator secret. `None` for anonymous callers.
    #[must_use]
    pub fn actor(&self) -> Option<String> {
        match self {
            Self::Anonymous => None,
            Self::User(user) => Some(format!("key:{}/{:.8}", user.owner, user.key.to_string())),
            Self::Admin(name) => Some(format!("admin:{name}")),
        }
    }
}

/// Result of looking up a bearer credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyLookup {
    /// Credential of a caller.
    Found(Caller),
    /// Key that was never issued, or is revoked or expired.
    UnknownKey,
    /// Key that cannot be looked up at the moment, such as one that is new to a server without its database.
    Unavailable,
    /// Credential without the form of a key.
    NotAKey,
}

/// Future that completes when the key of a caller ends: it was revoked or has expired.
pub type KeyEnd = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Directory of user keys. Every request performs a lookup, so implementations must be fast.
pub trait KeyDirectory: Send + Sync {
    /// Looks up a bearer credential, without the word `Bearer`.
    fn lookup(&self, bearer: &str) -> KeyLookup;

    /// Returns whether the key of a caller is still active. Long-lived sessions ask before they answer or notify,
    /// because a key may be revoked in between.
    fn is_active(&self, _: &Caller) -> bool {
        true
    }

    /// Returns a future that completes when the key of a caller ends, for long-lived connections. It never completes
    /// for callers without a key, nor in a directory that does not watch keys.
    fn wait_until_ended(&self, _: &Caller) -> KeyEnd {
        Box::pin(std::future::pending())
    }
}

/// Key directory without keys: every key is unknown.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmptyKeyDirectory;

impl KeyDirectory for EmptyKeyDirectory {
    fn lookup(&self, bearer: &str) -> KeyLookup {
        if bearer.starts_with(KEY_PREFIX) { KeyLookup::UnknownKey } else { KeyLookup::NotAKey }
    }

    fn is_active(&self, caller: &Caller) -> bool {
        !matches!(caller, Caller::User(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: &str) -> Caller {
        Caller::User(User { owner: uid.parse().unwrap(), key: Digest::of(b"us-test-key-1") })
    }

    #[test]
    fn only_a_user_has_a_private_layer() {
        let admin = Caller::Admin(AdminName::AdminKey);
        assert_eq!(user("ann").layer(Tier::Private), Layer::from_parts(Tier::Private, "ann"));
        for caller in [Caller::Anonymous, admin] {
            assert_eq!(caller.layer(Tier::Private), None, "{caller:?}");
            assert_eq!(caller.layer(Tier::Market), Some(Layer::Market), "{caller:?}");
        }
    }

    #[test]
    fn the_log_names_a_key_by_its_user_and_its_digest() {
        assert_eq!(user("ann").actor().as_deref(), Some("key:ann/1ac7f2db"));
        let admin = Caller::Admin(AdminName::AdminKey);
        assert_eq!(admin.actor().as_deref(), Some("admin:ADMIN_KEY"));
        assert_eq!(Caller::Anonymous.actor(), None);
    }

    #[test]
    fn without_keys_every_key_is_unknown() {
        assert_eq!(EmptyKeyDirectory.lookup("us-abc"), KeyLookup::UnknownKey);
        assert_eq!(EmptyKeyDirectory.lookup("token"), KeyLookup::NotAKey);
        assert!(
            EmptyKeyDirectory.is_active(&Caller::Anonymous)
                && !EmptyKeyDirectory.is_active(&user("ann"))
        );
    }
}
