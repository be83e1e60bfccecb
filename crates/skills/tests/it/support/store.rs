//! Store and vault of a data directory, opened by the test itself: files, or a schema in PostgreSQL if
//! `SKILLS_TEST_STORE` names one.

use std::{path::Path, sync::Arc};

use skills_store::{DatabaseUrl, PostgresStore, SqliteStore, Store};
use skills_testkit::store_url;
use skills_vault::{MasterKeys, Vault};

fn database(data_dir: &Path) -> Option<DatabaseUrl> {
    Some(store_url(data_dir)?.parse().unwrap())
}

/// Opens or creates the store of a data directory.
pub(crate) fn open_store(data_dir: &Path) -> Arc<dyn Store> {
    match database(data_dir) {
        Some(url) => Arc::new(PostgresStore::open(&url).unwrap()),
        None => Arc::new(SqliteStore::open(data_dir).unwrap()),
    }
}

/// Opens or creates the vault of a data directory.
pub(crate) fn open_vault(data_dir: &Path, master: Option<MasterKeys>) -> Vault {
    match database(data_dir) {
        Some(url) => Vault::open_postgres(&url, None, master).unwrap(),
        None => Vault::open(data_dir, master).unwrap(),
    }
}
