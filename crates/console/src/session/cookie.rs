//! The cookie of a session.

use axum::http::{HeaderMap, HeaderValue, header};
use skills_core::origin::{WebHost, WebOrigin};

use super::SessionId;

/// Name of the cookie. It contains the port, because browsers share the cookies of all ports of a host: two servers on
/// one machine would sign each other's people out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CookieName(String);

impl CookieName {
    /// Returns the name for the server that a request is addressed to.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let port = host.and_then(WebHost::parse_authority).and_then(|(_, port)| port);
        Self(format!("skills-console-{}", port.unwrap_or_default()))
    }

    /// Returns the session id in the cookies of a request. Of several cookies of this name none counts: one of them was
    /// set by a page of another path or port.
    pub(crate) fn session_id(&self, headers: &HeaderMap) -> Option<SessionId> {
        let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = values.flat_map(|value| value.split(';'));
        let mut ids = pairs.filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.0).then_some(value)
        });
        match (ids.next(), ids.next()) {
            (Some(id), None) => SessionId::parse(id),
            _ => None,
        }
    }
}

/// Returns the `Set-Cookie` of a session. Without a lifetime a browser forgets it when it closes. It is only sent over
/// TLS if the form that opened the session was.
pub(crate) fn set_cookie(name: &CookieName, id: &SessionId, request: &HeaderMap) -> HeaderValue {
    let origin = request.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let is_tls = origin.and_then(WebOrigin::parse).is_some_and(|origin| origin.is_tls());
    let secure = if is_tls { "; Secure" } else { "" };
    let text = format!("{}={}; Path=/; HttpOnly; SameSite=Strict{secure}", name.0, id.0);
    // Names and ids are letters, digits and hyphens.
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn the_cookie_of_this_port_counts_if_it_is_the_only_one() {
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        let name = CookieName::from_headers(&headers(&[(header::HOST, "127.0.0.1:80")]));
        let id = |cookies: &[&str]| {
            let pairs: Vec<_> = cookies.iter().map(|it| (header::COOKIE, *it)).collect();
            name.session_id(&headers(&pairs)).map(|id| id.0)
        };
        assert_eq!(id(&[&format!("a=b; skills-console-80={one}")]), Some(one.clone()));
        assert_eq!(id(&[&format!("skills-console-81={one}")]), None);
        let both = format!("skills-console-80={one}; skills-console-80={two}");
        assert_eq!(id(&[&both]), None);
        assert_eq!(id(&["skills-console-80=x", "", "="]), None);
    }

    #[test]
    fn the_cookie_is_strict_and_hidden_from_scripts() {
        let id = SessionId::random().unwrap();
        let name = CookieName("c".to_owned());
        let plain = set_cookie(&name, &id, &HeaderMap::new());
        let plain = plain.to_str().unwrap();
        assert!(plain.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{plain}");
        let over_tls = headers(&[(header::ORIGIN, "https://skills.example")]);
        assert!(set_cookie(&name, &id, &over_tls).to_str().unwrap().ends_with("; Secure"));
    }
}
