//! Cost of a schema, computed before it is compiled.
//!
//! References are followed as the validator follows them. A schema in which every reference can be replaced by its
//! target takes at most (parts of that schema) x (values of the instance) steps. References to references can double
//! the work on every level, so parts are counted with references replaced.
//!
//! A recursive reference is cut off. It must have descended into a part of the instance, or it would never end. Where
//! a value recurses into a part in several ways, the work is multiplied by that number on every level of the instance
//! (`SchemaCost::recursions`).
//!
//! Values to compare with count as parts. `unevaluatedProperties` and `unevaluatedItems` evaluate their sibling
//! keywords again, recursively; that cost is counted each time.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{
    MAX_PATTERNS, MAX_SCHEMA_DEPTH, MAX_SCHEMA_PARTS, MAX_SCHEMA_VALUES, SchemaError,
    keywords::{
        COMPARISONS, DEFINITIONS, DYNAMIC, EXCLUSIVE, FOR_PARTS, MAPPINGS, REEVALUATED, SCHEMAS,
        UNEVALUATED,
    },
    size, truncate,
};
use crate::json_pointer::JsonPointer;
use skills_core::uri::percent_decode;

/// Cost of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SchemaCost {
    /// Schemas, references replaced, and values to compare with.
    pub(super) parts: usize,
    /// Patterns.
    pub(super) patterns: usize,
    /// Nesting depth, references replaced.
    pub(super) depth: usize,
    /// Most ways in which a part of a value recurses into the same schema; 0 without recursion.
    pub(super) recursions: usize,
}

/// Computes the cost of a schema.
pub(super) fn schema_cost(root: &Value) -> Result<SchemaCost, SchemaError> {
    if size(root).values > MAX_SCHEMA_VALUES {
        return Err(too_large(JsonPointer::Root, "too many values", MAX_SCHEMA_VALUES));
    }
    let draft = root.get("$schema").and_then(Value::as_str);
    let base = if draft.is_some_and(|uri| uri.contains("draft-04")) { "id" } else { "$id" };
    let cost = SchemaCost { parts: 0, patterns: 0, depth: 0, recursions: 0 };
    // The whole may be referred to as well, and is open from the start.
    let mut walk = Walk { root, base, cost, open: vec![("#", 0)], level: 0 };
    let recursions = walk.schema(root, JsonPointer::Root, 0)?;
    let cost = SchemaCost { recursions, ..walk.cost };
    // What no reference uses must be harmless too, but costs nothing.
    walk.open.clear();
    for keyword in DEFINITIONS {
        if let Some(definitions) = root.get(keyword) {
            walk.mapping(definitions, JsonPointer::Root.key(keyword), 1)?;
        }
    }
    Ok(cost)
}

struct Walk<'a> {
    root: &'a Value,
    /// Keyword that changes the base of references.
    base: &'static str,
    cost: SchemaCost,
    /// References being followed, with the depth inside the instance at that point.
    open: Vec<(&'a str, usize)>,
    /// Depth inside the instance.
    level: usize,
}

impl<'a> Walk<'a> {
    /// Adds the cost of a schema. Returns the number of ways in which a part of its value recurses.
    fn schema(
        &mut self,
        schema: &'a Value,
        at: JsonPointer<'_>,
        depth: usize,
    ) -> Result<usize, SchemaError> {
        if depth > MAX_SCHEMA_DEPTH {
            return Err(too_large(at, "too many levels", MAX_SCHEMA_DEPTH));
        }
        self.cost.depth = self.cost.depth.max(depth);
        self.add(1, at)?;
        let fields = match schema {
            Value::Object(fields) => fields,
            // Under `dependencies`, names of fields.
            Value::Array(names) => return self.add(names.len(), at).map(|()| 0),
            _ => return Ok(0),
        };
        if let Some(keyword) = DYNAMIC.into_iter().find(|keyword| fields.contains_key(*keyword)) {
            return Err(SchemaError::Unsupported { pointer: at.to_string(), keyword });
        }
        if depth > 0 {
            self.refuse_base(schema, at)?;
        }
        let (mut exclusive, mut together) = (0, 0);
        for (keyword, value) in fields {
            let recursions = self.keyword(keyword, value, at.key(keyword), depth)?;
            if EXCLUSIVE.contains(&keyword.as_str()) {
                exclusive = exclusive.max(recursions)
            } else {
                together += recursions
            }
        }
        if UNEVALUATED.into_iter().any(|keyword| fields.contains_key(keyword)) {
            together += self.evaluate_again(schema, at, depth)?;
        }
        if self.cost.patterns > MAX_PATTERNS {
            Err(too_large(at, "too many patterns", MAX_PATTERNS))
        } else {
            Ok(exclusive + together)
        }
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &'a Value,
        at: JsonPointer<'_>,
        depth: usize,
    ) -> Result<usize, SchemaError> {
        let is_for_parts = FOR_PARTS.contains(&keyword);
        self.level += usize::from(is_for_parts);
        let is_exclusive = EXCLUSIVE.contains(&keyword);
        let recursions = match keyword {
            "$ref" => self.reference(value, at, depth)?,
            "pattern" => {
                self.cost.patterns += 1;
                0
            }
            _ if COMPARISONS.contains(&keyword) => self.add(size(value).values, at).map(|()| 0)?,
            _ if MAPPINGS.contains(&keyword) => {
                if keyword == "patternProperties" {
                    self.cost.patterns += value.as_object().map_or(0, Map::len);
                }
                let recursions = self.mapping(value, at, depth + 1)?;
                if is_exclusive { recursions.most } else { recursions.all }
            }
            _ if SCHEMAS.contains(&keyword) => match value {
                Value::Array(items) => {
                    let mut recursions = Recursions::default();
                    for (index, item) in items.iter().enumerate() {
                        recursions.add(self.schema(item, at.index(index), depth + 1)?);
                    }
                    if is_exclusive { recursions.most } else { recursions.all }
                }
                other => self.schema(other, at, depth + 1)?,
            },
            _ => 0,
        };
        self.level -= usize::from(is_for_parts);
        Ok(recursions)
    }

