//! Why a call of an upstream has no result.

use std::time::Duration;

use crate::secret::Redactor;

/// What went wrong. No error holds a secret, an address, or a URL: only hosts, names and what an upstream
/// said, redacted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteError {
    /// The manifest cannot be executed as it is.
    #[error("the implementation cannot be executed: {reason}")]
    InvalidImplementation {
        /// What is wrong with it.
        reason: String,
    },
    /// Secrets that the manifest needs were not given. Nothing was sent.
    #[error("missing secrets: {}; set them and call again", .0.join(", "))]
    MissingSecrets(
        /// Their names.
        Vec<String>,
    ),
    /// Parameters without which there is no request. Nothing was sent.
    #[error("missing parameters: {}", .0.join(", "))]
    MissingParameters(
        /// Their names.
        Vec<String>,
    ),
    /// A value that cannot stand where the manifest puts it. Nothing was sent.
    #[error("the parameters cannot be sent: {reason}")]
    InvalidParameters {
        /// What is wrong with them.
        reason: String,
    },
    /// A header that HTTP does not allow, one with a line break among them. Nothing was sent.
    #[error("the header {name:?} cannot be sent: its name or its value is not allowed in HTTP")]
    InvalidHeader {
        /// Its name.
        name: String,
    },
    /// The request would be larger than allowed. Nothing was sent.
    #[error("the request is too large: at most {max} bytes are allowed")]
    RequestTooLarge {
        /// The limit in bytes.
        max: usize,
    },
    /// The connection would not be encrypted.
    #[error("{host:?} may be asked over https only, unless its origin is allowed")]
    NotHttps {
        /// Whose.
        host: String,
    },
    /// The host is not on the public internet.
    #[error("{host:?} has an address that may not be connected to, unless its origin is allowed")]
    RefusedAddress {
        /// Which host.
        host: String,
    },
    /// No connection came about.
    #[error("cannot connect to {host:?}: {reason}")]
    Connect {
        /// To whom.
        host: String,
        /// Why.
        reason: String,
    },
    /// The other end is not who it should be, or does not encrypt as it should.
    #[error("cannot connect to {host:?} securely: {reason}")]
    Tls {
        /// To whom.
        host: String,
        /// Why.
        reason: String,
    },
    /// A redirect that is not followed.
    #[error("the upstream redirects, and the redirect is not followed: {reason}")]
    BadRedirect {
        /// Why not.
        reason: String,
    },
    /// The connection broke, or what came back is not HTTP.
    #[error("the exchange with {host:?} failed: {reason}")]
    Broken {
        /// With whom.
        host: String,
        /// How.
        reason: String,
    },
    /// It took too long, all in all.
    #[error("the upstream did not answer within {} ms", after.as_millis())]
    TimedOut {
        /// The limit.
        after: Duration,
    },
    /// The answer is larger than allowed.
    #[error("the upstream's answer is too large: at most {max} bytes are allowed")]
    TooLarge {
        /// The limit in bytes.
        max: usize,
    },
    /// The upstream answered that it failed.
    #[error("the upstream answered with status {status}{}", told(message))]
    UpstreamStatus {
        /// Its status.
        status: u16,
        /// What it said, shortened and redacted; may be empty.
        message: String,
    },
    /// The upstream's answer cannot be used.
    #[error("the upstream's answer cannot be read: {reason}")]
    Unreadable {
        /// Why.
        reason: String,
    },
}

fn told(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

impl ExecuteError {
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::InvalidImplementation { reason: reason.into() }
    }

    /// A stable code for machines.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidImplementation { .. } => "invalid_implementation",
            Self::MissingSecrets(_) => "missing_secrets",
            Self::MissingParameters(_) => "missing_parameters",
            Self::InvalidParameters { .. } => "invalid_parameters",
            Self::InvalidHeader { .. } => "invalid_header",
            Self::RequestTooLarge { .. } => "request_too_large",
            Self::NotHttps { .. } => "not_https",
            Self::RefusedAddress { .. } => "refused_address",
            Self::Connect { .. } => "connect",
            Self::Tls { .. } => "tls",
            Self::BadRedirect { .. } => "bad_redirect",
            Self::Broken { .. } => "broken",
            Self::TimedOut { .. } => "timed_out",
            Self::TooLarge { .. } => "too_large",
            Self::UpstreamStatus { .. } => "upstream_status",
            Self::Unreadable { .. } => "unreadable",
        }
    }

    /// The error without any secret in what others wrote: the upstream's words, and hosts, since a
    /// redirect names them.
    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        let clean = |text: &mut String| *text = redactor.redacted(text);
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
