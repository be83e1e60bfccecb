//! Sessions of browsers: random cookies, form tokens bound to them, and the table of people who signed in.
//!
//! The cookie of a person who did not sign in is not stored: it only binds the forms. So visitors without a credential
//! take no memory and cannot push out others.

mod cookie;
mod identity;
mod person;

use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use skills_core::{Caller, Digest, OwnedTable, TableLimits, token::constant_time_eq};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) use self::{
    cookie::{CookieName, set_cookie},
    identity::Identity,
    person::Person,
};
use crate::error::ConsoleError;

/// Longest session.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Limits of the sessions. One more of a person signs out their own that was idle longest. People behind a proxy who share
/// the server's token are one owner. A session takes half a kibibyte.
const SESSIONS: TableLimits = TableLimits {
    per_owner: 128,
    total: 16_384,
    idle: Duration::from_secs(12 * 60 * 60),
    lifetime: MAX_AGE,
};

/// Random id of a session, the value of its cookie.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SessionId(String);

impl SessionId {
    /// Creates a random id.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        random_name().map(Self)
    }

    /// Parses the value of a cookie.
    fn parse(text: &str) -> Option<Self> {
        let is_id = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| Self(text.to_owned()))
    }

    fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

/// Returns a name that cannot be guessed.
///
/// # Errors
/// When the system has no randomness.
pub(crate) fn random_name() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(hex::encode(bytes))
}

/// Table of the people who signed in, and the secret of the form tokens.
pub(crate) struct Sessions {
    secret: [u8; 32],
    /// Sessions by the digest of their id: a copy of the memory contains no cookie.
    table: OwnedTable<Digest, SignedIn, Person>,
}

struct SignedIn {
    identity: Identity,
    since: Instant,
    /// Cancelled when the entry leaves the table, in whatever way.
    ended: DropGuard,
}

/// End of a session, for responses that outlive their request.
pub(crate) struct SessionEnd {
    /// Cancelled when the session ends before its time.
    pub(crate) ended: CancellationToken,
    /// Time after which the session ends at the latest.
    pub(crate) remaining: Duration,
}

impl Sessions {
    pub(crate) fn new() -> Self {
        let mut secret = [0; 32];
        if getrandom::fill(&mut secret).is_err() {
            // Without randomness no session id can be made either, so no form can be sent.
            tracing::error!("the system has no randomness, the console cannot be used");
        }
        Self { secret, table: OwnedTable::new(SESSIONS) }
    }

    /// Returns the token that forms of a session have to send.
    pub(crate) fn form_token(&self, id: &SessionId) -> String {
        let mut hmac = Hmac::<Sha256>::new(&padded(&self.secret).into());
        hmac.update(id.0.as_bytes());
        hex::encode(hmac.finalize().into_bytes())
    }

    /// Returns whether a form was made for a session.
    pub(crate) fn is_form_token(&self, id: &SessionId, token: &str) -> bool {
        constant_time_eq(self.form_token(id).as_bytes(), token.as_bytes())
    }

    /// Opens a session under a new id, so that an id that was planted before is worth nothing.
    ///
    /// # Errors
    /// When the system has no randomness, or the table is full of sessions of other people.
    pub(crate) fn sign_in(&self, identity: Identity) -> Result<SessionId, ConsoleError> {
        let id = SessionId::random().map_err(|_| ConsoleError::Internal)?;
        let (person, since) = (Person::of(&identity), Instant::now());
        let ended = CancellationToken::new().drop_guard();
        self.table.insert(person, id.digest(), SignedIn { identity, since, ended })?;
        Ok(id)
    }

    /// Returns the person who signed in, unless the session has ended. The session is used.
    pub(crate) fn identity(&self, id: &SessionId) -> Option<Identity> {
        self.table.update(&id.digest(), |_, session| session.identity.clone())
    }

