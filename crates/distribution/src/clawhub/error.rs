//! Failures of the API, mapped to plain text in one place: clients print it as it is.

use axum::{
    extract::rejection::{JsonRejection, PathRejection, QueryRejection},
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use skills_core::{Code, Coded as _, OverBudget, RuleError, VersionError};
use skills_execution::ExecuteError;
use skills_http::{ErrorCode, server_error_status};
use skills_registry::RegistryError;

use super::uploads::UploadError;
use crate::error::DistributionError;

/// Failure of a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClawHubError {
    #[error(transparent)]
    Registry(RegistryError),
    #[error(transparent)]
    Limit(#[from] ExecuteError),
    #[error(transparent)]
    Upload(#[from] UploadError),
    /// Clients look for these words.
    #[error("Skill not found")]
    SkillNotFound,
    #[error("Version not found")]
    VersionNotFound,
    #[error("the skill has no such file")]
    FileNotFound,
    #[error("this skill was withdrawn")]
    Withdrawn,
    #[error("this version was withdrawn: {0}")]
    VersionWithdrawn(String),
    #[error("log in with a key first: clawhub --registry URL login --token KEY")]
    KeyNeeded,
    #[error("only administrators publish to {0}; leave out --owner to publish for yourself")]
    AdminNeeded(&'static str),
    #[error("an administrator has no private skills: add --owner official or --owner market")]
    OwnerNeeded,
    #[error("only administrators move the tag {0}")]
    ProtectedTag(String),
    #[error("version {0:?} is not three numbers with dots, such as 1.2.0")]
    VersionForm(String),
    #[error("version {requested} is not higher than {newest}, the newest one: choose a higher one")]
    VersionNotHigher { requested: String, newest: String },
    #[error("these files are already published as version {0}")]
    Unchanged(String),
    #[error("the root document must be named SKILL.md and be text in UTF-8")]
    RootDocument,
    #[error("this is not an Agent Skill: {0}")]
    NotAgentSkill(String),
    #[error("{0}")]
    Body(String),
    #[error("a publish is JSON with files that were uploaded before: use clawhub 0.21 or newer")]
    OldClient,
    #[error("{0} not allowed for this path")]
    NoRoute(Method),
    #[error("this registry does not support: {0}")]
    Unsupported(String),
    #[error("too many or too large requests are in progress; try again in a moment")]
    OverBudget(#[from] OverBudget),
    #[error("internal server error")]
    Internal,
}

impl From<RegistryError> for ClawHubError {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::NotFound { .. } => Self::SkillNotFound,
            error => Self::Registry(error),
        }
    }
}

impl From<RuleError> for ClawHubError {
    fn from(error: RuleError) -> Self {
        Self::Registry(error.into())
    }
}

impl From<DistributionError> for ClawHubError {
    fn from(error: DistributionError) -> Self {
        match error {
            DistributionError::Registry(error) => error.into(),
            error if error.is_unavailable() => OverBudget.into(),
            error => {
                tracing::error!(%error, "archive not built");
                Self::Internal
            }
        }
    }
}

impl From<JsonRejection> for ClawHubError {
    fn from(rejection: JsonRejection) -> Self {
        match rejection {
            JsonRejection::MissingJsonContentType(_) => Self::OldClient,
            rejection => Self::Body(rejection.body_text()),
        }
    }
}

impl From<QueryRejection> for ClawHubError {
    fn from(rejection: QueryRejection) -> Self {
        Self::Body(rejection.body_text())
    }
}

impl From<PathRejection> for ClawHubError {
    fn from(rejection: PathRejection) -> Self {
        Self::Body(rejection.body_text())
    }
}

impl ClawHubError {
    fn status(&self) -> StatusCode {
        match self {
            Self::Registry(error) => registry_status(error),
            Self::Limit(error) => limit_status(error),
            Self::Upload(UploadError::FileTooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Upload(UploadError::Full) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Upload(UploadError::Unknown | UploadError::Size | UploadError::Digest) => {
                StatusCode::BAD_REQUEST
            }
            Self::SkillNotFound | Self::VersionNotFound | Self::FileNotFound => {
                StatusCode::NOT_FOUND
            }
            Self::Withdrawn | Self::VersionWithdrawn(_) => StatusCode::GONE,
            Self::KeyNeeded => StatusCode::UNAUTHORIZED,
            Self::AdminNeeded(_) | Self::OwnerNeeded | Self::ProtectedTag(_) => {
                StatusCode::FORBIDDEN
            }
            Self::VersionNotHigher { .. } | Self::Unchanged(_) => StatusCode::CONFLICT,
            Self::VersionForm(_)
            | Self::RootDocument
            | Self::NotAgentSkill(_)
            | Self::Body(_)
            | Self::Unsupported(_) => StatusCode::BAD_REQUEST,
            Self::OldClient => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::NoRoute(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::OverBudget(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Registry(error) => error.code(),
            Self::Limit(error) => error.code(),
            Self::Upload(UploadError::FileTooLarge) => Code::BodyTooLarge,
            Self::Upload(UploadError::Full) => Code::Overloaded,
            Self::Upload(UploadError::Unknown | UploadError::Size | UploadError::Digest)
            | Self::Body(_)
            | Self::RootDocument
            | Self::NotAgentSkill(_)
            | Self::VersionForm(_) => Code::InvalidBody,
            Self::SkillNotFound | Self::VersionNotFound | Self::FileNotFound => Code::NotFound,
            Self::Withdrawn | Self::VersionWithdrawn(_) => Code::Yanked,
            Self::KeyNeeded => Code::KeyNeeded,
            Self::AdminNeeded(_) | Self::OwnerNeeded | Self::ProtectedTag(_) => Code::AdminNeeded,
            Self::VersionNotHigher { .. } | Self::Unchanged(_) => Code::VersionConflict,
            Self::OldClient => Code::UnsupportedMediaType,
            Self::NoRoute(_) => Code::MethodNotAllowed,
            Self::Unsupported(_) => Code::NotSupported,
            Self::OverBudget(_) => Code::Overloaded,
            Self::Internal => Code::Internal,
        }
    }

    fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Limit(ExecuteError::RateLimited { retry_after, .. }) => Some(*retry_after),
            _ => None,
        }
    }

    /// Returns whether the same request may pass a moment later. Clients then send it again.
    pub(super) fn is_transient(&self) -> bool {
        let status = self.status();
        status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
    }
}

fn registry_status(error: &RegistryError) -> StatusCode {
    match error {
        RegistryError::Rule(_) | RegistryError::LiveArguments { .. } => StatusCode::BAD_REQUEST,
        RegistryError::NotFound { .. }
        | RegistryError::SectionNotLinked { .. }
        | RegistryError::NotATool(_) => StatusCode::NOT_FOUND,
        RegistryError::Version(error) => match **error {
            VersionError::AllYanked { .. }
            | VersionError::Yanked { .. }
            | VersionError::Purged { .. }
            | VersionError::Collected { .. } => StatusCode::GONE,
            VersionError::NotFound { .. } => StatusCode::NOT_FOUND,
            _ => StatusCode::CONFLICT,
        },
        RegistryError::KeyNeeded | RegistryError::UnknownKey => StatusCode::UNAUTHORIZED,
        RegistryError::Unsupported(_) => StatusCode::CONFLICT,
        RegistryError::Overloaded
        | RegistryError::Closed
        | RegistryError::WriterStopped
        | RegistryError::StoreUnreachable { .. }
        | RegistryError::CatalogTooOld
        | RegistryError::CorruptEntry { .. }
        | RegistryError::Handler { .. }
        | RegistryError::Output { .. }
        | RegistryError::Live(_)
        | RegistryError::NoBus { .. }
        | RegistryError::Store(_)
        | RegistryError::Unexpected(_)
        | RegistryError::OutcomeUnknown
        | RegistryError::Remote { .. } => {
            server_error_status(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

fn limit_status(error: &ExecuteError) -> StatusCode {
    match error {
        ExecuteError::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
        ExecuteError::Registry(error) => registry_status(error),
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

impl IntoResponse for ClawHubError {
    fn into_response(self) -> Response {
        let status = self.status();
        // The messages of these codes have the path of the store.
        let is_file = matches!(self.code(), Code::StoreFull | Code::StoreInUse);
        let message = if is_file || status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(error = %self, "ClawHub request failed");
            Self::Internal.to_string()
        } else {
            self.to_string()
        };
        let mut response = (status, message).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response.extensions_mut().insert(ErrorCode(self.code().as_str().to_owned()));
        response
    }
}
