//! Session table: ownership of sessions, and the one stream that each has.
//!
//! It wraps rmcp's own sessions and sees each of them open and close.
//!
//! - A client, which is a credential or an address without one, has a share of the table. Above it the client loses a
//!   session of its own: one without a stream before the others, then one that was never used since it was opened, then the
//!   least recently used. It has to initialize again, as the protocol provides for. A timer ends idle sessions.
//! - A session belongs to the credential that opened it: for any other it does not exist.
//! - A session whose key was revoked gets no more notifications: its stream ends.
//! - A session has one stream. A new one replaces the one before, whose client may have lost it unnoticed.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::http::{HeaderMap, HeaderValue, header};
use futures_util::Stream;
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
    local::{LocalSessionManager, SessionConfig},
};
use skills_core::{
    Digest, OverBudget, OwnedTable, Reservation, TableFull, TableLimits, Timestamp, WorkAccount,
    text::first_chars,
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    opening_request::OpeningRequest,
    request_ids::RequestIds,
    stream::{StreamForwarder, StreamReceiver},
};
use crate::{McpProfile, fast_path::SessionView, notifications::StreamState, server::Shared};

const SESSION_ID: &str = "mcp-session-id";
/// Limits of the sessions of all routes.
const LIMITS: TableLimits = TableLimits {
    per_owner: 512,
    total: 4096,
    idle: Duration::from_secs(30 * 60),
    lifetime: Duration::MAX,
};
/// Memory of a session: its tasks and queues, and the client's parameters of `initialize`.
const SESSION_BYTES: usize = 48 << 10;
/// Interval at which an open stream marks its session as used.
const USE_INTERVAL: Duration = Duration::from_secs(10 * 60);
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
    /// A request came after the one that opened the session.
    was_used: bool,
    _reservation: Reservation,
    stream_state: watch::Sender<StreamState>,
    /// Cancelled when there will be no more notifications.
    closed: CancellationToken,
    stream: Option<OpenStream>,
    /// Number of the next event that no stream has been sent.
    next_event: Arc<AtomicU64>,
    pub(super) requests: RequestIds,
    /// State that the session's handler has.
    shared: Option<Arc<Shared>>,
}

#[derive(Clone)]
pub(super) struct OpenStream {
    end: CancellationToken,
    ended: CancellationToken,
    next_event: Arc<AtomicU64>,
}

impl Session {
    pub(super) fn new(
        request: OpeningRequest,
        profile: McpProfile,
        reservation: Reservation,
    ) -> Self {
        Self {
            profile,
            owner: owner(request.authorization.as_ref()),
            client_name: None,
            since: Timestamp::now(),
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

    /// Returns the rank in which sessions of a client are evicted.
    fn rank(&self) -> u8 {
        2 * u8::from(self.stream.is_some()) + u8::from(self.was_used)
    }

    fn has_stream(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| !stream.ended.is_cancelled())
    }

    /// Replaces the session's stream, and returns the new one and the one before.
    fn replace_stream(&mut self) -> (OpenStream, Option<OpenStream>) {
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

/// Table of all sessions, of all routes.
pub(super) struct Sessions {
    pub(super) inner: Arc<InnerManager>,
    table: OwnedTable<SessionId, Session, WorkAccount>,
}

impl Sessions {
    pub(super) fn new() -> Arc<Self> {
        let mut inner = InnerManager::default();
        // The table decides how long a session lives: one that only listens is not idle.
        inner.session_config = SessionConfig::default();
        inner.session_config.keep_alive = None;
        inner.session_config.sse_retry = None;
        let inner = Arc::new(inner);
        let evicting = Arc::clone(&inner);
        let evict = move |id: SessionId, session: Session| {
            session.end_stream();
            let inner = Arc::clone(&evicting);
            // A task of its own: the client of this request may disconnect meanwhile. Without a runtime the server is
            // shutting down, and all sessions end with it.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move {
                    if let Err(error) = inner.close_session(&id).await {
                        tracing::debug!(%error, "closing an evicted session failed");
                    }
                });
            }
        };
        let table = OwnedTable::with_eviction(LIMITS, Session::rank, evict);
        Arc::new(Self { inner, table })
    }

    /// Returns the open sessions, the last used first.
    pub(super) fn open_sessions(&self) -> Vec<OpenSession> {
        let open = |session: &Session| OpenSession {
            client: session.client_name.clone(),
            since: session.since,
            is_listening: session.has_stream(),
        };
        self.table.list(|_, session| open(session))
    }

    /// Stores the name that a client gives itself.
    pub(super) fn set_client_name(&self, id: &SessionId, name: &str) {
        self.table.peek(id, |_, session| {
            session.client_name = Some(first_chars(name, MAX_CLIENT_NAME_CHARS).to_owned());
        });
    }

