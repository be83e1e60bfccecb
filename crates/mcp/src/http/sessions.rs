//! Who a session belongs to, and how many there may be.
//!
//! A session belongs to the credential that opened it: for any other it does not exist. There are at most
//! [`MAX`] of them; when one more comes, the one that was not used for longest and has no stream open goes,
//! and its client has to begin again, as the protocol provides for.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use futures_util::StreamExt as _;
use lru::LruCache;
use rmcp::transport::streamable_http_server::session::{
    SessionManager as _, local::LocalSessionManager,
};
use skills_core::Digest;

const SESSION_ID: &str = "mcp-session-id";
/// How many sessions there may be at once.
const MAX: usize = 1_024;
/// A session that nobody has used or listened to for this long goes.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// What a request may do with the session that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Access {
    /// It names none.
    None,
    /// It may use it.
    Known(Arc<str>),
    /// There is none for it.
    Denied,
}

/// Who presented a request: a digest of its credential.
pub(super) fn owner(headers: &HeaderMap) -> Digest {
    Digest::of(headers.get(header::AUTHORIZATION).map_or(b"", |given| given.as_bytes()))
}

struct Session {
    owner: Digest,
    used: Instant,
    streams: usize,
}

pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    /// The one used last comes first.
    known: Arc<Mutex<LruCache<Arc<str>, Session>>>,
}

fn lock(known: &Mutex<LruCache<Arc<str>, Session>>) -> MutexGuard<'_, LruCache<Arc<str>, Session>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    pub(super) fn new(manager: Arc<LocalSessionManager>) -> Self {
        Self { manager, known: Arc::new(Mutex::new(LruCache::unbounded())) }
    }

    /// Looks up the session that a request names, and marks it as used.
    pub(super) fn access(&self, headers: &HeaderMap) -> Access {
        let Some(id) = headers.get(SESSION_ID) else { return Access::None };
        let Ok(id) = id.to_str() else { return Access::Denied };
        let mut known = lock(&self.known);
        let Some(session) = known.get_mut(id) else { return Access::Denied };
        if session.owner != owner(headers) {
            return Access::Denied;
        }
        session.used = Instant::now();
        Access::Known(id.into())
    }

    /// Takes in the session that a response opens, if it does.
    pub(super) async fn admit(&self, response: Response, owner: Digest) -> Response {
        let Some(id) = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()) else {
            return response;
        };
        let id: Arc<str> = id.into();
        let session = Session { owner, used: Instant::now(), streams: 0 };
        let evicted = {
            let mut known = lock(&self.known);
            known.put(Arc::clone(&id), session);
            evict(&mut known)
        };
        let is_refused = evicted.contains(&id);
        for old in evicted {
            if let Err(error) = self.manager.close_session(&old).await {
                tracing::debug!(%error, "a session could not be closed");
            }
        }
        if is_refused {
            let message = "Service Unavailable: every session is in use";
            let retry = [(header::RETRY_AFTER, "1")];
            return (StatusCode::SERVICE_UNAVAILABLE, retry, message).into_response();
        }
        response
    }

    pub(super) fn forget(&self, id: &str) {
        lock(&self.known).pop(id);
    }

    /// Keeps a session alive for as long as the response is being sent.
    pub(super) fn count_stream(&self, response: Response, id: Arc<str>) -> Response {
        let open = OpenStream::new(Arc::clone(&self.known), id);
        response.map(|body| {
            Body::from_stream(body.into_data_stream().inspect(move |_| {
                let _ = &open;
            }))
        })
    }
}

/// Takes out what is idle, and what is too much; the newest is the last to go.
fn evict(known: &mut LruCache<Arc<str>, Session>) -> Vec<Arc<str>> {
    let mut evicted = Vec::new();
    let surplus = known.len().saturating_sub(MAX);
    // Two sessions at least are looked at each time, so that idle ones go also below the limit.
    let candidates: Vec<Arc<str>> = known
        .iter()
        .rev()
        .filter(|(_, session)| session.streams == 0)
        .take(surplus + 2)
        .map(|(id, _)| Arc::clone(id))
        .collect();
    for id in candidates {
        let is_idle = known.peek(&id).is_some_and(|session| session.used.elapsed() > IDLE);
        if is_idle || evicted.len() < surplus {
            known.pop(&id);
            evicted.push(id);
        }
    }
    evicted
}

struct OpenStream {
    known: Arc<Mutex<LruCache<Arc<str>, Session>>>,
    id: Arc<str>,
}

impl OpenStream {
    fn new(known: Arc<Mutex<LruCache<Arc<str>, Session>>>, id: Arc<str>) -> Self {
        if let Some(session) = lock(&known).peek_mut(&id) {
            session.streams += 1;
        }
        Self { known, id }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if let Some(session) = lock(&self.known).peek_mut(&self.id) {
            session.streams = session.streams.saturating_sub(1);
            session.used = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(streams: usize) -> Session {
        Session { owner: Digest::of(b""), used: Instant::now(), streams }
    }

    #[test]
    fn the_one_used_longest_ago_without_a_stream_goes() {
        let mut known = LruCache::unbounded();
        known.put("listening".into(), session(1));
        for number in 0..MAX {
            known.put(number.to_string().into(), session(0));
        }
        assert_eq!(evict(&mut known), ["0".into()]);
        assert_eq!(known.len(), MAX);
    }

    #[test]
    fn when_all_listen_the_new_one_goes() {
        let mut known = LruCache::unbounded();
        for number in 0..MAX {
            known.put(number.to_string().into(), session(1));
        }
        known.put("new".into(), session(0));
        assert_eq!(evict(&mut known), ["new".into()]);
    }

    #[test]
    fn a_session_of_another_credential_does_not_exist() {
        let sessions = Sessions::new(Arc::default());
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, "Bearer one".parse().unwrap());
        lock(&sessions.known).put("s".into(), Session { owner: owner(&headers), ..session(0) });
        assert_eq!(sessions.access(&headers), Access::None);
        headers.insert(SESSION_ID, "s".parse().unwrap());
        assert_eq!(sessions.access(&headers), Access::Known("s".into()));
        headers.insert(header::AUTHORIZATION, "Bearer two".parse().unwrap());
        assert_eq!(sessions.access(&headers), Access::Denied);
        headers.remove(header::AUTHORIZATION);
        assert_eq!(sessions.access(&headers), Access::Denied);
    }
}