    /// Adds the cost of an `unevaluated…` keyword: it evaluates each sibling keyword again, recursively.
    fn evaluate_again(
        &mut self,
        schema: &'a Value,
        at: JsonPointer<'_>,
        depth: usize,
    ) -> Result<usize, SchemaError> {
        if depth > MAX_SCHEMA_DEPTH {
            return Err(too_large(at, "too many levels", MAX_SCHEMA_DEPTH));
        }
        let Value::Object(fields) = schema else { return Ok(0) };
        let mut recursions = 0;
        for (keyword, value) in fields {
            if !REEVALUATED.contains(&keyword.as_str()) {
                continue;
            }
            let at = at.key(keyword);
            recursions += self.keyword(keyword, value, at, depth)?;
            match value {
                // It was followed before, so it leads somewhere, and not back without a part between.
                Value::String(reference) if keyword == "$ref" => {
                    let fragment = reference.strip_prefix('#').unwrap_or_default();
                    if let Some(target) = self.target(fragment, at)? {
                        recursions += self.evaluate_again(target, at, depth + 1)?;
                    }
                }
                Value::Array(items) => {
                    for (index, item) in items.iter().enumerate() {
                        recursions += self.evaluate_again(item, at.index(index), depth + 1)?;
                    }
                }
                Value::Object(schemas) if keyword == "dependentSchemas" => {
                    for (key, schema) in schemas {
                        recursions += self.evaluate_again(schema, at.key(key), depth + 1)?;
                    }
                }
                // Subschemas were counted with their keyword.
                _ if FOR_PARTS.contains(&keyword.as_str()) => {}
                other => recursions += self.evaluate_again(other, at, depth + 1)?,
            }
        }
        Ok(recursions)
    }

    fn add(&mut self, parts: usize, at: JsonPointer<'_>) -> Result<(), SchemaError> {
        self.cost.parts += parts;
        if self.cost.parts > MAX_SCHEMA_PARTS {
            Err(too_large(at, "too many parts", MAX_SCHEMA_PARTS))
        } else {
            Ok(())
        }
    }

    fn mapping(
        &mut self,
        mapping: &'a Value,
        at: JsonPointer<'_>,
        depth: usize,
    ) -> Result<Recursions, SchemaError> {
        let mut recursions = Recursions::default();
        for (key, schema) in mapping.as_object().into_iter().flatten() {
            recursions.add(self.schema(schema, at.key(key), depth)?);
        }
        Ok(recursions)
    }

    fn reference(
        &mut self,
        value: &'a Value,
        at: JsonPointer<'_>,
        depth: usize,
    ) -> Result<usize, SchemaError> {
        // A reference that is not text is an error of the validator.
        let Value::String(reference) = value else { return Ok(0) };
        let pointer = || at.to_string();
        let shown = || truncate(reference);
        let Some(fragment) = reference.strip_prefix('#') else {
            return Err(SchemaError::RemoteReference { pointer: pointer(), reference: shown() });
        };
        let open = self.open.iter().rev().find(|(open, _)| *open == reference.as_str());
        match open {
            Some((_, level)) if *level == self.level => {
                return Err(SchemaError::Recursive { pointer: pointer(), reference: shown() });
            }
            Some(_) => return Ok(1),
            None => {}
        }
        let Some(target) = self.target(fragment, at)? else {
            return Err(SchemaError::DanglingReference { pointer: pointer(), reference: shown() });
        };
        self.open.push((reference, self.level));
        let recursions = self.schema(target, at, depth + 1);
        self.open.pop();
        recursions
    }

    /// Resolves a fragment. Names given by `$anchor` are not supported.
    fn target(
        &self,
        fragment: &str,
        at: JsonPointer<'_>,
    ) -> Result<Option<&'a Value>, SchemaError> {
        let path = if fragment.contains('%') {
            percent_decode(fragment).map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(fragment))
        };
        let Some(path) = path else { return Ok(None) };
        let mut end = 0;
        // Every level of the path counts: a base URI also applies to the levels below.
        while let Some(length) = path.get(end + 1..).map(|rest| rest.find('/')) {
            end = length.map_or(path.len(), |length| end + 1 + length);
            match self.root.pointer(&path[..end]) {
                Some(step) => self.refuse_base(step, at)?,
                None => return Ok(None),
            }
        }
        Ok(self.root.pointer(&path))
    }

    /// Refuses a schema with its own base, which would change the meaning of references below it.
    fn refuse_base(&self, schema: &Value, at: JsonPointer<'_>) -> Result<(), SchemaError> {
        if schema.get(self.base).is_some_and(Value::is_string) {
            Err(SchemaError::Unsupported { pointer: at.to_string(), keyword: self.base })
        } else {
            Ok(())
        }
    }
}

/// Numbers of recursions of several schemas.
#[derive(Default)]
struct Recursions {
    /// Highest number for one schema.
    most: usize,
    /// Sum over all schemas.
    all: usize,
}

impl Recursions {
    fn add(&mut self, recursions: usize) {
        self.most = self.most.max(recursions);
        self.all += recursions;
    }
}

fn too_large(at: JsonPointer<'_>, what: &'static str, max: usize) -> SchemaError {
    SchemaError::TooLarge { pointer: at.to_string(), what, max }
}
