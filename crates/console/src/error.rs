//! Errors of pages: status, code, sentence and next step.

use std::borrow::Cow;

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use skills_bundles::BundleError;
use skills_core::{Code, Coded, OverBudget, RuleError, TableFull, WorkError, work::Stopped};
use skills_execution::ExecuteError;
use skills_http::{ErrorCode, server_error_status};
use skills_registry::RegistryError;
use skills_vault::VaultError;

use crate::response;

/// Failure of a page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConsoleError {
    /// The registry refuses, or cannot be read.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A tool could not be called.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// The vault refuses, or cannot be read.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// An uploaded bundle is unusable.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The person has to sign in.
    #[error("sign in to see this page")]
    SignInNeeded,
    /// The person may not do this.
    #[error("{0}")]
    Forbidden(&'static str),
    /// The form was not made by a page of this session.
    #[error(
        "this form is out of date: it was made before you signed in or out, or before the server was restarted"
    )]
    FormToken,
    /// The form is not one that this page sends.
    #[error("{0}")]
    Form(String),
    /// There is no such page.
    #[error("there is no page at this address")]
    NoPage,
    /// There is no such file in a skill.
    #[error("{0} has no such file")]
    NoFile(String),
    /// Another version was published after the review.
    #[error("{0} was changed after your review")]
    ChangedMeanwhile(String),
    /// The tool is another one than the form was made for.
    #[error("{0} was changed after this form was made, so it was not called")]
    ToolChanged(String),
    /// The session ended while a form was filled in.
    #[error("you are not signed in any more, so the form was not sent on")]
    SessionEnded,
    /// The request needs more memory or processor time than its person may use now.
    #[error(transparent)]
    Work(#[from] WorkError),
    /// The server holds too much of other people.
    #[error(transparent)]
    TableFull(#[from] TableFull),
    /// The request failed for a reason that is none of its person's.
    #[error("an internal error interrupted the request")]
    Internal,
}

impl From<OverBudget> for ConsoleError {
    fn from(error: OverBudget) -> Self {
        Self::Work(error.into())
    }
}

/// The time of the work is up. If its caller is gone, nobody sees the error.
impl From<Stopped> for ConsoleError {
    fn from(Stopped: Stopped) -> Self {
        Self::Work(WorkError::Busy)
    }
}

impl From<RuleError> for ConsoleError {
    fn from(error: RuleError) -> Self {
        Self::Registry(error.into())
    }
}

impl Coded for ConsoleError {
    fn code(&self) -> Code {
        match self {
            Self::Registry(error) => error.code(),
            Self::Execute(error) => error.code(),
            Self::Vault(error) => error.code(),
            Self::Bundle(error) => error.code(),
            Self::SignInNeeded | Self::SessionEnded => Code::Unauthorized,
            Self::Forbidden(_) => Code::AccessDenied,
            Self::FormToken => Code::FormExpired,
            Self::Form(_) => Code::InvalidInput,
            Self::NoPage | Self::NoFile(_) => Code::NotFound,
            Self::ChangedMeanwhile(_) | Self::ToolChanged(_) => Code::Conflict,
            Self::Work(WorkError::OverBudget(_) | WorkError::Busy) | Self::TableFull(_) => {
                Code::Overloaded
            }
            Self::Work(WorkError::Panicked(_)) | Self::Internal => Code::Internal,
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
            Self::Bundle(error) => error.hint(),
            Self::SignInNeeded => Some("use a key, the server's token or ADMIN_KEY"),
            Self::Forbidden(_) => Some("sign in with a key that may"),
            Self::FormToken => Some("go back, reload the page, and send the form again"),
            Self::NoPage => Some("search for it on the first page"),
            Self::ChangedMeanwhile(_) => Some("review the difference to the new version"),
            Self::ToolChanged(_) => {
                Some("look at the form, which is that of the present tool, and run it")
            }
            Self::SessionEnded => Some(
                "sign in in another tab; then go back, copy what you typed, reload the page, and send it again",
            ),
            Self::Work(WorkError::OverBudget(_) | WorkError::Busy) | Self::TableFull(_) => {
                Some("try again in a moment")
            }
            Self::Work(WorkError::Panicked(_))
            | Self::Form(_)
            | Self::NoFile(_)
            | Self::Internal => None,
        }
    }
}

impl ConsoleError {
    /// Returns the HTTP status.
    fn status(&self) -> StatusCode {
        match self {
            Self::SignInNeeded | Self::SessionEnded => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) | Self::FormToken => StatusCode::FORBIDDEN,
            Self::NoPage | Self::NoFile(_) => StatusCode::NOT_FOUND,
            Self::Form(_) => StatusCode::BAD_REQUEST,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::ChangedMeanwhile(_) | Self::ToolChanged(_) => StatusCode::CONFLICT,
            Self::Bundle(error) if error.code() == Code::Overloaded => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Bundle(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Registry(_)
            | Self::Execute(_)
            | Self::Vault(_)
            | Self::Work(_)
            | Self::TableFull(_) => match self.code() {
                Code::NotFound | Code::NoSuchKey => StatusCode::NOT_FOUND,
                Code::UnknownKey => StatusCode::UNAUTHORIZED,
                Code::KeyNeeded => StatusCode::FORBIDDEN,
                Code::Conflict => StatusCode::CONFLICT,
                Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
                code => server_error_status(code).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY),
            },
        }
    }
}

/// Error as an extension of a response; the middleware renders it, because the page shows the person.
#[derive(Debug, Clone)]
pub(crate) struct ErrorPage {
    pub(crate) status: StatusCode,
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl ErrorPage {
    /// Returns whether signing in is the next step.
    pub(crate) fn needs_sign_in(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }
}

impl From<&ConsoleError> for ErrorPage {
    fn from(error: &ConsoleError) -> Self {
        Self {
            status: error.status(),
            code: error.code_text().into_owned(),
            message: error.to_string(),
            hint: error.hint().map(str::to_owned),
        }
    }
}

impl IntoResponse for ConsoleError {
    fn into_response(self) -> Response {
        let page = ErrorPage::from(&self);
        if page.status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(error = %self, "page failed");
        }
        let mut response = page.status.into_response();
        response.extensions_mut().insert(ErrorCode(page.code.clone()));
        response.extensions_mut().insert(page);
        response
    }
}

/// Redirects from the address with a slash at its end to the first page.
pub(crate) async fn home() -> Response {
    response::see_other(crate::HOME)
}

/// Answers paths that no page has.
pub(crate) async fn not_found() -> ConsoleError {
    ConsoleError::NoPage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_person_can_correct_is_unprocessable() {
        let reason = "refused".to_owned();
        for (error, expected) in [
            (RegistryError::StoreUnreachable { reason }, StatusCode::SERVICE_UNAVAILABLE),
            (RegistryError::CatalogTooOld, StatusCode::SERVICE_UNAVAILABLE),
            (RegistryError::OutcomeUnknown, StatusCode::INTERNAL_SERVER_ERROR),
            (RegistryError::Unsupported("no"), StatusCode::UNPROCESSABLE_ENTITY),
        ] {
            assert_eq!(ConsoleError::from(error.clone()).status(), expected, "{error}");
        }
    }
}
