//! Ways to log in, and the rules on those that a server may ask for.
//!
//! The client library answers whatever a server asks for. So the messages of the server pass [`AuthGuard`] first, until it has
//! accepted the login; a request that the rules forbid ends the connection before it is answered.

use std::{fmt, io};

/// Kind of the messages about the login.
const AUTHENTICATION: u8 = b'R';
/// Bytes before the body of a message: kind and length.
const HEAD_BYTES: usize = 5;
/// Bytes of the length of a message, which counts itself.
const LENGTH_BYTES: u32 = 4;
/// Bytes of the code in a message about the login.
const CODE_BYTES: usize = 4;

/// Way to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthMethod {
    /// The password itself.
    Password,
    Md5,
    ScramSha256,
    /// The server asks for nothing: the address, the user of a socket or a certificate is enough.
    None,
}

impl AuthMethod {
    const ALL: [Self; 4] = [Self::Password, Self::Md5, Self::ScramSha256, Self::None];

    /// Returns the name that libpq uses.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Md5 => "md5",
            Self::ScramSha256 => "scram-sha-256",
            Self::None => "none",
        }
    }

    /// Returns the method that a request of the server asks for. Others are not supported by the client library.
    const fn of_request(code: u32) -> Option<Self> {
        match code {
            3 => Some(Self::Password),
            5 => Some(Self::Md5),
            10 => Some(Self::ScramSha256),
            _ => None,
        }
    }
}

impl fmt::Display for AuthMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Methods that a URL allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthRules {
    allowed: Vec<AuthMethod>,
    /// Set if the URL asks for the password in the clear by name.
    names_password: bool,
}

impl Default for AuthRules {
    fn default() -> Self {
        Self { allowed: AuthMethod::ALL.to_vec(), names_password: false }
    }
}

impl AuthRules {
    /// Parses `require_auth` as libpq does: methods that are allowed, or with `!` methods that are not.
    ///
    /// # Errors
    /// The reason why it cannot be used.
    pub(crate) fn parse(value: &str) -> Result<Self, &'static str> {
        if value.is_empty() {
            return Ok(Self::default());
        }
        let is_negative = value.starts_with('!');
        let mut named = Vec::new();
        for item in value.split(',') {
            let name = match item.strip_prefix('!') {
                Some(name) if is_negative => name,
                None if !is_negative => item,
                _ => return Err("methods with and without ! cannot be mixed"),
            };
            let method = AuthMethod::ALL.into_iter().find(|method| method.as_str() == name);
            match (method, name) {
                (Some(method), _) if named.contains(&method) => {
                    return Err("it names a method twice");
                }
                (Some(method), _) => named.push(method),
                // They are never used.
                (None, "gss" | "sspi" | "oauth") if is_negative => {}
                (None, "gss" | "sspi" | "oauth") => {
                    return Err("gss, sspi and oauth are not supported");
                }
                (None, _) => return Err("use password, md5, scram-sha-256 or none"),
            }
        }
        if !is_negative {
            let names_password = named.contains(&AuthMethod::Password);
            return Ok(Self { allowed: named, names_password });
        }
        let allowed = AuthMethod::ALL.into_iter().filter(|method| !named.contains(method));
        Ok(Self { allowed: allowed.collect(), names_password: false })
    }

    /// Returns the guard of one connection. `is_private` is set if nobody else can read what is sent, or the user does not
    /// mind.
    pub(crate) fn guard(&self, is_private: bool) -> AuthGuard {
        let may_send_password = is_private || self.names_password;
        AuthGuard {
            rules: self.clone(),
            may_send_password,
            requested: false,
            state: State::Head(vec![]),
        }
    }
}

/// Login that the rules do not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AuthRefusal {
    #[error("the server asks for the password in the clear, and the connection is not encrypted")]
    ClearPassword,
    #[error("the server asks for the login {0}, which require_auth does not allow")]
    Method(AuthMethod),
    #[error("the server asks for no login, which require_auth does not allow")]
    NoLogin,
}

