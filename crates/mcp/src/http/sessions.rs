//! The sessions: whose they are, how many there may be, and the one stream that each has.
//!
//! It stands around rmcp's own sessions and sees every one of them come and go.
//!
//! - A session belongs to the credential that opened it: for any other it does not exist.
//! - There are at most [`MAX`]. For one more, the one that was not used for longest goes, rather one without a
//!   stream; its client has to begin again, as the protocol provides for.
//! - A session whose key was revoked is told nothing more: its stream ends.
//! - A session has one stream. A new one takes the place of the one before, whose client may have lost it
//!   without our knowing.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, HeaderValue, header};
use futures_util::Stream;
use lru::LruCache;
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_server::session::{
        ServerSseMessage, SessionId, SessionManager,
        local::{LocalSessionManager, SessionConfig},
    },
};
use skills_core::{Caller, Digest};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::stream::{Forward, Receiving};
use crate::live::{Ear, Hearing};

const SESSION_ID: &str = "mcp-session-id";
/// How many sessions there may be at once.
const MAX: usize = 1_024;
/// A session that nobody has used or listened to for this long goes.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// How long the stream before may take to end.
const TAKE_OVER: Duration = Duration::from_secs(1);

type Inner = LocalSessionManager;
type Error = <Inner as SessionManager>::Error;

tokio::task_local! {
    /// What is known of the request that is being handled, for the session that it may open.
    static OPENING: Opening;
}

/// Whose a session will be, and whether it can be told of something.
#[derive(Clone)]
struct Opening {
    authorization: Option<HeaderValue>,
    caller: Caller,
    ear: watch::Sender<Ear>,
    over: CancellationToken,
}

/// What a request may do with the session that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It names none.
    None,
    /// It may use it.
    Known,
    /// There is none for it.
    Denied,
}

/// Who presented a request: a digest of its credential. The word before it may be written in any case.
fn owner(authorization: Option<&HeaderValue>) -> Digest {
    let given = authorization.map_or(b"" as &[u8], HeaderValue::as_bytes);
    let is_bearer = given.get(..7).is_some_and(|word| word.eq_ignore_ascii_case(b"bearer "));
    Digest::of(if is_bearer { &given[7..] } else { given })
}

struct Session {
    owner: Digest,
    used: Instant,
    ear: watch::Sender<Ear>,
    /// Cancelled when there is nothing more to tell it.
    over: CancellationToken,
    stream: Option<OpenStream>,
    /// The number of the next event that no stream has been given.
    next_event: Arc<AtomicU64>,
}

#[derive(Clone)]
struct OpenStream {
    end: CancellationToken,
    ended: CancellationToken,
}

impl Session {
    fn listens(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| !stream.ended.is_cancelled())
    }
}

type Known = LruCache<SessionId, Session>;

pub(super) struct Sessions {
    inner: Inner,
    /// The one used last comes first.
    known: Mutex<Known>,
}

