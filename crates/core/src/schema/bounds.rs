//! What a schema may cost, judged before it is compiled.
//!
//! References are followed as the validator will follow them. A schema in which every reference could be
//! replaced by what it points to, without ever ending up in itself, takes at most (parts of that schema) x
//! (values of the instance) steps. One that leads back to itself can double its work on every level of the
//! instance, and one with references to references on every level of the schema.
//!
//! What a value is compared with counts as parts too: it may be compared with each. `unevaluatedProperties`
//! and `unevaluatedItems` ask again what stands beside them, and so on inside that; what they ask is weighed
//! as often as it is asked.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{
    MAX_PATTERNS, MAX_SCHEMA_DEPTH, MAX_SCHEMA_PARTS, MAX_SCHEMA_VALUES, SchemaError, shortened,
    size,
};
use crate::{pointer::At, uri::percent_decoded};

/// What a schema costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Weight {
    /// Schemas it consists of, references replaced, and values it compares with.
    pub(super) parts: usize,
    /// Patterns among them.
    pub(super) patterns: usize,
}

/// Keywords whose value is a schema, or a list of schemas.
const SCHEMAS: [&str; 17] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "extends",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a mapping to schemas.
const MAPPINGS: [&str; 4] = ["dependencies", "dependentSchemas", "patternProperties", "properties"];
/// Mappings of schemas that are only used through references.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// Keywords whose value is what a value, or its fields, are compared with.
const COMPARED: [&str; 4] = ["const", "dependentRequired", "enum", "required"];
/// Keywords that depend on what others have looked at.
const UNEVALUATED: [&str; 2] = ["unevaluatedItems", "unevaluatedProperties"];
/// Keywords that those ask again, each with schemas for the same value or a part of it.
const ASKED_AGAIN: [&str; 11] = [
    "$ref",
    "allOf",
    "anyOf",
    "contains",
    "dependentSchemas",
    "else",
    "if",
    "oneOf",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// References whose target is only known during a validation.
const DYNAMIC: [&str; 4] = ["$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"];

/// Judges a schema.
pub(super) fn weigh(root: &Value) -> Result<Weight, SchemaError> {
    if size(root).0 > MAX_SCHEMA_VALUES {
        return Err(too_large(At::Root, "too many values", MAX_SCHEMA_VALUES));
    }
    let draft = root.get("$schema").and_then(Value::as_str);
    let base = if draft.is_some_and(|uri| uri.contains("draft-04")) { "id" } else { "$id" };
    let mut walk = Walk { root, base, weight: Weight { parts: 0, patterns: 0 }, open: Vec::new() };
    walk.schema(root, At::Root, 0)?;
    let weight = walk.weight;
    // What no reference uses must be harmless too, but costs nothing.
    for keyword in DEFINITIONS {
        if let Some(definitions) = root.get(keyword) {
            walk.mapping(definitions, At::Root.key(keyword), 1)?;
        }
    }
    Ok(weight)
}

struct Walk<'a> {
    root: &'a Value,
    /// The keyword that gives a schema a base of its own.
    base: &'static str,
    weight: Weight,
    /// The references that are being followed.
    open: Vec<&'a str>,
}

impl<'a> Walk<'a> {
    fn schema(&mut self, schema: &'a Value, at: At<'_>, depth: usize) -> Result<(), SchemaError> {
        if depth > MAX_SCHEMA_DEPTH {
            return Err(too_large(at, "too many levels", MAX_SCHEMA_DEPTH));
        }
        self.add(1, at)?;
        let fields = match schema {
            Value::Object(fields) => fields,
            // Under `dependencies`, names of fields.
            Value::Array(names) => return self.add(names.len(), at),
            _ => return Ok(()),
        };
        if let Some(keyword) = DYNAMIC.into_iter().find(|keyword| fields.contains_key(*keyword)) {
            return Err(SchemaError::Unsupported { pointer: at.to_string(), keyword });
        }
        if depth > 0 {
            self.refuse_base(schema, at)?;
        }
        for (keyword, value) in fields {
            self.keyword(keyword, value, at.key(keyword), depth)?;
        }
        if UNEVALUATED.into_iter().any(|keyword| fields.contains_key(keyword)) {
            self.ask_again(schema, at, depth)?;
        }
        match self.weight.patterns > MAX_PATTERNS {
            true => Err(too_large(at, "too many patterns", MAX_PATTERNS)),
            false => Ok(()),
        }
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &'a Value,
        at: At<'_>,
        depth: usize,
    ) -> Result<(), SchemaError> {
        match keyword {
            "$ref" => self.reference(value, at, depth)?,
            "pattern" => self.weight.patterns += 1,
            _ if COMPARED.contains(&keyword) => self.add(size(value).0, at)?,
            _ if MAPPINGS.contains(&keyword) => {
                if keyword == "patternProperties" {
                    self.weight.patterns += value.as_object().map_or(0, Map::len);
                }
                self.mapping(value, at, depth + 1)?;
            }
            _ if SCHEMAS.contains(&keyword) => match value {
                Value::Array(items) => {
                    for (index, item) in items.iter().enumerate() {
                        self.schema(item, at.index(index), depth + 1)?;
                    }
                }
                other => self.schema(other, at, depth + 1)?,
            },
            _ => {}
        }
        Ok(())
    }

