//! Proxy between a vault and its database, for faults.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use super::PostgresSchema;

/// Message of a commit.
const COMMIT: &[u8] = b"COMMIT\0";

/// Proxy in front of the database of a test, for faults.
pub(crate) struct TestProxy {
    /// URL of the database through the proxy.
    pub(crate) url: skills_postgres::DatabaseUrl,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    fault: Mutex<Fault>,
    /// Connections that were refused like those with a wrong password.
    refused: AtomicU32,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Fault {
    #[default]
    None,
    /// All connections are broken, and new ones refused.
    Cut,
    /// All connections are broken, and new ones refused by a message of the database.
    Refuse,
    /// The next commit is forwarded, and then all connections are cut.
    CutAfterCommit,
    /// The connection of the next commit breaks before it, without the notice of the database.
    SwallowCommit,
}

impl State {
    fn is_cut(&self) -> bool {
        matches!(*self.fault.lock(), Fault::Cut | Fault::Refuse)
    }

    /// Applies the fault of the next commit. Returns whether the message is to be forwarded.
    fn commit(&self) -> bool {
        let mut fault = self.fault.lock();
        match *fault {
            Fault::CutAfterCommit => *fault = Fault::Cut,
            Fault::SwallowCommit => {
                *fault = Fault::None;
                return false;
            }
            Fault::None | Fault::Cut | Fault::Refuse => {}
        }
        true
    }
}

impl TestProxy {
    pub(crate) fn start(schema: &PostgresSchema) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let base = std::env::var("SKILLS_TEST_STORE").unwrap();
        let (target, user, database) = upstream(&base);
        let name = schema.url.schema();
        let url = format!(
            "postgres://{user}@127.0.0.1:{port}/{database}?sslmode=disable&options=-c%20search_path%3D{name}"
        );
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let fault = *shared.fault.lock();
                match fault {
                    Fault::Cut => {}
                    Fault::Refuse => {
                        refuse(client);
                        shared.refused.fetch_add(1, Ordering::Relaxed);
                    }
                    Fault::None | Fault::CutAfterCommit | Fault::SwallowCommit => {
                        relay(client, &target, &shared);
                    }
                }
            }
        });
        Self { url: url.parse().unwrap(), state }
    }

    fn set(&self, fault: Fault) {
        *self.state.fault.lock() = fault;
    }

    /// Breaks all connections and refuses new ones.
    pub(crate) fn cut(&self) {
        self.set(Fault::Cut);
    }

    /// Breaks all connections and refuses new ones as the database does after a change of the password.
    pub(crate) fn refuse(&self) {
        self.set(Fault::Refuse);
    }

    /// Returns the number of connections that were refused with a message.
    pub(crate) fn refused(&self) -> u32 {
        self.state.refused.load(Ordering::Relaxed)
    }

    /// Forwards the next commit, and breaks all connections before its answer.
    pub(crate) fn cut_after_commit(&self) {
        self.set(Fault::CutAfterCommit);
    }

    /// Breaks the connection of the next commit before it, without the notice of the database.
    pub(crate) fn swallow_commit(&self) {
        self.set(Fault::SwallowCommit);
    }

    pub(crate) fn resume(&self) {
        self.set(Fault::None);
    }
}

/// Address of the server in a URL: a path of a socket or a TCP address; then user with password, and database.
fn upstream(url: &str) -> (String, String, String) {
    let rest = url.split_once("://").unwrap().1;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, "postgres"));
    let (user, address) = authority.rsplit_once('@').unwrap_or(("postgres", authority));
    let parameter = |name: &str| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
            .map(str::to_owned)
    };
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "5432"));
    let host = parameter("host").unwrap_or_else(|| host.to_owned()).replace("%2F", "/");
    let port = parameter("port").unwrap_or_else(|| port.to_owned());
    let target = if host.starts_with('/') {
        format!("{host}/.s.PGSQL.{port}")
    } else {
        format!("{host}:{port}")
    };
    (target, user.to_owned(), database.to_owned())
}

/// Answers a client like a database that refuses its password.
fn refuse(mut client: TcpStream) {
    let fields = b"SFATAL\0C28P01\0Mpassword authentication failed\0\0";
    let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
    // The client waits for an answer to its first message.
    let _ = client.read(&mut [0; 1024]);
    let _ = client.write_all(&[b"E", length.as_slice(), fields].concat());
}

/// Copies between a client and the server until either ends or the proxy is cut.
fn relay(client: TcpStream, target: &str, state: &Arc<State>) {
    const POLL: Option<Duration> = Some(Duration::from_millis(5));
    /// Returns false if a commit of the client was not forwarded.
    fn copy(mut from: impl Read, mut to: impl Write, state: &State, is_client: bool) -> bool {
        let mut buffer = [0; 16 << 10];
        while !state.is_cut() {
            match from.read(&mut buffer) {
                Ok(0) => return true,
                Ok(count) => {
                    let message = &buffer[..count];
                    let is_commit =
                        is_client && message.windows(COMMIT.len()).any(|part| part == COMMIT);
                    if is_commit && !state.commit() {
                        return false;
                    }
                    // A commit is forwarded though it cuts the proxy; no answer is after that.
                    if (!is_commit && state.is_cut()) || to.write_all(message).is_err() {
                        return true;
                    }
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return true,
            }
        }
        true
    }
    fn both(
        client: TcpStream,
        (from_server, to_server): (impl Read + Send + 'static, impl Write + Send + 'static),
        close: impl FnOnce() + Send + 'static,
        state: &Arc<State>,
    ) {
        client.set_read_timeout(POLL).unwrap();
        let (reader, writer) = (client.try_clone().unwrap(), client);
        let (here, there) = (Arc::clone(state), Arc::clone(state));
        thread::spawn(move || {
            let end = reader.try_clone().unwrap();
            if copy(reader, to_server, &here, true) {
                close();
            } else {
                let _ = end.shutdown(Shutdown::Both);
            }
        });
        thread::spawn(move || {
            let end = writer.try_clone().unwrap();
            copy(from_server, writer, &there, false);
            let _ = end.shutdown(Shutdown::Both);
        });
    }
    if target.starts_with('/') {
        let server = UnixStream::connect(target).unwrap();
        server.set_read_timeout(POLL).unwrap();
        let end = server.try_clone().unwrap();
        let close = move || drop(end.shutdown(Shutdown::Both));
        both(client, (server.try_clone().unwrap(), server), close, state);
    } else {
        let server = TcpStream::connect(target).unwrap();
        server.set_read_timeout(POLL).unwrap();
        let end = server.try_clone().unwrap();
        let close = move || drop(end.shutdown(Shutdown::Both));
        both(client, (server.try_clone().unwrap(), server), close, state);
    }
}
