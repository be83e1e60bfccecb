//! Writing of the differences that a group of batches made.

use skills_postgres::{PgError, PgSession, ToSql};

use super::differences::{
    BlobColumns, CHUNK_BYTES, ChangeColumns, Differences, EntryColumns, VersionColumns,
};

const ERASE_BLOBS: &str = "DELETE FROM blob WHERE digest = ANY($1)";
const ERASE_USES: &str = "DELETE FROM blob_use u
     USING unnest($1::bigint[], $2::bigint[]) AS g (entry, version)
     WHERE u.entry = g.entry AND u.version = g.version";
const PUT_CHUNK: &str = "INSERT INTO blob_chunk (digest, part, bytes) VALUES ($1, $2, $3)
     ON CONFLICT DO NOTHING";
const DROP_LABELS: &str = "DELETE FROM label WHERE entry = ANY($1)";
const PUT_LABELS: &str = "INSERT INTO label (entry, name, version)
     SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[])";
/// Leaves out bodies that the database lacks.
const PUT_USES: &str = "INSERT INTO blob_use (digest, entry, version)
     SELECT u.digest, u.entry, u.version
     FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS u (digest, entry, version)
     JOIN blob b ON b.digest = u.digest ON CONFLICT DO NOTHING";
const DROP_STATE: &str = "DELETE FROM state s
     USING unnest($1::text[], $2::text[]) AS g (scope, key)
     WHERE s.scope = g.scope AND s.key = g.key";
const PUT_STATE: &str = "INSERT INTO state (scope, key, position, value)
     SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
     ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value";
const PUT_HEAD: &str =
    "UPDATE head SET revision = $1, at = $2, entries = $3, positions = $4, stamp = $5";
const NOTIFY: &str = "SELECT pg_notify($1, $2)";

/// Insert of rows that are given as columns.
struct Insert {
    /// Table with its columns.
    into: &'static str,
    /// Types of the columns.
    types: &'static [&'static str],
    /// What is done about rows that are there.
    conflict: &'static str,
}

const BLOBS: Insert = Insert {
    into: "blob (digest, crc32, size, bytes)",
    types: &["bytea", "bigint", "bigint", "bytea"],
    conflict: "ON CONFLICT DO NOTHING",
};
const ENTRIES: Insert = Insert {
    into: "entry AS e (number, kind, tier, owner, id, is_present, latest, served, kept)",
    types: &["bigint", "text", "text", "text", "text", "boolean", "bigint", "bigint", "bigint"],
    conflict: "ON CONFLICT (number) DO UPDATE SET is_present = excluded.is_present,
         latest = excluded.latest, served = excluded.served, kept = e.kept + excluded.kept",
};
const VERSIONS: Insert = Insert {
    into: "version AS v (entry, number, digest, identity, created_at, actor, registered_at,
         revision, bytes, files, author_version, message, yanked, removal, content)",
    types: &[
        "bigint", "bigint", "bytea", "bytea", "bigint", "text", "bigint", "bigint", "bigint",
        "bigint", "text", "text", "text", "text", "text",
    ],
    conflict: "ON CONFLICT (entry, number) DO UPDATE SET registered_at = excluded.registered_at,
         revision = excluded.revision, yanked = excluded.yanked, removal = excluded.removal,
         content = CASE WHEN excluded.content IS NULL AND excluded.removal IS NULL
             THEN v.content ELSE excluded.content END",
};
const CHANGES: Insert = Insert {
    into: "change (revision, at, actor, kind, tier, owner, id, action, version, is_new, label,
         previous, note, before, served)",
    types: &[
        "bigint", "bigint", "text", "text", "text", "text", "text", "text", "bigint", "boolean",
        "text", "bigint", "text", "bigint", "bigint",
    ],
    conflict: "",
};
/// Uses of bodies that the same statement inserts.
const USES: Insert = Insert {
    into: "blob_use (digest, entry, version)",
    types: &["bytea", "bigint", "bigint"],
    conflict: "ON CONFLICT DO NOTHING",
};
const BATCHES: Insert =
    Insert { into: "batch (id, outcome)", types: &["bytea", "text"], conflict: "" };

impl Insert {
    /// Returns the rows of the parameters from a number on.
    fn rows(&self, first: usize) -> String {
        let columns = self.types.iter().zip(first..).map(|(name, it)| format!("${it}::{name}[]"));
        format!("unnest({})", columns.collect::<Vec<_>>().join(", "))
    }

    fn statement(&self) -> String {
        format!("INSERT INTO {} SELECT * FROM {} {}", self.into, self.rows(1), self.conflict)
    }

