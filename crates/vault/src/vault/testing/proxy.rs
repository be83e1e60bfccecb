//! Proxy between a vault and its database, for faults.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use super::PostgresSchema;

/// Proxy in front of the database of a test, which can be cut.
pub(crate) struct TestProxy {
    /// URL of the database through the proxy.
    pub(crate) url: skills_postgres::DatabaseUrl,
    is_cut: Arc<AtomicBool>,
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
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                if !cut.load(Ordering::Relaxed) {
                    relay(client, &target, &cut);
                }
            }
        });
        Self { url: url.parse().unwrap(), is_cut }
    }

    /// Breaks all connections and refuses new ones.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    pub(crate) fn resume(&self) {
        self.is_cut.store(false, Ordering::Relaxed);
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

/// Copies between a client and the server until either ends or the proxy is cut.
fn relay(client: TcpStream, target: &str, cut: &Arc<AtomicBool>) {
    const POLL: Option<Duration> = Some(Duration::from_millis(5));
    fn copy(mut from: impl Read, mut to: impl Write, cut: &AtomicBool) {
        let mut buffer = [0; 16 << 10];
        while !cut.load(Ordering::Relaxed) {
            match from.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) if to.write_all(&buffer[..count]).is_err() => return,
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return,
            }
        }
    }
    fn both(
        client: TcpStream,
        (from_server, to_server): (impl Read + Send + 'static, impl Write + Send + 'static),
        close: impl FnOnce() + Send + 'static,
        cut: &Arc<AtomicBool>,
    ) {
        client.set_read_timeout(POLL).unwrap();
        let (reader, writer) = (client.try_clone().unwrap(), client);
        let (here, there) = (Arc::clone(cut), Arc::clone(cut));
        thread::spawn(move || {
            copy(reader, to_server, &here);
            close();
        });
        thread::spawn(move || {
            let end = writer.try_clone().unwrap();
            copy(from_server, writer, &there);
            let _ = end.shutdown(Shutdown::Both);
        });
    }
    if target.starts_with('/') {
        let server = UnixStream::connect(target).unwrap();
        server.set_read_timeout(POLL).unwrap();
        let end = server.try_clone().unwrap();
        let close = move || drop(end.shutdown(Shutdown::Both));
        both(client, (server.try_clone().unwrap(), server), close, cut);
    } else {
        let server = TcpStream::connect(target).unwrap();
        server.set_read_timeout(POLL).unwrap();
        let end = server.try_clone().unwrap();
        let close = move || drop(end.shutdown(Shutdown::Both));
        both(client, (server.try_clone().unwrap(), server), close, cut);
    }
}
