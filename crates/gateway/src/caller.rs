//! Who asks, as the guard before all routes found out. No field of a request says that.

use std::convert::Infallible;

use axum::{extract::FromRequestParts, http::request::Parts};
use skills_core::{Caller, User};

use crate::error::GatewayError;

/// Whoever asks.
pub(crate) struct Asks(pub(crate) Caller);

impl<S: Sync> FromRequestParts<S> for Asks {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Caller>().cloned().unwrap_or_default()))
    }
}

/// Somebody with a key; others are refused.
pub(crate) struct WithKey(pub(crate) User);

impl WithKey {
    /// Who is named in the log.
    pub(crate) fn actor(&self) -> String {
        Caller::User(self.0.clone()).actor().unwrap_or_default()
    }
}

impl<S: Sync> FromRequestParts<S> for WithKey {
    type Rejection = GatewayError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, GatewayError> {
        match parts.extensions.get::<Caller>() {
            Some(Caller::User(user)) => Ok(Self(user.clone())),
            _ => Err(GatewayError::KeyNeeded),
        }
    }
}
