//! Who is let in to administer. The guard before all routes has compared the secret; here is decided which secret
//! opens what.

use axum::{extract::FromRequestParts, http::request::Parts};
use skills_core::{Caller, caller::AdminName};
use skills_vault::{Act, now};

use crate::error::GatewayError;

/// Who administers, as the logs name them.
#[derive(Debug, Clone)]
pub(super) struct Actor(String);

impl Actor {
    /// Something that they do now.
    pub(super) fn act(&self) -> Act<'_> {
        Act { by: &self.0, at: now() }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Who presented `ADMIN_KEY`.
pub(super) struct Administrator(pub(super) Actor);

/// Who presented `ADMIN_KEY` or `INTERNAL_API_SECRET`.
pub(super) struct Insider(pub(super) Actor);

fn admitted(parts: &Parts, names: &[AdminName]) -> Result<Actor, GatewayError> {
    match parts.extensions.get::<Caller>() {
        Some(caller @ Caller::Admin(name)) if names.contains(name) => {
            Ok(Actor(caller.actor().unwrap_or_default()))
        }
        None | Some(Caller::Anonymous) => Err(GatewayError::AdminNeeded { is_known: false }),
        Some(_) => Err(GatewayError::AdminNeeded { is_known: true }),
    }
}

impl<S: Sync> FromRequestParts<S> for Administrator {
    type Rejection = GatewayError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, GatewayError> {
        admitted(parts, &[AdminName::AdminKey]).map(Self)
    }
}

impl<S: Sync> FromRequestParts<S> for Insider {
    type Rejection = GatewayError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, GatewayError> {
        admitted(parts, &[AdminName::AdminKey, AdminName::InternalApiSecret]).map(Self)
    }
}
