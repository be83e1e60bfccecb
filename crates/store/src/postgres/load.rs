//! Loading of the part of the tables that a group of batches needs.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use futures_util::future::try_join;
use skills_core::{Digest, EntryKey};
use skills_postgres::{PgError, PgSession, Row, ToSql, column};

use super::rows::{self, VERSION_COLUMNS, key_parts};
use crate::{
    Batch, BatchId, Mutation, StateEntry, VersionMutation,
    tables::{Entry, Tables},
};

const LOCK_HEAD: &str = "SELECT revision, at, entries, positions, stamp FROM head FOR UPDATE";
const LOAD_BATCHES: &str = "SELECT id, outcome FROM batch WHERE id = ANY($1)";
const LOAD_STATE: &str =
    "SELECT s.scope, s.key, s.position, s.value FROM unnest($1::text[], $2::text[]) AS k (scope, key)
     JOIN state s ON s.scope = k.scope AND s.key = k.key";
const LOAD_BLOBS: &str = "SELECT digest, size FROM blob WHERE digest = ANY($1)";
const LOAD_USES: &str =
    "SELECT DISTINCT ON (u.digest) u.digest, e.kind, e.tier, e.owner, e.id, u.version
                         FROM blob_use u JOIN entry e ON e.number = u.entry
                         WHERE u.digest = ANY($1) AND u.entry <> ALL($2)
                         ORDER BY u.digest, u.entry, u.version DESC";

/// Rows of the entries of a list of keys.
const KEYED: &str = "FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
         AS k (kind, tier, owner, id)
     JOIN entry e ON e.kind = k.kind AND e.tier = k.tier AND e.owner = k.owner AND e.id = k.id";

/// Statements of [`load`] and of the reads of entries.
pub(super) struct LoadStatements {
    entries: String,
    labels: String,
    ends: String,
    versions: String,
    contents: String,
}

impl LoadStatements {
    pub(super) fn new() -> Self {
        Self {
            entries: format!(
                "SELECT e.number, e.kind, e.tier, e.owner, e.id, e.is_present, e.latest, e.served \
                 {KEYED}"
            ),
            labels: format!(
                "SELECT e.number, l.name, l.version {KEYED} JOIN label l ON l.entry = e.number"
            ),
            ends: format!(
                "SELECT {VERSION_COLUMNS} {KEYED}
                 CROSS JOIN LATERAL unnest(ARRAY[e.latest, nullif(e.served, e.latest)]) AS n (number)
                 CROSS JOIN LATERAL (SELECT * FROM version v
                     WHERE v.entry = e.number AND v.number = n.number OFFSET 0) AS v"
            ),
            versions: format!(
                "SELECT {VERSION_COLUMNS} {KEYED} JOIN version v ON v.entry = e.number
                 ORDER BY v.entry, v.number"
            ),
            contents: format!(
                "SELECT {VERSION_COLUMNS}, v.content {KEYED}
                 JOIN version v ON v.entry = e.number"
            ),
        }
    }

    /// Returns the statements of [`load`].
    pub(super) fn of_commit(&self) -> [&str; 9] {
        let Self { entries, labels, ends, contents, .. } = self;
        [
            LOCK_HEAD,
            LOAD_BATCHES,
            LOAD_STATE,
            LOAD_BLOBS,
            LOAD_USES,
            entries,
            labels,
            ends,
            contents,
        ]
    }
}

/// Parameters of a list of keys.
pub(super) struct KeyLists([Vec<String>; 4]);

impl KeyLists {
    pub(super) fn new<'a>(keys: impl Iterator<Item = &'a EntryKey>) -> Self {
        let mut lists = [const { Vec::new() }; 4];
        for key in keys {
            for (list, part) in lists.iter_mut().zip(key_parts(key)) {
                list.push(part.to_owned());
            }
        }
        Self(lists)
    }

    fn is_empty(&self) -> bool {
        self.0[0].is_empty()
    }
}

/// Runs a query over a list of keys.
async fn keyed(session: &PgSession, sql: &str, keys: &KeyLists) -> Result<Vec<Row>, PgError> {
    if keys.is_empty() {
        return Ok(vec![]);
    }
    let [kinds, tiers, owners, ids] = &keys.0;
    session.query_async(sql, &[kinds, tiers, owners, ids]).await
}

/// Entries, state values and blobs that the batches of a group name.
#[derive(Default)]
struct Named {
    /// Entries, with whether all their versions are needed.
    entries: BTreeMap<EntryKey, bool>,
    scopes: Vec<String>,
    state_keys: Vec<String>,
    blobs: Vec<Vec<u8>>,
    erases: bool,
}