    /// Returns the caller of the session that a request names, if there is one.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        let id = CookieName::from_headers(headers).session_id(headers)?;
        self.table.peek(&id.digest(), |_, session| session.identity.caller())
    }

    /// Returns the end of a session; `None` if nobody signed in, or it has ended.
    pub(crate) fn end_of(&self, id: &SessionId) -> Option<SessionEnd> {
        self.table.peek(&id.digest(), |_, session| {
            let remaining = MAX_AGE.saturating_sub(session.since.elapsed());
            SessionEnd { ended: session.ended.token().clone(), remaining }
        })
    }

    /// Ends a session, and the streams that it opened.
    pub(crate) fn sign_out(&self, id: &SessionId) {
        self.table.remove(&id.digest());
    }
}

/// Fills a key up to the block size of the hash.
fn padded(secret: &[u8; 32]) -> [u8; 64] {
    let mut block = [0; 64];
    block[..32].copy_from_slice(secret);
    block
}

#[cfg(test)]
mod tests {
    use skills_core::User;

    use super::*;
    use crate::units::number;

    #[test]
    fn a_form_token_is_bound_to_its_session_and_process() {
        let (one, other) = (Sessions::new(), Sessions::new());
        let (first, second) = (SessionId::random().unwrap(), SessionId::random().unwrap());
        let token = one.form_token(&first);
        assert!(one.is_form_token(&first, &token));
        assert!(!one.is_form_token(&second, &token));
        assert!(!other.is_form_token(&first, &token));
        assert!(!one.is_form_token(&first, ""));
        assert!(!token.contains(&first.0));
    }

    #[test]
    fn a_session_ends_with_its_sign_out() {
        let sessions = Sessions::new();
        let id = sessions.sign_in(Identity::Token).unwrap();
        assert_eq!(sessions.identity(&id), Some(Identity::Token));
        assert_eq!(sessions.identity(&SessionId::random().unwrap()), None);
        sessions.sign_out(&id);
        assert_eq!(sessions.identity(&id), None);
    }

    #[test]
    fn the_end_of_a_session_is_signalled() {
        let sessions = Sessions::new();
        let id = sessions.sign_in(Identity::Token).unwrap();
        let end = sessions.end_of(&id).unwrap();
        assert!(!end.ended.is_cancelled() && end.remaining <= MAX_AGE);
        sessions.sign_out(&id);
        assert!(end.ended.is_cancelled());
        assert!(sessions.end_of(&id).is_none());
        assert!(sessions.end_of(&SessionId::random().unwrap()).is_none());
    }

    #[test]
    fn the_documentation_has_the_limits() {
        let (own, all) = (SESSIONS.per_owner, number(SESSIONS.total as u64));
        let row =
            format!("| sessions | {own} of a person, {} in all |", all.replace('\u{202f}', " "));
        assert!(crate::DOCUMENTATION.contains(&row), "{row}");
    }

    #[test]
    fn sign_ins_of_one_person_end_only_their_own_sessions() {
        let sessions = Sessions::new();
        let user = |name: &str, key: &[u8]| {
            Identity::User(User { owner: name.parse().unwrap(), key: Digest::of(key) })
        };
        let admin = sessions.sign_in(Identity::Admin).unwrap();
        let bob = sessions.sign_in(user("bob", b"1")).unwrap();
        let first = sessions.sign_in(user("ann", b"2")).unwrap();
        let end = sessions.end_of(&first).unwrap();
        for number in 0..SESSIONS.total {
            sessions.sign_in(user("ann", &number.to_be_bytes())).unwrap();
        }
        assert_eq!(sessions.identity(&first), None);
        assert!(end.ended.is_cancelled());
        assert!(sessions.identity(&admin).is_some() && sessions.identity(&bob).is_some());
        assert_eq!(sessions.table.len(), SESSIONS.per_owner + 2);
    }

    #[test]
    fn only_ids_of_the_right_form_are_read() {
        assert!(SessionId::parse(&"a".repeat(64)).is_some());
        for wrong in ["", "a", &"g".repeat(64), &"a".repeat(65)] {
            assert!(SessionId::parse(wrong).is_none(), "{wrong}");
        }
    }
}