impl Sessions {
    pub(super) fn new() -> Arc<Self> {
        let mut inner = Inner::default();
        // How long a session lives is decided here: one that only listens is not idle.
        inner.session_config = SessionConfig::default();
        inner.session_config.keep_alive = None;
        inner.session_config.sse_retry = None;
        Arc::new(Self { inner, known: Mutex::new(LruCache::unbounded()) })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up the session that a request names, and marks it as used.
    pub(super) fn access(&self, headers: &HeaderMap) -> Access {
        let Some(id) = headers.get(SESSION_ID) else { return Access::None };
        let Ok(id) = id.to_str() else { return Access::Denied };
        let mut known = self.lock();
        let Some(session) = known.get_mut(id) else { return Access::Denied };
        if session.owner != owner(headers.get(header::AUTHORIZATION)) {
            return Access::Denied;
        }
        session.used = Instant::now();
        Access::Known
    }

    /// Handles a request in such a way that a session which it opens is its own.
    pub(super) async fn opening<T>(
        authorization: Option<HeaderValue>,
        caller: Caller,
        handled: impl Future<Output = T>,
    ) -> T {
        let over = CancellationToken::new();
        let opening = Opening { authorization, caller, ear: watch::Sender::default(), over };
        OPENING.scope(opening, handled).await
    }

    /// Who sends the present request.
    pub(super) fn caller() -> Caller {
        OPENING.try_with(|opening| opening.caller.clone()).unwrap_or_default()
    }

    /// How the session is told that the present request opens.
    pub(super) fn hearing() -> Option<Hearing> {
        let hearing = |opening: &Opening| Hearing {
            ear: opening.ear.subscribe(),
            over: opening.over.clone(),
        };
        OPENING.try_with(hearing).ok()
    }

    /// Makes room for a stream: the one before ends, and this is the next.
    async fn take_over(&self, id: &SessionId) -> Option<(OpenStream, Arc<AtomicU64>)> {
        let (mine, before, next_event) = {
            let mut known = self.lock();
            let session = known.peek_mut(id)?;
            let (end, ended) = (session.over.child_token(), CancellationToken::new());
            let mine = OpenStream { end, ended };
            let before = session.stream.replace(mine.clone());
            (mine, before, Arc::clone(&session.next_event))
        };
        if let Some(before) = before {
            before.end.cancel();
            let _ = tokio::time::timeout(TAKE_OVER, before.ended.cancelled()).await;
        }
        Some((mine, next_event))
    }

    /// A stream of ours, fed by one of rmcp's.
    fn stream(
        self: &Arc<Self>,
        id: &SessionId,
        from: impl Stream<Item = ServerSseMessage> + Send + 'static,
        place: Option<(OpenStream, Arc<AtomicU64>)>,
        is_replay_wanted: bool,
    ) -> Receiving {
        let (sender, receiver) = mpsc::channel(1);
        let Some((stream, next_event)) = place else { return Receiving::new(receiver) };
        if let Some(session) = self.lock().peek_mut(id) {
            session.ear.send_modify(|ear| *ear = Ear { is_open: true, streams: ear.streams + 1 });
        }
        let skip_before = if is_replay_wanted { 0 } else { next_event.load(Ordering::SeqCst) };
        let forward = Forward { sender, end: stream.end.clone(), next_event, skip_before };
        let (sessions, id) = (Arc::clone(self), id.clone());
        tokio::spawn(async move {
            let is_stalled = forward.run(from).await;
            stream.ended.cancel();
            sessions.stream_ended(&id);
            if is_stalled {
                tracing::info!("a client does not read; its session ends");
                let _ = sessions.close_session(&id).await;
            }
        });
        Receiving::new(receiver)
    }

    fn stream_ended(&self, id: &SessionId) {
        let mut known = self.lock();
        let Some(session) = known.peek_mut(id) else { return };
        // Another may have taken its place.
        if !session.listens() {
            session.stream = None;
            session.used = Instant::now();
            session.ear.send_modify(|ear| ear.is_open = false);
        }
    }
}

/// Takes out what is idle, and what is too much. The newest, which comes first, stays.
fn evict(known: &mut Known) -> Vec<SessionId> {
    let surplus = known.len().saturating_sub(MAX);
    let oldest_first = || known.iter().rev().take(known.len().saturating_sub(1));
    let quiet = oldest_first().filter(|(_, session)| !session.listens());
    // Two sessions at least are looked at each time, so that idle ones go also below the limit.
    let quiet: Vec<(SessionId, bool)> = quiet
        .take(surplus + 2)
        .map(|(id, session)| (id.clone(), session.used.elapsed() > IDLE))
        .collect();
    let listening = oldest_first().filter(|(_, session)| session.listens());
    let listening = listening.map(|(id, _)| id.clone()).take(surplus.saturating_sub(quiet.len()));
    let mut evicted: Vec<SessionId> = listening.collect();
    for (id, is_idle) in quiet {
        if is_idle || evicted.len() < surplus {
            evicted.push(id);
        }
    }
    for id in &evicted {
        known.pop(id);
    }
    evicted
}

/// Marks the place of a stream that did not come about as free.
fn give_back(place: Option<&(OpenStream, Arc<AtomicU64>)>) {
    if let Some((stream, _)) = place {
        stream.ended.cancel();
    }
}

/// What rmcp calls.
pub(super) struct Manager(pub(super) Arc<Sessions>);

impl Sessions {
    async fn close_session(&self, id: &SessionId) -> Result<(), Error> {
        if let Some(session) = self.lock().pop(id)
            && let Some(stream) = session.stream
        {
            stream.end.cancel();
        }
        self.inner.close_session(id).await
    }
}

impl SessionManager for Manager {
    type Error = Error;
    type Transport = <Inner as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Error> {
        let opening = OPENING.try_with(Clone::clone);
        let nobody = |_| Opening {
            authorization: None,
            caller: Caller::Anonymous,
            ear: watch::Sender::default(),
            over: CancellationToken::new(),
        };
        let opening = opening.unwrap_or_else(nobody);
        let (id, transport) = self.0.inner.create_session().await?;
        let session = Session {
            owner: owner(opening.authorization.as_ref()),
            used: Instant::now(),
            ear: opening.ear,
            over: opening.over,
            stream: None,
            next_event: Arc::default(),
        };
        let evicted = {
            let mut known = self.0.lock();
            known.put(id.clone(), session);
            evict(&mut known)
        };
        for old in evicted {
            if let Err(error) = self.0.inner.close_session(&old).await {
                tracing::debug!(%error, "a session could not be closed");
            }
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Error> {
        self.0.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Error> {
        self.0.inner.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Error> {
        self.0.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        self.0.inner.create_stream(id, message).await
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Error> {
        self.0.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        let place = self.0.take_over(id).await;
        let from = self.0.inner.create_standalone_stream(id).await;
        let from = from.inspect_err(|_| give_back(place.as_ref()))?;
        Ok(self.0.stream(id, from, place, false))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        let place = self.0.take_over(id).await;
        let from = self.0.inner.resume(id, last_event_id).await;
        let from = from.inspect_err(|_| give_back(place.as_ref()))?;
        Ok(self.0.stream(id, from, place, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(listens: bool) -> Session {
        let stream = OpenStream { end: CancellationToken::new(), ended: CancellationToken::new() };
        Session {
            owner: Digest::of(b""),
            used: Instant::now(),
            ear: watch::Sender::default(),
            over: CancellationToken::new(),
            stream: listens.then_some(stream),
            next_event: Arc::default(),
        }
    }

    fn numbered(listens: bool) -> Known {
        let mut known = LruCache::unbounded();
        for number in 0..MAX {
            known.put(number.to_string().into(), session(listens));
        }
        known
    }

    #[test]
    fn the_one_used_longest_ago_without_a_stream_goes() {
        let mut known = LruCache::unbounded();
        known.put("listening".into(), session(true));
        for number in 0..MAX {
            known.put(number.to_string().into(), session(false));
        }
        assert_eq!(evict(&mut known), ["0".into()]);
        assert_eq!(known.len(), MAX);
    }

    #[test]
    fn when_all_listen_the_oldest_goes_and_not_the_new_one() {
        let mut known = numbered(true);
        known.put("new".into(), session(false));
        assert_eq!(evict(&mut known), ["0".into()]);
        assert!(known.contains("new"));
    }

    #[test]
    fn a_session_of_another_credential_does_not_exist() {
        let sessions = Sessions::new();
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, "Bearer one".parse().unwrap());
        let owner = owner(headers.get(header::AUTHORIZATION));
        let mine = Session { owner, ..session(false) };
        sessions.lock().put("s".into(), mine);
        assert_eq!(sessions.access(&headers), Access::None);
        headers.insert(SESSION_ID, "s".parse().unwrap());
        assert_eq!(sessions.access(&headers), Access::Known);
        headers.insert(header::AUTHORIZATION, "bearer one".parse().unwrap());
        assert_eq!(sessions.access(&headers), Access::Known);
        headers.insert(header::AUTHORIZATION, "Bearer two".parse().unwrap());
        assert_eq!(sessions.access(&headers), Access::Denied);
        headers.remove(header::AUTHORIZATION);
        assert_eq!(sessions.access(&headers), Access::Denied);
    }
}
