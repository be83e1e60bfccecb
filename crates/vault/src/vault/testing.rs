//! Fixtures of this crate's tests, and the places that the contract of all backends is tested at.

use std::path::Path;

use skills_core::{Owner, Timestamp};
use tempfile::TempDir;

use super::*;
use crate::Actor;

/// Master key of the test vectors.
pub(crate) const MASTER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

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
}

impl TestSite {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) fn memory() -> Self {
        Self::Memory(MemoryBackend::default())
    }

    /// Opens the vault with the master key of the test vectors.
    pub(crate) fn vault(&self) -> Vault {
        self.open(Some(master(MASTER, None)))
    }

    pub(crate) fn open(&self, master: Option<MasterKeys>) -> Vault {
        match self {
            Self::Sqlite(dir) => Vault::open(dir.path(), master).unwrap(),
            Self::Memory(backend) => Vault::on(Box::new(backend.reopen()), master),
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
    };
}
pub(crate) use contract;
