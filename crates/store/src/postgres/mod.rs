//! Store in PostgreSQL, which several servers may share.
//!
//! - `commit`: a group of batches as one transaction; `commit_cache`: what the last one left
//! - `load`, `differences`, `flush`: the part of the tables that a group needs, what it changed, and the write of that
//! - `outcome`: recorded outcomes of batches that are sent again
//! - `log`, `retention`, `rows`: reads
//! - `presence`, `import_records`: servers that share the database, and their imports
//! - `transfer`: copies

mod commit;
mod commit_cache;
mod differences;
mod flush;
mod import_records;
mod load;
mod log;
mod outcome;
mod presence;
mod retention;
mod rows;
mod transfer;

use std::{
    collections::HashMap,
    fmt,
    ops::RangeInclusive,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use skills_core::{Digest, EntryKey, Label, Timestamp, VersionSelector};
use skills_postgres::{
    Component, DatabaseUrl, Notification, PgError, PgSession, Pool, PoolConfig, column,
};

use self::{commit_cache::CommitCache, flush::FlushStatements, load::LoadStatements};
use crate::{
    Batch, Change, CollectionSize, ExpiredVersions, FoundVersion, GroupOutcome, LogFilter,
    LogFingerprint, LogRecord, Retention, ServedRecord, StateEntry, Store, StoreError, StoredEntry,
    Subscription, VersionHeads, VersionPage, Wake, content_json,
};

/// Time limit of reading the revision and the newest changes, by which servers notice that the database is gone.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit of reading a body.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Time after which a read of a body is tried again on a new connection.
const IDLE_READ_TIMEOUT: Duration = Duration::from_secs(8);
/// Connections for reads, each of which may be slow.
const READ_CONNECTIONS: usize = 5;
/// Connections for what must not wait for these reads: the writer thread, the follower, leases.
const CONTROL_CONNECTIONS: usize = 3;

const SCHEMA: Component = Component {
    name: "store",
    migrations: &[
        include_str!("schema.sql"),
        include_str!("presence.sql"),
        include_str!("import_records.sql"),
    ],
};

/// Store in the tables of a PostgreSQL database.
pub struct PostgresStore {
    /// Connections for reads of clients.
    read_pool: Pool,
    /// Connections for commits, the revision and leases.
    control_pool: Pool,
    statements: LoadStatements,
    flush: FlushStatements,
    /// Channel of the notifications: the revision of each commit.
    channel: String,
    commits: AtomicU64,
    cache: Mutex<CommitCache>,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore").field(self.control_pool.url()).finish()
    }
}

impl PostgresStore {
    /// Connects to a database and creates or migrates the tables.
    ///
    /// # Errors
    /// When the database cannot be reached or used, or has a newer schema.
    pub fn open(url: &DatabaseUrl) -> Result<Self, StoreError> {
        let pool = |max_connections| {
            Pool::new(url, PoolConfig { max_connections, ..PoolConfig::default() })
        };
        let (read_pool, control_pool) = (pool(READ_CONNECTIONS)?, pool(CONTROL_CONNECTIONS)?);
        Self::migrate(&control_pool)?;
        Ok(Self {
            read_pool,
            control_pool,
            statements: LoadStatements::new(),
            flush: FlushStatements::new(),
            channel: format!("skills_{}", url.schema()),
            commits: AtomicU64::new(0),
            cache: Mutex::default(),
        })
    }

    /// Creates or migrates the tables in the database of a pool.
    ///
    /// # Errors
    /// When the database cannot be reached or used, or has a newer schema.
    pub fn migrate(pool: &Pool) -> Result<(), StoreError> {
        let encoding = pool.read(|session| {
            column::<String>(
                &session.query_one("SELECT current_setting('server_encoding')", &[])?,
                0,
            )
        })?;
        if encoding != "UTF8" {
            let reason = format!("the database has the encoding {encoding}; create it with UTF8");
            return Err(PgError::Configuration(reason).into());
        }
        Ok(pool.migrate(&SCHEMA)?)
    }

