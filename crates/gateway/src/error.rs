//! Errors of the gateway, and their mapping to a status and a body.

use std::borrow::Cow;

use axum::{
    Json,
    extract::rejection::JsonRejection,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use skills_core::{Code, Coded, WorkError, limits::MAX_KEY_SECONDS, outcome_details};
use skills_execution::{ExecuteError, ReadManifestError};
use skills_http::{ErrorCode, server_error_status};
use skills_manifest::ManifestError;
use skills_registry::{HandlerProblem, RegistryError};
use skills_upstream::UpstreamError;
use skills_vault::VaultError;

use crate::response::ErrorBody;

/// Failure of a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatewayError {
    /// The registry refuses or fails.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A tool call failed.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// The vault refuses or fails.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// A manifest is invalid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The route requires a user key, and the caller has none.
    #[error("Invalid Key Format")]
    KeyRequired,
    /// The body names another user than the key.
    #[error("user_uid does not match the user of the key")]
    OtherUser,
    /// Neither path nor body names a skill.
    #[error("no skill is named: name it in the path, or as skill_name")]
    MissingSkill,
    /// Path and body, or two fields of the body, disagree.
    #[error("the path and the body name different skills")]
    NamesDiffer,
    /// A field of the body has the wrong type.
    #[error("{field} must be {expected}")]
    InvalidField {
        /// Name of the field.
        field: &'static str,
        /// Type with an article.
        expected: &'static str,
    },
    /// No route matches the path.
    #[error("no route for this path")]
    RouteNotFound,
    /// The route has other methods.
    #[error("method not allowed for this path")]
    MethodNotAllowed,
    /// The query string is invalid.
    #[error("{0}")]
    InvalidQuery(String),
    /// The cursor was not issued by this route.
    #[error("unknown cursor: start again without one")]
    InvalidCursor,
    /// The body is invalid.
    #[error("{}", .0.body_text())]
    InvalidBody(#[from] JsonRejection),
    /// The path is invalid.
    #[error("{0}")]
    InvalidPath(String),
    /// The route requires an administrator.
    #[error("Unauthorized Admin Access")]
    AdminRequired {
        /// True if the caller presented a valid credential of another kind.
        is_authenticated: bool,
    },
    /// A required field is absent.
    #[error("Missing required field: {0}")]
    MissingField(&'static str),
    /// The lifetime of a new key is out of range.
    #[error("ttl_seconds is 1 to {MAX_KEY_SECONDS}")]
    InvalidTtl,
    /// The private tier without an owner, or another tier with one.
    #[error("the private tier needs a uid, and the other tiers have none")]
    OwnerMismatch,
    /// A task panicked, or a response cannot be serialized.
    #[error("the server failed at this request")]
    Internal,
}

impl From<WorkError> for GatewayError {
    fn from(error: WorkError) -> Self {
        RegistryError::from(error).into()
    }
}

impl From<serde_json::Error> for GatewayError {
    fn from(_: serde_json::Error) -> Self {
        Self::Internal
    }
}

impl From<ReadManifestError> for GatewayError {
    fn from(error: ReadManifestError) -> Self {
        match error {
            ReadManifestError::Registry(error) => error.into(),
            ReadManifestError::Manifest(error) => error.into(),
        }
    }
}

impl GatewayError {
    /// Returns the HTTP status. The match is exhaustive on purpose: a new error needs a decision here.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Registry(error) => registry_status(error),
            Self::Execute(error) => execute_status(error),
            Self::Vault(error) => vault_status(error),
            Self::Manifest(ManifestError::TooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Manifest(ManifestError::Refused { .. }) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::KeyRequired => StatusCode::UNAUTHORIZED,
            Self::OtherUser => StatusCode::FORBIDDEN,
            Self::MissingSkill | Self::NamesDiffer => StatusCode::BAD_REQUEST,
            Self::InvalidField { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::RouteNotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::InvalidQuery(_) | Self::InvalidCursor => StatusCode::BAD_REQUEST,
            Self::InvalidBody(rejection) => rejection.status(),
            Self::InvalidPath(_) | Self::OwnerMismatch => StatusCode::BAD_REQUEST,
            Self::AdminRequired { is_authenticated: false } => StatusCode::UNAUTHORIZED,
            Self::AdminRequired { is_authenticated: true } => StatusCode::FORBIDDEN,
            Self::MissingField(_) | Self::InvalidTtl => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns whether the error concerns the machine, so that the caller gets no details. Damaged content is named: the
    /// caller can replace it.
    pub(crate) fn is_internal(&self) -> bool {
        let is_corrupt_content = matches!(
            self,
            Self::Registry(RegistryError::CorruptEntry { .. })
                | Self::Execute(ExecuteError::Registry(RegistryError::CorruptEntry { .. }))
        );
        // Their messages have the path of the store.
        let is_file = matches!(self.code(), Code::StoreFull | Code::StoreInUse);
        is_file || self.status() == StatusCode::INTERNAL_SERVER_ERROR && !is_corrupt_content
    }

    /// Returns the seconds until the rate limit allows another call.
    fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Execute(ExecuteError::RateLimited { retry_after, .. }) => Some(*retry_after),
            _ => None,
        }
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::Manifest(error) => serde_json::to_value(error.diagnostics()).ok(),
            Self::Execute(error) => error.details(),
            _ if self.is_outcome_unknown() => outcome_details(self),
            Self::Vault(VaultError::MissingSecrets(missing)) => serde_json::to_value(missing).ok(),
            Self::Registry(RegistryError::Version(error)) => {
                error.current().map(|current| serde_json::json!({ "current": current }))
            }
            _ => None,
        }
    }
}

impl Coded for GatewayError {
    fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Registry(error) => error.is_outcome_unknown(),
            Self::Vault(error) => error.is_outcome_unknown(),
            _ => false,
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Registry(error) => error.code(),
            Self::Execute(error) => error.code(),
            Self::Vault(error) => error.code(),
            Self::Manifest(error) => error.code(),
            Self::KeyRequired => Code::KeyNeeded,
            Self::OtherUser => Code::OtherUser,
            Self::MissingSkill => Code::MissingSkill,
            Self::NamesDiffer => Code::NamesDiffer,
            Self::InvalidField { .. } => Code::InvalidBody,
            Self::RouteNotFound => Code::NotFound,
            Self::MethodNotAllowed => Code::MethodNotAllowed,
            Self::InvalidQuery(_) => Code::InvalidQuery,
            Self::InvalidCursor => Code::InvalidCursor,
            Self::InvalidBody(rejection) => match rejection {
                JsonRejection::JsonSyntaxError(_) => Code::InvalidJson,
                JsonRejection::MissingJsonContentType(_) => Code::UnsupportedMediaType,
                JsonRejection::JsonDataError(_) => Code::InvalidBody,
                other if other.status() == StatusCode::PAYLOAD_TOO_LARGE => Code::BodyTooLarge,
                _ => Code::UnreadableBody,
            },
            Self::InvalidPath(_) => Code::InvalidPath,
            Self::AdminRequired { .. } => Code::AdminNeeded,
            Self::MissingField(_) => Code::MissingField,
            Self::InvalidTtl => Code::InvalidBody,
            Self::OwnerMismatch => Code::InvalidQuery,
            Self::Internal => Code::Internal,
        }
    }

    fn code_text(&self) -> Cow<'_, str> {
        match self {
            Self::Registry(error) => error.code_text(),
            Self::Execute(error) => error.code_text(),
            _ => self.code().as_str().into(),
        }
    }

    fn hint(&self) -> Option<&str> {
        match self {
            Self::Registry(error) => error.hint(),
            Self::Execute(error) => error.hint(),
            Self::Vault(error) => error.hint(),
            Self::KeyRequired => {
                Some("send a key, which begins with us-, as \"Authorization: Bearer\"")
            }
            Self::AdminRequired { .. } => Some(
                "send an administrator's secret as \"Authorization: Bearer\"; if the server's environment has none, every request is refused",
            ),
            _ => None,
        }
    }
}

