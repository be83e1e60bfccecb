//! The person behind a request, and what they may do.

use skills_core::{Caller, Tier, User, caller::AdminName};

/// Person behind a request.
///
/// | identity | sees | changes | administers |
/// |---|---|---|---|
/// | at this machine, where no token is set | official, market | official, market | unless `ADMIN_KEY` is set |
/// | with the server's token | official, market | nothing | no |
/// | with a user's key | own, official, market | own | no |
/// | with `ADMIN_KEY` | official, market | official, market | yes |
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Person at this machine: the user of the server, who needs no credential, or who opened the one-time link.
    Local {
        /// True if no administrator has a key.
        is_admin: bool,
    },
    /// Person who presented the token of the server.
    Token,
    /// Person who presented a user's key.
    User(User),
    /// Person who presented `ADMIN_KEY`.
    Admin,
}

impl Identity {
    /// Returns the identity of a caller who presented a credential. `INTERNAL_API_SECRET` is for programs.
    pub(crate) fn from_caller(caller: Caller) -> Option<Self> {
        match caller {
            Caller::Anonymous => Some(Self::Token),
            Caller::User(user) => Some(Self::User(user)),
            Caller::Admin(AdminName::AdminKey) => Some(Self::Admin),
            Caller::Admin(AdminName::InternalApiSecret) => None,
        }
    }

    /// Returns the caller in whose view content is read.
    pub(crate) fn caller(&self) -> Caller {
        match self {
            Self::Local { .. } | Self::Token => Caller::Anonymous,
            Self::User(user) => Caller::User(user.clone()),
            Self::Admin => Caller::Admin(AdminName::AdminKey),
        }
    }

    /// Returns the tiers that the person may change.
    pub(crate) const fn writable_tiers(&self) -> &'static [Tier] {
        match self {
            Self::Local { .. } | Self::Admin => &[Tier::Official, Tier::Market],
            Self::Token => &[],
            Self::User(_) => &[Tier::Private],
        }
    }

    /// Returns whether the person may change a tier.
    pub(crate) fn may_write(&self, tier: Tier) -> bool {
        self.writable_tiers().contains(&tier)
    }

    /// Returns whether the person may see and change keys.
    pub(crate) const fn is_admin(&self) -> bool {
        matches!(self, Self::Admin | Self::Local { is_admin: true })
    }

    /// Returns the name for the page.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Local { .. } => "This machine".to_owned(),
            Self::Token => "Token".to_owned(),
            Self::User(user) => user.owner.to_string(),
            Self::Admin => "Administrator".to_owned(),
        }
    }

    /// Returns a sentence about what the person sees and may do.
    pub(crate) const fn description(&self) -> &'static str {
        match self {
            Self::Local { is_admin: true } => {
                "You use this machine and no token is set: you see official and market skills, may change them, and manage keys."
            }
            Self::Local { is_admin: false } => {
                "You use this machine and no token is set: you see official and market skills and may change them."
            }
            Self::Token => {
                "You signed in with the server's token: you see official and market skills and change nothing."
            }
            Self::User(_) => {
                "You signed in with a key: you see your private skills before official and market ones, and may change your own."
            }
            Self::Admin => {
                "You signed in with ADMIN_KEY: you see official and market skills, may change them, and manage keys."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use skills_core::Digest;

    use super::*;

    #[test]
    fn every_identity_has_the_rights_of_its_credential() {
        let user = User { owner: "ann".parse().unwrap(), key: Digest::of(b"us-x") };
        for (identity, tiers, is_admin) in [
            (Identity::Local { is_admin: false }, &[Tier::Official, Tier::Market] as &[_], false),
            (Identity::Local { is_admin: true }, &[Tier::Official, Tier::Market], true),
            (Identity::Token, &[], false),
            (Identity::User(user.clone()), &[Tier::Private], false),
            (Identity::Admin, &[Tier::Official, Tier::Market], true),
        ] {
            assert_eq!((identity.writable_tiers(), identity.is_admin()), (tiers, is_admin));
        }
        assert_eq!(Identity::from_caller(Caller::Admin(AdminName::InternalApiSecret)), None);
        assert_eq!(Identity::from_caller(Caller::Anonymous), Some(Identity::Token));
        assert_eq!(Identity::User(user.clone()).caller(), Caller::User(user));
    }
}
