//! Pool of connections with a blocking interface.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Builder, Runtime};

use crate::{
    DatabaseUrl, Notification, PgError, PgListener, PgSession, backends::OwnBackends,
    block_on::block_on_until, connect::Connector,
};

/// Time after a failed attempt to connect in which no further one is made.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Size and time limits of a pool.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Most connections.
    pub max_connections: usize,
    /// Time limit of a statement, set in the session.
    pub statement_timeout: Duration,
    /// Time limit of waiting for a lock, set in the session.
    pub lock_timeout: Duration,
    /// Time after which the server ends a transaction whose client is silent, set in the session. A server that hangs
    /// holds its locks no longer than this.
    pub idle_timeout: Duration,
    /// Time limit of a whole call, also if the server answers nothing.
    pub call_timeout: Duration,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            max_connections: 8,
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(60),
        }
    }
}

/// Bounded pool of connections to one database. Clones share it.
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

struct Shared {
    url: DatabaseUrl,
    config: PoolConfig,
    connector: Connector,
    backends: OwnBackends,
    state: Mutex<State>,
    released: Condvar,
    runtime: Option<Runtime>,
}

#[derive(Default)]
struct State {
    idle: Vec<PgSession>,
    open: usize,
    failure: Option<(Instant, PgError)>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.0.url).finish()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.state.get_mut().idle.clear();
        if let Some(runtime) = self.runtime.take() {
            // Waiting is not allowed if the last owner is a task of another runtime.
            runtime.shutdown_background();
        }
    }
}

impl Pool {
    /// Creates a pool. It connects when it is used.
    ///
    /// # Errors
    /// [`PgError::Configuration`] if certificates cannot be read, [`PgError::Other`] without threads.
    pub fn new(url: &DatabaseUrl, config: PoolConfig) -> Result<Self, PgError> {
        let connector = Connector::new(url, &config)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("postgres-io")
            .enable_all()
            .build()
            .map_err(|error| PgError::Other(error.to_string()))?;
        Ok(Self(Arc::new(Shared {
            url: url.clone(),
            config,
            connector,
            backends: OwnBackends::default(),
            state: Mutex::default(),
            released: Condvar::new(),
            runtime: Some(runtime),
        })))
    }

    /// Returns the URL of the database.
    #[must_use]
    pub fn url(&self) -> &DatabaseUrl {
        &self.0.url
    }

    /// Runs `work` on a connection, without a transaction. It runs once more on a new connection if an idle one turns
    /// out to be broken, so it only reads, or writes what may be repeated.
    ///
    /// # Errors
    /// Those of `work`, and of connecting.
    pub fn read<T>(
        &self,
        work: impl FnMut(&PgSession) -> Result<T, PgError>,
    ) -> Result<T, PgError> {
        self.read_within(self.0.config.call_timeout, work)
    }

    /// Runs `work` as [`read`](Self::read) does, with another time limit.
    ///
    /// # Errors
    /// Those of `work`, and of connecting.
    pub fn read_within<T>(
        &self,
        limit: Duration,
        work: impl FnMut(&PgSession) -> Result<T, PgError>,
    ) -> Result<T, PgError> {
        self.read_retrying(limit, limit, work)
    }

    /// Runs `work` as [`read`](Self::read) does, with another time limit, and less time for an idle connection: one that
    /// swallows what is sent looks like one to a slow database.
    ///
    /// # Errors
    /// Those of `work`, and of connecting.
    pub fn read_retrying<T>(
        &self,
        first_limit: Duration,
        limit: Duration,
        mut work: impl FnMut(&PgSession) -> Result<T, PgError>,
    ) -> Result<T, PgError> {
        let started = Instant::now();
        let lease = self.lease(limit)?;
        if lease.is_reused {
            lease.set_deadline(first_limit);
        }
        match work(&lease) {
            Err(error) if error.is_unavailable() && lease.is_reused && !lease.is_reusable() => {
                drop(lease);
                let left = limit.saturating_sub(started.elapsed());
                if left.is_zero() {
                    self.close_idle();
                    return Err(error);
                }
                work(&*self.lease_new(left)?)
            }
            done => done,
        }
    }

    /// Runs `work` in a transaction. An error of `work` undoes it.
    ///
    /// # Errors
    /// Those of `work` and of connecting. [`PgError::OutcomeUnknown`] if the connection breaks during the commit; any
    /// other error means that nothing was written.
    pub fn transaction<T, E: From<PgError>>(
        &self,
        work: impl FnOnce(&PgSession) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transaction_within(self.0.config.call_timeout, work)
    }

    /// Runs `work` as [`transaction`](Self::transaction) does, with another time limit.
    ///
    /// # Errors
    /// Those of `work` and of connecting, and [`PgError::OutcomeUnknown`].
    pub fn transaction_within<T, E: From<PgError>>(
        &self,
        limit: Duration,
        work: impl FnOnce(&PgSession) -> Result<T, E>,
    ) -> Result<T, E> {
        let lease = self.begin(limit)?;
        match work(&lease) {
            Ok(output) => {
                lease.wait_for_commit(lease.commit_async())?;
                Ok(output)
            }
            Err(error) => {
                lease.roll_back();
                Err(error)
            }
        }
    }

