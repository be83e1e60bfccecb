//! Workers that are connected to the bus.

use serde::Deserialize;
use serde_json::Value;
use skills_core::Timestamp;

use crate::RegistryError;

/// Bus function that lists workers.
pub(crate) const LIST: &str = "engine::workers::list";

/// Worker that is connected to the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectedWorker {
    /// Name that the worker gave itself; its id if it gave none.
    pub name: String,
    /// Language and version of its SDK, as far as it tells.
    pub runtime: String,
    /// Functions that it registered, sorted.
    pub functions: Vec<String>,
    /// Time of the connection, where the bus tells it.
    pub since: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Listing {
    workers: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    id: String,
    name: Option<String>,
    runtime: Option<String>,
    version: Option<String>,
    connected_at_ms: Option<i64>,
    #[serde(default)]
    functions: Vec<String>,
}

impl From<Row> for ConnectedWorker {
    fn from(row: Row) -> Self {
        let Row { id, name, runtime, version, connected_at_ms, mut functions } = row;
        functions.sort_unstable();
        let runtime = [runtime, version].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let since = connected_at_ms.map(|at| Timestamp::from_micros(at.saturating_mul(1000)));
        Self { name: name.filter(|name| !name.is_empty()).unwrap_or(id), runtime, functions, since }
    }
}

/// Parses a result of [`LIST`].
pub(crate) fn parse(listing: Value) -> Result<Vec<ConnectedWorker>, RegistryError> {
    let listing: Listing = serde_json::from_value(listing).map_err(|error| {
        RegistryError::unexpected_answer(format!("{LIST} returned an unexpected result: {error}"))
    })?;
    Ok(listing.workers.into_iter().map(Into::into).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_listing_is_parsed_leniently() {
        let listing = json!({ "workers": [
            { "id": "w1", "name": "weather", "runtime": "python", "version": "0.25.0", "connected_at_ms": 1,
              "functions": ["b", "a"], "more": {} },
            { "id": "w2" },
        ] });
        let workers = parse(listing).unwrap();
        assert_eq!(
            (workers[0].runtime.as_str(), &*workers[0].functions),
            ("python 0.25.0", &["a".to_owned(), "b".to_owned()][..])
        );
        assert_eq!((workers[1].name.as_str(), workers[1].since), ("w2", None));
        assert!(parse(json!({})).is_err());
    }
}
