//! Extractors of administrators. The listener has compared the secret; a route decides which secrets it accepts.

use axum::{extract::FromRequestParts, http::request::Parts};
use skills_core::{Caller, caller::AdminName};
use skills_vault::{Actor, now};

use crate::error::GatewayError;

/// Name of an administrator in the audit log.
#[derive(Debug, Clone)]
pub(super) struct AdminActor(String);

impl AdminActor {
    /// Returns the actor and the time of a change that is made now.
    pub(super) fn act(&self) -> Actor<'_> {
        Actor { name: &self.0, at: now() }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Extractor of a caller who presented `ADMIN_KEY`.
pub(super) struct Administrator(pub(super) AdminActor);

/// Extractor of a caller who presented `ADMIN_KEY` or `INTERNAL_API_SECRET`.
pub(super) struct AdminOrInternal(pub(super) AdminActor);

/// Returns the caller if they presented one of these secrets.
fn authorize(parts: &Parts, accepted: &[AdminName]) -> Result<AdminActor, GatewayError> {
    match parts.extensions.get::<Caller>() {
        Some(caller @ Caller::Admin(name)) if accepted.contains(name) => {
            Ok(AdminActor(caller.actor().unwrap_or_default()))
        }
        None | Some(Caller::Anonymous) => {
            Err(GatewayError::AdminRequired { is_authenticated: false })
        }
        Some(_) => Err(GatewayError::AdminRequired { is_authenticated: true }),
    }
}

impl<S: Sync> FromRequestParts<S> for Administrator {
    type Rejection = GatewayError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, GatewayError> {
        authorize(parts, &[AdminName::AdminKey]).map(Self)
    }
}

impl<S: Sync> FromRequestParts<S> for AdminOrInternal {
    type Rejection = GatewayError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, GatewayError> {
        authorize(parts, &[AdminName::AdminKey, AdminName::InternalApiSecret]).map(Self)
    }
}
