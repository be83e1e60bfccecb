//! Writing of the differences that a group of batches made.

use skills_postgres::{PgError, PgSession, ToSql};

use super::differences::{
    BlobColumns, CHUNK_BYTES, ChangeColumns, Differences, EntryColumns, VersionColumns,
};

const ERASE_BLOBS: &str = "DELETE FROM blob WHERE digest = ANY($1)";
const ERASE_USES: &str = "DELETE FROM blob_use u
     USING unnest($1::bigint[], $2::bigint[]) AS g (entry, version)
     WHERE u.entry = g.entry AND u.version = g.version";
const PUT_BLOBS: &str = "INSERT INTO blob (digest, crc32, size, bytes)
     SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bytea[])
     ON CONFLICT DO NOTHING";
const PUT_CHUNK: &str = "INSERT INTO blob_chunk (digest, part, bytes) VALUES ($1, $2, $3)
     ON CONFLICT DO NOTHING";
const PUT_ENTRIES: &str = "INSERT INTO entry AS e
         (number, kind, tier, owner, id, is_present, latest, served, kept)
     SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[],
         $6::boolean[], $7::bigint[], $8::bigint[], $9::bigint[])
     ON CONFLICT (number) DO UPDATE SET is_present = excluded.is_present,
         latest = excluded.latest, served = excluded.served, kept = e.kept + excluded.kept";
const PUT_VERSIONS: &str = "INSERT INTO version AS v
         (entry, number, digest, identity, created_at, actor, registered_at, revision, bytes,
          files, author_version, message, yanked, removal, content)
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bigint[],
         $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[],
         $12::text[], $13::text[], $14::text[], $15::text[])
     ON CONFLICT (entry, number) DO UPDATE SET registered_at = excluded.registered_at,
         revision = excluded.revision, yanked = excluded.yanked, removal = excluded.removal,
         content = CASE WHEN excluded.content IS NULL AND excluded.removal IS NULL
             THEN v.content ELSE excluded.content END";
const DROP_LABELS: &str = "DELETE FROM label WHERE entry = ANY($1)";
const PUT_LABELS: &str = "INSERT INTO label (entry, name, version)
     SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[])";
const PUT_USES: &str = "INSERT INTO blob_use (digest, entry, version)
     SELECT u.digest, u.entry, u.version
     FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS u (digest, entry, version)
     JOIN blob b ON b.digest = u.digest ON CONFLICT DO NOTHING";
const PUT_CHANGES: &str = "INSERT INTO change
         (revision, at, actor, kind, tier, owner, id, action, version, is_new, label, previous,
          note, before, served)
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[],
         $6::text[], $7::text[], $8::text[], $9::bigint[], $10::boolean[], $11::text[],
         $12::bigint[], $13::text[], $14::bigint[], $15::bigint[])";
const DROP_STATE: &str = "DELETE FROM state s
     USING unnest($1::text[], $2::text[]) AS g (scope, key)
     WHERE s.scope = g.scope AND s.key = g.key";
const PUT_STATE: &str = "INSERT INTO state (scope, key, position, value)
     SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
     ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value";
const PUT_BATCHES: &str = "INSERT INTO batch (id, outcome)
     SELECT * FROM unnest($1::bytea[], $2::text[])";
const PUT_HEAD: &str =
    "UPDATE head SET revision = $1, at = $2, entries = $3, positions = $4, stamp = $5";
const NOTIFY: &str = "SELECT pg_notify($1, $2)";