/// Position in the messages of a server.
#[derive(Debug)]
enum State {
    /// In the head of a message, or in its code if it is about the login.
    Head(Vec<u8>),
    /// In the rest of a message, of which some bytes are left.
    Body(u32),
    /// The server has accepted the login.
    Done,
}

/// Check of what a server asks for.
#[derive(Debug)]
pub(crate) struct AuthGuard {
    rules: AuthRules,
    may_send_password: bool,
    /// Set if the server has asked for something.
    requested: bool,
    state: State,
}

impl AuthGuard {
    /// Returns whether the server has accepted the login.
    pub(crate) const fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Checks bytes that the server has sent, in whatever pieces they arrive.
    ///
    /// # Errors
    /// [`AuthRefusal`] if the rules do not allow what it asks for.
    pub(crate) fn check(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let Some((byte, rest)) = bytes.split_first() {
            match &mut self.state {
                State::Done => return Ok(()),
                State::Body(left) => {
                    let skipped = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    bytes = &bytes[skipped..];
                    *left -= u32::try_from(skipped).unwrap_or(*left);
                    if *left == 0 {
                        self.state = State::Head(vec![]);
                    }
                }
                State::Head(head) => {
                    head.push(*byte);
                    bytes = rest;
                    self.end_head()?;
                }
            }
        }
        Ok(())
    }

    /// Goes on after the head of a message, if it is complete.
    fn end_head(&mut self) -> io::Result<()> {
        let State::Head(head) = &self.state else { return Ok(()) };
        let (Some(&kind), Some(length)) = (head.first(), number(head.get(1..HEAD_BYTES))) else {
            return Ok(());
        };
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a message is too short");
        let body = length.checked_sub(LENGTH_BYTES).ok_or_else(damaged)?;
        let read = head.len() - HEAD_BYTES;
        if kind != AUTHENTICATION {
            self.state = if body == 0 { State::Head(vec![]) } else { State::Body(body) };
            return Ok(());
        }
        if read == 0 && body < LENGTH_BYTES {
            return Err(damaged());
        }
        let Some(code) = number(head.get(HEAD_BYTES..HEAD_BYTES + CODE_BYTES)) else {
            return Ok(());
        };
        self.check_code(code)
            .map_err(|refusal| io::Error::new(io::ErrorKind::PermissionDenied, refusal))?;
        self.state = match body - LENGTH_BYTES {
            _ if code == 0 => State::Done,
            0 => State::Head(vec![]),
            left => State::Body(left),
        };
        Ok(())
    }

    fn check_code(&mut self, code: u32) -> Result<(), AuthRefusal> {
        if code == 0 {
            let is_allowed = self.requested || self.rules.allowed.contains(&AuthMethod::None);
            return if is_allowed { Ok(()) } else { Err(AuthRefusal::NoLogin) };
        }
        let Some(method) = AuthMethod::of_request(code) else { return Ok(()) };
        self.requested = true;
        if !self.rules.allowed.contains(&method) {
            return Err(AuthRefusal::Method(method));
        }
        if method == AuthMethod::Password && !self.may_send_password {
            return Err(AuthRefusal::ClearPassword);
        }
        Ok(())
    }
}

