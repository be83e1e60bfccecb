//! Whether what a tool is called with fits its `parameters`.
//!
//! Strangers wrote both. Compiling a schema, and checking anything large, is done where nobody else waits, and
//! what was compiled is kept for the next call.

use std::sync::Arc;

use serde_json::{Map, Value};
use skills_core::{
    Digest, SkillId, ToolMeta,
    schema::{Schema, Violation},
};
use tokio::task::spawn_blocking;

use crate::{Kept, RegistryError};

/// How much memory compiled schemas may take.
const MAX_BYTES: usize = 32 << 20;
/// What a schema takes besides itself.
const ENTRY_BYTES: usize = 256;

/// The schemas that were asked for, by the digest of the manifest they are from. Where there is none the schema
/// is not valid, which only an import can have stored; it asks for nothing.
#[derive(Debug)]
pub(crate) struct Arguments(Kept<Digest, Option<Arc<Schema>>>);

impl Default for Arguments {
    fn default() -> Self {
        Self(Kept::new(MAX_BYTES))
    }
}

impl Arguments {
    /// The arguments, if they fit the tool.
    pub(crate) async fn checked(
        &self,
        id: &SkillId,
        tool: &ToolMeta,
        arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, RegistryError> {
        let Some(schema) = self.schema(tool).await? else { return Ok(arguments) };
        let arguments = Value::Object(arguments);
        let (violations, arguments) = match schema.is_quick(&arguments) {
            true => (schema.check(&arguments), arguments),
            false => {
                let check = move || (schema.check(&arguments), arguments);
                spawn_blocking(check).await.map_err(|_| RegistryError::Closed)?
            }
        };
        match arguments {
            Value::Object(arguments) if violations.is_empty() => Ok(arguments),
            _ => Err(RegistryError::Arguments { id: id.to_string(), violations }),
        }
    }

    async fn schema(&self, tool: &ToolMeta) -> Result<Option<Arc<Schema>>, RegistryError> {
        let digest = tool.source.digest;
        if let Some(known) = self.0.get(&digest) {
            return Ok(known);
        }
        let parameters = tool.parameters.clone();
        let compile = move || Schema::compile(&parameters).ok().map(Arc::new);
        let schema = spawn_blocking(compile).await.map_err(|_| RegistryError::Closed)?;
        let bytes = schema.as_ref().map_or(0, |schema| schema.bytes()) + ENTRY_BYTES;
        self.0.put(digest, schema.clone(), bytes);
        Ok(schema)
    }
}

/// What does not fit, in a sentence.
pub(crate) fn sentence(violations: &[Violation]) -> String {
    let Some(Violation { pointer, message }) = violations.first() else { return String::new() };
    let place = if pointer.is_empty() { String::new() } else { format!("{pointer}: ") };
    match violations.len() - 1 {
        0 => format!("{place}{message}"),
        more => format!("{place}{message} (and {more} more)"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skills_core::tool::ToolSource;

    use super::*;

    fn tool(parameters: Value) -> ToolMeta {
        let source = ToolSource::of(&parameters.to_string(), "application/json").unwrap();
        let (name, emoji, description) = (None, None, None);
        let (tags, credits_per_call) = (vec![], None);
        ToolMeta { source, name, emoji, tags, description, parameters, credits_per_call }
    }

    #[tokio::test]
    async fn a_schema_is_compiled_once() {
        let (arguments, id) = (Arguments::default(), "a".parse().unwrap());
        let tool = tool(json!({"properties": {"n": {"type": "integer"}}}));
        let call = |n: Value| arguments.checked(&id, &tool, Map::from_iter([("n".to_owned(), n)]));
        assert!(call(json!(1)).await.is_ok());
        let first = arguments.0.get(&tool.source.digest).unwrap().unwrap();
        assert_eq!(call(json!("x")).await.unwrap_err().code(), "invalid_arguments");
        // Also what is checked elsewhere because it is large comes back, or is refused.
        let large = json!(vec![0; 100_000]);
        assert!(call(large.clone()).await.is_err());
        assert_eq!(
            arguments
                .checked(&id, &tool, Map::from_iter([("m".to_owned(), large.clone())]))
                .await
                .unwrap()["m"],
            large
        );
        let again = arguments.0.get(&tool.source.digest).unwrap().unwrap();
        assert!(Arc::ptr_eq(&first, &again));
    }

    #[tokio::test]
    async fn what_is_no_schema_asks_for_nothing() {
        let (arguments, id) = (Arguments::default(), "a".parse().unwrap());
        let tool = tool(json!({"type": "banana"}));
        assert!(arguments.checked(&id, &tool, Map::new()).await.is_ok());
        assert!(arguments.0.get(&tool.source.digest).is_some_and(|kept| kept.is_none()));
    }
}