    /// Weighs what an `unevaluated…` of a schema asks: each of its neighbours, and what those would be asked
    /// in turn.
    fn ask_again(
        &mut self,
        schema: &'a Value,
        at: At<'_>,
        depth: usize,
    ) -> Result<(), SchemaError> {
        if depth > MAX_SCHEMA_DEPTH {
            return Err(too_large(at, "too many levels", MAX_SCHEMA_DEPTH));
        }
        let Value::Object(fields) = schema else { return Ok(()) };
        for (keyword, value) in fields {
            if !ASKED_AGAIN.contains(&keyword.as_str()) {
                continue;
            }
            let at = at.key(keyword);
            self.keyword(keyword, value, at, depth)?;
            match value {
                // It was followed before, so it leads somewhere and not back.
                Value::String(reference) if keyword == "$ref" => {
                    let fragment = reference.strip_prefix('#').unwrap_or_default();
                    if let Some(target) = self.target(fragment, at)? {
                        self.ask_again(target, at, depth + 1)?;
                    }
                }
                Value::Array(items) => {
                    for (index, item) in items.iter().enumerate() {
                        self.ask_again(item, at.index(index), depth + 1)?;
                    }
                }
                Value::Object(schemas) if keyword == "dependentSchemas" => {
                    for (key, schema) in schemas {
                        self.ask_again(schema, at.key(key), depth + 1)?;
                    }
                }
                other => self.ask_again(other, at, depth + 1)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, parts: usize, at: At<'_>) -> Result<(), SchemaError> {
        self.weight.parts += parts;
        match self.weight.parts > MAX_SCHEMA_PARTS {
            true => Err(too_large(at, "too many parts", MAX_SCHEMA_PARTS)),
            false => Ok(()),
        }
    }

    fn mapping(&mut self, mapping: &'a Value, at: At<'_>, depth: usize) -> Result<(), SchemaError> {
        for (key, schema) in mapping.as_object().into_iter().flatten() {
            self.schema(schema, at.key(key), depth)?;
        }
        Ok(())
    }

    fn reference(&mut self, value: &'a Value, at: At<'_>, depth: usize) -> Result<(), SchemaError> {
        // What is not text is no reference; the validator says so.
        let Value::String(reference) = value else { return Ok(()) };
        let pointer = || at.to_string();
        let shown = || shortened(reference);
        let Some(fragment) = reference.strip_prefix('#') else {
            return Err(SchemaError::RemoteReference { pointer: pointer(), reference: shown() });
        };
        if self.open.contains(&reference.as_str()) {
            return Err(SchemaError::Recursive { pointer: pointer(), reference: shown() });
        }
        let Some(target) = self.target(fragment, at)? else {
            return Err(SchemaError::DanglingReference { pointer: pointer(), reference: shown() });
        };
        self.open.push(reference);
        self.schema(target, at, depth + 1)?;
        self.open.pop();
        Ok(())
    }

    /// What a fragment points to. Names that `$anchor` gives are not looked for.
    fn target(&self, fragment: &str, at: At<'_>) -> Result<Option<&'a Value>, SchemaError> {
        let path = match fragment.contains('%') {
            true => percent_decoded(fragment).map(Cow::Owned),
            false => Some(Cow::Borrowed(fragment)),
        };
        let Some(path) = path else { return Ok(None) };
        let mut end = 0;
        // Everything on the way is looked at: a base of its own also holds for what is below.
        while let Some(length) = path.get(end + 1..).map(|rest| rest.find('/')) {
            end = length.map_or(path.len(), |length| end + 1 + length);
            match self.root.pointer(&path[..end]) {
                Some(step) => self.refuse_base(step, at)?,
                None => return Ok(None),
            }
        }
        Ok(self.root.pointer(&path))
    }

    /// A base of its own would make the references below it mean something else than here.
    fn refuse_base(&self, schema: &Value, at: At<'_>) -> Result<(), SchemaError> {
        match schema.get(self.base).is_some_and(Value::is_string) {
            true => Err(SchemaError::Unsupported { pointer: at.to_string(), keyword: self.base }),
            false => Ok(()),
        }
    }
}

fn too_large(at: At<'_>, what: &'static str, max: usize) -> SchemaError {
    SchemaError::TooLarge { pointer: at.to_string(), what, max }
}
