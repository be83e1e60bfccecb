//! Extractors of the caller and the memory budget, which the listener stores in the request's extensions. No other
//! part of a request identifies a caller.

use std::convert::Infallible;

use axum::{extract::FromRequestParts, http::request::Parts};
use skills_core::{Caller, RequestBudget, User};
use skills_registry::RegistryError;

use crate::error::GatewayError;

/// Extractor of the caller, who may be anonymous.
pub(crate) struct MaybeUser(pub(crate) Caller);

impl<S: Sync> FromRequestParts<S> for MaybeUser {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Caller>().cloned().unwrap_or_default()))
    }
}

/// Extractor of a caller with a user key; rejects all others.
pub(crate) struct AuthenticatedUser(pub(crate) User);

impl AuthenticatedUser {
    /// Returns the name for the audit log.
    pub(crate) fn actor(&self) -> String {
        Caller::User(self.0.clone()).actor().unwrap_or_default()
    }
}

impl<S: Sync> FromRequestParts<S> for AuthenticatedUser {
    type Rejection = GatewayError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, GatewayError> {
        match parts.extensions.get::<Caller>() {
            Some(Caller::User(user)) => Ok(Self(user.clone())),
            _ => Err(GatewayError::KeyRequired),
        }
    }
}

/// Extractor of the request's memory budget. If a request exceeds it, the listener replaces the response.
pub(crate) struct ResponseBudget(Option<RequestBudget>);

impl ResponseBudget {
    /// Reserves memory before a response is built.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), GatewayError> {
        let Some(budget) = &self.0 else { return Ok(()) };
        budget.try_grow(bytes).map_err(|_| RegistryError::Overloaded.into())
    }
}

impl<S: Sync> FromRequestParts<S> for ResponseBudget {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get().cloned()))
    }
}

#[cfg(test)]
mod tests {
    use skills_core::MemoryBudget;

    use skills_core::Coded as _;

    use super::*;

    #[test]
    fn a_request_that_exceeds_its_budget_is_marked_for_the_listener() {
        let share = MemoryBudget::new(100);
        let request = RequestBudget::with_memory(&share);
        let budget = ResponseBudget(Some(request.clone()));
        budget.reserve(60).unwrap();
        assert!(!request.is_refused());
        assert_eq!(budget.reserve(60).unwrap_err().code().as_str(), "overloaded");
        assert!(request.is_refused());
        ResponseBudget(None).reserve(usize::MAX).unwrap();
    }
}
