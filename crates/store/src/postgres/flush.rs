//! Writing of the differences that a group of batches made.

use skills_postgres::{PgError, Session, ToSql};

use super::differences::{CHUNK_BYTES, Differences};

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
const PUT_HEAD: &str = "UPDATE head SET revision = $1, at = $2, entries = $3, positions = $4";
const NOTIFY: &str = "SELECT pg_notify($1, $2)";

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
    pub(super) async fn write(&self, session: &Session, channel: &str) -> Result<(), PgError> {
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
            let blobs: [Param<'_>; 4] =
                [&self.blobs.0, &self.blobs.1, &self.blobs.2, &self.blobs.3];
            let entries: [Param<'_>; 9] = [
                &e.numbers,
                &e.keys[0],
                &e.keys[1],
                &e.keys[2],
                &e.keys[3],
                &e.is_present,
                &e.latest,
                &e.served,
                &e.kept,
            ];
            let versions: [Param<'_>; 15] = [
                &v.numbers[0],
                &v.numbers[1],
                &v.digests[0],
                &v.digests[1],
                &v.created_at,
                &v.actors,
                &v.figures[0],
                &v.figures[1],
                &v.figures[2],
                &v.figures[3],
                &v.texts[0],
                &v.texts[1],
                &v.texts[2],
                &v.texts[3],
                &v.texts[4],
            ];
            let changes: [Param<'_>; 15] = [
                &c.revisions,
                &c.at,
                &c.actors,
                &c.keys[0],
                &c.keys[1],
                &c.keys[2],
                &c.keys[3],
                &c.actions,
                &c.versions,
                &c.is_new,
                &c.labels,
                &c.previous,
                &c.notes,
                &c.before,
                &c.served,
            ];
            let uses: [Param<'_>; 3] = [&self.uses.0, &self.uses.1, &self.uses.2];
            let gone_uses: [Param<'_>; 2] = [&self.gone_uses.0, &self.gone_uses.1];
            let relabelled: [Param<'_>; 1] = [&self.relabelled];
            let labels: [Param<'_>; 3] = [&self.labels.0, &self.labels.1, &self.labels.2];
            let gone_state: [Param<'_>; 2] = [&self.gone_state.0, &self.gone_state.1];
            let state: [Param<'_>; 4] = [&s.scopes, &s.keys, &s.positions, &s.values];
            let batches: [Param<'_>; 2] = [&self.batches.0, &self.batches.1];
            let head: [Param<'_>; 4] =
                [&self.revision, &self.at, &self.entry_count, &self.positions];
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

type Param<'a> = &'a (dyn ToSql + Sync);

async fn run(
    session: &Session,
    is_needed: bool,
    sql: &str,
    params: &[Param<'_>],
) -> Result<(), PgError> {
    if is_needed {
        session.execute_async(sql, params).await?;
    }
    Ok(())
}
