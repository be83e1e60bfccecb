//! Connection URLs as libpq has them.

use std::{
    fmt::{self, Write as _},
    net::IpAddr,
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
}

impl TlsSettings {
    /// Settings of connections without TLS.
    const UNUSED: Self =
        Self { verification: Verification::None, root_certificate: None, client_certificate: None };
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

/// Parameters that tokio-postgres does not know, or knows other values of.
#[derive(Default)]
struct OwnParameters {
    ssl_mode: Option<String>,
    root_certificate: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    session_attributes: Option<String>,
    host: Option<String>,
    address: Option<String>,
    port: Option<String>,
    keepalives_idle: Option<String>,
    keepalives_interval: Option<String>,
    keepalives_count: Option<String>,
    tcp_user_timeout: Option<String>,
}

impl OwnParameters {
    fn slot(&mut self, name: &str) -> Option<&mut Option<String>> {
        match name {
            "sslmode" => Some(&mut self.ssl_mode),
            "sslrootcert" => Some(&mut self.root_certificate),
            "sslcert" => Some(&mut self.certificate),
            "sslkey" => Some(&mut self.key),
            "target_session_attrs" => Some(&mut self.session_attributes),
            "host" => Some(&mut self.host),
            "hostaddr" => Some(&mut self.address),
            "port" => Some(&mut self.port),
            "keepalives_idle" => Some(&mut self.keepalives_idle),
            "keepalives_interval" => Some(&mut self.keepalives_interval),
            // The second name is that of tokio-postgres.
            "keepalives_count" | "keepalives_retries" => Some(&mut self.keepalives_count),
            "tcp_user_timeout" => Some(&mut self.tcp_user_timeout),
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
            "require" => (SslMode::Require, Verification::AuthorityIfInstalled),
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

    /// Returns the hosts. As in libpq, parameters precede the authority, and one port is that of all hosts.
    fn hosts(&self, authority: &Config) -> Result<Vec<HostAddress>, UrlError> {
        let mut named = Config::new();
        for host in self.host.iter().flat_map(|hosts| hosts.split(',')) {
            named.host(host);
        }
        let named = if self.host.is_some() { &named } else { authority };
        let mut hosts = named.get_hosts().to_vec();
        let addresses: Option<Vec<Option<IpAddr>>> = match &self.address {
            Some(addresses) => {
                let addresses = addresses.split(',').map(|address| address.parse().map(Some));
                let addresses = addresses.collect::<Result<_, _>>();
                Some(addresses.map_err(|_| parameter("hostaddr", "use IP addresses"))?)
            }
            None => None,
        };
        let addresses = addresses.unwrap_or_else(|| vec![None; hosts.len()]);
        if hosts.is_empty() {
            let names = addresses.iter().flatten().map(|address| Host::Tcp(address.to_string()));
            hosts = names.collect();
        }
        if addresses.len() != hosts.len() {
            return Err(parameter("hostaddr", "name as many addresses as hosts"));
        }
        let ports = match &self.port {
            Some(ports) => {
                let ports = ports.split(',').map(|port| match port {
                    "" => Ok(DEFAULT_PORT),
                    port => port.parse(),
                });
                let ports: Result<Vec<u16>, _> = ports.collect();
                ports.map_err(|_| parameter("port", "use numbers up to 65535"))?
            }
            None if authority.get_ports().is_empty() => vec![DEFAULT_PORT],
            None => authority.get_ports().to_vec(),
        };
        if ports.len() != 1 && ports.len() != hosts.len() {
            return Err(parameter("port", "name one port, or as many as hosts"));
        }
        if hosts.is_empty() || hosts.contains(&Host::Tcp(String::new())) {
            return Err(UrlError::NoHost);
        }
        let ports = ports.iter().cycle();
        let hosts = hosts.into_iter().zip(addresses).zip(ports);
        let hosts = hosts.map(|((host, address), &port)| HostAddress { host, address, port });
        Ok(hosts.collect())
    }

    /// Sets keepalives and the timeout of TCP. As in libpq, 0 means the setting of the system.
    fn set_timeouts(&self, config: &mut Config) -> Result<(), UrlError> {
        match number("keepalives_idle", self.keepalives_idle.as_deref())? {
            Some(0) => {}
            given => {
                config.keepalives_idle(
                    given.map_or(KEEPALIVES_IDLE, |s| Duration::from_secs(s.into())),
                );
            }
        }
        match number("keepalives_interval", self.keepalives_interval.as_deref())? {
            Some(0) => {}
            given => {
                let interval = given.map_or(KEEPALIVES_INTERVAL, |s| Duration::from_secs(s.into()));
                config.keepalives_interval(interval);
            }
        }
        match number("keepalives_count", self.keepalives_count.as_deref())? {
            Some(0) => {}
            given => {
                config.keepalives_retries(given.unwrap_or(KEEPALIVES_COUNT));
            }
        }
        match number("tcp_user_timeout", self.tcp_user_timeout.as_deref())? {
            Some(0) => {}
            given => {
                let timeout = given.map_or(TCP_USER_TIMEOUT, |ms| Duration::from_millis(ms.into()));
                config.tcp_user_timeout(timeout);
            }
        }
        Ok(())
    }

    /// Returns the hosts to use, and whether a standby among them is preferred.
    fn session_attributes(&self, hosts: usize) -> Result<(TargetSessionAttrs, bool), UrlError> {
        let attributes = match self.session_attributes.as_deref() {
            // With several hosts, one that accepts writes is meant.
            None if hosts > 1 => Ok(TargetSessionAttrs::ReadWrite),
            None | Some("any" | "prefer-standby") => Ok(TargetSessionAttrs::Any),
            Some("read-write" | "primary") => Ok(TargetSessionAttrs::ReadWrite),
            Some("read-only" | "standby") => Ok(TargetSessionAttrs::ReadOnly),
            Some(_) => Err(parameter(
                "target_session_attrs",
                "use any, read-write, primary, read-only, standby or prefer-standby",
            )),
        };
        let prefers_standby = self.session_attributes.as_deref() == Some("prefer-standby");
        attributes.map(|attributes| (attributes, prefers_standby))
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

/// Parses a number, which is 0 if it is negative.
fn number(name: &str, value: Option<&str>) -> Result<Option<u32>, UrlError> {
    let Some(value) = value else { return Ok(None) };
    match value.parse::<i32>() {
        Ok(number) => Ok(Some(u32::try_from(number).unwrap_or(0))),
        Err(_) => Err(parameter(name, "use a number")),
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
        let (base, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (before, authority, path) = split_authority(base);
        let authority: Config = format!("postgres://{authority}").parse().map_err(invalid)?;
        let hosts = own.hosts(&authority)?;
        let mut config: Config = format!("{before}{path}{query}").parse().map_err(invalid)?;
        let mut tls = own.tls(&mut config)?;
        if hosts.iter().all(HostAddress::is_socket) {
            tls = TlsSettings::UNUSED;
        }
        let (attributes, prefers_standby) = own.session_attributes(hosts.len())?;
        config.target_session_attrs(attributes);
        own.set_timeouts(&mut config)?;
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
        Ok(Self { config, hosts, prefers_standby, tls, schema })
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
        assert_eq!(verification("sslmode=require"), Ok(Verification::AuthorityIfInstalled));
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
        let same = parse("postgres://%2Frun%2Fpostgresql:5433/x").unwrap();
        assert_eq!(same.hosts, url.hosts);
        let same = parse("postgres://me@/x?host=%2Frun%2Fpostgresql&port=5433").unwrap();
        assert_eq!(same.hosts, url.hosts);
        assert_eq!(same.config.get_user(), Some("me"));
    }

    #[test]
    fn sslmode_is_ignored_for_a_socket() {
        let url = parse("postgres:///x?host=/run,db&sslmode=verify-full").unwrap();
        let modes = url.hosts.iter().map(|host| url.config_of(host).get_ssl_mode());
        assert_eq!(modes.collect::<Vec<_>>(), [SslMode::Disable, SslMode::Require]);
        assert_eq!(url.tls.verification, Verification::Full);
        let url =
            parse("postgres:///x?host=/run&sslmode=verify-full&sslrootcert=none.crt").unwrap();
        assert_eq!(url.tls, TlsSettings::UNUSED);
        assert!(parse("postgres:///x?host=/run&sslmode=yes").is_err());
    }

    #[test]
    fn hosts_addresses_and_ports_go_together() {
        let printed = |text: &str| {
            parse(text).map(|url| {
                let addresses = url.hosts.iter().map(|host| host.address.map(|ip| ip.to_string()));
                (url.to_string(), addresses.map(Option::unwrap_or_default).collect::<Vec<_>>())
            })
        };
        let hosts = |text: &str, addresses: &[&str]| {
            Ok((text.to_owned(), addresses.iter().map(ToString::to_string).collect()))
        };
        let named = printed("postgres://me@/x?host=a,b&hostaddr=10.0.0.1,10.0.0.2&port=1,");
        assert_eq!(named, hosts("postgres://me@a:1,b:5432/x", &["10.0.0.1", "10.0.0.2"]));
        let addresses = printed("postgres:///x?hostaddr=10.0.0.1,::1");
        assert_eq!(addresses, hosts("postgres://10.0.0.1:5432,[::1]:5432/x", &["10.0.0.1", "::1"]));
        let one_port = printed("postgres://a:1,[::1]:2/x?port=7");
        assert_eq!(one_port, hosts("postgres://a:7,[::1]:7/x", &["", ""]));
        let replaced = printed("postgres://a:1/x?host=b");
        assert_eq!(replaced, hosts("postgres://b:1/x", &[""]));
        for text in [
            "postgres://a,b/x?port=1,2,3",
            "postgres://a,b/x?hostaddr=10.0.0.1",
            "postgres://a/x?hostaddr=b",
            "postgres://a/x?port=70000",
            "postgres://:5433/x",
            "postgres://a,/x",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_host_has_the_settings_of_the_url() {
        let url =
            parse("postgres://me:word@a:1,b:2/x?connect_timeout=7&application_name=y").unwrap();
        let config = url.config_of(&url.hosts[1]);
        assert_eq!(config.get_hosts(), [Host::Tcp("b".to_owned())]);
        assert_eq!(config.get_ports(), [2]);
        assert_eq!((config.get_user(), config.get_dbname()), (Some("me"), Some("x")));
        assert_eq!(config.get_password(), Some(&b"word"[..]));
        assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(7)));
        assert_eq!(config.get_application_name(), Some("y"));
        assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
    }

    #[test]
    fn a_standby_can_be_preferred() {
        let url = parse("postgres://a,b/x?target_session_attrs=prefer-standby").unwrap();
        assert!(url.prefers_standby);
        assert_eq!(url.config.get_target_session_attrs(), TargetSessionAttrs::Any);
        assert!(!parse("postgres://a,b/x?target_session_attrs=standby").unwrap().prefers_standby);
        assert!(parse("postgres://a,b/x?target_session_attrs=master").is_err());
    }

    #[test]
    fn keepalives_of_the_url_are_respected() {
        let config = |query: &str| parse(&format!("postgres://a/x?{query}")).unwrap().config;
        let seconds = Duration::from_secs;
        let default = config("");
        assert!(default.get_keepalives());
        assert_eq!(default.get_keepalives_idle(), KEEPALIVES_IDLE);
        assert_eq!(default.get_keepalives_interval(), Some(KEEPALIVES_INTERVAL));
        assert_eq!(default.get_keepalives_retries(), Some(KEEPALIVES_COUNT));
        assert_eq!(default.get_tcp_user_timeout(), Some(&TCP_USER_TIMEOUT));
        let given = config(
            "keepalives_idle=60&keepalives_interval=7&keepalives_count=9&tcp_user_timeout=1500",
        );
        assert_eq!(given.get_keepalives_idle(), seconds(60));
        assert_eq!(given.get_keepalives_interval(), Some(seconds(7)));
        assert_eq!(given.get_keepalives_retries(), Some(9));
        assert_eq!(given.get_tcp_user_timeout(), Some(&Duration::from_millis(1_500)));
        let system =
            config("keepalives_idle=0&keepalives_interval=0&keepalives_count=0&tcp_user_timeout=0");
        assert_eq!(system.get_keepalives_idle(), seconds(7_200));
        assert_eq!(system.get_keepalives_interval(), None);
        assert_eq!(system.get_keepalives_retries(), None);
        assert_eq!(system.get_tcp_user_timeout(), None);
        assert!(!config("keepalives=0").get_keepalives());
        assert!(parse("postgres://a/x?keepalives_idle=soon").is_err());
    }
}