impl Named {
    fn new(group: &[Batch]) -> Self {
        let mut named = Self::default();
        for mutation in group.iter().flat_map(|batch| &batch.mutations) {
            match mutation {
                Mutation::Put { layer, id, content, blobs, .. } => {
                    let (layer, id) = (layer.clone(), Arc::clone(id));
                    let key = EntryKey { kind: content.kind(), layer, id };
                    named.entries.entry(key).or_default();
                    named.blobs.extend(blobs.iter().map(|(digest, _)| digest.as_bytes().to_vec()));
                }
                Mutation::Remove(key) => {
                    named.entries.entry(key.clone()).or_default();
                }
                Mutation::Version { key, change } => {
                    named.entries.insert(key.clone(), true);
                    named.erases |= matches!(
                        change,
                        VersionMutation::Purge { .. } | VersionMutation::Collect { .. }
                    );
                }
                Mutation::StateSet { scope, key, .. } | Mutation::StateDelete { scope, key } => {
                    named.scopes.push(scope.clone());
                    named.state_keys.push(key.clone());
                }
            }
        }
        named
    }
}

/// Part of the tables, and what is known of the rows behind it.
pub(super) struct Loaded {
    pub(super) tables: Tables,
    /// Numbers of the loaded entries.
    pub(super) numbers: HashMap<EntryKey, i64>,
    /// Newest number of an entry.
    pub(super) entries: i64,
    /// Mark of the last commit.
    pub(super) stamp: i64,
    /// Blobs of the group that are stored already.
    pub(super) stored_blobs: HashSet<Digest>,
    /// Outcomes of batches that were committed before.
    pub(super) committed: HashMap<BatchId, String>,
}

/// Begins a transaction, locks the head, and loads what a group needs. All queries are sent at once.
pub(super) async fn load(
    session: &PgSession,
    statements: &LoadStatements,
    group: &[Batch],
) -> Result<Loaded, PgError> {
    let named = Named::new(group);
    let keys = |all: bool| {
        KeyLists::new(named.entries.iter().filter(move |(_, a)| **a == all).map(|(key, _)| key))
    };
    let (some, all) = (keys(false), keys(true));
    let every = KeyLists::new(named.entries.keys());
    let ids: Vec<Vec<u8>> = group.iter().map(|batch| batch.id.as_bytes().to_vec()).collect();
    let state = async {
        if named.scopes.is_empty() {
            return Ok(vec![]);
        }
        session.query_async(LOAD_STATE, &[&named.scopes, &named.state_keys]).await
    };
    let blobs = async {
        if named.blobs.is_empty() {
            return Ok(vec![]);
        }
        session.query_async(LOAD_BLOBS, &[&named.blobs]).await
    };
    let id_params: [&(dyn ToSql + Sync); 1] = [&ids];
    // Joined futures are sent in this order; the server answers one after the other.
    let (begun, head, batches, entries, labels, ends, contents, state, blobs) = futures_util::join!(
        session.begin_async(),
        session.query_async(LOCK_HEAD, &[]),
        session.query_async(LOAD_BATCHES, &id_params),
        keyed(session, &statements.entries, &every),
        keyed(session, &statements.labels, &every),
        keyed(session, &statements.ends, &some),
        keyed(session, &statements.contents, &all),
        state,
        blobs,
    );
    begun?;
    let head = head?;
    let head = head.first().ok_or_else(|| PgError::Corrupt("the head has no row".to_owned()))?;
    let (entries, labels, contents) = (entries?, labels?, contents?);
    let mut versions: HashMap<i64, Vec<(Row, bool)>> = HashMap::new();
    for (rows, has_content) in [(ends?, false), (contents, true)] {
        for row in rows {
            versions.entry(column(&row, 0)?).or_default().push((row, has_content));
        }
    }
    let mut loaded = Loaded {
        tables: Tables {
            revision: rows::number(head, 0)?,
            last_at: column::<Option<i64>>(head, 1)?.map(skills_core::Timestamp::from_micros),
            positions: column(head, 3)?,
            ..Tables::default()
        },
        numbers: HashMap::new(),
        entries: column(head, 2)?,
        stamp: column(head, 4)?,
        stored_blobs: HashSet::new(),
        committed: HashMap::new(),
    };
    for row in &entries {
        let (number, key) = (column(row, 0)?, rows::key(row, 1)?);
        let is_complete = named.entries.get(&key).copied().unwrap_or_default();
        let entry = entry(row, versions.remove(&number).unwrap_or_default(), &key, is_complete)?;
        loaded.tables.entries.insert(key.clone(), entry);
        loaded.numbers.insert(key, number);
    }
    add_labels(&mut loaded, &labels)?;
    for row in state? {
        let (scope, key, position, value) =
            (column(&row, 0)?, column(&row, 1)?, column(&row, 2)?, column(&row, 3)?);
        loaded.tables.state.entry(scope).or_default().push(StateEntry { position, key, value });
    }
    // The same key twice in a group gives its row twice.
    for values in loaded.tables.state.values_mut() {
        values.sort_by_key(|entry| entry.position);
        values.dedup_by_key(|entry| entry.position);
    }
    for row in blobs? {
        loaded.stored_blobs.insert(rows::digest(&row, 0)?);
    }
    for row in batches? {
        let id: &[u8] = column(&row, 0)?;
        let batch = group.iter().find(|batch| batch.id.as_bytes() == id);
        loaded.committed.extend(batch.map(|batch| batch.id).zip(Some(column(&row, 1)?)));
    }
    if named.erases {
        load_uses(session, &mut loaded, &named).await?;
    }
    Ok(loaded)
}