    /// Begins a transaction on a connection that works.
    fn begin(&self, limit: Duration) -> Result<Lease, PgError> {
        let lease = self.lease(limit)?;
        match lease.wait(lease.begin_async()) {
            Ok(()) => Ok(lease),
            Err(error) if lease.is_reused && error.is_unavailable() => {
                drop(lease);
                let lease = self.lease_new(limit)?;
                lease.wait(lease.begin_async())?;
                Ok(lease)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes a connection for a time. It goes back to the pool when the lease is dropped, unless it is broken or in a
    /// transaction; it is closed then.
    ///
    /// # Errors
    /// [`PgError::Unavailable`] or [`PgError::Configuration`] when there is none to be had.
    pub fn lease(&self, limit: Duration) -> Result<Lease, PgError> {
        let deadline = Instant::now() + limit;
        let mut state = self.0.state.lock();
        loop {
            while let Some(session) = state.idle.pop() {
                if session.is_reusable() {
                    session.set_deadline(limit);
                    return Ok(self.to_lease(session, true));
                }
                state.open -= 1;
            }
            if state.open < self.0.config.max_connections {
                break;
            }
            if self.0.released.wait_until(&mut state, deadline).timed_out() {
                let count = self.0.config.max_connections;
                let busy = format!("all {count} connections of the pool are in use");
                return Err(PgError::Unavailable(busy));
            }
        }
        if let Some((at, error)) = &state.failure
            && at.elapsed() < RETRY_PAUSE
        {
            return Err(error.clone());
        }
        state.open += 1;
        drop(state);
        self.connect(limit)
    }

    /// Closes the idle connections, after one of them turned out to be broken.
    pub fn close_idle(&self) {
        let mut state = self.0.state.lock();
        state.open -= state.idle.len();
        state.idle.clear();
    }

    /// Takes a new connection, after an idle one turned out to be broken.
    fn lease_new(&self, limit: Duration) -> Result<Lease, PgError> {
        self.close_idle();
        self.lease(limit)
    }

    /// Connects. The caller has counted the connection.
    fn connect(&self, limit: Duration) -> Result<Lease, PgError> {
        let opened = self.open_session();
        let mut state = self.0.state.lock();
        match opened {
            Ok(session) => {
                state.failure = None;
                drop(state);
                session.set_deadline(limit);
                Ok(self.to_lease(session, false))
            }
            Err(error) => {
                state.open -= 1;
                state.failure = Some((Instant::now(), error.clone()));
                drop(state);
                self.0.released.notify_one();
                Err(error)
            }
        }
    }

    fn open_session(&self) -> Result<PgSession, PgError> {
        let closed = || PgError::Unavailable("the pool is closed".to_owned());
        let runtime = self.0.runtime.as_ref().ok_or_else(closed)?.handle().clone();
        let connector = self.0.connector.clone();
        let limit = connector.time_limit() + Duration::from_secs(1);
        let handle = runtime.clone();
        // Held by the task that serves the socket: the server gives process ids out again when the connection ends.
        let backend = Arc::new(OnceLock::new());
        let held = Arc::clone(&backend);
        let on_message = move |_| {
            let _ = &held;
        };
        let connecting = runtime.spawn(async move { connector.connect(&handle, on_message).await });
        let connected = block_on_until(connecting, Instant::now() + limit);
        match connected {
            Some(Ok(connected)) => connected.map(|connected| {
                backend.get_or_init(|| self.0.backends.add(connected.backend));
                PgSession::new(connected)
            }),
            Some(Err(error)) => Err(PgError::Unavailable(error.to_string())),
            None => Err(PgError::Unavailable("connecting took too long".to_owned())),
        }
    }

    fn to_lease(&self, session: PgSession, is_reused: bool) -> Lease {
        Lease { pool: self.clone(), session: Some(session), is_reused }
    }

    /// Follows the notifications of a channel, on a connection of its own, until the listener is dropped. Those that
    /// connections of this pool send are left out. `notify` must not block.
    ///
    /// # Errors
    /// [`PgError::Unavailable`] when the pool is closed.
    pub fn listen(
        &self,
        channel: &str,
        notify: impl Fn(Notification) + Send + Sync + 'static,
    ) -> Result<PgListener, PgError> {
        let closed = || PgError::Unavailable("the pool is closed".to_owned());
        let runtime = self.0.runtime.as_ref().ok_or_else(closed)?.handle();
        let (connector, own) = (self.0.connector.clone(), self.0.backends.clone());
        Ok(PgListener::start(runtime, connector, own, channel, notify))
    }
}

/// Connection that is out of the pool.
pub struct Lease {
    pool: Pool,
    session: Option<PgSession>,
    is_reused: bool,
}

impl Lease {
    /// Returns whether the connection was idle in the pool before, so that it may be broken without anyone's notice.
    #[must_use]
    pub const fn is_reused(&self) -> bool {
        self.is_reused
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&self.session).finish()
    }
}

impl Deref for Lease {
    type Target = PgSession;

    #[allow(clippy::expect_used, reason = "only `drop` takes the session")]
    fn deref(&self) -> &PgSession {
        self.session.as_ref().expect("a lease has its session until it is dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let session = self.session.take().filter(PgSession::is_reusable);
        let mut state = self.pool.0.state.lock();
        match session {
            Some(session) => state.idle.push(session),
            None => state.open -= 1,
        }
        drop(state);
        self.pool.0.released.notify_one();
    }
}
