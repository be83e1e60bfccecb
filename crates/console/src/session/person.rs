//! The person who owns entries of tables: sessions, streams, drafts.

use skills_core::{Owner, WorkAccount};

use super::Identity;

/// Owner of what the console holds beyond a request. All sessions of a person are one owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Person {
    /// User, with whichever of their keys.
    User(Owner),
    /// Administrator.
    Admin,
    /// Person without a credential of their own, who is told apart from others by the account of their address.
    Client(WorkAccount),
}

impl Person {
    /// Returns the person behind the present request.
    pub(crate) fn of(identity: &Identity) -> Self {
        match identity {
            Identity::User(user) => Self::User(user.owner.clone()),
            Identity::Admin => Self::Admin,
            // The account is that of the address: neither is a caller with an account of its own.
            Identity::Token | Identity::Local { .. } => Self::Client(WorkAccount::current()),
        }
    }
}