/// Statement of [`Differences::write_if_unchanged`]. Every insert joins the update of the head, so it waits for the lock of
/// the head, and nothing is inserted if the head was changed.
const WRITE_IF_UNCHANGED: &str = "WITH locked AS (
         UPDATE head SET revision = $49, at = $50, entries = $51, stamp = $52 WHERE stamp = $53
         RETURNING 1),
     blobs AS (
         INSERT INTO blob (digest, crc32, size, bytes)
         SELECT u.* FROM locked, unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bytea[]) AS u
         ON CONFLICT DO NOTHING),
     entries AS (
         INSERT INTO entry AS e (number, kind, tier, owner, id, is_present, latest, served, kept)
         SELECT u.* FROM locked, unnest($5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[],
             $10::boolean[], $11::bigint[], $12::bigint[], $13::bigint[]) AS u
         ON CONFLICT (number) DO UPDATE SET is_present = excluded.is_present,
             latest = excluded.latest, served = excluded.served, kept = e.kept + excluded.kept),
     versions AS (
         INSERT INTO version AS v
             (entry, number, digest, identity, created_at, actor, registered_at, revision, bytes,
              files, author_version, message, yanked, removal, content)
         SELECT u.* FROM locked, unnest($14::bigint[], $15::bigint[], $16::bytea[], $17::bytea[],
             $18::bigint[], $19::text[], $20::bigint[], $21::bigint[], $22::bigint[],
             $23::bigint[], $24::text[], $25::text[], $26::text[], $27::text[], $28::text[]) AS u
         ON CONFLICT (entry, number) DO UPDATE SET registered_at = excluded.registered_at,
             revision = excluded.revision, content = coalesce(excluded.content, v.content)),
     changes AS (
         INSERT INTO change (revision, at, actor, kind, tier, owner, id, action, version, is_new,
             label, previous, note, before, served)
         SELECT u.* FROM locked, unnest($29::bigint[], $30::bigint[], $31::text[], $32::text[],
             $33::text[], $34::text[], $35::text[], $36::text[], $37::bigint[], $38::boolean[],
             $39::text[], $40::bigint[], $41::text[], $42::bigint[], $43::bigint[]) AS u),
     uses AS (
         INSERT INTO blob_use (digest, entry, version)
         SELECT u.* FROM locked, unnest($44::bytea[], $45::bigint[], $46::bigint[]) AS u
         ON CONFLICT DO NOTHING),
     batches AS (
         INSERT INTO batch (id, outcome)
         SELECT u.* FROM locked, unnest($47::bytea[], $48::text[]) AS u)
     SELECT pg_notify($54, $55) FROM locked";

/// Statements of [`Differences::write`].
pub(super) const STATEMENTS: [&str; 15] = [
    ERASE_BLOBS,
    ERASE_USES,
    PUT_BLOBS,
    PUT_CHUNK,
    PUT_ENTRIES,
    PUT_VERSIONS,
    DROP_LABELS,
    PUT_LABELS,
    PUT_USES,
    PUT_CHANGES,
    DROP_STATE,
    PUT_STATE,
    PUT_BATCHES,
    PUT_HEAD,
    NOTIFY,
];

impl Differences {
    /// Writes all rows and commits; everything but large blobs is sent at once. An error other than
    /// [`PgError::OutcomeUnknown`] means that nothing was written.
    pub(super) async fn write(&self, session: &PgSession, channel: &str) -> Result<(), PgError> {
        if !self.erased_blobs.is_empty() {
            session.execute_async(ERASE_BLOBS, &[&self.erased_blobs]).await?;
        }
        if !self.chunks.is_empty() {
            let (digests, sums, sizes, bytes) = &self.blobs;
            session.execute_async(PUT_BLOBS, &[digests, sums, sizes, bytes]).await?;
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
            let run = |is_needed: bool, sql, params| run(session, is_needed, sql, params);
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
                run(has_blobs, PUT_BLOBS, &blobs),
                run(has_changes, PUT_ENTRIES, &entries),
                run(!v.created_at.is_empty(), PUT_VERSIONS, &versions),
                run(!self.relabelled.is_empty(), DROP_LABELS, &relabelled),
                run(!self.labels.0.is_empty(), PUT_LABELS, &labels),
                run(!self.uses.0.is_empty(), PUT_USES, &uses),
                run(has_changes, PUT_CHANGES, &changes),
                run(!self.gone_state.0.is_empty(), DROP_STATE, &gone_state),
                run(!s.keys.is_empty(), PUT_STATE, &state),
                run(true, PUT_BATCHES, &batches),
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
        expected: i64,
        channel: &str,
    ) -> Result<bool, PgError> {
        let revision = self.revision.to_string();
        let mut params: Vec<Param<'_>> = Vec::with_capacity(56);
        params.extend(blob_params(&self.blobs));
        params.extend(entry_params(&self.entries));
        params.extend(version_params(&self.versions));
        params.extend(change_params(&self.changes));
        let rest: [Param<'_>; 12] = [
            &self.uses.0,
            &self.uses.1,
            &self.uses.2,
            &self.batches.0,
            &self.batches.1,
            &self.revision,
            &self.at,
            &self.entry_count,
            &self.stamp,
            &expected,
            &channel,
            &revision,
        ];
        params.extend(rest);
        Ok(session.execute_alone_async(WRITE_IF_UNCHANGED, &params).await? == 1)
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
