//! Reads of the change log.

use std::{collections::HashMap, ops::RangeInclusive, sync::Arc};

use skills_core::Label;
use skills_postgres::{PgError, PgSession, Row, ToSql, column};

use super::rows::{self, LOG_COLUMNS, to_i64};
use crate::{
    Action, Change, Fingerprint, Labels, LogFilter, LogFingerprint, LogRecord, ServedRecord,
    ServedVersion, VersionHeads,
};

/// Join of the version that a change left served. `OFFSET 0` keeps the planner from reading all versions of the entry.
const SERVED_VERSION: &str = "LEFT JOIN LATERAL (SELECT v.registered_at, v.content FROM version v
         WHERE v.entry = e.number AND v.number = c.served OFFSET 0) AS v ON true";

/// Returns changes after a revision, oldest first. The version numbers beside the served one are those of today, and so is
/// the content: a purged version has none.
pub(super) fn changes(
    session: &PgSession,
    after: u64,
    limit: usize,
) -> Result<Vec<Change>, PgError> {
    let sql = format!(
        "SELECT {LOG_COLUMNS}, e.number, e.latest, v.registered_at, v.content
         FROM change c
         LEFT JOIN entry e ON e.kind = c.kind AND e.tier = c.tier AND e.owner = c.owner
             AND e.id = c.id
         {SERVED_VERSION}
         WHERE c.revision > $1 ORDER BY c.revision LIMIT $2"
    );
    let rows = session.query(&sql, &[&to_i64(after), &to_i64(limit as u64)])?;
    if rows.is_empty() {
        return Ok(vec![]);
    }
    let mut numbers = vec![];
    for row in &rows {
        numbers.extend(column::<Option<i64>>(row, 15)?);
    }
    let labels = labels(session, &numbers)?;
    rows.iter().map(|row| change(row, &labels)).collect()
}

/// Returns the newest revision and the fingerprint of a part of the log, with one statement.
pub(super) fn fingerprint(
    session: &PgSession,
    revisions: &RangeInclusive<u64>,
) -> Result<LogFingerprint, PgError> {
    let sql = "SELECT h.revision, pg_is_in_recovery(),
                   (SELECT coalesce(sum(c.at), 0)::text FROM change c WHERE c.revision BETWEEN $1 AND $2)
               FROM head h";
    let (first, last) = (to_i64(*revisions.start()), to_i64(*revisions.end()));
    let row = session.query_one(sql, &[&first, &last])?;
    let is_standby: bool = column(&row, 1)?;
    let sum = column::<&str>(&row, 2)?.parse();
    let sum = sum.map_err(|_| PgError::Corrupt("the sum of times is no number".to_owned()))?;
    let fingerprint = (!is_standby).then_some(Fingerprint(sum));
    Ok(LogFingerprint { revision: rows::number(&row, 0)?, fingerprint })
}

/// Returns the labels of entries, by the numbers of these.
pub(super) fn labels(
    session: &PgSession,
    entries: &[i64],
) -> Result<HashMap<i64, Labels>, PgError> {
    let sql = "SELECT entry, name, version FROM label WHERE entry = ANY($1) ORDER BY name";
    let mut labels: HashMap<i64, Vec<(Label, u64)>> = HashMap::new();
    for row in session.query(sql, &[&entries])? {
        labels.entry(column(&row, 0)?).or_default().push(rows::label(&row, 1)?);
    }
    Ok(labels.into_iter().map(|(entry, labels)| (entry, labels.into())).collect())
}

fn change(row: &Row, labels: &HashMap<i64, Labels>) -> Result<Change, PgError> {
    let LogRecord { revision, at, actor, key, action, before, served } = rows::log_record(row)?;
    let is_put = matches!(action, Action::Put { .. }) && action.version() == served;
    let affects_served = before != served || (served.is_some() && is_put);
    let served = match (served, column::<Option<i64>>(row, 15)?) {
        (Some(served), Some(entry)) => {
            let content = rows::content(key.kind, row, 18)?;
            let registered_at = column::<Option<i64>>(row, 17)?;
            let labels = labels.get(&entry).map_or_else(|| Arc::from([]), Arc::clone);
            Some(ServedVersion {
                registered_at: registered_at.map_or(at, skills_core::Timestamp::from_micros),
                content: content.filter(|_| affects_served),
                heads: Some(VersionHeads { served, latest: rows::number(row, 16)?, labels }),
            })
        }
        _ => None,
    };
    Ok(Change { revision, at, actor, key, action, affects_served, served })
}

