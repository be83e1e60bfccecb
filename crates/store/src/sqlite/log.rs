//! Reads of the change log.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{Connection, Row, ToSql, params};
use skills_core::Timestamp;

use super::{
    entry_rows,
    rows::{self, LOG_COLUMNS},
};
use crate::{Action, Change, Labels, LogFilter, LogRecord, ServedVersion, VersionHeads};

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
    let mut conditions = vec!["c.revision < ?".to_owned()];
    let before = before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
    let mut values: Vec<Box<dyn ToSql>> = vec![Box::new(before)];
    if let Some(kind) = filter.kind {
        conditions.push("c.kind = ?".to_owned());
        values.push(Box::new(kind.as_str()));
    }
    if let Some(id) = &filter.id {
        conditions.push("c.id = ?".to_owned());
        values.push(Box::new(id.to_string()));
    }
    if let Some(since) = filter.since {
        conditions.push("c.at >= ?".to_owned());
        values.push(Box::new(since.as_micros()));
    }
    if let Some(actor) = &filter.actor {
        conditions.push("instr(c.actor, ?) > 0".to_owned());
        values.push(Box::new(actor.clone()));
    }
    if let Some(layers) = &filter.layers {
        let is_layer = vec!["(c.tier = ? AND c.owner = ?)"; layers.len()].join(" OR ");
        conditions.push(if layers.is_empty() { "0".to_owned() } else { format!("({is_layer})") });
        for layer in layers {
            values.push(Box::new(layer.tier().as_str()));
            values.push(Box::new(layer.owner().to_owned()));
        }
    }
    values.push(Box::new(limit));
    let sql = format!(
        "SELECT {LOG_COLUMNS} FROM change c WHERE {} ORDER BY c.revision DESC LIMIT ?",
        conditions.join(" AND ")
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let params = rusqlite::params_from_iter(values.iter().map(AsRef::as_ref));
    statement.query_map(params, rows::log_record)?.collect()
}
