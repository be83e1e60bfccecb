//! Errors of upstream calls.

use skills_core::{Code, Coded};
use std::time::Duration;

use crate::secret::Redactor;

/// Failure of an upstream call. No error contains a secret, an address or a URL: only hosts, names and redacted messages of
/// the upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// The implementation in the manifest is invalid.
    #[error("the implementation cannot be executed: {reason}")]
    InvalidImplementation {
        /// The problem.
        reason: String,
    },
    /// Required secrets are missing. Nothing was sent.
    #[error("missing secrets: {}; set them and call again", .0.join(", "))]
    MissingSecrets(
        /// Names.
        Vec<String>,
    ),
    /// Required parameters are missing. Nothing was sent.
    #[error("missing parameters: {}", .0.join(", "))]
    MissingParameters(
        /// Names.
        Vec<String>,
    ),
    /// A parameter is not allowed where the manifest inserts it. Nothing was sent.
    #[error("the parameters cannot be sent: {reason}")]
    InvalidParameters {
        /// The problem.
        reason: String,
    },
    /// A header has a character that HTTP does not allow, such as a line break. Nothing was sent.
    #[error("the header {name:?} cannot be sent: its name or its value is not allowed in HTTP")]
    InvalidHeader {
        /// Name of the header.
        name: String,
    },
    /// The request exceeds the limit. Nothing was sent.
    #[error("the request is too large: at most {max} bytes are allowed")]
    RequestTooLarge {
        /// The limit in bytes.
        max: usize,
    },
    /// The URL is not https.
    #[error("{host:?} must be called over https, unless its origin is allowed")]
    NotHttps {
        /// Host of the URL.
        host: String,
    },
    /// The host is not on the public internet.
    #[error("{host:?} has an address that may not be connected to, unless its origin is allowed")]
    RefusedAddress {
        /// Host of the URL.
        host: String,
    },
    /// The connection failed.
    #[error("cannot connect to {host:?}: {reason}")]
    Connect {
        /// Host of the upstream.
        host: String,
        /// The cause.
        reason: String,
    },
    /// The TLS handshake failed.
    #[error("cannot connect to {host:?} securely: {reason}")]
    Tls {
        /// Host of the upstream.
        host: String,
        /// The cause.
        reason: String,
    },
    /// A redirect that is not followed.
    #[error("the upstream redirects, and the redirect is not followed: {reason}")]
    BadRedirect {
        /// The cause.
        reason: String,
    },
    /// The connection broke, or the response is not HTTP.
    #[error("the exchange with {host:?} failed: {reason}")]
    Broken {
        /// Host of the upstream.
        host: String,
        /// The cause.
        reason: String,
    },
    /// The call exceeded its timeout.
    #[error("the upstream did not answer within {} ms", after.as_millis())]
    TimedOut {
        /// The timeout.
        after: Duration,
    },
    /// The response exceeds the limit.
    #[error("the upstream's answer is too large: at most {max} bytes are allowed")]
    TooLarge {
        /// The limit in bytes.
        max: usize,
    },
    /// The upstream responded with an error status.
    #[error("the upstream answered with status {status}{}", message_suffix(message))]
    UpstreamStatus {
        /// HTTP status.
        status: u16,
        /// Message of the upstream, shortened and redacted; may be empty.
        message: String,
    },
    /// The response cannot be parsed.
    #[error("the upstream's answer cannot be read: {reason}")]
    Unreadable {
        /// The cause.
        reason: String,
    },
}

fn message_suffix(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

impl UpstreamError {
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::InvalidImplementation { reason: reason.into() }
    }

    /// Returns the error with secrets masked in messages of the upstream, and in hosts, since a redirect names them.
    pub(crate) fn redact(mut self, redactor: &Redactor) -> Self {
        let clean = |text: &mut String| *text = redactor.redact(text);
        match &mut self {
            Self::InvalidImplementation { reason }
            | Self::InvalidParameters { reason }
            | Self::BadRedirect { reason }
            | Self::Unreadable { reason } => clean(reason),
            Self::NotHttps { host } | Self::RefusedAddress { host } => clean(host),
            Self::Connect { host, reason }
            | Self::Tls { host, reason }
            | Self::Broken { host, reason } => {
                clean(host);
                clean(reason);
            }
            Self::InvalidHeader { name } => clean(name),
            Self::UpstreamStatus { message, .. } => clean(message),
            Self::MissingSecrets(names) | Self::MissingParameters(names) => {
                names.iter_mut().for_each(clean);
            }
            Self::RequestTooLarge { .. } | Self::TimedOut { .. } | Self::TooLarge { .. } => {}
        }
        self
    }
}

impl Coded for UpstreamError {
    fn code(&self) -> Code {
        match self {
            Self::InvalidImplementation { .. } => Code::InvalidImplementation,
            Self::MissingSecrets(_) => Code::MissingSecrets,
            Self::MissingParameters(_) => Code::MissingParameters,
            Self::InvalidParameters { .. } => Code::InvalidParameters,
            Self::InvalidHeader { .. } => Code::InvalidHeader,
            Self::RequestTooLarge { .. } => Code::RequestTooLarge,
            Self::NotHttps { .. } => Code::NotHttps,
            Self::RefusedAddress { .. } => Code::RefusedAddress,
            Self::Connect { .. } => Code::UpstreamConnect,
            Self::Tls { .. } => Code::UpstreamTls,
            Self::BadRedirect { .. } => Code::UpstreamBadRedirect,
            Self::Broken { .. } => Code::UpstreamBroken,
            Self::TimedOut { .. } => Code::UpstreamTimedOut,
            Self::TooLarge { .. } => Code::UpstreamTooLarge,
            Self::UpstreamStatus { .. } => Code::UpstreamStatus,
            Self::Unreadable { .. } => Code::UpstreamUnreadable,
        }
    }
}
