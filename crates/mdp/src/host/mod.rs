//! The heart: sessions, who is registered on them, and calls. It knows no transport; it is told what came and
//! gives what is to be sent.
//!
//! - `session`: one connection, the calls it owes an answer to, when it was heard; `queue`: what waits for it
//! - `catalog`: the paths of one client; `roster`: all clients, as a snapshot
//! - `registering`: who comes and goes, under one lock; `weight`: how much memory that takes
//! - `calling`: asking a client
//! - `clock`: the time of all of them
//! - `heart`: pings, and the end of those who are silent
//!
//! Who comes or goes takes the lock, makes the next roster and swaps it in; who asks takes the present roster
//! and no lock that all share.

mod calling;
mod catalog;
mod clock;
mod heart;
mod queue;
mod registering;
mod roster;
mod session;
#[cfg(test)]
mod tests;
mod weight;

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arc_swap::ArcSwap;
use skills_core::{Caller, Timestamp};
use skills_registry::Skills;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

pub use self::{
    calling::{Answer, Call},
    catalog::{Catalog, Params},
    queue::Next,
    roster::{Client, Roster},
    session::{Mode, Session, Transport},
};
use self::{clock::Clock, registering::Table};
use crate::{
    CallError, Close, Config, Refused,
    auth::Keys,
    stored::Stored,
    wire::{Incoming, outgoing},
};

/// A host of clients. Clones are the same host, and may show what is stored as different callers see it.
#[derive(Clone)]
pub struct Host(Arc<Inner>, Option<Arc<Stored>>);

struct Inner {
    config: Config,
    keys: Keys,
    clock: Clock,
    table: Mutex<Table>,
    roster: ArcSwap<Roster>,
    news: watch::Sender<u64>,
    shutdown: CancellationToken,
    connections: TaskTracker,
}

impl Host {
    /// Starts a host, which ends with `shutdown`. Needs a Tokio runtime. With `skills` there is the client
    /// [`REGISTRY`](crate::REGISTRY), which has what is stored.
    #[must_use]
    pub fn start(
        config: Config,
        skills: Option<Arc<dyn Skills>>,
        shutdown: CancellationToken,
    ) -> Self {
        let clock = Clock::new();
        let stored = skills.map(|skills| Stored::new(skills, clock.moment(0)));
        let inner = Arc::new(Inner {
            keys: Keys::new(&config),
            config,
            clock,
            table: Mutex::default(),
            roster: ArcSwap::default(),
            news: watch::Sender::new(0),
            shutdown,
            connections: TaskTracker::new(),
        });
        let host = Self(inner, stored.map(Arc::new));
        host.0.connections.spawn(heart::beat(Arc::downgrade(&host.0), host.0.shutdown.clone()));
        host
    }

    /// What it was started with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// Who is registered now.
    #[must_use]
    pub fn roster(&self) -> Arc<Roster> {
        self.0.roster.load_full()
    }

    /// The revision of the roster, and news of its changes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.news.subscribe()
    }

    /// The same host with what is stored as a caller sees it.
    ///
    /// # Errors
    /// When callers cannot be told apart.
    pub fn seen_by(&self, caller: &Caller) -> Result<Self, CallError> {
        let seen = self.stored().map(|stored| stored.seen_by(caller)).transpose()?;
        let stored = match seen {
            Some(Cow::Owned(stored)) => Some(Arc::new(stored)),
            Some(Cow::Borrowed(_)) | None => self.1.clone(),
        };
        Ok(Self(Arc::clone(&self.0), stored))
    }

    /// Who came, went or changed since this was asked last; everyone the first time.
    pub(crate) fn take_touched(&self) -> HashSet<String> {
        lock(&self.0.table).take_touched(&self.0.roster.load())
    }

    /// Waits until all connections have ended, which they do after the shutdown.
    pub async fn ended(&self) {
        self.0.connections.close();
        self.0.connections.wait().await;
    }

    /// Opens a session.
    ///
    /// # Errors
    /// When there are too many on which nobody is registered, or the host has ended.
    pub fn open(&self, mode: Mode, transport: Transport) -> Result<Arc<Session>, Refused> {
        let Config { limits, behind_tls, .. } = &self.0.config;
        if self.0.shutdown.is_cancelled() {
            return Err(Refused::Ended);
        }
        let session = Session::new(mode, *behind_tls, transport, limits, self.0.clock);
        let session = Arc::new(session);
        lock(&self.0.table).open(&session, limits)?;
        // Between the two looks all sessions that there were may have been ended.
        if self.0.shutdown.is_cancelled() {
            self.end(&session, Close::new(1001, "the server is shutting down"));
            return Err(Refused::Ended);
        }
        Ok(session)
    }

    /// The session of an id.
    #[must_use]
    pub fn session(&self, id: Uuid) -> Option<Arc<Session>> {
        lock(&self.0.table).session(id)
    }

    /// Takes what came on a session.
    ///
    /// # Errors
    /// When it cannot be taken. The session goes on until it is [ended](Self::end).
    pub fn receive(&self, session: &Arc<Session>, text: &str) -> Result<(), Refused> {
        self.receive_by(session, session.transport, text)
    }

    /// The same of a request that says itself who sends it.
    ///
    /// # Errors
    /// See [`receive`](Self::receive).
    pub fn receive_by(
        &self,
        session: &Arc<Session>,
        transport: Transport,
        text: &str,
    ) -> Result<(), Refused> {
        session.hear();
        match Incoming::read(text, self.0.config.limits.message_bytes)? {
            Incoming::Register { client, auth } => {
                self.register(session, transport, *client, auth.as_ref(), text.len())
            }
            Incoming::Update { client_id, paths } => {
                self.update(session, &client_id, paths, text.len())
            }
            Incoming::Unregister { client_id } => {
                self.unregister(session, &client_id);
                Ok(())
            }
            Incoming::Result { request_id, outcome } => {
                session.answer(&request_id, outcome.map_err(CallError::Handler));
                Ok(())
            }
            Incoming::Ping { timestamp } => {
                self.tell(session, outgoing::pong(timestamp));
                Ok(())
            }
            Incoming::Pong => Ok(()),
        }
    }

    /// Tells a session something of the host's own, or ends it: who does not take even that is not there.
    fn tell(&self, session: &Session, message: String) {
        if !session.tell(message) {
            tracing::debug!(mode = session.mode.as_str(), "session ended: messages are not read");
            self.end(session, Close::new(1008, "messages are not read"));
        }
    }

    /// Ends a session because of what came on it.
    pub fn refuse(&self, session: &Session, refused: &Refused) {
        tracing::debug!(code = refused.code(), %refused, "session ended");
        self.end(session, refused.close());
    }

    pub(crate) fn stored(&self) -> Option<&Stored> {
        self.1.as_deref()
    }

    /// The present moment, by the clock that all its times are of.
    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.moment(self.0.clock.now())
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.0.keys
    }

    /// Where connections run.
    pub(crate) fn connections(&self) -> &TaskTracker {
        &self.0.connections
    }

    /// Ends every session.
    fn end_all(&self, close: &Close) {
        let sessions = lock(&self.0.table).sessions();
        for session in sessions {
            self.end(&session, close.clone());
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("config", &self.0.config).finish_non_exhaustive()
    }
}

type Sessions = HashMap<Uuid, registering::Entry>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