    fn read<T>(
        &self,
        query: impl FnMut(&PgSession) -> Result<T, PgError>,
    ) -> Result<T, StoreError> {
        Ok(self.read_pool.read(query)?)
    }

    /// Reads what a client waits for.
    fn read_for_clients<T>(
        &self,
        query: impl FnMut(&PgSession) -> Result<T, PgError>,
    ) -> Result<T, StoreError> {
        Ok(self.read_pool.read_retrying(IDLE_READ_TIMEOUT, READ_TIMEOUT, query)?)
    }

    /// Reads what servers follow.
    fn read_to_follow<T>(
        &self,
        query: impl FnMut(&PgSession) -> Result<T, PgError>,
    ) -> Result<T, StoreError> {
        Ok(self.control_pool.read_within(FOLLOW_TIMEOUT, query)?)
    }
}

/// Returns the labels of all entries.
fn all_labels(session: &PgSession) -> Result<HashMap<i64, Vec<(Label, u64)>>, PgError> {
    let mut labels: HashMap<i64, Vec<(Label, u64)>> = HashMap::new();
    for row in session.query("SELECT entry, name, version FROM label ORDER BY name", &[])? {
        labels.entry(column(&row, 0)?).or_default().push(rows::label(&row, 1)?);
    }
    Ok(labels)
}

fn entries(session: &PgSession) -> Result<Vec<StoredEntry>, PgError> {
    let mut labels = all_labels(session)?;
    let sql = "SELECT e.number, e.kind, e.tier, e.owner, e.id, e.latest, v.number, v.revision,
                      v.registered_at, v.content
               FROM entry e JOIN version v ON v.entry = e.number AND v.number = e.served";
    let rows = session.query(sql, &[])?;
    let entries = rows.iter().map(|row| {
        let number = column(row, 0)?;
        let key = rows::key(row, 1)?;
        let missing = || {
            let reason = "its metadata is missing".to_owned();
            Arc::new(content_json::corrupt(key.kind, reason))
        };
        let content = rows::content(key.kind, row, 9)?.unwrap_or_else(missing);
        let labels = labels.remove(&number).unwrap_or_default().into();
        let (latest, served) = (rows::number(row, 5)?, rows::number(row, 6)?);
        Ok(StoredEntry {
            key,
            revision: rows::number(row, 7)?,
            registered_at: rows::timestamp(row, 8)?,
            content,
            heads: Some(VersionHeads { served, latest, labels }),
        })
    });
    entries.collect()
}

/// Reads a blob; a large one part by part.
fn blob(session: &PgSession, digest: &Digest) -> Result<Option<Bytes>, PgError> {
    let name = digest.as_bytes().as_slice();
    let sql = "SELECT crc32, size, bytes FROM blob WHERE digest = $1";
    let Some(row) = session.query_opt(sql, &[&name])? else { return Ok(None) };
    let (crc32, size): (i64, u64) = (column(&row, 0)?, rows::number(&row, 1)?);
    let bytes = match column::<Option<&[u8]>>(&row, 2)? {
        Some(bytes) => Bytes::copy_from_slice(bytes),
        None => {
            let size = usize::try_from(size).unwrap_or_default();
            let mut bytes = BytesMut::with_capacity(size);
            let sql = "SELECT bytes FROM blob_chunk WHERE digest = $1 AND part = $2";
            let mut part = 0_i32;
            while bytes.len() < size {
                let Some(row) = session.query_opt(sql, &[&name, &part])? else { break };
                bytes.extend_from_slice(column(&row, 0)?);
                part += 1;
            }
            bytes.freeze()
        }
    };
    whole(digest, crc32, bytes).map(Some)
}

