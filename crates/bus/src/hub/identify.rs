//! What a peer has said it is, and what follows from it. The rules that differ between
//! generations of SDKs are here and nowhere else.

use serde_json::Value;

use crate::protocol::{FEATURES, LARGE_MESSAGES};

const MIB: usize = 1024 * 1024;

/// No peer takes less than this, so smaller frames need no knowledge of the peer.
pub(super) const SAFE_FRAME: usize = MIB;

/// Assumed of a peer that does not say what it is.
pub(super) const UNKNOWN_CAPACITY: usize = 16 * MIB;

/// The payload of `engine::workers::register`, as far as it could be read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Identity {
    pub(crate) name: Option<String>,
    pub(crate) runtime: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) os: Option<String>,
    pub(crate) isolation: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) pid: Option<u64>,
    pub(crate) features: Vec<String>,
}

impl Identity {
    /// Takes what has the right type and skips the rest: a worker is not refused for its metadata.
    pub(crate) fn read(data: &Value) -> Self {
        let text = |key: &str| data.get(key).and_then(Value::as_str).map(str::to_owned);
        let features = data.get("features").and_then(Value::as_array);
        Self {
            name: text("name"),
            runtime: text("runtime"),
            version: text("version"),
            os: text("os"),
            isolation: text("isolation"),
            description: text("description"),
            pid: data.get("pid").and_then(Value::as_u64),
            features: features
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        }
    }

    /// The version of the SDK. Every release so far is 0.x; anything else is the worker's own,
    /// which its author may set in that field.
    fn sdk(&self) -> Option<(u64, u64)> {
        let mut parts =
            self.version.as_deref()?.split(['.', '-', '+']).map(|part| part.parse().ok());
        match (parts.next()??, parts.next()??, parts.next().flatten()) {
            (0, minor, patch) => Some((minor, patch.unwrap_or(0))),
            _ => None,
        }
    }

    /// Whether the SDK knows that one function id has one owner, and understands being refused
    /// (since 0.23). Before, the last to register wins.
    pub(crate) fn expects_conflicts(&self) -> bool {
        !self.features.is_empty() || self.sdk().is_some_and(|version| version >= (23, 0))
    }

    /// Whether the SDK comes back to calls it has made when its connection breaks (since 0.21.8).
    pub(crate) fn comes_back(&self) -> bool {
        self.features.iter().any(|feature| feature == FEATURES[0])
            || self.sdk().is_some_and(|version| version >= (21, 8))
    }

    /// What the SDK takes the rows of `engine::triggers::list` for: bindings (before 0.13), or
    /// types. `None` when that cannot be told.
    pub(crate) fn lists_bindings(&self) -> Option<bool> {
        match self.sdk() {
            Some(version) => Some(version < (13, 0)),
            None if !self.features.is_empty() => Some(false),
            None => None,
        }
    }

    /// The largest message the SDK can take without dropping its connection.
    pub(crate) fn capacity(&self) -> usize {
        let old = self.sdk().is_none_or(|version| version <= (24, 0));
        match self.runtime.as_deref() {
            _ if self.features.iter().any(|feature| feature == LARGE_MESSAGES) => 64 * MIB,
            Some("node") => 64 * MIB,
            Some("python") if old => MIB,
            Some("rust") if old => 16 * MIB,
            Some("python" | "rust") => 64 * MIB,
            _ => UNKNOWN_CAPACITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sdk(runtime: &str, version: &str) -> Identity {
        Identity::read(&json!({"runtime": runtime, "version": version}))
    }

    #[test]
    fn capacity_follows_runtime_version_and_feature() {
        assert_eq!(sdk("python", "0.11.3").capacity(), MIB);
        assert_eq!(sdk("python", "0.24.0").capacity(), MIB);
        assert_eq!(sdk("python", "0.24.6").capacity(), 64 * MIB);
        assert_eq!(sdk("rust", "0.24.0").capacity(), 16 * MIB);
        assert_eq!(sdk("rust", "0.25.0").capacity(), 64 * MIB);
        assert_eq!(sdk("rust", "0.26.0-rc.4").capacity(), 64 * MIB);
        assert_eq!(sdk("node", "0.11.2").capacity(), 64 * MIB);
        assert_eq!(sdk("browser", "0.11.2").capacity(), 16 * MIB);
        let worker =
            json!({"runtime": "python", "version": "9.1", "features": ["large-messages.v1"]});
        assert_eq!(Identity::read(&worker).capacity(), 64 * MIB);
    }

    #[test]
    fn conflicts_are_for_sdks_from_0_23() {
        assert!(!sdk("rust", "0.11.3").expects_conflicts());
        assert!(!sdk("node", "0.22.1").expects_conflicts());
        assert!(sdk("rust", "0.23.0-rc.4").expects_conflicts());
        assert!(
            !sdk("rust", "1.2.3").expects_conflicts(),
            "a version of the worker's own says nothing"
        );
        assert!(
            Identity::read(&json!({"version": "1.2.3", "features": ["observe.v1"]}))
                .expects_conflicts()
        );
    }

    #[test]
    fn odd_metadata_is_survived() {
        for data in
            [json!(null), json!([]), json!({"version": 7, "features": "x", "pid": -1}), json!("x")]
        {
            let identity = Identity::read(&data);
            assert!(!identity.expects_conflicts());
            assert_eq!(identity.capacity(), UNKNOWN_CAPACITY);
        }
    }
}
