//! Connection URLs as libpq has them.

use std::{
    fmt::{self, Write as _},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use percent_encoding::percent_decode_str;
use tokio_postgres::{
    Config,
    config::{Host, SslMode, TargetSessionAttrs},
};

/// Time limit of connecting to one address, unless the URL has one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Schema of the tables, unless the URL sets `search_path`.
const DEFAULT_SCHEMA: &str = "skills";

/// Unusable connection URL. The message never has the password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It does not begin with `postgres://` or `postgresql://`.
    #[error("the database URL must begin with postgres:// or postgresql://")]
    Scheme,
    /// It has no host.
    #[error("the database URL names no host")]
    NoHost,
    /// The password has a character that ends it.
    #[error(
        "the database URL cannot be parsed; write @ / ? & % in its password as %40 %2F %3F %26 %25"
    )]
    Password,
    /// A parameter has an unusable value.
    #[error("the database URL has an unusable {name}: {reason}")]
    Parameter {
        /// Name of the parameter.
        name: String,
        /// Allowed values.
        reason: &'static str,
    },
    /// Other part of it cannot be parsed.
    #[error("the database URL cannot be used: {0}")]
    Invalid(String),
}

/// Judgement of a server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verification {
    /// Any certificate is accepted.
    None,
    /// The certificate has to be signed by a root.
    Authority,
    /// The certificate has to be signed by a root, for the name of the host.
    Full,
}

/// Settings of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    pub(crate) verification: Verification,
    pub(crate) root_certificate: Option<PathBuf>,
    pub(crate) client_certificate: Option<(PathBuf, PathBuf)>,
}

/// Connection URL. `Debug` and `Display` print it without password and parameters.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl {
    pub(crate) config: Config,
    pub(crate) tls: TlsSettings,
    schema: String,
}

impl DatabaseUrl {
    /// Returns whether a text is meant as a URL of PostgreSQL.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Returns the schema of the tables: the first of `search_path`, or `skills`.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Sets the password, if the URL has none.
    #[must_use]
    pub fn with_default_password(mut self, password: Option<&str>) -> Self {
        if self.config.get_password().is_none()
            && let Some(password) = password
        {
            self.config.password(password);
        }
        self
    }
}

/// Parameters that tokio-postgres does not know, or knows other values of.
#[derive(Default)]
struct OwnParameters {
    ssl_mode: Option<String>,
    root_certificate: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    session_attributes: Option<String>,
}

impl OwnParameters {
    fn slot(&mut self, name: &str) -> Option<&mut Option<String>> {
        match name {
            "sslmode" => Some(&mut self.ssl_mode),
            "sslrootcert" => Some(&mut self.root_certificate),
            "sslcert" => Some(&mut self.certificate),
            "sslkey" => Some(&mut self.key),
            "target_session_attrs" => Some(&mut self.session_attributes),
            _ => None,
        }
    }

    /// Takes these parameters out of a URL and returns what is left of it.
    fn take(&mut self, text: &str) -> Result<String, UrlError> {
        let Some((base, query)) = text.split_once('?') else { return Ok(text.to_owned()) };
        let mut left = vec![];
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match self.slot(name) {
                Some(slot) => {
                    let value = percent_decode_str(value).decode_utf8();
                    let value = value.map_err(|_| parameter(name, "it is not UTF-8"))?;
                    *slot = Some(value.into_owned());
                }
                None => left.push(pair),
            }
        }
        if left.is_empty() {
            return Ok(base.to_owned());
        }
        Ok(format!("{base}?{}", left.join("&")))
    }

    fn tls(&self, config: &mut Config) -> Result<TlsSettings, UrlError> {
        let is_system = self.root_certificate.as_deref() == Some("system");
        let has_root = self.root_certificate.is_some();
        let default = if is_system { "verify-full" } else { "prefer" };
        let (mode, verification) = match self.ssl_mode.as_deref().unwrap_or(default) {
            "disable" => (SslMode::Disable, Verification::None),
            // Without TLS first is left out: a server that offers TLS is better asked with it.
            "allow" | "prefer" => (SslMode::Prefer, Verification::None),
            // As in libpq, a root certificate makes it verify-ca.
            "require" if has_root => (SslMode::Require, Verification::Authority),
            "require" => (SslMode::Require, Verification::None),
            "verify-ca" => (SslMode::Require, Verification::Authority),
            "verify-full" => (SslMode::Require, Verification::Full),
            _ => {
                let modes = "use disable, allow, prefer, require, verify-ca or verify-full";
                return Err(parameter("sslmode", modes));
            }
        };
        if is_system && verification != Verification::Full {
            return Err(parameter("sslmode", "sslrootcert=system needs verify-full"));
        }
        config.ssl_mode(mode);
        let client_certificate = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            (None, None) => None,
            _ => return Err(parameter("sslcert", "sslcert and sslkey go together")),
        };
        let root_certificate = self.root_certificate.as_ref().map(PathBuf::from);
        Ok(TlsSettings { verification, root_certificate, client_certificate })
    }

    fn session_attributes(&self, hosts: usize) -> Result<TargetSessionAttrs, UrlError> {
        match self.session_attributes.as_deref() {
            // With several hosts, one that accepts writes is meant.
            None if hosts > 1 => Ok(TargetSessionAttrs::ReadWrite),
            None | Some("any") => Ok(TargetSessionAttrs::Any),
            Some("read-write" | "primary") => Ok(TargetSessionAttrs::ReadWrite),
            Some("read-only" | "standby") => Ok(TargetSessionAttrs::ReadOnly),
            Some(_) => Err(parameter(
                "target_session_attrs",
                "use any, read-write, primary, read-only or standby",
            )),
        }
    }
}