    /// Returns the insert as a part of [`FlushStatements::write_if_unchanged`].
    fn part(&self, name: &str, first: usize) -> String {
        let (into, rows, conflict) = (self.into, self.rows(first), self.conflict);
        format!("{name} AS (INSERT INTO {into} SELECT u.* FROM locked, {rows} AS u {conflict})")
    }
}

/// Statements that are built once.
pub(super) struct FlushStatements {
    blobs: String,
    entries: String,
    versions: String,
    changes: String,
    batches: String,
    /// Statement of [`Differences::write_if_unchanged`]. Every insert joins the update of the head, so it waits for the
    /// lock of the head, and nothing is inserted if the head was changed.
    write_if_unchanged: String,
}

impl FlushStatements {
    pub(super) fn new() -> Self {
        let parts = [
            ("blobs", BLOBS),
            ("entries", ENTRIES),
            ("versions", VERSIONS),
            ("changes", CHANGES),
            ("uses", USES),
            ("batches", BATCHES),
        ];
        // After the parameters of the head and of the notification.
        let mut first = 8;
        let mut write_if_unchanged = "WITH locked AS (UPDATE head \
             SET revision = $1, at = $2, entries = $3, stamp = $4 WHERE stamp = $5 RETURNING 1)"
            .to_owned();
        for (name, insert) in parts {
            write_if_unchanged.push_str(", ");
            write_if_unchanged.push_str(&insert.part(name, first));
            first += insert.types.len();
        }
        write_if_unchanged.push_str(" SELECT pg_notify($6, $7) FROM locked");
        Self {
            blobs: BLOBS.statement(),
            entries: ENTRIES.statement(),
            versions: VERSIONS.statement(),
            changes: CHANGES.statement(),
            batches: BATCHES.statement(),
            write_if_unchanged,
        }
    }

    /// Returns the statements of [`Differences::write`].
    pub(super) fn of_write(&self) -> [&str; 15] {
        [
            ERASE_BLOBS,
            ERASE_USES,
            &self.blobs,
            PUT_CHUNK,
            &self.entries,
            &self.versions,
            DROP_LABELS,
            PUT_LABELS,
            PUT_USES,
            &self.changes,
            DROP_STATE,
            PUT_STATE,
            &self.batches,
            PUT_HEAD,
            NOTIFY,
        ]
    }
}

