//! Every error of the gateway, and the one place where it becomes an answer.

use std::borrow::Cow;

use axum::{
    Json,
    extract::rejection::JsonRejection,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use skills_core::manifest::ManifestError;
use skills_registry::{Blame, HandlerProblem, RegistryError};
use skills_vault::VaultError;

use crate::{envelope::Failure, input::MAX_VALUES};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatewayError {
    /// The registry says no.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The vault says no.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// A manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Nobody with a key asks.
    #[error("Invalid Key Format")]
    KeyNeeded,
    /// A body that says it comes from somebody else.
    #[error("user_uid is not that of the key, and only the key says who calls")]
    OtherUser,
    /// Nothing says which skill.
    #[error("no skill is named: name it in the path, or as skill_name")]
    NoName,
    /// Several things say which skill.
    #[error("the path and the body name different skills")]
    NamesDiffer,
    /// A field of a body that is something else.
    #[error("{field} must be {expected}")]
    Field {
        /// Which.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// No route is there.
    #[error("there is nothing at this address")]
    NoSuchRoute,
    /// A route that has other methods.
    #[error("what is at this address cannot be asked in this way")]
    Method,
    /// A query that cannot be read.
    #[error("{0}")]
    Query(String),
    /// Not where a page ends.
    #[error("unknown cursor: start again without one")]
    Cursor,
    /// A body that cannot be read.
    #[error("{}", .0.body_text())]
    Body(#[from] JsonRejection),
    /// A body of too many parts.
    #[error("the body has too many values, at most {MAX_VALUES} are allowed")]
    TooManyValues,
    /// A path that cannot be read.
    #[error("{0}")]
    Path(String),
    /// Only an administrator may ask.
    #[error("Unauthorized Admin Access")]
    AdminNeeded {
        /// Whether it is known who asks instead.
        is_known: bool,
    },
    /// A field that has to be there.
    #[error("Missing required field: {0}")]
    Missing(&'static str),
    /// A field whose value is not one that it can have.
    #[error("{0}")]
    Unfit(&'static str),
    /// The private tier without whose, or another with.
    #[error("the private tier needs a uid, and the others have none")]
    Uid,
    /// Something that cannot happen.
    #[error("the server failed at this request")]
    Internal,
}

impl From<serde_json::Error> for GatewayError {
    /// Of writing an answer, which has a JSON form.
    fn from(_: serde_json::Error) -> Self {
        Self::Internal
    }
}

impl GatewayError {
    /// A stable code for machines.
    pub(crate) fn code(&self) -> Cow<'_, str> {
        match self {
            Self::Registry(error) => error.code().into(),
            Self::Vault(error) => error.code().into(),
            Self::Manifest(error) => error.code().into(),
            Self::KeyNeeded => "key_needed".into(),
            Self::OtherUser => "other_user".into(),
            Self::NoName => "missing_skill".into(),
            Self::NamesDiffer => "names_differ".into(),
            Self::Field { .. } => "invalid_body".into(),
            Self::NoSuchRoute => "not_found".into(),
            Self::Method => "method_not_allowed".into(),
            Self::Query(_) => "invalid_query".into(),
            Self::Cursor => "invalid_cursor".into(),
            Self::Body(rejection) => match rejection {
                JsonRejection::JsonSyntaxError(_) => "invalid_json",
                JsonRejection::MissingJsonContentType(_) => "unsupported_media_type",
                JsonRejection::JsonDataError(_) => "invalid_body",
                other if other.status() == StatusCode::PAYLOAD_TOO_LARGE => "body_too_large",
                _ => "unreadable_body",
            }
            .into(),
            Self::TooManyValues => "body_too_large".into(),
            Self::Path(_) => "invalid_path".into(),
            Self::AdminNeeded { .. } => "admin_needed".into(),
            Self::Missing(_) => "missing_field".into(),
            Self::Unfit(_) => "invalid_body".into(),
            Self::Uid => "invalid_query".into(),
            Self::Internal => "internal".into(),
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Registry(error) => of_registry(error),
            Self::Vault(error) => of_vault(error),
            Self::Manifest(ManifestError::TooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Manifest(ManifestError::Refused { .. }) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::KeyNeeded => StatusCode::UNAUTHORIZED,
            Self::OtherUser => StatusCode::FORBIDDEN,
            Self::NoName | Self::NamesDiffer => StatusCode::BAD_REQUEST,
            Self::Field { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::NoSuchRoute => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Query(_) | Self::Cursor => StatusCode::BAD_REQUEST,
            Self::Body(rejection) => rejection.status(),
            Self::TooManyValues => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Path(_) | Self::Uid => StatusCode::BAD_REQUEST,
            Self::AdminNeeded { is_known: false } => StatusCode::UNAUTHORIZED,
            Self::AdminNeeded { is_known: true } => StatusCode::FORBIDDEN,
            Self::Missing(_) | Self::Unfit(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn hint(&self) -> Option<&str> {
        match self {
            Self::Registry(error) => error.hint(),
            Self::Vault(error) => error.hint(),
            Self::KeyNeeded => {
                Some("send a key, which begins with us-, as \"Authorization: Bearer\"")
            }
            Self::AdminNeeded { .. } => Some(
                "send an administrator's secret as \"Authorization: Bearer\"; without one in the server's environment nobody is let in",
            ),
            _ => None,
        }
    }

    /// How long to wait, for who asked too often.
    fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Registry(RegistryError::Execute(error)) => match error.blame {
                Blame::Limit { retry_after, .. } => Some(retry_after),
                _ => None,
            },
            _ => None,
        }
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::Manifest(error) => serde_json::to_value(error.diagnostics()).ok(),
            Self::Registry(RegistryError::Arguments { violations, .. }) => {
                serde_json::to_value(violations).ok()
            }
            Self::Registry(RegistryError::Execute(error)) => error.details.clone(),
            Self::Vault(VaultError::MissingSecrets(lacks)) => serde_json::to_value(lacks).ok(),
            _ => None,
        }
    }
}

fn of_registry(error: &RegistryError) -> StatusCode {
    match error {
        RegistryError::Rule(_) => StatusCode::UNPROCESSABLE_ENTITY,
        RegistryError::NotFound { .. } => StatusCode::NOT_FOUND,
        RegistryError::NotATool(_) | RegistryError::Arguments { .. } => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        RegistryError::Execute(error) => of_blame(error.blame),
        RegistryError::KeyNeeded | RegistryError::UnknownKey => StatusCode::UNAUTHORIZED,
        RegistryError::Handler { problem: HandlerProblem::TimedOut(_), .. } => {
            StatusCode::GATEWAY_TIMEOUT
        }
        RegistryError::Live(error) if error.code == "timeout" => StatusCode::GATEWAY_TIMEOUT,
        RegistryError::Handler { .. } | RegistryError::Output { .. } | RegistryError::Live(_) => {
            StatusCode::BAD_GATEWAY
        }
        RegistryError::Remote { code, .. } if code == "conflict" => StatusCode::CONFLICT,
        RegistryError::Unsupported(_) => StatusCode::CONFLICT,
        RegistryError::NoExecutor
        | RegistryError::Overloaded
        | RegistryError::Closed
        | RegistryError::NoBus { .. } => StatusCode::SERVICE_UNAVAILABLE,
        // What is stored is damaged: whoever asks can do nothing about it.
        RegistryError::CorruptEntry { .. }
        | RegistryError::Store(_)
        | RegistryError::Unexpected(_)
        | RegistryError::Remote { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn of_blame(blame: Blame) -> StatusCode {
    match blame {
        Blame::Caller => StatusCode::UNAUTHORIZED,
        Blame::Call => StatusCode::UNPROCESSABLE_ENTITY,
        Blame::Size => StatusCode::PAYLOAD_TOO_LARGE,
        Blame::Forbidden => StatusCode::FORBIDDEN,
        Blame::Limit { .. } => StatusCode::TOO_MANY_REQUESTS,
        Blame::Upstream => StatusCode::BAD_GATEWAY,
        Blame::Timeout => StatusCode::GATEWAY_TIMEOUT,
        Blame::Settings => StatusCode::SERVICE_UNAVAILABLE,
        Blame::Server => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn of_vault(error: &VaultError) -> StatusCode {
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
        VaultError::Busy { .. } | VaultError::Full | VaultError::NoMasterKey => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        VaultError::NewerSchema { .. }
        | VaultError::Corrupt { .. }
        | VaultError::Io { .. }
        | VaultError::Database(_)
        | VaultError::Random(_)
        | VaultError::UnreadableSecret { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// What is said of an error whose words are about this machine and not about the request.
const OUR_FAULT: &str = "the server failed at this request; its log says why";

impl IntoResponse for GatewayError {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut failure = Failure::new(self.code(), self.to_string());
        failure.hint = self.hint().map(str::to_owned);
        failure.details = self.details();
        let is_of_content = matches!(&self, Self::Registry(RegistryError::CorruptEntry { .. }));
        if status == StatusCode::INTERNAL_SERVER_ERROR && !is_of_content {
            tracing::error!(error = %self, "a request failed");
            failure.error = OUR_FAULT.to_owned();
            failure.hint = None;
        }
        let retry_after = self.retry_after();
        if retry_after.is_some() {
            let words = std::mem::replace(&mut failure.error, "Too Many Requests".to_owned());
            failure.message = Some(words);
        }
        let mut response = (status, Json(failure)).into_response();
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
