//! The host: sessions, registered clients, and calls. It knows no transport: a transport passes messages in and takes
//! messages out.
//!
//! - `session`: one connection with its calls in progress; `queue`: its send queue; `transport`: kinds of transport
//! - `catalog`: paths of one client; `client_table`: snapshot of all clients
//! - `session_table`: all sessions, and the share of each client in them
//! - `registration`: changes of both, under one lock; `memory_size`: their memory
//! - `client_call`: calls of clients
//! - `memory_shares`: shares of the memory budget
//! - `clock`: time of a host; `keepalive`: pings and timeouts
//!
//! A registration takes the lock, derives the next client table and publishes it. A call reads the current client table
//! and takes no lock that all calls share.

mod catalog;
mod client_call;
mod client_table;
mod clock;
mod keepalive;
mod memory_shares;
mod memory_size;
mod queue;
mod registration;
mod session;
mod session_table;
#[cfg(test)]
mod tests;
mod transport;

use std::{
    borrow::Cow,
    collections::HashSet,
    fmt,
    sync::{Arc, OnceLock},
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use skills_core::{Caller, Coded, KeyDirectory, Timestamp, json_size};
use skills_registry::SkillRegistry;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

pub use self::{
    catalog::{ClientCatalog, PathParams},
    client_call::{ClientCall, ClientResponse},
    client_table::{ClientTable, RegisteredClient},
    queue::{QueuedMessage, SessionOutput},
    session::Session,
    transport::{ConnectionMode, TransportAuth},
};
pub(crate) use self::{client_call::MAX_TREE_BYTES, memory_shares::MemoryShares};
use self::{clock::Clock, session_table::SessionTable};
use crate::{
    ClientCallError, CloseReason, Config, SessionError,
    auth::RegistrationAuth,
    builtin_client::BuiltinClient,
    wire::{Incoming, WireError, incoming::Envelope, outgoing},
};
use skills_net::CredentialClient;

/// Host of MDP clients. Clones share all state; each has the stored content as one caller sees it.
#[derive(Clone)]
pub struct MdpHost(Arc<Inner>, Option<Arc<BuiltinClient>>);

struct Inner {
    config: Config,
    auth: RegistrationAuth,
    clock: Clock,
    sessions: Mutex<SessionTable>,
    clients: ArcSwap<ClientTable>,
    /// Revision of `clients`, for followers.
    revision: watch::Sender<u64>,
    shutdown: CancellationToken,
    connections: TaskTracker,
    memory: MemoryShares,
    watched_keys: OnceLock<Arc<dyn KeyDirectory>>,
}

impl MdpHost {
    /// Starts a host that ends at `shutdown`. Needs a Tokio runtime. With `skills` it has the built-in client
    /// [`REGISTRY_CLIENT_ID`](crate::REGISTRY_CLIENT_ID) with the stored content.
    #[must_use]
    pub fn start(
        config: Config,
        skills: Option<Arc<dyn SkillRegistry>>,
        shutdown: CancellationToken,
    ) -> Self {
        let clock = Clock::new();
        let builtin = skills.map(|skills| BuiltinClient::new(skills, clock.timestamp(0)));
        let inner = Arc::new(Inner {
            auth: RegistrationAuth::new(&config),
            memory: MemoryShares::new(&config.budget, &config.limits),
            watched_keys: OnceLock::new(),
            config,
            clock,
            sessions: Mutex::default(),
            clients: ArcSwap::default(),
            revision: watch::Sender::new(0),
            shutdown,
            connections: TaskTracker::new(),
        });
        let host = Self(inner, builtin.map(Arc::new));
        host.0.connections.spawn(keepalive::run(Arc::downgrade(&host.0), host.0.shutdown.clone()));
        host
    }

    /// Ends the sessions of a key when the key ends. Later calls are ignored.
    pub fn watch_keys(&self, keys: Arc<dyn KeyDirectory>) {
        let _ = self.0.watched_keys.set(keys);
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// Returns the current snapshot of the registered clients.
    #[must_use]
    pub fn client_table(&self) -> Arc<ClientTable> {
        self.0.clients.load_full()
    }

    /// Subscribes to the revision of the client table.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.revision.subscribe()
    }

    /// Returns this host with the stored content as a caller sees it.
    ///
    /// # Errors
    /// When the registry cannot tell callers apart.
    pub fn view(&self, caller: &Caller) -> Result<Self, ClientCallError> {
        let view = self.builtin_client().map(|builtin| builtin.view(caller)).transpose()?;
        let builtin = match view {
            Some(Cow::Owned(builtin)) => Some(Arc::new(builtin)),
            Some(Cow::Borrowed(_)) | None => self.1.clone(),
        };
        Ok(Self(Arc::clone(&self.0), builtin))
    }

    /// Takes the ids of clients that were added, changed or removed since the last call; the first call returns all.
    pub(crate) fn take_changed_clients(&self) -> HashSet<String> {
        self.0.sessions.lock().take_changed(&self.0.clients.load())
    }

    /// Waits until all connections have ended after the shutdown.
    pub async fn wait_until_ended(&self) {
        self.0.connections.close();
        self.0.connections.wait().await;
    }

    /// Opens a session.
    ///
    /// # Errors
    /// When too many sessions have no client, or the host has ended.
    pub fn open_session(
        &self,
        mode: ConnectionMode,
        transport: TransportAuth,
    ) -> Result<Arc<Session>, SessionError> {
        let Config { limits, behind_tls, .. } = &self.0.config;
        if self.0.shutdown.is_cancelled() {
            return Err(SessionError::Ended);
        }
        let caller = transport.caller.clone();
        let session = Arc::new(Session::new(mode, *behind_tls, transport, limits, self.0.clock));
        let is_trusted = session.is_trusted() || !self.0.auth.requires_token();
        let evicted = self.0.sessions.lock().insert(&session, is_trusted, limits)?;
        for session in evicted {
            let close =
                CloseReason::new(1013, "too many sessions without a token; try again later");
            session.end(close, &ClientCallError::Disconnected(String::new()));
        }
        self.end_with_key(&session, &caller);
        // The shutdown may have ended all sessions between the two checks.
        if self.0.shutdown.is_cancelled() {
            self.end_session(&session, CloseReason::shutdown());
            return Err(SessionError::Ended);
        }
        Ok(session)
    }

    /// Returns the session with an id.
    #[must_use]
    pub fn session(&self, id: Uuid) -> Option<Arc<Session>> {
        self.0.sessions.lock().get(id)
    }

    /// Handles a message of a session with the credentials of its handshake.
    ///
    /// # Errors
    /// When the message is rejected. The session continues until it is [ended](Self::end_session).
    pub fn receive(&self, session: &Arc<Session>, text: &str) -> Result<(), SessionError> {
        self.receive_with_auth(session, &session.transport, text)
    }

    /// Handles a message of a session that was sent by a request with credentials of its own.
    ///
    /// # Errors
    /// When the message is rejected. The session continues until it is [ended](Self::end_session).
    pub fn receive_with_auth(
        &self,
        session: &Arc<Session>,
        transport: &TransportAuth,
        text: &str,
    ) -> Result<(), SessionError> {
        session.mark_seen();
        let message = Envelope::parse(text, self.0.config.limits.message_bytes)?;
        let is_trusted = transport.is_authorized || session.is_trusted();
        if self.0.auth.requires_token() && !is_trusted && !message.needs_no_client() {
            return Err(SessionError::Unauthorized);
        }
        if message.is_registration() && !transport.is_authorized {
            let token = message.auth()?.and_then(|auth| auth.token);
            if !self.0.auth.is_valid_token(token.as_deref()) {
                return Err(SessionError::Unauthorized);
            }
        }
        // A result is not parsed.
        let values = if message.is_result() { 0 } else { json_size::count_values(text.as_bytes()) };
        if values > json_size::MAX_VALUES {
            return Err(WireError::TooManyValues { values, max: json_size::MAX_VALUES }.into());
        }
        let tree_bytes = if values == 0 { 0 } else { json_size::memory_size(text.len(), values) };
        let _reservation = self.0.memory.incoming.try_reserve(tree_bytes)?;
        match message.into_message()? {
            Incoming::Register { client, auth } => {
                return self.register(session, transport, *client, auth.as_ref(), text.len());
            }
            Incoming::Update { client_id, paths } => {
                return self.update(session, &client_id, paths, text.len());
            }
            Incoming::Unregister { client_id } => self.unregister(session, &client_id),
            Incoming::Result { request_id, outcome } => {
                session.complete_call(&request_id, outcome.map_err(ClientCallError::Handler));
            }
            Incoming::Ping { timestamp } => self.send(session, outgoing::pong(timestamp)),
            Incoming::Pong => {}
        }
        Ok(())
    }

    /// Queues a message of the host itself, or ends the session: a client that does not even read these is gone.
    fn send(&self, session: &Session, message: String) {
        if !session.enqueue(message, &self.0.memory) {
            tracing::debug!(mode = session.mode.as_str(), "session ended: messages are not read");
            self.end_session(session, CloseReason::new(1008, "messages are not read"));
        }
    }

    /// Binds a session without an owner to a user, and ends it when the user's key ends.
    pub(crate) fn end_with_key(&self, session: &Arc<Session>, caller: &Caller) {
        let Some(keys) = self.0.watched_keys.get() else { return };
        if !session.claim_owner(caller) {
            return;
        }
        let key_end = keys.wait_until_ended(caller);
        let (host, session) = (Arc::downgrade(&self.0), Arc::clone(session));
        self.0.connections.spawn(async move {
            tokio::select! {
                () = key_end => {}
                () = session.wait_until_ended() => return,
            }
            if let Some(host) = host.upgrade().map(|inner| Self(inner, None)) {
                let reason = "the key was revoked or has expired";
                host.end_session(&session, CloseReason::new(1008, reason));
            }
        });
    }

    /// Ends a session because of a rejected message.
    pub fn reject(&self, session: &Session, error: &SessionError) {
        tracing::debug!(code = %error.code(), %error, "session ended: message rejected");
        self.end_session(session, error.close_reason());
    }

    /// Counts a registration without a valid token, and returns when it may be refused.
    pub(crate) async fn delay_refusal(&self, client: &CredentialClient) {
        self.0.config.failed_credentials.refuse("mdp", client).await;
    }

    pub(crate) fn builtin_client(&self) -> Option<&BuiltinClient> {
        self.1.as_deref()
    }

    /// Returns the current time of the host's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.timestamp(self.0.clock.now())
    }

    pub(crate) fn auth(&self) -> &RegistrationAuth {
        &self.0.auth
    }

    pub(crate) fn memory(&self) -> &MemoryShares {
        &self.0.memory
    }

    /// Returns the tracker of the connection tasks.
    pub(crate) fn connections(&self) -> &TaskTracker {
        &self.0.connections
    }
}

impl fmt::Debug for MdpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MdpHost").field("config", &self.0.config).finish_non_exhaustive()
    }
}
