//! Session table: ownership of sessions, and the one stream that each has.
//!
//! It wraps rmcp's own sessions and sees each of them open and close.
//!
//! - A session belongs to the credential that opened it: for any other it does not exist.
//! - A session whose key was revoked gets no more notifications: its stream ends.
//! - A session has one stream. A new one replaces the one before, whose client may have lost it unnoticed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, HeaderValue, header};
use futures_util::Stream;
use lru::LruCache;
use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
    local::{LocalSessionManager, SessionConfig},
};
use skills_core::{Digest, Reservation, Timestamp, WorkAccount, text::first_chars};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    eviction,
    opening_request::OpeningRequest,
    request_ids::RequestIds,
    stream::{StreamForwarder, StreamReceiver},
};
use crate::{McpProfile, fast_path::SessionView, notifications::StreamState, server::Shared};

const SESSION_ID: &str = "mcp-session-id";
/// Characters of a client's name that are kept.
const MAX_CLIENT_NAME_CHARS: usize = 80;
/// Longest wait for a replaced stream to end.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) type InnerManager = LocalSessionManager;
pub(super) type Error = <InnerManager as SessionManager>::Error;

/// Access of a request to the session that it names.
pub(super) enum SessionAccess {
    /// The request names no session.
    NoSession,
    /// The request may use the session. The view is absent if no handler was created for the session.
    Allowed(Option<SessionView>),
    /// There is no such session for the request's credential.
    Denied,
}

/// Returns a digest of a request's credential. The scheme is case-insensitive.
fn owner(authorization: Option<&HeaderValue>) -> Digest {
    let value = authorization.map_or(b"" as &[u8], HeaderValue::as_bytes);
    let is_bearer = value.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
    Digest::of(if is_bearer { &value[7..] } else { value })
}

/// Open session, for people who look at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSession {
    /// Name that the client gave itself, truncated.
    pub client: Option<String>,
    /// Time at which the session was opened.
    pub since: Timestamp,
    /// True if the client listens for notifications.
    pub is_listening: bool,
}

/// One session of a client.
pub(super) struct Session {
    owner: Digest,
    /// Name that the client gave itself.
    client_name: Option<String>,
    since: Timestamp,
    /// Profile of the route that it was opened on, and is for.
    profile: McpProfile,
    /// Account of the client whose share the session counts against.
    pub(super) client: WorkAccount,
    pub(super) last_used: Instant,
    /// A request came after the one that opened the session.
    pub(super) was_used: bool,
    _reservation: Option<Reservation>,
    stream_state: watch::Sender<StreamState>,
    /// Cancelled when there will be no more notifications.
    closed: CancellationToken,
    pub(super) stream: Option<OpenStream>,
    /// Number of the next event that no stream has been sent.
    next_event: Arc<AtomicU64>,
    pub(super) requests: RequestIds,
    /// State that the session's handler has.
    shared: Option<Arc<Shared>>,
}

#[derive(Clone)]
pub(super) struct OpenStream {
    end: CancellationToken,
    pub(super) ended: CancellationToken,
    next_event: Arc<AtomicU64>,
}

impl Session {
    pub(super) fn new(
        request: OpeningRequest,
        profile: McpProfile,
        reservation: Option<Reservation>,
    ) -> Self {
        Self {
            profile,
            owner: owner(request.authorization.as_ref()),
            client_name: None,
            since: Timestamp::now(),
            client: request
                .budget
                .as_ref()
                .map_or_else(WorkAccount::process, |budget| budget.account().clone()),
            last_used: Instant::now(),
            was_used: false,
            _reservation: reservation,
            stream_state: request.stream_state,
            closed: request.closed,
            stream: None,
            next_event: Arc::default(),
            requests: RequestIds::default(),
            shared: request.shared.get().cloned(),
        }
    }

    fn view(&self) -> Option<SessionView> {
        let shared = Arc::clone(self.shared.as_ref()?);
        Some(SessionView { shared, requests: self.requests.clone() })
    }

    pub(super) fn has_stream(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| !stream.ended.is_cancelled())
    }

    /// Replaces the session's stream, and returns the new one and the one before.
    pub(super) fn replace_stream(&mut self) -> (OpenStream, Option<OpenStream>) {
        let stream = OpenStream {
            end: self.closed.child_token(),
            ended: CancellationToken::new(),
            next_event: Arc::clone(&self.next_event),
        };
        let before = self.stream.replace(stream.clone());
        (stream, before)
    }

    fn end_stream(&self) {
        if let Some(stream) = &self.stream {
            stream.end.cancel();
        }
    }
}

/// Sessions in the order of their last use, the newest first.
pub(super) type SessionMap = LruCache<SessionId, Session>;

/// Table of all sessions, of all routes.
pub(super) struct Sessions {
    pub(super) inner: InnerManager,
    pub(super) map: Mutex<SessionMap>,
}

impl Sessions {
    pub(super) fn new() -> Arc<Self> {
        let mut inner = InnerManager::default();
        // Eviction decides how long a session lives: one that only listens is not idle.
        inner.session_config = SessionConfig::default();
        inner.session_config.keep_alive = None;
        inner.session_config.sse_retry = None;
        Arc::new(Self { inner, map: Mutex::new(LruCache::unbounded()) })
    }

    /// Returns the open sessions, the last used first.
    pub(super) fn open_sessions(&self) -> Vec<OpenSession> {
        let open = |session: &Session| OpenSession {
            client: session.client_name.clone(),
            since: session.since,
            is_listening: session.has_stream(),
        };
        self.map.lock().iter().map(|(_, session)| open(session)).collect()
    }