fn number(bytes: Option<&[u8]>) -> Option<u32> {
    Some(u32::from_be_bytes(bytes?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a message about the login.
    fn request(code: u32, rest: &[u8]) -> Vec<u8> {
        let length = u32::try_from(8 + rest.len()).unwrap().to_be_bytes();
        [&[AUTHENTICATION], &length[..], &code.to_be_bytes(), rest].concat()
    }

    /// Notice that a server may send at any time, with bytes that look like a request.
    fn notice() -> Vec<u8> {
        let body = [b"SNOTICE\0".to_vec(), request(3, b"")].concat();
        let length = u32::try_from(4 + body.len()).unwrap().to_be_bytes();
        [&b"N"[..], &length, &body].concat()
    }

    fn refusal(guard: &mut AuthGuard, messages: &[u8]) -> Option<AuthRefusal> {
        let error = guard.check(messages).err()?;
        error.get_ref()?.downcast_ref::<AuthRefusal>().copied()
    }

    /// Logins of servers: what they send until they accept.
    fn logins() -> [(AuthMethod, Vec<u8>); 4] {
        let scram = [
            request(10, b"SCRAM-SHA-256\0\0"),
            request(11, b"r=1"),
            request(12, b"v=2"),
            request(0, b""),
        ];
        [
            (AuthMethod::Password, [request(3, b""), request(0, b"")].concat()),
            (AuthMethod::Md5, [request(5, b"salt"), request(0, b"")].concat()),
            (AuthMethod::ScramSha256, scram.concat()),
            (AuthMethod::None, request(0, b"")),
        ]
    }

    #[test]
    fn the_password_is_not_given_in_the_clear_to_a_server_that_asks() {
        let rules = AuthRules::default();
        for (method, login) in logins() {
            assert_eq!(refusal(&mut rules.guard(true), &login), None, "{method}");
            let expected = (method == AuthMethod::Password).then_some(AuthRefusal::ClearPassword);
            assert_eq!(refusal(&mut rules.guard(false), &login), expected, "{method}");
        }
        let login = [request(3, b""), request(0, b"")].concat();
        for (value, expected) in [
            ("password", None),
            ("password,md5", None),
            ("!md5", Some(AuthRefusal::ClearPassword)),
            ("!password", Some(AuthRefusal::Method(AuthMethod::Password))),
            ("scram-sha-256", Some(AuthRefusal::Method(AuthMethod::Password))),
        ] {
            let rules = AuthRules::parse(value).unwrap();
            assert_eq!(refusal(&mut rules.guard(false), &login), expected, "{value}");
        }
    }

    #[test]
    fn require_auth_allows_the_methods_that_it_names() {
        use AuthMethod::{Md5, None, Password, ScramSha256};
        for (value, allowed) in [
            ("", &[Password, Md5, ScramSha256, None] as &[_]),
            ("password", &[Password]),
            ("md5,scram-sha-256", &[Md5, ScramSha256]),
            ("scram-sha-256,none", &[ScramSha256, None]),
            ("none", &[None]),
            ("!none", &[Password, Md5, ScramSha256]),
            ("!password,!md5", &[ScramSha256, None]),
            ("!gss,!sspi", &[Password, Md5, ScramSha256, None]),
        ] {
            let rules = AuthRules::parse(value).unwrap();
            for (method, login) in logins() {
                let expected = match method {
                    _ if allowed.contains(&method) => Option::None,
                    None => Some(AuthRefusal::NoLogin),
                    method => Some(AuthRefusal::Method(method)),
                };
                assert_eq!(refusal(&mut rules.guard(true), &login), expected, "{value}: {method}");
            }
        }
        for value in [
            "x",
            "Password",
            "md5,",
            ",md5",
            "!",
            "md5,!password",
            "!md5,password",
            "md5,md5",
            "gss",
            " md5",
        ] {
            assert!(AuthRules::parse(value).is_err(), "{value:?}");
        }
    }

    #[test]
    fn requests_are_found_in_whatever_pieces_they_arrive() {
        let messages = [notice(), notice(), request(3, b"")].concat();
        for size in 1..=messages.len() {
            let mut guard = AuthRules::default().guard(false);
            let mut pieces = messages.chunks(size);
            let last = pieces.next_back().unwrap();
            for piece in pieces {
                guard.check(piece).unwrap();
            }
            assert_eq!(refusal(&mut guard, last), Some(AuthRefusal::ClearPassword), "{size}");
        }
        let mut guard = AuthRules::default().guard(false);
        guard.check(&[request(0, b""), request(3, b"")].concat()).unwrap();
        assert!(guard.is_done(), "what follows the login is not about it");
        for damaged in [&b"N\0\0\0\x03"[..], b"R\0\0\0\x04", b"R\0\0\0\x07\0\0\0\0"] {
            let error = AuthRules::default().guard(true).check(damaged).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{damaged:?}");
        }
    }
}