/// Reads blobs, with one statement for those that are not in chunks.
fn blobs(session: &PgSession, digests: &[Digest]) -> Result<Vec<Option<Bytes>>, PgError> {
    let names: Vec<&[u8]> = digests.iter().map(|digest| digest.as_bytes().as_slice()).collect();
    let sql = "SELECT digest, crc32, bytes FROM blob WHERE digest = ANY($1) AND bytes IS NOT NULL";
    let mut found = HashMap::new();
    for row in session.query(sql, &[&names])? {
        let (digest, bytes): (_, &[u8]) = (rows::digest(&row, 0)?, column(&row, 2)?);
        found.insert(digest, whole(&digest, column(&row, 1)?, Bytes::copy_from_slice(bytes))?);
    }
    let read = |digest: &Digest| match found.get(digest) {
        Some(bytes) => Ok(Some(bytes.clone())),
        None => blob(session, digest),
    };
    digests.iter().map(read).collect()
}

/// Compares a blob with its checksum.
fn whole(digest: &Digest, crc32: i64, bytes: Bytes) -> Result<Bytes, PgError> {
    if i64::from(crc32fast::hash(&bytes)) != crc32 {
        return Err(PgError::Corrupt(format!("the body {digest} is damaged")));
    }
    Ok(bytes)
}

fn find_version(
    session: &PgSession,
    statements: &LoadStatements,
    key: &EntryKey,
    selector: &VersionSelector,
) -> Result<FoundVersion, PgError> {
    let Some((number, entry)) = load::read_entry(session, statements, key)? else {
        return Ok(FoundVersion::Missing);
    };
    let FoundVersion::Found { version, .. } = entry.find(selector) else {
        return Ok(entry.find(selector));
    };
    let sql = "SELECT content FROM version WHERE entry = $1 AND number = $2";
    let row = session.query_opt(sql, &[&number, &rows::to_i64(version.number)])?;
    let content = match row {
        Some(row) => rows::content(key.kind, &row, 0)?,
        None => None,
    };
    Ok(FoundVersion::Found { version, content })
}

fn state_value(session: &PgSession, scope: &str, key: &str) -> Result<Option<String>, PgError> {
    let sql = "SELECT value FROM state WHERE scope = $1 AND key = $2";
    session.query_opt(sql, &[&scope, &key])?.map(|row| column(&row, 0)).transpose()
}