    /// Looks up the session that a request names, and marks it as used.
    pub(super) fn access(&self, headers: &HeaderMap, profile: McpProfile) -> SessionAccess {
        let Some(id) = headers.get(SESSION_ID) else { return SessionAccess::NoSession };
        let Ok(id) = id.to_str() else { return SessionAccess::Denied };
        let owner = owner(headers.get(header::AUTHORIZATION));
        let is_own = |session: &mut Session| session.owner == owner && session.profile == profile;
        // A request that may not use the session does not keep it from being idle.
        if self.table.peek(id, |_, session| is_own(session)) != Some(true) {
            return SessionAccess::Denied;
        }
        let used = self.table.update(id, |_, session| {
            session.was_used = true;
            session.view()
        });
        used.map_or(SessionAccess::Denied, SessionAccess::Allowed)
    }

    /// Reserves the memory of a session. Sessions of the same client make room for it.
    pub(super) fn reserve(&self, client: &WorkAccount) -> Result<Reservation, OverBudget> {
        self.table.reserve(client, client.held_memory(), SESSION_BYTES)
    }

    /// Inserts a session of a client, and closes one of the same client if that is at its share.
    pub(super) fn insert(
        &self,
        client: WorkAccount,
        id: SessionId,
        session: Session,
    ) -> Result<(), TableFull> {
        self.table.insert(client, id, session)
    }

    /// Returns the ids of the pending requests of a session.
    pub(super) fn requests(&self, id: &SessionId) -> Option<RequestIds> {
        self.table.peek(id, |_, session| session.requests.clone())
    }

    pub(super) async fn close(&self, id: &SessionId) -> Result<(), Error> {
        if let Some(session) = self.table.remove(id) {
            session.end_stream();
        }
        self.inner.close_session(id).await
    }

    /// Ends the session's stream and returns its replacement; `None` without a session.
    pub(super) async fn take_over_stream(&self, id: &SessionId) -> Option<OpenStream> {
        let (stream, before) = self.table.peek(id, |_, session| session.replace_stream())?;
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
        self.table.update(id, |_, session| {
            session.stream_state.send_modify(|state| {
                *state = StreamState { is_open: true, opened: state.opened + 1 };
            });
        });
        let skip_before = if replay { 0 } else { next_event.load(Ordering::SeqCst) };
        let forwarder = StreamForwarder { sender, end, next_event, skip_before };
        let (sessions, id) = (Arc::clone(self), id.clone());
        tokio::spawn(async move {
            let mut run = pin!(forwarder.run(source));
            let is_stalled = loop {
                tokio::select! {
                    is_stalled = &mut run => break is_stalled,
                    () = tokio::time::sleep(USE_INTERVAL) => {
                        sessions.table.update(&id, |_, _| ());
                    }
                }
            };
            sessions.stream_ended(&id, &ended);
            if is_stalled {
                tracing::info!("client stalled; session closed");
                let _ = sessions.close(&id).await;
            }
        });
        StreamReceiver(receiver)
    }

    /// Marks the stream of a session that failed to open as ended.
    pub(super) fn stream_failed(&self, id: &SessionId, stream: Option<&OpenStream>) {
        if let Some(stream) = stream {
            self.stream_ended(id, &stream.ended);
        }
    }

