//! Rows as lines of JSON: one array each. Bytes are base64, floating-point numbers are text so that none is rounded.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value as Json;

use crate::{Kind, Row, Table, TransferError, Value};

/// Returns a row as a line.
pub(super) fn encode(row: &[Value]) -> Result<String, TransferError> {
    let values = row.iter().map(|value| match value {
        Value::Null => Json::Null,
        Value::Number(number) => (*number).into(),
        Value::Real(number) => format!("{number:?}").into(),
        Value::Text(text) => text.as_str().into(),
        Value::Bytes(bytes) => STANDARD.encode(bytes).into(),
    });
    let mut line = serde_json::to_string(&values.collect::<Vec<_>>())
        .map_err(|error| TransferError::Unreadable(error.to_string()))?;
    line.push('\n');
    Ok(line)
}

/// Parses a line of a table.
pub(super) fn decode(table: &Table, line: &[u8]) -> Result<Row, TransferError> {
    let bad = || TransferError::BadArchive(format!("a row of {} cannot be parsed", table.name));
    let values: Vec<Json> = serde_json::from_slice(line).map_err(|_| bad())?;
    if values.len() != table.columns.len() {
        return Err(bad());
    }
    let columns = table.columns.iter().map(|(_, kind)| *kind);
    let parsed = values.into_iter().zip(columns).map(|pair| {
        Ok(match pair {
            (Json::Null, _) => Value::Null,
            (Json::Number(number), Kind::Number) => Value::Number(number.as_i64().ok_or_else(bad)?),
            (Json::Number(number), Kind::Flag) => {
                Value::Number(number.as_i64().filter(|flag| matches!(flag, 0 | 1)).ok_or_else(bad)?)
            }
            (Json::String(text), Kind::Real) => Value::Real(text.parse().map_err(|_| bad())?),
            (Json::String(text), Kind::Text) => Value::Text(text),
            (Json::String(text), Kind::Bytes) => {
                Value::Bytes(STANDARD.decode(text).map_err(|_| bad())?)
            }
            _ => return Err(bad()),
        })
    });
    parsed.collect()
}