    /// Stores the name that a client gives itself.
    pub(super) fn set_client_name(&self, id: &SessionId, name: &str) {
        if let Some(session) = self.map.lock().peek_mut(id) {
            session.client_name = Some(first_chars(name, MAX_CLIENT_NAME_CHARS).to_owned());
        }
    }

    /// Looks up the session that a request names, and marks it as used.
    pub(super) fn access(&self, headers: &HeaderMap, profile: McpProfile) -> SessionAccess {
        let Some(id) = headers.get(SESSION_ID) else { return SessionAccess::NoSession };
        let Ok(id) = id.to_str() else { return SessionAccess::Denied };
        let mut map = self.map.lock();
        let Some(session) = map.get_mut(id) else { return SessionAccess::Denied };
        let is_owner = session.owner == owner(headers.get(header::AUTHORIZATION));
        if !is_owner || session.profile != profile {
            return SessionAccess::Denied;
        }
        session.last_used = Instant::now();
        session.was_used = true;
        SessionAccess::Allowed(session.view())
    }

    /// Inserts a session, and closes those that exceed the limits.
    pub(super) fn insert(self: &Arc<Self>, id: SessionId, session: Session) {
        let evicted = {
            let mut map = self.map.lock();
            map.put(id, session);
            eviction::evict(&mut map)
        };
        if evicted.is_empty() {
            return;
        }
        let sessions = Arc::clone(self);
        // A task of its own: the client of this request may disconnect meanwhile. A session's reservation is released
        // after it is closed.
        tokio::spawn(async move {
            for (id, session) in evicted {
                session.end_stream();
                if let Err(error) = sessions.inner.close_session(&id).await {
                    tracing::debug!(%error, "closing an evicted session failed");
                }
            }
        });
    }

    pub(super) async fn close(&self, id: &SessionId) -> Result<(), Error> {
        if let Some(session) = self.map.lock().pop(id) {
            session.end_stream();
        }
        self.inner.close_session(id).await
    }

    /// Ends the session's stream and returns its replacement; `None` without a session.
    pub(super) async fn take_over_stream(&self, id: &SessionId) -> Option<OpenStream> {
        let (stream, before) = self.map.lock().peek_mut(id)?.replace_stream();
        if let Some(before) = before {
            before.end.cancel();
            let _ = tokio::time::timeout(TAKEOVER_TIMEOUT, before.ended.cancelled()).await;
        }
        Some(stream)
    }

    /// Forwards one of rmcp's streams to a session's client. Without replay, events that a stream before was sent are
    /// skipped.
    pub(super) fn forward(
        self: &Arc<Self>,
        id: &SessionId,
        source: impl Stream<Item = ServerSseMessage> + Send + 'static,
        stream: Option<OpenStream>,
        replay: bool,
    ) -> StreamReceiver {
        let (sender, receiver) = mpsc::channel(1);
        let Some(OpenStream { end, ended, next_event }) = stream else {
            return StreamReceiver(receiver);
        };
        if let Some(session) = self.map.lock().peek_mut(id) {
            session.stream_state.send_modify(|state| {
                *state = StreamState { is_open: true, opened: state.opened + 1 };
            });
        }
        let skip_before = if replay { 0 } else { next_event.load(Ordering::SeqCst) };
        let forwarder = StreamForwarder { sender, end, next_event, skip_before };
        let (sessions, id) = (Arc::clone(self), id.clone());
        tokio::spawn(async move {
            let is_stalled = forwarder.run(source).await;
            ended.cancel();
            sessions.stream_ended(&id);
            if is_stalled {
                tracing::info!("client stalled; session closed");
                let _ = sessions.close(&id).await;
            }
        });
        StreamReceiver(receiver)
    }

    fn stream_ended(&self, id: &SessionId) {
        let mut map = self.map.lock();
        let Some(session) = map.peek_mut(id) else { return };
        // Another stream may have replaced it.
        if !session.has_stream() {
            session.stream = None;
            session.last_used = Instant::now();
            session.stream_state.send_modify(|state| state.is_open = false);
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::extract::Request;

    use super::*;

    const FULL: McpProfile = McpProfile::Full;

    #[test]
    fn a_session_of_another_credential_or_route_does_not_exist() {
        let sessions = Sessions::new();
        let mut headers = HeaderMap::new();
        let authorization: HeaderValue = "Bearer one".parse().unwrap();
        headers.insert(header::AUTHORIZATION, authorization.clone());
        let mut request = OpeningRequest::new(&Request::default());
        request.authorization = Some(authorization);
        sessions.map.lock().put("s".into(), Session::new(request, FULL, None));
        assert!(matches!(sessions.access(&headers, FULL), SessionAccess::NoSession));
        headers.insert(SESSION_ID, "s".parse().unwrap());
        assert!(matches!(sessions.access(&headers, FULL), SessionAccess::Allowed(_)));
        let other_route = sessions.access(&headers, McpProfile::Mdp);
        assert!(matches!(other_route, SessionAccess::Denied));
        headers.insert(header::AUTHORIZATION, "bearer one".parse().unwrap());
        assert!(matches!(sessions.access(&headers, FULL), SessionAccess::Allowed(_)));
        headers.insert(header::AUTHORIZATION, "Bearer two".parse().unwrap());
        assert!(matches!(sessions.access(&headers, FULL), SessionAccess::Denied));
        headers.remove(header::AUTHORIZATION);
        assert!(matches!(sessions.access(&headers, FULL), SessionAccess::Denied));
    }
}
