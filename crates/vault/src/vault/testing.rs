//! Fixtures of this crate's tests, and the places that the contract of all backends is tested at.

use std::path::Path;

use skills_core::{Owner, Timestamp};
use tempfile::TempDir;

use super::*;
use crate::Actor;

/// Master key of the test vectors.
pub(crate) const MASTER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Time for which a vault of the tests works without its database.
#[cfg(test_postgres)]
pub(crate) const MAX_STALE: std::time::Duration = std::time::Duration::from_secs(60);

/// Time of every change in the tests.
pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

pub(crate) fn actor() -> Actor<'static> {
    Actor { name: "tester", at: NOW }
}

pub(crate) fn later(seconds: i64) -> Timestamp {
    Timestamp::from_micros(NOW.as_micros() + seconds * 1_000_000)
}

pub(crate) fn owner(uid: &str) -> Owner {
    skills_core::keyspace::parse_owner(uid).unwrap()
}

pub(crate) fn master(current: &str, previous: Option<&str>) -> MasterKeys {
    MasterKeys::from_env(Some(current), previous).unwrap().unwrap()
}

/// Opens a vault in a new directory, for tests of the file.
pub(crate) fn vault() -> (Vault, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Vault::open(dir.path(), Some(master(MASTER, None))).unwrap(), dir)
}

/// Executes SQL on the file of a vault, as another program could.
pub(crate) fn execute_sql(dir: &Path, sql: &str) -> rusqlite::Result<()> {
    rusqlite::Connection::open(dir.join("vault.sqlite"))?.execute_batch(sql)
}

/// Database of one test. Every vault opened at it is a process of its own.
pub(crate) enum TestSite {
    Sqlite(TempDir),
    Memory(MemoryBackend),
    #[cfg(test_postgres)]
    Postgres(PostgresSchema),
}

/// Schema of one test, in the database that `SKILLS_TEST_STORE` names. It is dropped with the value.
#[cfg(test_postgres)]
pub(crate) struct PostgresSchema {
    pub(crate) url: skills_postgres::DatabaseUrl,
}

#[cfg(test_postgres)]
impl PostgresSchema {
    fn create() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("vault_test_{}_{number}", std::process::id());
        let base = std::env::var("SKILLS_TEST_STORE").unwrap();
        let separator = if base.contains('?') { '&' } else { '?' };
        let url = format!("{base}{separator}options=-c%20search_path%3D{name}");
        Self { url: url.parse().unwrap() }
    }

    /// Executes SQL as another program could.
    pub(crate) fn execute(&self, sql: &str) -> Result<(), skills_postgres::PgError> {
        let config = skills_postgres::PoolConfig::default();
        skills_postgres::Pool::new(&self.url, config)?.read(|session| session.batch(sql))
    }
}

#[cfg(test_postgres)]
impl Drop for PostgresSchema {
    fn drop(&mut self) {
        let _ = self.execute(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.url.schema()));
    }
}

impl TestSite {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) fn memory() -> Self {
        Self::Memory(MemoryBackend::default())
    }

    #[cfg(test_postgres)]
    pub(crate) fn postgres() -> Self {
        Self::Postgres(PostgresSchema::create())
    }

    /// Opens the vault with the master key of the test vectors.
    pub(crate) fn vault(&self) -> Vault {
        self.open(Some(master(MASTER, None)))
    }

    pub(crate) fn open(&self, master: Option<MasterKeys>) -> Vault {
        match self {
            Self::Sqlite(dir) => Vault::open(dir.path(), master).unwrap(),
            Self::Memory(backend) => Vault::on(Box::new(backend.reopen()), master),
            #[cfg(test_postgres)]
            Self::Postgres(schema) => Vault::open_postgres(&schema.url, MAX_STALE, master).unwrap(),
        }
    }
}

/// Makes functions of a [`TestSite`] tests of every backend.
macro_rules! contract {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test]
            fn $test() {
                super::$test(&crate::vault::testing::TestSite::sqlite());
            })+
        }

        mod memory {
            $(#[test]
            fn $test() {
                super::$test(&crate::vault::testing::TestSite::memory());
            })+
        }

        #[cfg(test_postgres)]
        mod postgres {
            $(#[test]
            fn $test() {
                super::$test(&crate::vault::testing::TestSite::postgres());
            })+
        }
    };
}
pub(crate) use contract;

/// Proxy in front of the database of a test, which can be cut.
#[cfg(test_postgres)]
pub(crate) struct TestProxy {
    /// URL of the database through the proxy.
    pub(crate) url: skills_postgres::DatabaseUrl,
    is_cut: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

#[cfg(test_postgres)]
impl TestProxy {
    pub(crate) fn start(schema: &PostgresSchema) -> Self {
        use std::{
            net::TcpListener,
            sync::{Arc, atomic::Ordering},
            thread,
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let base = std::env::var("SKILLS_TEST_STORE").unwrap();
        let (target, user, database) = upstream(&base);
        let name = schema.url.schema();
        let url = format!(
            "postgres://{user}@127.0.0.1:{port}/{database}?sslmode=disable&options=-c%20search_path%3D{name}"
        );
        let is_cut = Arc::new(std::sync::atomic::AtomicBool::new(false));
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
        self.is_cut.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn resume(&self) {
        self.is_cut.store(false, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Address of the server in a URL: a path of a socket or a TCP address; then user with password, and database.
#[cfg(test_postgres)]
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
#[cfg(test_postgres)]
fn relay(
    client: std::net::TcpStream,
    target: &str,
    cut: &std::sync::Arc<std::sync::atomic::AtomicBool>,
) {
    use std::{
        io::{ErrorKind, Read, Write},
        net::TcpStream,
        os::unix::net::UnixStream,
        sync::{Arc, atomic::AtomicBool, atomic::Ordering},
        thread,
        time::Duration,
    };
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
            let _ = end.shutdown(std::net::Shutdown::Both);
        });
    }
    if target.starts_with('/') {
        let server = UnixStream::connect(target).unwrap();
        server.set_read_timeout(POLL).unwrap();
        let end = server.try_clone().unwrap();
        let close = move || drop(end.shutdown(std::net::Shutdown::Both));
        both(client, (server.try_clone().unwrap(), server), close, cut);
    } else {
        let server = TcpStream::connect(target).unwrap();
        server.set_read_timeout(POLL).unwrap();
        let end = server.try_clone().unwrap();
        let close = move || drop(end.shutdown(std::net::Shutdown::Both));
        both(client, (server.try_clone().unwrap(), server), close, cut);
    }
}