fn registry_status(error: &RegistryError) -> StatusCode {
    match error {
        RegistryError::Rule(_) | RegistryError::LiveArguments { .. } => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        RegistryError::NotFound { .. } | RegistryError::SectionNotLinked { .. } => {
            StatusCode::NOT_FOUND
        }
        RegistryError::Version(error) => match error.code() {
            Code::NotFound | Code::Collected => StatusCode::NOT_FOUND,
            Code::Purged => StatusCode::GONE,
            _ => StatusCode::CONFLICT,
        },
        RegistryError::NotATool(_) => StatusCode::UNPROCESSABLE_ENTITY,
        RegistryError::KeyNeeded | RegistryError::UnknownKey => StatusCode::UNAUTHORIZED,
        RegistryError::Handler { problem: HandlerProblem::TimedOut(_), .. } => {
            StatusCode::GATEWAY_TIMEOUT
        }
        RegistryError::Live(error) if error.code == Code::Timeout => StatusCode::GATEWAY_TIMEOUT,
        RegistryError::Handler { .. } | RegistryError::Output { .. } | RegistryError::Live(_) => {
            StatusCode::BAD_GATEWAY
        }
        RegistryError::Remote { .. } if error.code() == Code::Conflict => StatusCode::CONFLICT,
        RegistryError::Unsupported(_) => StatusCode::CONFLICT,
        RegistryError::Overloaded
        | RegistryError::Closed
        | RegistryError::WriterStopped
        | RegistryError::StoreUnreachable { .. }
        | RegistryError::CatalogTooOld
        | RegistryError::NoBus { .. }
        | RegistryError::Store(_)
        // Damaged content: the caller cannot repair it.
        | RegistryError::CorruptEntry { .. }
        | RegistryError::Unexpected(_)
        | RegistryError::OutcomeUnknown
        | RegistryError::Remote { .. } => server_error(error),
    }
}

