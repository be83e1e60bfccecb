//! Fixtures of this crate's tests, and the places that the contract of all backends is tested at.

use std::path::Path;

use skills_core::{Owner, Timestamp};
use tempfile::TempDir;

#[cfg(test_postgres)]
pub(crate) use self::proxy::TestProxy;
use super::*;
use crate::Actor;

#[cfg(test_postgres)]
mod proxy;

/// Master key of the test vectors.
pub(crate) const MASTER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Time for which a vault of the tests works without its database.
#[cfg(test_postgres)]
pub(crate) const MAX_STALE: Option<std::time::Duration> = None;

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
    Postgres(Box<PostgresSchema>),
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
        Self::Postgres(Box::new(PostgresSchema::create()))
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