impl Differences {
    /// Writes all rows and commits; everything but large blobs is sent at once. An error other than
    /// [`PgError::OutcomeUnknown`] means that nothing was written.
    pub(super) async fn write(
        &self,
        session: &PgSession,
        statements: &FlushStatements,
        channel: &str,
    ) -> Result<(), PgError> {
        if !self.erased_blobs.is_empty() {
            session.execute_async(ERASE_BLOBS, &[&self.erased_blobs]).await?;
        }
        if !self.chunks.is_empty() {
            let (digests, sums, sizes, bytes) = &self.blobs;
            session.execute_async(&statements.blobs, &[digests, sums, sizes, bytes]).await?;
            for (digest, bytes) in &self.chunks {
                for (part, chunk) in (0_i32..).zip(bytes.chunks(CHUNK_BYTES)) {
                    let digest = digest.as_bytes().as_slice();
                    session.execute_async(PUT_CHUNK, &[&digest, &part, &chunk]).await?;
                }
            }
        }
        let Self { entries: e, versions: v, changes: c, state: s, .. } = self;
        let has_blobs = self.chunks.is_empty() && !self.blobs.0.is_empty();
        let revision = self.revision.to_string();
        let (results, committed) = {
            let run = |is_needed, sql, params| run(session, is_needed, sql, params);
            let (blobs, entries) = (blob_params(&self.blobs), entry_params(e));
            let (versions, changes) = (version_params(v), change_params(c));
            let uses: [Param<'_>; 3] = [&self.uses.0, &self.uses.1, &self.uses.2];
            let gone_uses: [Param<'_>; 2] = [&self.gone_uses.0, &self.gone_uses.1];
            let relabelled: [Param<'_>; 1] = [&self.relabelled];
            let labels: [Param<'_>; 3] = [&self.labels.0, &self.labels.1, &self.labels.2];
            let gone_state: [Param<'_>; 2] = [&self.gone_state.0, &self.gone_state.1];
            let state: [Param<'_>; 4] = [&s.scopes, &s.keys, &s.positions, &s.values];
            let batches: [Param<'_>; 2] = [&self.batches.0, &self.batches.1];
            let head: [Param<'_>; 5] =
                [&self.revision, &self.at, &self.entry_count, &self.positions, &self.stamp];
            let notify: [Param<'_>; 2] = [&channel, &revision];
            let has_changes = !c.revisions.is_empty();
            let (a, b, d, f, g, h, i, j, k, l, m, n, committed) = futures_util::join!(
                run(!self.gone_uses.0.is_empty(), ERASE_USES, &gone_uses),
                run(has_blobs, &statements.blobs, &blobs),
                run(has_changes, &statements.entries, &entries),
                run(!v.created_at.is_empty(), &statements.versions, &versions),
                run(!self.relabelled.is_empty(), DROP_LABELS, &relabelled),
                run(!self.labels.0.is_empty(), PUT_LABELS, &labels),
                run(!self.uses.0.is_empty(), PUT_USES, &uses),
                run(has_changes, &statements.changes, &changes),
                run(!self.gone_state.0.is_empty(), DROP_STATE, &gone_state),
                run(!s.keys.is_empty(), PUT_STATE, &state),
                run(true, &statements.batches, &batches),
                async {
                    let (head, notified) = futures_util::join!(
                        run(true, PUT_HEAD, &head),
                        run(has_changes, NOTIFY, &notify),
                    );
                    head.and(notified)
                },
                session.commit_async(),
            );
            ([a, b, d, f, g, h, i, j, k, l, m, n], committed)
        };
        // An error that the server reports of a statement makes the commit a rollback. After a connection that broke the
        // outcome is open: the answers were lost, the statements perhaps not.
        let mut errors = results.into_iter().filter_map(Result::err);
        match committed {
            Ok(()) => errors.next().map_or(Ok(()), Err),
            Err(unknown) => Err(errors.find(|error| !error.is_unavailable()).unwrap_or(unknown)),
        }
    }
}

impl Differences {
    /// Writes and commits simple differences with one statement, if the head still has the stamp `expected`. Returns
    /// whether it has. An error other than [`PgError::OutcomeUnknown`] means that nothing was written.
    pub(super) async fn write_if_unchanged(
        &self,
        session: &PgSession,
        statements: &FlushStatements,
        expected: i64,
        channel: &str,
    ) -> Result<bool, PgError> {
        let revision = self.revision.to_string();
        let head: [Param<'_>; 7] = [
            &self.revision,
            &self.at,
            &self.entry_count,
            &self.stamp,
            &expected,
            &channel,
            &revision,
        ];
        let mut params: Vec<Param<'_>> = Vec::with_capacity(56);
        params.extend(head);
        params.extend(blob_params(&self.blobs));
        params.extend(entry_params(&self.entries));
        params.extend(version_params(&self.versions));
        params.extend(change_params(&self.changes));
        let rest: [Param<'_>; 5] =
            [&self.uses.0, &self.uses.1, &self.uses.2, &self.batches.0, &self.batches.1];
        params.extend(rest);
        let written = session.execute_alone_async(&statements.write_if_unchanged, &params);
        Ok(written.await? == 1)
    }
}

type Param<'a> = &'a (dyn ToSql + Sync);

fn blob_params(blobs: &BlobColumns) -> [Param<'_>; 4] {
    [&blobs.0, &blobs.1, &blobs.2, &blobs.3]
}

fn entry_params(e: &EntryColumns) -> [Param<'_>; 9] {
    let [kinds, tiers, owners, ids] = &e.keys;
    [&e.numbers, kinds, tiers, owners, ids, &e.is_present, &e.latest, &e.served, &e.kept]
}

fn version_params(v: &VersionColumns) -> [Param<'_>; 15] {
    let ([entries, numbers], [digests, identities]) = (&v.numbers, &v.digests);
    let [registered_at, revisions, bytes, files] = &v.figures;
    let [author_versions, messages, yanks, removals, contents] = &v.texts;
    [
        entries,
        numbers,
        digests,
        identities,
        &v.created_at,
        &v.actors,
        registered_at,
        revisions,
        bytes,
        files,
        author_versions,
        messages,
        yanks,
        removals,
        contents,
    ]
}

fn change_params(c: &ChangeColumns) -> [Param<'_>; 15] {
    let [kinds, tiers, owners, ids] = &c.keys;
    [
        &c.revisions,
        &c.at,
        &c.actors,
        kinds,
        tiers,
        owners,
        ids,
        &c.actions,
        &c.versions,
        &c.is_new,
        &c.labels,
        &c.previous,
        &c.notes,
        &c.before,
        &c.served,
    ]
}

async fn run(
    session: &PgSession,
    is_needed: bool,
    sql: &str,
    params: &[Param<'_>],
) -> Result<(), PgError> {
    if is_needed {
        session.execute_async(sql, params).await?;
    }
    Ok(())
}