fn execute_status(error: &ExecuteError) -> StatusCode {
    match error {
        ExecuteError::Registry(error) => registry_status(error),
        ExecuteError::Manifest(_) | ExecuteError::Arguments { .. } => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        ExecuteError::SecretsNeedKey { .. } => StatusCode::UNAUTHORIZED,
        ExecuteError::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
        ExecuteError::Vault(error) => vault_status(error),
        ExecuteError::Upstream(error) => upstream_status(error),
        ExecuteError::NoExecutor => server_error(error),
    }
}

fn upstream_status(error: &UpstreamError) -> StatusCode {
    match error {
        UpstreamError::InvalidImplementation { .. }
        | UpstreamError::MissingSecrets(_)
        | UpstreamError::MissingParameters(_)
        | UpstreamError::InvalidParameters { .. }
        | UpstreamError::InvalidHeader { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        UpstreamError::RequestTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        UpstreamError::NotHttps { .. } | UpstreamError::RefusedAddress { .. } => {
            StatusCode::FORBIDDEN
        }
        UpstreamError::TimedOut { .. } => StatusCode::GATEWAY_TIMEOUT,
        UpstreamError::Connect { .. }
        | UpstreamError::Tls { .. }
        | UpstreamError::BadRedirect { .. }
        | UpstreamError::Broken { .. }
        | UpstreamError::TooLarge { .. }
        | UpstreamError::UpstreamStatus { .. }
        | UpstreamError::Unreadable { .. } => StatusCode::BAD_GATEWAY,
    }
}

fn vault_status(error: &VaultError) -> StatusCode {
    match error {
        VaultError::NoSuchKey(_) | VaultError::NoSuchSecret { .. } => StatusCode::NOT_FOUND,
        VaultError::AmbiguousKey(_)
        | VaultError::KeyTaken(_)
        | VaultError::KeyRevoked(_)
        | VaultError::TooMany { .. } => StatusCode::CONFLICT,
        VaultError::SecretTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        VaultError::BadKeyId
        | VaultError::NotAKey
        | VaultError::NilOwner
        | VaultError::BadLabel
        | VaultError::BadUsername
        | VaultError::BadCredits
        | VaultError::BadSecretName
        | VaultError::EmptySecret
        | VaultError::TooManyNeeded(_)
        | VaultError::MissingSecrets(_) => StatusCode::UNPROCESSABLE_ENTITY,
        VaultError::Database(_)
        | VaultError::Server { .. }
        | VaultError::NoMasterKey
        | VaultError::Random(_)
        | VaultError::UnreadableSecret { .. } => server_error(error),
    }
}

fn server_error(error: &dyn Coded) -> StatusCode {
    server_error_status(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Message of internal errors, whose details concern the machine and not the request.
const INTERNAL_MESSAGE: &str = "the server failed at this request; its log says why";

impl IntoResponse for GatewayError {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut body = ErrorBody::new(self.code_text(), self.to_string());
        body.hint = self.hint().map(str::to_owned);
        body.details = self.details();
        if self.is_internal() {
            tracing::error!(error = %self, "request failed");
            body.error = INTERNAL_MESSAGE.to_owned();
            body.hint = None;
        }
        let retry_after = self.retry_after();
        if retry_after.is_some() {
            let message = std::mem::replace(&mut body.error, "Too Many Requests".to_owned());
            body.message = Some(message);
        }
        let code = ErrorCode(body.code.clone());
        let mut response = (status, Json(body)).into_response();
        response.extensions_mut().insert(code);
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