/// Builds an entry. Versions that were not loaded are left out, or have placeholders.
fn entry(
    row: &Row,
    versions: Vec<(Row, bool)>,
    key: &EntryKey,
    is_complete: bool,
) -> Result<Entry, PgError> {
    let actor: Arc<str> = "".into();
    let latest = rows::number(row, 6)?;
    let first = if is_complete { 1 } else { rows::optional_number(row, 7)?.unwrap_or(latest) };
    let placeholders = (first.max(1)..=latest).map(|number| rows::placeholder(number, &actor));
    let mut entry = Entry {
        is_present: column(row, 5)?,
        omitted: first.saturating_sub(1),
        versions: placeholders.collect(),
        ..Entry::default()
    };
    for (row, has_content) in versions {
        let mut version = rows::version(&row)?;
        if has_content {
            version.content = rows::content(key.kind, &row, 14)?;
        }
        let slot = entry.get_mut(version.info.number);
        *slot.ok_or_else(|| rows::unreadable("version", &key.id))? = version;
    }
    Ok(entry)
}

fn add_labels(loaded: &mut Loaded, labels: &[Row]) -> Result<(), PgError> {
    let by_number: HashMap<i64, EntryKey> =
        loaded.numbers.iter().map(|(key, number)| (*number, key.clone())).collect();
    for row in labels {
        let key = by_number.get(&column(row, 0)?);
        if let Some(entry) = key.and_then(|key| loaded.tables.entries.get_mut(key)) {
            let (label, version) = rows::label(row, 1)?;
            entry.labels.insert(label, version);
        }
    }
    Ok(())
}

/// Loads which blobs of the loaded contents other entries have too, and their sizes.
async fn load_uses(session: &PgSession, loaded: &mut Loaded, named: &Named) -> Result<(), PgError> {
    let contents = loaded.tables.entries.values().flat_map(|entry| &entry.versions);
    let digests = contents.filter_map(|version| version.content.as_ref());
    let digests: HashSet<Digest> = digests.flat_map(|content| content.blob_digests()).collect();
    let digests: Vec<&[u8]> = digests.iter().map(|digest| digest.as_bytes().as_slice()).collect();
    let complete = named.entries.iter().filter(|(_, is_complete)| **is_complete);
    let complete: Vec<i64> =
        complete.filter_map(|(key, _)| loaded.numbers.get(key)).copied().collect();
    let (uses, blobs) = try_join(
        session.query_async(LOAD_USES, &[&digests, &complete]),
        session.query_async(LOAD_BLOBS, &[&digests]),
    )
    .await?;
    for row in uses {
        let holder = (rows::key(&row, 1)?, rows::number(&row, 5)?);
        loaded.tables.other_uses.insert(rows::digest(&row, 0)?, holder);
    }
    for row in blobs {
        let size = rows::number(&row, 1)?;
        loaded.tables.stored_blobs.insert(rows::digest(&row, 0)?, size);
    }
    Ok(())
}

/// Reads an entry with all its versions, without their content. Returns its number too.
pub(super) fn read_entry(
    session: &PgSession,
    statements: &LoadStatements,
    key: &EntryKey,
) -> Result<Option<(i64, Entry)>, PgError> {
    let keys = KeyLists::new(std::iter::once(key));
    let (entries, labels, versions) = session.wait(async {
        futures_util::try_join!(
            keyed(session, &statements.entries, &keys),
            keyed(session, &statements.labels, &keys),
            keyed(session, &statements.versions, &keys),
        )
    })?;
    let Some(row) = entries.first() else { return Ok(None) };
    // A write between the queries may have added versions.
    let latest = versions.last().map_or(Ok(0), |row| rows::number(row, 1))?;
    let versions = versions.into_iter().map(|row| (row, false)).collect::<Vec<_>>();
    let mut entry = Entry { is_present: column(row, 5)?, ..Entry::default() };
    for (row, _) in versions {
        entry.versions.push(rows::version(&row)?);
    }
    for row in labels {
        let (label, version) = rows::label(&row, 1)?;
        if version <= latest {
            entry.labels.insert(label, version);
        }
    }
    Ok(Some((column(row, 0)?, entry)))
}
