//! Identity of a peer. All rules that differ between SDK versions are here.

use serde_json::Value;

use crate::protocol::{FEATURES, LARGE_MESSAGES};

const MIB: usize = 1024 * 1024;

/// Size limit of a peer that has not identified itself.
pub(super) const DEFAULT_MAX_MESSAGE: usize = 16 * MIB;

/// Payload of `engine::workers::register`.
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
    /// Parses the fields of the right type and skips the rest: invalid metadata does not reject a worker.
    pub(crate) fn parse(data: &Value) -> Self {
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

    /// Returns the version of the SDK, without the leading 0. Every SDK release so far is 0.x; any other version is the
    /// worker's own, which its author may set in that field.
    fn sdk_version(&self) -> Option<(u64, u64)> {
        let mut parts =
            self.version.as_deref()?.split(['.', '-', '+']).map(|part| part.parse().ok());
        match (parts.next()??, parts.next()??, parts.next().flatten()) {
            (0, minor, patch) => Some((minor, patch.unwrap_or(0))),
            _ => None,
        }
    }

    /// Returns whether the SDK understands rejected registrations (since 0.23). Before, the last to register an id wins.
    pub(crate) fn understands_conflicts(&self) -> bool {
        !self.features.is_empty() || self.sdk_version().is_some_and(|version| version >= (23, 0))
    }

    /// Returns whether the SDK waits for its unanswered calls across a reconnect (since 0.21.8).
    pub(crate) fn supports_reattach(&self) -> bool {
        self.features.iter().any(|feature| feature == FEATURES[0])
            || self.sdk_version().is_some_and(|version| version >= (21, 8))
    }

    /// Returns whether the SDK expects bindings (before 0.13) or types in `engine::triggers::list`; `None` if unknown.
    pub(crate) fn lists_bindings(&self) -> Option<bool> {
        match self.sdk_version() {
            Some(version) => Some(version < (13, 0)),
            None if !self.features.is_empty() => Some(false),
            None => None,
        }
    }

    /// Returns the largest message that the SDK accepts without dropping its connection.
    pub(crate) fn max_message(&self) -> usize {
        let old = self.sdk_version().is_none_or(|version| version <= (24, 0));
        match self.runtime.as_deref() {
            _ if self.features.iter().any(|feature| feature == LARGE_MESSAGES) => 64 * MIB,
            Some("node") => 64 * MIB,
            Some("python") if old => MIB,
            Some("rust") if old => 16 * MIB,
            Some("python" | "rust") => 64 * MIB,
            _ => DEFAULT_MAX_MESSAGE,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sdk(runtime: &str, version: &str) -> Identity {
        Identity::parse(&json!({"runtime": runtime, "version": version}))
    }

    #[test]
    fn the_message_limit_follows_runtime_version_and_feature() {
        assert_eq!(sdk("python", "0.11.3").max_message(), MIB);
        assert_eq!(sdk("python", "0.24.0").max_message(), MIB);
        assert_eq!(sdk("python", "0.24.6").max_message(), 64 * MIB);
        assert_eq!(sdk("rust", "0.24.0").max_message(), 16 * MIB);
        assert_eq!(sdk("rust", "0.25.0").max_message(), 64 * MIB);
        assert_eq!(sdk("rust", "0.26.0-rc.4").max_message(), 64 * MIB);
        assert_eq!(sdk("node", "0.11.2").max_message(), 64 * MIB);
        assert_eq!(sdk("browser", "0.11.2").max_message(), 16 * MIB);
        let worker =
            json!({"runtime": "python", "version": "9.1", "features": ["large-messages.v1"]});
        assert_eq!(Identity::parse(&worker).max_message(), 64 * MIB);
    }

    #[test]
    fn sdks_from_0_23_understand_conflicts() {
        assert!(!sdk("rust", "0.11.3").understands_conflicts());
        assert!(!sdk("node", "0.22.1").understands_conflicts());
        assert!(sdk("rust", "0.23.0-rc.4").understands_conflicts());
        assert!(!sdk("rust", "1.2.3").understands_conflicts(), "a version of the worker itself");
        assert!(
            Identity::parse(&json!({"version": "1.2.3", "features": ["observe.v1"]}))
                .understands_conflicts()
        );
    }

    #[test]
    fn invalid_metadata_is_ignored() {
        for data in
            [json!(null), json!([]), json!({"version": 7, "features": "x", "pid": -1}), json!("x")]
        {
            let identity = Identity::parse(&data);
            assert!(!identity.understands_conflicts(), "{data:?}");
            assert_eq!(identity.max_message(), DEFAULT_MAX_MESSAGE, "{data:?}");
        }
    }
}
