//! Who asks, as far as a credential tells.
//!
//! Identity comes from the credential and from nothing else: no field of a request names a caller. How keys
//! are kept is not known here; whoever keeps them implements [`Identify`].

use std::fmt;

use crate::{Digest, Layer, Owner, Tier};

/// What keys of users begin with.
pub const KEY_PREFIX: &str = "us-";

/// Somebody who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Caller {
    /// Nobody in particular: sees the official and the market tier.
    #[default]
    Anonymous,
    /// Who presented a key: sees their private layer too, before the others.
    User(User),
    /// Who presented an administrator's secret. That opens doors; it shows no private layer.
    Admin(AdminName),
}

/// The user that a key stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct User {
    /// Whose private layer it is.
    pub owner: Owner,
    /// The SHA-256 of the key that was presented.
    pub key: Digest,
}

/// Which of the administrators' secrets was presented; never the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AdminName {
    /// `ADMIN_KEY`.
    AdminKey,
    /// `INTERNAL_API_SECRET`.
    InternalApiSecret,
}

impl AdminName {
    /// The variable of the environment it comes from; also who is named in logs.
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
    /// Whose private layer the caller sees.
    #[must_use]
    pub const fn owner(&self) -> Option<&Owner> {
        match self {
            Self::User(user) => Some(&user.owner),
            Self::Anonymous | Self::Admin(_) => None,
        }
    }

    /// The layer that a tier is for this caller; there is no private one for who has no key.
    #[must_use]
    pub fn layer(&self, tier: Tier) -> Option<Layer> {
        match tier {
            Tier::Private => self.owner().cloned().map(Layer::Private),
            Tier::Official => Some(Layer::Official),
            Tier::Market => Some(Layer::Market),
        }
    }

    /// Who is named in the log of changes, if a credential tells: the first digits of the key's digest, which
    /// is what lists of keys show, or the name of an administrator's secret.
    #[must_use]
    pub fn actor(&self) -> Option<String> {
        match self {
            Self::Anonymous => None,
            Self::User(user) => Some(format!("key:{:.8}", user.key.to_string())),
            Self::Admin(name) => Some(format!("admin:{name}")),
        }
    }
}

/// What a credential is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// It stands for somebody.
    Known(Caller),
    /// It has the form of a key, and is none: never issued, revoked or expired.
    UnknownKey,
    /// It is something else, about which nothing is known here.
    NotOurs,
}

/// Tells whom a bearer credential stands for. Asked on every request, so it has to be fast.
pub trait Identify: Send + Sync {
    /// Looks at what was presented, without the word `Bearer`.
    fn identify(&self, bearer: &str) -> Identity;

    /// Whether a caller who was known still is, for those who stay: a key may be revoked while its user is being
    /// told something.
    fn knows(&self, _: &Caller) -> bool {
        true
    }
}

/// Knows no keys: whatever has the form of one is unknown.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoKeys;

impl Identify for NoKeys {
    fn identify(&self, bearer: &str) -> Identity {
        match bearer.starts_with(KEY_PREFIX) {
            true => Identity::UnknownKey,
            false => Identity::NotOurs,
        }
    }

    fn knows(&self, caller: &Caller) -> bool {
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
            assert_eq!(caller.layer(Tier::Private), None);
            assert_eq!(caller.layer(Tier::Market), Some(Layer::Market));
        }
    }

    #[test]
    fn the_log_names_a_key_by_its_digest() {
        assert_eq!(user("ann").actor().as_deref(), Some("key:1ac7f2db"));
        let admin = Caller::Admin(AdminName::AdminKey);
        assert_eq!(admin.actor().as_deref(), Some("admin:ADMIN_KEY"));
        assert_eq!(Caller::Anonymous.actor(), None);
    }

    #[test]
    fn without_keys_every_key_is_unknown() {
        assert_eq!(NoKeys.identify("us-abc"), Identity::UnknownKey);
        assert_eq!(NoKeys.identify("token"), Identity::NotOurs);
        assert!(NoKeys.knows(&Caller::Anonymous) && !NoKeys.knows(&user("ann")));
    }
}