fn parameter(name: &str, reason: &'static str) -> UrlError {
    UrlError::Parameter { name: name.to_owned(), reason }
}

impl FromStr for DatabaseUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if !Self::is_url(text) {
            return Err(UrlError::Scheme);
        }
        // The rest of such a password would be taken for a host or a parameter, and printed as one.
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        if base.matches('@').count() > 1 || query.contains('@') && !base.contains('@') {
            return Err(UrlError::Password);
        }
        let mut own = OwnParameters::default();
        let rest = own.take(text)?;
        let invalid = |error: tokio_postgres::Error| {
            // The message of the parser names the parameter, not its value.
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            UrlError::Invalid(cause.unwrap_or_else(|| error.to_string()))
        };
        let mut config: Config = rest.parse().map_err(invalid)?;
        let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
        if hosts == 0 {
            return Err(UrlError::NoHost);
        }
        let tls = own.tls(&mut config)?;
        config.target_session_attrs(own.session_attributes(hosts)?);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("skills");
        }
        let schema = search_path(config.get_options().unwrap_or_default());
        let schema = schema.unwrap_or(DEFAULT_SCHEMA).to_owned();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if schema.is_empty() || schema.len() > 40 || !schema.chars().all(is_name) {
            let reason = "search_path has letters, digits and underscores, at most 40";
            return Err(parameter("options", reason));
        }
        Ok(Self { config, tls, schema })
    }
}

/// Returns the first schema of `-c search_path=…`.
fn search_path(options: &str) -> Option<&str> {
    let (_, path) = options.split_once("search_path=")?;
    path.split([',', ' ']).next()
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{user}@")?;
        }
        let ports = self.config.get_ports();
        for (at, host) in self.config.get_hosts().iter().enumerate() {
            if at > 0 {
                f.write_char(',')?;
            }
            match host {
                Host::Tcp(host) => f.write_str(host)?,
                #[cfg(unix)]
                Host::Unix(path) => write!(f, "[{}]", path.display())?,
            }
            if let Some(port) = ports.get(at).or(ports.first()) {
                write!(f, ":{port}")?;
            }
        }
        match self.config.get_dbname() {
            Some(name) => write!(f, "/{name}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<DatabaseUrl, UrlError> {
        text.parse()
    }

    #[test]
    fn the_password_is_never_printed() {
        let url = parse("postgres://me:s3cret@db.example:5433/skills?application_name=x").unwrap();
        assert_eq!(url.to_string(), "postgres://me@db.example:5433/skills");
        assert!(!format!("{url:?}").contains("s3cret"));
        let error = parse("postgres://me:s3cret@db/skills?sslmode=sure").unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
        for text in [
            "postgres://me:s3cret@db:port/skills",
            "postgres://me:a@s3cret@db/skills",
            "postgres://me:a?s3cret@db/skills",
            "postgres://me:a?s3cret=1@db/skills",
            "postgres://me:a&s3cret?@db/skills",
            "postgres://me:a#s3cret?s3cret@db/skills",
        ] {
            let error = parse(text).unwrap_err();
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
        for text in ["postgres://me:a/s3cret@db/skills", "postgres://me:a%40s3cret@db/skills"] {
            assert_eq!(parse(text).unwrap().to_string(), "postgres://me@db:5432/skills");
        }
    }

    #[test]
    fn several_hosts_mean_one_that_accepts_writes() {
        let url = parse("postgres://a:1,b:2/x").unwrap();
        assert_eq!(url.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!(url.to_string(), "postgres://a:1,b:2/x");
        let one = parse("postgres://a/x").unwrap();
        assert_eq!(one.config.get_target_session_attrs(), TargetSessionAttrs::Any);
        let any = parse("postgres://a,b/x?target_session_attrs=any").unwrap();
        assert_eq!(any.config.get_target_session_attrs(), TargetSessionAttrs::Any);
    }

    #[test]
    fn sslmode_decides_what_is_verified() {
        let verification =
            |query: &str| parse(&format!("postgres://a/x?{query}")).map(|url| url.tls.verification);
        assert_eq!(verification("sslmode=require"), Ok(Verification::None));
        assert_eq!(verification("sslmode=require&sslrootcert=ca.pem"), Ok(Verification::Authority));
        assert_eq!(verification("sslmode=verify-ca"), Ok(Verification::Authority));
        assert_eq!(verification("sslmode=verify-full"), Ok(Verification::Full));
        assert_eq!(verification("sslrootcert=system"), Ok(Verification::Full));
        assert!(verification("sslmode=prefer&sslrootcert=system").is_err());
        assert!(verification("sslmode=yes").is_err());
        assert!(verification("sslcert=a.pem").is_err());
    }

    #[test]
    fn the_schema_is_that_of_the_search_path() {
        assert_eq!(parse("postgres://a/x").unwrap().schema(), "skills");
        let url = parse("postgres://a/x?options=-c%20search_path%3Dother").unwrap();
        assert_eq!(url.schema(), "other");
        assert!(parse("postgres://a/x?options=-c%20search_path%3Da%22b").is_err());
    }

    #[test]
    fn unknown_schemes_and_parameters_are_refused() {
        assert_eq!(parse("mysql://a/x"), Err(UrlError::Scheme));
        assert_eq!(parse("postgres:///x"), Err(UrlError::NoHost));
        assert!(parse("postgres://a/x?colour=red").is_err());
    }

    #[test]
    fn a_socket_directory_is_a_host() {
        let url = parse("postgres:///x?host=/run/postgresql&port=5433").unwrap();
        assert_eq!(url.to_string(), "postgres://[/run/postgresql]:5433/x");
    }
}
