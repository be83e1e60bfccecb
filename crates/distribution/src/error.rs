//! Failures of the surface, mapped to responses in one place.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use skills_core::{Code, Coded as _, OverBudget, WorkError, work::Stopped};
use skills_git::ProtocolError;
use skills_http::{ErrorResponse, is_unavailable};
use skills_registry::RegistryError;

/// Failure of a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DistributionError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error("malformed git request: {0}")]
    Protocol(#[from] ProtocolError),
    #[error("the compressed request body cannot be read")]
    Encoding,
    #[error("the request body is too large")]
    TooLarge,
    #[error("no repository at this path")]
    NotFound,
    #[error("a key is required: send it as the password, with any user name")]
    KeyNeeded,
    #[error("this remote is read-only: use `skills add` or POST /v1/skills to publish")]
    ReadOnly,
    #[error("only git's smart protocol is served: use a git client of version 1.6.6 or newer")]
    DumbProtocol,
    #[error(transparent)]
    Work(#[from] WorkError),
    #[error(transparent)]
    Stopped(#[from] Stopped),
    #[error("cannot write the archive: {0}")]
    Archive(#[from] zip::result::ZipError),
    #[error("cannot build a pack: {0}")]
    Pack(#[from] skills_git::pack::PackError),
}

impl From<OverBudget> for DistributionError {
    fn from(error: OverBudget) -> Self {
        WorkError::from(error).into()
    }
}

impl DistributionError {
    /// Returns whether the client's share of memory is used up.
    pub(crate) const fn is_over_budget(&self) -> bool {
        matches!(self, Self::Work(WorkError::OverBudget(_)))
    }

    /// Returns whether the same request may succeed later, so that nothing may be left out of an answer.
    pub(crate) fn is_unavailable(&self) -> bool {
        match self {
            Self::Registry(error) => is_unavailable(error.code()),
            Self::Work(WorkError::OverBudget(_) | WorkError::Busy) | Self::Stopped(_) => true,
            _ => false,
        }
    }
}

impl IntoResponse for DistributionError {
    fn into_response(self) -> Response {
        let message = self.to_string();
        let answer = |status, code: Code| ErrorResponse::new(status, code.as_str(), message);
        let response = match &self {
            Self::Registry(RegistryError::NotFound { .. }) | Self::NotFound => {
                answer(StatusCode::NOT_FOUND, Code::NotFound)
            }
            Self::Registry(RegistryError::Rule(_)) => answer(StatusCode::NOT_FOUND, Code::NotFound),
            Self::Registry(error @ RegistryError::Version(_)) => match error.code() {
                code @ (Code::Purged | Code::Collected) => answer(StatusCode::GONE, code),
                code => answer(StatusCode::NOT_FOUND, code),
            },
            Self::Registry(error @ (RegistryError::UnknownKey | RegistryError::KeyNeeded)) => {
                answer(StatusCode::UNAUTHORIZED, error.code())
            }
            Self::Registry(error @ RegistryError::Unsupported(_)) => {
                answer(StatusCode::NOT_IMPLEMENTED, error.code())
            }
            Self::Protocol(_) | Self::Encoding => answer(StatusCode::BAD_REQUEST, Code::BadRequest),
            Self::TooLarge => answer(StatusCode::PAYLOAD_TOO_LARGE, Code::BodyTooLarge),
            Self::KeyNeeded => answer(StatusCode::UNAUTHORIZED, Code::KeyNeeded),
            Self::ReadOnly | Self::DumbProtocol => {
                answer(StatusCode::FORBIDDEN, Code::NotSupported)
            }
            Self::Work(WorkError::OverBudget(_) | WorkError::Busy) | Self::Stopped(_) => {
                answer(StatusCode::SERVICE_UNAVAILABLE, Code::Overloaded)
            }
            Self::Registry(error) if self.is_unavailable() => {
                answer(StatusCode::SERVICE_UNAVAILABLE, error.code())
            }
            Self::Registry(_) | Self::Pack(_) | Self::Archive(_) | Self::Work(_) => {
                tracing::error!(error = %self, "distribution request failed");
                ErrorResponse::internal(Code::Internal.as_str())
            }
        };
        response.into_response()
    }
}
