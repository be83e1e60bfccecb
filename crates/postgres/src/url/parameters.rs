//! Parameters of URLs that tokio-postgres does not know, or knows other values of.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use percent_encoding::percent_decode_str;
use tokio_postgres::{
    Config,
    config::{ChannelBinding, Host, SslMode, TargetSessionAttrs},
};

use super::{
    DEFAULT_PORT, HostAddress, KEEPALIVES_COUNT, KEEPALIVES_IDLE, KEEPALIVES_INTERVAL,
    TCP_USER_TIMEOUT, TlsSettings, TlsVersions, UrlError, Verification,
};
use crate::auth::AuthRules;

/// Parameters of libpq that have no effect here: the values that may be given, any if there are none, and what is said of
/// others.
const WITHOUT_EFFECT: [(&str, &[&str], &str); 8] = [
    ("gssencmode", &["disable", "prefer"], "GSSAPI is not supported; use disable or prefer"),
    ("krbsrvname", &[], ""),
    ("gsslib", &[], ""),
    ("gssdelegation", &["0"], "GSSAPI is not supported; use 0"),
    ("client_encoding", &["utf8", "utf-8", "unicode", "auto"], "use UTF8"),
    ("sslcompression", &[], ""),
    ("sslcertmode", &["allow"], "use allow"),
    ("replication", &["false", "off", "no", "0"], "use false"),
];

/// Parameters of libpq that are refused, since a connection without them is not the one that is asked for.
pub(super) const REFUSED: [(&str, &str); 7] = [
    ("passfile", "write the password into the URL or PGPASSWORD"),
    ("service", "write the parameters of the service into the URL"),
    ("servicefile", "write the parameters of the service into the URL"),
    ("sslpassword", "sslkey has to be a file without a passphrase"),
    ("sslcrl", "lists of revoked certificates are not supported"),
    ("sslcrldir", "lists of revoked certificates are not supported"),
    ("requirepeer", "it is not supported"),
];

/// Parameters that tokio-postgres does not know, or knows other values of.
#[derive(Default)]
pub(super) struct OwnParameters {
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
    pub(super) fallback_name: Option<String>,
    tls_minimum: Option<String>,
    tls_maximum: Option<String>,
    server_name: Option<String>,
    required_auth: Option<String>,
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
            "fallback_application_name" => Some(&mut self.fallback_name),
            "ssl_min_protocol_version" => Some(&mut self.tls_minimum),
            "ssl_max_protocol_version" => Some(&mut self.tls_maximum),
            "sslsni" => Some(&mut self.server_name),
            "require_auth" => Some(&mut self.required_auth),
            _ => None,
        }
    }

    /// Takes these parameters out of a URL and returns what is left of it.
    pub(super) fn take(&mut self, text: &str) -> Result<String, UrlError> {
        let Some((base, query)) = text.split_once('?') else { return Ok(text.to_owned()) };
        let mut left = vec![];
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = percent_decode_str(value).decode_utf8();
            let value = decoded.map_err(|_| parameter(name, "it is not UTF-8"))?;
            // As in libpq, for URLs of JDBC.
            if (name, &*value) == ("ssl", "true") {
                self.ssl_mode = Some("require".to_owned());
            } else if let Some(slot) = self.slot(name) {
                *slot = Some(value.into_owned());
            } else if !is_without_effect(name, &value)? {
                left.push(pair);
            }
        }
        if left.is_empty() {
            return Ok(base.to_owned());
        }
        Ok(format!("{base}?{}", left.join("&")))
    }

    pub(super) fn tls(&self, config: &mut Config) -> Result<TlsSettings, UrlError> {
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
        let requires_binding = config.get_channel_binding() == ChannelBinding::Require;
        config.ssl_mode(match mode {
            SslMode::Disable if requires_binding => {
                return Err(parameter("channel_binding", "require needs TLS"));
            }
            SslMode::Prefer if requires_binding => SslMode::Require,
            mode => mode,
        });
        let client_certificate = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            (None, None) => None,
            _ => return Err(parameter("sslcert", "sslcert and sslkey go together")),
        };
        let root_certificate = self.root_certificate.as_ref().map(PathBuf::from);
        let sends_name = match self.server_name.as_deref() {
            None | Some("1") => true,
            Some("0") => false,
            Some(_) => return Err(parameter("sslsni", "use 0 or 1")),
        };
        let versions = self.tls_versions()?;
        Ok(TlsSettings { verification, root_certificate, client_certificate, versions, sends_name })
    }

    /// Returns the methods by which a server may have the client log in.
    pub(super) fn auth_rules(&self) -> Result<AuthRules, UrlError> {
        let rules = AuthRules::parse(self.required_auth.as_deref().unwrap_or_default());
        rules.map_err(|reason| parameter("require_auth", reason))
    }

    fn tls_versions(&self) -> Result<TlsVersions, UrlError> {
        let has_12 = match self.tls_minimum.as_deref() {
            None | Some("" | "TLSv1" | "TLSv1.1" | "TLSv1.2") => true,
            Some("TLSv1.3") => false,
            Some(_) => {
                let versions = "use TLSv1, TLSv1.1, TLSv1.2 or TLSv1.3";
                return Err(parameter("ssl_min_protocol_version", versions));
            }
        };
        match self.tls_maximum.as_deref() {
            None | Some("" | "TLSv1.3") if has_12 => Ok(TlsVersions::All),
            None | Some("" | "TLSv1.3") => Ok(TlsVersions::Tls13),
            Some("TLSv1.2") if has_12 => Ok(TlsVersions::Tls12),
            Some("TLSv1.2") => {
                Err(parameter("ssl_max_protocol_version", "it is below ssl_min_protocol_version"))
            }
            Some(_) => Err(parameter("ssl_max_protocol_version", "use TLSv1.2 or TLSv1.3")),
        }
    }

    /// Returns the hosts. As in libpq, parameters precede the authority, and one port is that of all hosts.
    pub(super) fn hosts(&self, authority: &Config) -> Result<Vec<HostAddress>, UrlError> {
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
    pub(super) fn set_timeouts(&self, config: &mut Config) -> Result<(), UrlError> {
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
    pub(super) fn session_attributes(
        &self,
        hosts: usize,
    ) -> Result<(TargetSessionAttrs, bool), UrlError> {
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

/// Returns whether a parameter is one that has no effect.
///
/// # Errors
/// When it is known and cannot be used.
fn is_without_effect(name: &str, value: &str) -> Result<bool, UrlError> {
    if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Err(parameter(name, reason));
    }
    let known = WITHOUT_EFFECT.iter().find(|(known, ..)| *known == name);
    let Some((_, values, reason)) = known else { return Ok(false) };
    if values.is_empty() || values.iter().any(|known| known.eq_ignore_ascii_case(value)) {
        return Ok(true);
    }
    Err(parameter(name, reason))
}

/// Parses a number, which is 0 if it is negative.
fn number(name: &str, value: Option<&str>) -> Result<Option<u32>, UrlError> {
    let Some(value) = value else { return Ok(None) };
    match value.parse::<i32>() {
        Ok(number) => Ok(Some(u32::try_from(number).unwrap_or(0))),
        Err(_) => Err(parameter(name, "use a number")),
    }
}

pub(super) fn parameter(name: &str, reason: &'static str) -> UrlError {
    UrlError::Parameter { name: name.to_owned(), reason }
}
