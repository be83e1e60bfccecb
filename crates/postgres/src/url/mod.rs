//! Connection URLs as libpq has them.

mod parameters;

use std::{
    fmt::{self, Write as _},
    net::IpAddr,
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use tokio_postgres::{
    Config,
    config::{ChannelBinding, Host, SslMode},
};

use self::parameters::{OwnParameters, parameter};
use crate::auth::AuthRules;

/// Time limit of connecting to one address, unless the URL has one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Port of a host, unless the URL has one.
const DEFAULT_PORT: u16 = 5432;
/// Time without acknowledgement after which a connection is given up, unless the URL has one.
pub(crate) const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);
/// Silence after which keepalives are sent, unless the URL has another.
pub(crate) const KEEPALIVES_IDLE: Duration = Duration::from_secs(15);
/// Time between keepalives, unless the URL has another.
pub(crate) const KEEPALIVES_INTERVAL: Duration = Duration::from_secs(3);
/// Number of lost keepalives after which a connection is given up, unless the URL has another.
pub(crate) const KEEPALIVES_COUNT: u32 = 3;
/// Schema of the tables, unless the URL sets `search_path`.
const DEFAULT_SCHEMA: &str = "skills";

/// Unusable connection URL. The message never has the password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It does not begin with `postgres://` or `postgresql://`.
    #[error("the database URL must begin with postgres:// or postgresql://")]
    Scheme,
    /// It has no host.
    #[error(
        "the database URL names no host; write postgres://HOST/NAME, \
         or postgres:///NAME?host=DIR with the directory of a socket, such as /var/run/postgresql"
    )]
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
    /// As [`Authority`](Self::Authority) if there is a `~/.postgresql/root.crt`, else as [`None`](Self::None).
    AuthorityIfInstalled,
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
    /// Versions of TLS that may be used.
    pub(crate) versions: TlsVersions,
    /// Set if the server is told the name of the host.
    pub(crate) sends_name: bool,
}

/// Versions of TLS that may be used, of those that are safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsVersions {
    All,
    /// TLS 1.2 alone.
    Tls12,
    /// TLS 1.3 alone.
    Tls13,
}

impl TlsSettings {
    /// Settings of connections without TLS.
    const UNUSED: Self = Self {
        verification: Verification::None,
        root_certificate: None,
        client_certificate: None,
        versions: TlsVersions::All,
        sends_name: true,
    };
}

/// Host of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostAddress {
    /// Name, which a certificate is compared with, or directory of a Unix socket.
    pub(crate) host: Host,
    /// Address that is used instead of looking the name up.
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: u16,
}

impl HostAddress {
    fn is_socket(&self) -> bool {
        !matches!(self.host, Host::Tcp(_)) && self.address.is_none()
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Tcp(host) if host.contains(':') => write!(f, "[{host}]")?,
            Host::Tcp(host) => f.write_str(host)?,
            #[cfg(unix)]
            Host::Unix(path) => write!(f, "[{}]", path.display())?,
        }
        write!(f, ":{}", self.port)
    }
}

/// Connection URL. `Debug` and `Display` print it without password and parameters.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl {
    /// Settings of all hosts, without one.
    pub(crate) config: Config,
    pub(crate) hosts: Vec<HostAddress>,
    /// Set if a standby is preferred and any other host is good enough.
    pub(crate) prefers_standby: bool,
    pub(crate) tls: TlsSettings,
    /// Methods by which a server may have the client log in.
    pub(crate) auth: AuthRules,
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

    /// Returns the settings of connections to one host.
    pub(crate) fn config_of(&self, host: &HostAddress) -> Config {
        let mut config = self.config.clone();
        match &host.host {
            Host::Tcp(name) => config.host(name),
            #[cfg(unix)]
            Host::Unix(path) => config.host_path(path),
        };
        if let Some(address) = host.address {
            config.hostaddr(address);
        }
        if host.is_socket() {
            // As in libpq, sslmode is ignored.
            config.ssl_mode(SslMode::Disable);
        }
        config.port(host.port);
        config
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

/// Splits a URL without parameters into credentials with scheme, hosts, and path.
fn split_authority(base: &str) -> (&str, &str, &str) {
    let scheme = base.find("://").map_or(0, |at| at + "://".len());
    let hosts = base.find('@').map_or(scheme, |at| at + 1);
    let (before, rest) = base.split_at(hosts);
    let (hosts, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    (before, hosts, path)
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
        let (base, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (before, authority, path) = split_authority(base);
        let authority: Config = format!("postgres://{authority}").parse().map_err(invalid)?;
        let hosts = own.hosts(&authority)?;
        let mut config: Config = format!("{before}{path}{query}").parse().map_err(invalid)?;
        let mut tls = own.tls(&mut config)?;
        if hosts.iter().all(HostAddress::is_socket) {
            if config.get_channel_binding() == ChannelBinding::Require {
                return Err(parameter(
                    "channel_binding",
                    "require needs TLS, which a socket has not",
                ));
            }
            tls = TlsSettings::UNUSED;
        }
        let (attributes, prefers_standby) = own.session_attributes(hosts.len())?;
        config.target_session_attrs(attributes);
        own.set_timeouts(&mut config)?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name(own.fallback_name.as_deref().unwrap_or("skills"));
        }
        let schema = search_path(config.get_options().unwrap_or_default());
        let schema = schema.unwrap_or(DEFAULT_SCHEMA).to_owned();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if schema.is_empty() || schema.len() > 40 || !schema.chars().all(is_name) {
            let reason = "search_path has letters, digits and underscores, at most 40";
            return Err(parameter("options", reason));
        }
        let auth = own.auth_rules()?;
        Ok(Self { config, hosts, prefers_standby, tls, auth, schema })
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
        for (at, host) in self.hosts.iter().enumerate() {
            if at > 0 {
                f.write_char(',')?;
            }
            write!(f, "{host}")?;
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
mod tests;