/// Returns the newest records that pass a filter.
pub(super) fn log(
    session: &PgSession,
    filter: &LogFilter,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<LogRecord>, PgError> {
    let mut conditions = Conditions::new("c.revision < $1", before.map_or(i64::MAX, to_i64));
    conditions.add_filter(filter);
    let (condition, values) = conditions.finish(limit);
    let sql = format!(
        "SELECT {LOG_COLUMNS} FROM change c WHERE {condition} ORDER BY c.revision DESC LIMIT ${}",
        values.len()
    );
    query(session, &sql, &values)?.iter().map(rows::log_record).collect()
}

/// Returns the oldest records after a revision that pass a filter, with the content that was served then.
pub(super) fn log_after(
    session: &PgSession,
    filter: &LogFilter,
    after: u64,
    limit: usize,
) -> Result<Vec<ServedRecord>, PgError> {
    let mut conditions = Conditions::new("c.revision > $1", to_i64(after));
    conditions.add_filter(filter);
    let (condition, values) = conditions.finish(limit);
    let sql = format!(
        "SELECT {LOG_COLUMNS}, v.content
         FROM change c
         LEFT JOIN entry e ON e.kind = c.kind AND e.tier = c.tier AND e.owner = c.owner
             AND e.id = c.id
         {SERVED_VERSION}
         WHERE {condition} ORDER BY c.revision LIMIT ${}",
        values.len()
    );
    let served = |row: &Row| {
        let record = rows::log_record(row)?;
        let content = rows::content(record.key.kind, row, 15)?;
        Ok(ServedRecord { record, content })
    };
    query(session, &sql, &values)?.iter().map(served).collect()
}

type Value = Box<dyn ToSql + Sync>;

fn query(session: &PgSession, sql: &str, values: &[Value]) -> Result<Vec<Row>, PgError> {
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(AsRef::as_ref).collect();
    session.query(sql, &values)
}

/// Conditions of a query of the log, with their values.
struct Conditions {
    sql: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    /// Creates conditions that begin with one on the revision, which is `$1`.
    fn new(revision: &str, value: i64) -> Self {
        Self { sql: vec![revision.to_owned()], values: vec![Box::new(value)] }
    }

    fn add(&mut self, condition: &str, value: Value) {
        self.values.push(value);
        self.sql.push(condition.replace('?', &format!("${}", self.values.len())));
    }

    fn add_filter(&mut self, filter: &LogFilter) {
        if let Some(kind) = filter.kind {
            self.add("c.kind = ?", Box::new(kind.as_str()));
        }
        if let Some(id) = &filter.id {
            self.add("c.id = ?", Box::new(id.to_string()));
        }
        if let Some(since) = filter.since {
            self.add("c.at >= ?", Box::new(since.as_micros()));
        }
        if let Some(actor) = &filter.actor {
            self.add("strpos(c.actor, ?) > 0", Box::new(actor.clone()));
        }
        if let Some(layers) = &filter.layers {
            let name = |layer: &skills_core::Layer| format!("{}/{}", layer.tier(), layer.owner());
            let layers: Vec<String> = layers.iter().map(name).collect();
            self.add("c.tier || '/' || c.owner = ANY(?)", Box::new(layers));
        }
    }

    /// Returns all conditions as SQL, and the values with the limit as the last one.
    fn finish(mut self, limit: usize) -> (String, Vec<Value>) {
        self.values.push(Box::new(to_i64(limit as u64)));
        (self.sql.join(" AND "), self.values)
    }
}