fn state_page(
    session: &PgSession,
    scope: &str,
    after: i64,
    limit: usize,
    max_bytes: usize,
) -> Result<Vec<StateEntry>, PgError> {
    // Values whose predecessors fill the page are not sent.
    let sql = "SELECT position, key, value FROM (
                   SELECT position, key, value,
                       coalesce(sum(octet_length(value)) OVER (ORDER BY position
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
                   FROM (SELECT position, key, value FROM state
                       WHERE scope = $1 AND position > $2 ORDER BY position LIMIT $3) AS page
               ) AS sized WHERE before <= $4 ORDER BY position";
    let (limit, max_bytes) = (rows::to_i64(limit as u64), rows::to_i64(max_bytes as u64));
    let rows = session.query(sql, &[&scope, &after, &limit, &max_bytes])?;
    let entries = rows.iter().map(|row| {
        Ok(StateEntry { position: column(row, 0)?, key: column(row, 1)?, value: column(row, 2)? })
    });
    entries.collect()
}

/// Returns whether PostgreSQL can have a text; no row has one with a NUL character.
fn is_storable(text: &str) -> bool {
    !text.contains('\0')
}

impl Store for PostgresStore {
    fn entries(&self) -> Result<Vec<StoredEntry>, StoreError> {
        self.read(entries)
    }

    fn withdrawn(&self) -> Result<Vec<EntryKey>, StoreError> {
        self.read(|session| {
            let sql = "SELECT kind, tier, owner, id FROM entry WHERE is_present AND served IS NULL";
            session.query(sql, &[])?.iter().map(|row| rows::key(row, 0)).collect()
        })
    }

    fn revision(&self) -> Result<u64, StoreError> {
        self.read_to_follow(|session| {
            rows::number(&session.query_one("SELECT revision FROM head", &[])?, 0)
        })
    }

    fn commit(&self, group: Vec<Batch>, now: Timestamp) -> Result<GroupOutcome, StoreError> {
        self.commit_group(&group, now)
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        self.read_to_follow(|session| {
            // Within `wait`, which closes the connection if it is read-only: a session keeps the setting that it began with.
            session.wait(async {
                let sql = "SELECT 1 WHERE current_setting('transaction_read_only')::bool";
                if session.query_async(sql, &[]).await?.is_empty() {
                    return Ok(());
                }
                Err(PgError::ReadOnly("it accepts no writes".to_owned()))
            })
        })
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        self.read_for_clients(|session| blob(session, digest))
    }

    fn blobs(&self, digests: &[Digest]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.read_for_clients(|session| blobs(session, digests))
    }

    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.read(|session| log::changes(session, after, limit))
    }

    fn unpublished_changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.read_to_follow(|session| log::changes(session, after, limit))
    }

    fn fingerprint(&self, revisions: RangeInclusive<u64>) -> Result<LogFingerprint, StoreError> {
        self.read_to_follow(|session| log::fingerprint(session, &revisions))
    }

    fn follow(&self, wake: Wake) -> Result<Option<Subscription>, StoreError> {
        // Those of own commits are left out: the writer thread publishes them.
        let listener = self.control_pool.listen(&self.channel, move |_: Notification| wake())?;
        Ok(Some(Box::new(listener)))
    }

    fn versions(
        &self,
        key: &EntryKey,
        before: Option<u64>,
        limit: usize,
    ) -> Result<VersionPage, StoreError> {
        let entry = self.read(|session| load::read_entry(session, &self.statements, key))?;
        Ok(entry.map(|(_, entry)| entry.page(before, limit)).unwrap_or_default())
    }

    fn version(
        &self,
        key: &EntryKey,
        selector: &VersionSelector,
    ) -> Result<FoundVersion, StoreError> {
        self.read(|session| find_version(session, &self.statements, key, selector))
    }

    fn log(
        &self,
        filter: &LogFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<LogRecord>, StoreError> {
        self.read(|session| log::log(session, filter, before, limit))
    }

    fn log_after(
        &self,
        filter: &LogFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ServedRecord>, StoreError> {
        self.read(|session| log::log_after(session, filter, after, limit))
    }

    fn expired(
        &self,
        retention: &Retention,
        now: Timestamp,
        from: Option<&EntryKey>,
        limit: usize,
    ) -> Result<ExpiredVersions, StoreError> {
        self.read(|session| retention::expired(session, retention, now, from, limit))
    }

    fn expired_size(
        &self,
        retention: &Retention,
        now: Timestamp,
    ) -> Result<CollectionSize, StoreError> {
        self.read(|session| retention::expired_size(session, retention, now))
    }

    fn presence(self: Arc<Self>) -> Option<Arc<dyn crate::Presence>> {
        Some(self)
    }

    fn import_records(self: Arc<Self>) -> Option<Arc<dyn crate::ImportRecords>> {
        Some(self)
    }

    fn state_get(&self, scope: &str, key: &str) -> Result<Option<String>, StoreError> {
        if !is_storable(scope) || !is_storable(key) {
            return Ok(None);
        }
        self.read(|session| state_value(session, scope, key))
    }

    fn state_page(
        &self,
        scope: &str,
        after: i64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<StateEntry>, StoreError> {
        if !is_storable(scope) {
            return Ok(vec![]);
        }
        self.read(|session| state_page(session, scope, after, limit, max_bytes))
    }

    fn state_size(&self, scope: &str) -> Result<(u64, u64), StoreError> {
        if !is_storable(scope) {
            return Ok((0, 0));
        }
        self.read(|session| {
            let sql = "SELECT count(*), coalesce(sum(octet_length(value)), 0)::bigint
                       FROM state WHERE scope = $1";
            let row = session.query_one(sql, &[&scope])?;
            Ok((rows::number(&row, 0)?, rows::number(&row, 1)?))
        })
    }

    fn state_scopes(&self) -> Result<Vec<String>, StoreError> {
        self.read(|session| {
            let sql = "SELECT DISTINCT scope FROM state ORDER BY scope";
            session.query(sql, &[])?.iter().map(|row| column(row, 0)).collect()
        })
    }
}
