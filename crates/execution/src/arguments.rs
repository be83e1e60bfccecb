//! Validation of arguments against a tool's schema.

use serde_json::{Map, Value};
use skills_core::{WorkAccount, WorkKind, work::StopFlag};
use skills_registry::RegistryError;

use crate::{ExecuteError, Manifest};

/// Checking arguments. The steps of a check are limited ([`skills_manifest::schema`]).
const CHECK: WorkKind = WorkKind::compute("checking arguments of a tool");
/// Memory of a check beside the arguments, which the request has reserved: the violations that are collected.
const CHECK_BYTES: usize = 1 << 20;

/// Returns the arguments if they match the schema of a manifest. Both come from strangers, so a check that may take
/// long runs on a blocking thread.
pub(crate) async fn check(
    manifest: &Manifest,
    id: &str,
    arguments: Map<String, Value>,
) -> Result<Map<String, Value>, ExecuteError> {
    let Some(schema) = manifest.schema.clone() else { return Ok(arguments) };
    let arguments = Value::Object(arguments);
    let (violations, arguments) = if schema.is_quick(&arguments) {
        (schema.check(&arguments), arguments)
    } else {
        let check = move |_: &StopFlag| (schema.check(&arguments), arguments);
        let checked = WorkAccount::current().run(CHECK, CHECK_BYTES, check).await;
        checked.map_err(RegistryError::from)?
    };
    match arguments {
        Value::Object(arguments) if violations.is_empty() => Ok(arguments),
        _ => Err(ExecuteError::Arguments { id: id.to_owned(), violations }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use skills_core::Coded as _;

    use super::*;
    use crate::manifest_cache::tests::manifest_with;

    #[tokio::test]
    async fn arguments_are_returned_if_they_match_and_refused_otherwise() {
        let manifest = manifest_with(json!({"properties": {"n": {"type": "integer"}}})).await;
        let call = |name: &str, value: Value| {
            check(&manifest, "a", Map::from_iter([(name.to_owned(), value)]))
        };
        assert!(call("n", json!(1)).await.is_ok());
        assert_eq!(call("n", json!("x")).await.unwrap_err().code().as_str(), "invalid_arguments");
        // Large arguments are checked on a blocking thread.
        let large = json!(vec![0; 100_000]);
        assert!(call("n", large.clone()).await.is_err());
        assert_eq!(call("m", large.clone()).await.unwrap()["m"], large);
    }

    #[tokio::test]
    async fn an_invalid_schema_accepts_any_arguments() {
        let manifest = manifest_with(json!({"type": "banana"})).await;
        assert!(check(&manifest, "a", Map::new()).await.is_ok());
    }
}
