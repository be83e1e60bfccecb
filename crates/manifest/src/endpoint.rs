//! Rules for the endpoint of a tool.
//!
//! An endpoint is a URL with placeholders. Scheme and host must be literal, so that no argument selects the server. The caller decides whether an address may be reached.

/// Longest endpoint, in bytes.
const MAX_ENDPOINT_BYTES: usize = 8 * 1024;
/// Longest name of a host, in bytes.
const MAX_HOST_BYTES: usize = 253;

/// Scheme of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

/// Fault of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum EndpointFault {
    #[error("the endpoint must be an absolute URL that begins with https:// or http://")]
    Scheme,
    #[error(
        "scheme and host must be literal; placeholders are allowed only in the path and the query"
    )]
    Placeholder,
    #[error("the endpoint must not contain a user or password; use a secret in a header")]
    UserInfo,
    #[error(
        "the host must be a name of letters, digits, dots and hyphens or an IP address; write other scripts in Punycode"
    )]
    Host,
    #[error("the port must be a number up to 65535")]
    Port,
    #[error("the endpoint contains a control character or a backslash")]
    Character,
    #[error("the endpoint is longer than {MAX_ENDPOINT_BYTES} bytes")]
    TooLong,
}

/// Checks an endpoint and returns its scheme.
pub(super) fn check(template: &str) -> Result<Scheme, EndpointFault> {
    if template.len() > MAX_ENDPOINT_BYTES {
        return Err(EndpointFault::TooLong);
    }
    if template.chars().any(|c| c.is_control() || c == '\\') {
        return Err(EndpointFault::Character);
    }
    let (scheme, rest) = template.split_once("://").ok_or(EndpointFault::Scheme)?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ if scheme.contains("{{") => return Err(EndpointFault::Placeholder),
        _ => return Err(EndpointFault::Scheme),
    };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if authority.contains(['{', '}']) {
        return Err(EndpointFault::Placeholder);
    }
    if authority.contains('@') {
        return Err(EndpointFault::UserInfo);
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or(EndpointFault::Host)?;
            address.parse::<std::net::Ipv6Addr>().map_err(|_| EndpointFault::Host)?;
            ("", port)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if !authority.starts_with('[') && !is_host(host) {
        return Err(EndpointFault::Host);
    }
    match port.strip_prefix(':') {
        Some(digits)
            if digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u16>().is_ok() =>
        {
            Ok(scheme)
        }
        None if port.is_empty() => Ok(scheme),
        _ => Err(EndpointFault::Port),
    }
}

fn is_host(host: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    let name = host.strip_suffix('.').unwrap_or(host);
    !name.is_empty()
        && name.len() <= MAX_HOST_BYTES
        && name.bytes().all(is_allowed)
        && name.split('.').all(|label| !label.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_hosts_are_accepted() {
        for (template, scheme) in [
            ("https://api.open-meteo.com/v1/forecast", Scheme::Https),
            ("https://a/{{id}}?q={{q|a b}}&k={{SECRETS.K}}#{{x}}", Scheme::Https),
            ("HTTPS://A.example:8443", Scheme::Https),
            ("http://127.0.0.1:80/", Scheme::Http),
            ("https://[2001:db8::1]:443/x", Scheme::Https),
            ("https://xn--nxasmq6b.example.?{{q}}", Scheme::Https),
        ] {
            assert_eq!(check(template), Ok(scheme), "{template}");
        }
    }

    #[test]
    fn other_endpoints_are_refused() {
        use EndpointFault::{Character, Host, Placeholder, Port, Scheme, TooLong, UserInfo};
        for (template, fault) in [
            ("", Scheme),
            ("api.example.com/x", Scheme),
            ("//example.com", Scheme),
            ("ftp://example.com", Scheme),
            ("file:///etc/passwd", Scheme),
            (" https://example.com", Scheme),
            ("{{base}}/x", Scheme),
            ("{{scheme}}://example.com", Placeholder),
            ("https://{{host}}/x", Placeholder),
            ("https://api.{{region}}.example.com/x", Placeholder),
            ("https://example.com:{{port}}/", Placeholder),
            ("https://{{host|example.com/}}x", Placeholder),
            ("https://user:pw@example.com/", UserInfo),
            ("https:///x", Host),
            ("https://", Host),
            ("https://a..b/", Host),
            ("https://exam ple.com/", Host),
            ("https://exämple.com/", Host),
            ("https://a%2eb/", Host),
            ("https://[::1/", Host),
            ("https://[zz]/", Host),
            ("https://a:99999/", Port),
            ("https://a:/", Port),
            ("https://a:+1/", Port),
            ("https://[::1]x/", Port),
            ("https://a\\@b/", Character),
            ("https://a/\r\nx", Character),
        ] {
            assert_eq!(check(template), Err(fault), "{template}");
        }
        assert_eq!(check(&format!("https://a/{}", "x".repeat(9000))), Err(TooLong));
    }
}
