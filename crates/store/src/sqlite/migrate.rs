//! Migration of a database of schema version 1, whose history is in its log.
//!
//! Each registration in the log that changed an entry becomes a version; repeated ones count once. All of it is one
//! transaction: a process that ends on the way leaves the file as it was.

use std::{collections::HashSet, sync::Arc};

use rusqlite::{
    Connection, Row, TransactionBehavior,
    types::{ToSqlOutput, ValueRef},
};
use skills_core::{Digest, Timestamp};

use super::{
    open::{SCHEMA_VERSION, VERSIONS_SCHEMA},
    rows,
    write::{LogEnd, TxError},
    write_entry::{EntryWriter, NewContent},
};
use crate::{BatchError, PublishOptions};

/// Converts the tables of version 1.
pub(super) fn from_version_1(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "ALTER TABLE change RENAME TO change_1;
         ALTER TABLE entry RENAME TO entry_1;",
    )?;
    transaction.execute_batch(VERSIONS_SCHEMA)?;
    replay(&transaction)?;
    transaction.execute_batch("DROP TABLE entry_1; DROP TABLE change_1;")?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()
}

/// Makes the file give free pages back, which it must be rewritten for once. A failure, such as a full disk, costs only
/// that.
pub(super) fn enable_vacuum(connection: &Connection) {
    let _ = connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; VACUUM;");
}

/// Repeats the log of version 1 with the rules of today.
fn replay(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "SELECT revision FROM entry_1";
    let existing: HashSet<u64> =
        connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let sql = "SELECT revision, at, actor, kind, tier, owner, id, after, content FROM change_1
               ORDER BY revision";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let revision: u64 = row.get(0)?;
        let at = Timestamp::from_micros(row.get(1)?);
        let actor: Arc<str> = row.get_ref(2)?.as_str()?.into();
        let before = Timestamp::from_micros(at.as_micros() - 1);
        let mut end = LogEnd { revision: revision - 1, at: before };
        let key = rows::key(row, 3, revision)?;
        let mut entries = EntryWriter { connection, end: &mut end, now: at, actor: &actor };
        // An entry whose newest change has no content is damaged, not removed.
        if row.get_ref(8)? == ValueRef::Null && !existing.contains(&revision) {
            entries.remove(key)?;
            continue;
        }
        let content = old_content(row, key.kind)?;
        match entries.put(key, content, &[], PublishOptions::default()) {
            Ok(_) => {}
            Err(TxError::Sql(error)) => return Err(error),
            Err(TxError::Batch(error)) => return Err(refused(error)),
        }
    }
    Ok(())
}

fn old_content<'a>(
    row: &'a Row<'_>,
    kind: skills_core::EntryKind,
) -> rusqlite::Result<NewContent<'a>> {
    let stored = row.get_ref(8)?;
    let content = rows::served_content(kind, stored);
    let identity = row.get::<_, Option<[u8; 32]>>(7)?.map(Digest::from_bytes);
    let identity = identity.unwrap_or_else(|| content.digest());
    Ok(NewContent { content, identity, json: ToSqlOutput::Borrowed(stored) })
}

/// A put without a condition is never refused.
fn refused(error: BatchError) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}