    fn stream_ended(&self, id: &SessionId, ended: &CancellationToken) {
        ended.cancel();
        self.table.update(id, |_, session| {
            // Another stream may have replaced it.
            if !session.has_stream() {
                session.stream = None;
                session.stream_state.send_modify(|state| state.is_open = false);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use axum::extract::Request;
    use skills_core::{MemoryBudget, WorkAccounts};

    use super::*;

    const FULL: McpProfile = McpProfile::Full;

    fn session(sessions: &Sessions, client: &WorkAccount) -> Session {
        let reservation = sessions.reserve(client).unwrap();
        Session::new(OpeningRequest::new(&Request::default()), FULL, reservation)
    }

    fn open(sessions: &Sessions, client: &WorkAccount, id: &str) {
        let session = session(sessions, client);
        sessions.insert(client.clone(), id.into(), session).unwrap();
    }

    /// Opens as many sessions as a client may have, named by numbers.
    fn open_all(sessions: &Sessions, client: &WorkAccount) {
        (0..LIMITS.per_owner).for_each(|number| open(sessions, client, &number.to_string()));
    }

    fn exists(sessions: &Sessions, id: &str) -> bool {
        sessions.table.peek(id, |_, _| ()).is_some()
    }

    /// Looks up a session as its client does.
    fn use_session(sessions: &Sessions, id: &str) {
        let headers = [(SESSION_ID.parse().unwrap(), id.parse().unwrap())];
        let access = sessions.access(&headers.into_iter().collect(), FULL);
        assert!(matches!(access, SessionAccess::Allowed(_)));
    }

    fn listen(sessions: &Sessions, id: &str) -> OpenStream {
        sessions.table.peek(id, |_, session| session.replace_stream().0).unwrap()
    }

    #[tokio::test]
    async fn a_session_of_another_credential_or_route_does_not_exist() {
        let (sessions, client) = (Sessions::new(), WorkAccount::process());
        let mut headers = HeaderMap::new();
        let authorization: HeaderValue = "Bearer one".parse().unwrap();
        headers.insert(header::AUTHORIZATION, authorization.clone());
        let mut request = OpeningRequest::new(&Request::default());
        request.authorization = Some(authorization);
        let session = Session::new(request, FULL, sessions.reserve(&client).unwrap());
        sessions.insert(client, "s".into(), session).unwrap();
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

    #[test]
    fn the_limits_are_documented() {
        let page = include_str!("../../../../docs/mcp.md");
        let TableLimits { per_owner, total, idle, .. } = LIMITS;
        let minutes = idle.as_secs() / 60;
        let limits = format!(
            "| sessions | {total} in total on all routes, {per_owner} for one client ([http.md](http.md#limits)); \
             a session ends after {minutes} minutes without use and without a stream |"
        );
        assert!(page.contains(&limits), "docs/mcp.md has no {limits:?}");
        assert!(2 * USE_INTERVAL < idle, "a session with a stream is in use");
    }

    #[tokio::test]
    async fn sessions_without_a_stream_go_first_and_then_those_never_used() {
        let (sessions, client) = (Sessions::new(), WorkAccount::process());
        open_all(&sessions, &client);
        let _stream = listen(&sessions, "0");
        use_session(&sessions, "1");
        open(&sessions, &client, "new");
        assert!(!exists(&sessions, "2"), "the oldest of those that were never used");
        (3..LIMITS.per_owner).for_each(|number| use_session(&sessions, &number.to_string()));
        use_session(&sessions, "new");
        open(&sessions, &client, "newer");
        assert!(!exists(&sessions, "1"), "the least recently used");
        assert!(["0", "3", "new", "newer"].iter().all(|id| exists(&sessions, id)));
        assert_eq!(sessions.table.len(), LIMITS.per_owner);
    }

    #[tokio::test]
    async fn a_session_whose_stream_has_ended_is_one_without_a_stream() {
        let (sessions, client) = (Sessions::new(), WorkAccount::process());
        open_all(&sessions, &client);
        let streams: Vec<_> = (0..LIMITS.per_owner)
            .map(|number| {
                let id = number.to_string();
                use_session(&sessions, &id);
                (listen(&sessions, &id), SessionId::from(id))
            })
            .collect();
        let (stream, id) = &streams[5];
        sessions.stream_failed(id, Some(stream));
        open(&sessions, &client, "new");
        assert!(!exists(&sessions, "5") && exists(&sessions, "0"));
    }

    #[tokio::test]
    async fn a_client_at_its_share_ends_its_own_sessions_and_never_those_of_others() {
        let (sessions, budget) = (Sessions::new(), MemoryBudget::default());
        let accounts = WorkAccounts::new(budget.clone());
        let (one, other) = (accounts.open(), accounts.open());
        open(&sessions, &other, "other");
        for number in 0..3 * LIMITS.per_owner {
            open(&sessions, &one, &format!("mine-{number}"));
        }
        assert!(exists(&sessions, "other"));
        assert_eq!(sessions.table.len(), LIMITS.per_owner + 1);
        assert_eq!(budget.reserved(), sessions.table.len() * SESSION_BYTES);
    }

    #[tokio::test]
    async fn many_clients_are_needed_to_fill_the_table_and_others_then_lose_nothing() {
        let sessions = Sessions::new();
        let clients: Vec<_> = (0..LIMITS.total / LIMITS.per_owner)
            .map(|_| WorkAccount::with_memory(MemoryBudget::default()))
            .collect();
        assert!(clients.len() >= 8);
        for (client, name) in clients.iter().zip(0..) {
            for number in 0..LIMITS.per_owner {
                open(&sessions, client, &format!("{name}-{number}"));
            }
        }
        let late = WorkAccount::process();
        let refused = sessions.insert(late.clone(), "late".into(), session(&sessions, &late));
        assert_eq!(refused, Err(TableFull));
        assert_eq!(sessions.table.len(), LIMITS.total);
    }
}
