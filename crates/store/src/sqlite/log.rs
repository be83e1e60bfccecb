//! Reads of the change log.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{Connection, Row, ToSql, params};
use skills_core::Timestamp;

use super::{
    entry_rows,
    rows::{self, LOG_COLUMNS},
};
use crate::{
    Action, Change, Labels, LogFilter, LogRecord, ServedRecord, ServedVersion, VersionHeads,
};

/// Returns changes after a revision, oldest first. The version numbers beside the served one are those of today, and so is
/// the content: a purged version has none.
pub(super) fn changes(
    connection: &Connection,
    after: u64,
    limit: usize,
) -> rusqlite::Result<Vec<Change>> {
    let sql = format!(
        "SELECT {LOG_COLUMNS}, e.number, e.latest, v.registered_at, v.content
         FROM change c
         LEFT JOIN entry e ON e.kind = c.kind AND e.tier = c.tier AND e.owner = c.owner
             AND e.id = c.id
         LEFT JOIN version v ON v.entry = e.number AND v.number = c.served
         WHERE c.revision > ?1 ORDER BY c.revision LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![after, limit])?;
    let mut labels: HashMap<i64, Labels> = HashMap::new();
    let mut changes = Vec::new();
    while let Some(row) = rows.next()? {
        changes.push(change(connection, row, &mut labels)?);
    }
    Ok(changes)
}

fn change(
    connection: &Connection,
    row: &Row<'_>,
    known_labels: &mut HashMap<i64, Labels>,
) -> rusqlite::Result<Change> {
    let LogRecord { revision, at, actor, key, action, before, served } = rows::log_record(row)?;
    let is_put = matches!(action, Action::Put { .. }) && action.version() == served;
    let affects_served = before != served || (served.is_some() && is_put);
    let served = match (served, row.get::<_, Option<i64>>(15)?) {
        (Some(served), Some(entry)) => {
            let labels = match known_labels.get(&entry) {
                Some(labels) => Arc::clone(labels),
                None => {
                    let labels = entry_rows::labels(connection, entry)?;
                    known_labels.insert(entry, Arc::clone(&labels));
                    labels
                }
            };
            let content = rows::optional_content(key.kind, row.get_ref(18)?);
            let registered_at = row.get::<_, Option<i64>>(17)?.map_or(at, Timestamp::from_micros);
            Some(ServedVersion {
                registered_at,
                content: content.filter(|_| affects_served).map(Arc::new),
                heads: Some(VersionHeads { served, latest: row.get(16)?, labels }),
            })
        }
        _ => None,
    };
    Ok(Change { revision, at, actor, key, action, affects_served, served })
}

/// Returns the newest records that pass a filter.
pub(super) fn log(
    connection: &Connection,
    filter: &LogFilter,
    before: Option<u64>,
    limit: usize,
) -> rusqlite::Result<Vec<LogRecord>> {
    let before = before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
    let mut conditions = Conditions::new("c.revision < ?", before);
    conditions.add_filter(filter);
    let sql = format!(
        "SELECT {LOG_COLUMNS} FROM change c WHERE {} ORDER BY c.revision DESC LIMIT ?",
        conditions.sql()
    );
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map(conditions.params(&limit), rows::log_record)?.collect()
}

/// Returns the records after a revision that pass a filter, oldest first, each with the content that was served then.
pub(super) fn log_after(
    connection: &Connection,
    filter: &LogFilter,
    after: u64,
    limit: usize,
) -> rusqlite::Result<Vec<ServedRecord>> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut conditions = Conditions::new("c.revision > ?", after);
    conditions.add_filter(filter);
    let sql = format!(
        "SELECT {LOG_COLUMNS}, v.content
         FROM change c
         LEFT JOIN entry e ON e.kind = c.kind AND e.tier = c.tier AND e.owner = c.owner
             AND e.id = c.id
         LEFT JOIN version v ON v.entry = e.number AND v.number = c.served
         WHERE {} ORDER BY c.revision LIMIT ?",
        conditions.sql()
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let served = |row: &Row<'_>| {
        let record = rows::log_record(row)?;
        let content = rows::optional_content(record.key.kind, row.get_ref(15)?).map(Arc::new);
        Ok(ServedRecord { record, content })
    };
    statement.query_map(conditions.params(&limit), served)?.collect()
}

/// Conditions of a query of the log, with their values.
struct Conditions {
    sql: Vec<String>,
    values: Vec<Box<dyn ToSql>>,
}

impl Conditions {
    fn new(revision: &str, value: i64) -> Self {
        Self { sql: vec![revision.to_owned()], values: vec![Box::new(value)] }
    }

    fn add(&mut self, sql: &str, value: impl ToSql + 'static) {
        self.sql.push(sql.to_owned());
        self.values.push(Box::new(value));
    }

    fn add_filter(&mut self, filter: &LogFilter) {
        if let Some(kind) = filter.kind {
            self.add("c.kind = ?", kind.as_str());
        }
        if let Some(id) = &filter.id {
            self.add("c.id = ?", id.to_string());
        }
        if let Some(since) = filter.since {
            self.add("c.at >= ?", since.as_micros());
        }
        if let Some(actor) = &filter.actor {
            self.add("instr(c.actor, ?) > 0", actor.clone());
        }
        let Some(layers) = &filter.layers else { return };
        let is_layer = vec!["(c.tier = ? AND c.owner = ?)"; layers.len()].join(" OR ");
        self.sql.push(if layers.is_empty() { "0".to_owned() } else { format!("({is_layer})") });
        for layer in layers {
            self.values.push(Box::new(layer.tier().as_str()));
            self.values.push(Box::new(layer.owner().to_owned()));
        }
    }

    fn sql(&self) -> String {
        self.sql.join(" AND ")
    }

    /// Returns the values, and the limit after them.
    fn params<'a>(&'a self, limit: &'a usize) -> impl rusqlite::Params + use<'a> {
        let limit: &dyn ToSql = limit;
        rusqlite::params_from_iter(self.values.iter().map(AsRef::as_ref).chain([limit]))
    }
}
