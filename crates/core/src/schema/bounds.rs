//! What a schema may cost, judged before it is compiled.
//!
//! References are followed as the validator will follow them. A schema in which every reference could be
//! replaced by what it points to, without ever ending up in itself, takes at most (parts of that schema) x
//! (values of the instance) steps. One with references to references can double its work on every level of the
//! schema, so parts are counted with references replaced.
//!
//! A reference that leads back to what it stands in is cut there, and must have gone into a part of the instance on
//! the way, or it would never end. Where one value can lead a part of it back in several ways, the work is
//! multiplied by as many on every level of the instance; `Weight::ways` says how many there are.
//!
//! What a value is compared with counts as parts too: it may be compared with each. `unevaluatedProperties`
//! and `unevaluatedItems` ask again what stands beside them, and so on inside that; what they ask is weighed
//! as often as it is asked.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{
    MAX_PATTERNS, MAX_SCHEMA_DEPTH, MAX_SCHEMA_PARTS, MAX_SCHEMA_VALUES, SchemaError,
    keywords::{
        APART, ASKED_AGAIN, COMPARED, DEFINITIONS, DYNAMIC, FOR_PARTS, MAPPINGS, SCHEMAS,
        UNEVALUATED,
    },
    shortened, size,
};
use crate::{pointer::At, uri::percent_decoded};

/// What a schema costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Weight {
    /// Schemas it consists of, references replaced, and values it compares with.
    pub(super) parts: usize,
    /// Patterns among them.
    pub(super) patterns: usize,
    /// How deep it is nested, references replaced.
    pub(super) depth: usize,
    /// In how many ways at most a part of a value is led back to what the value was asked; 0 where nothing
    /// leads back.
    pub(super) ways: usize,
}

/// Judges a schema.
pub(super) fn weigh(root: &Value) -> Result<Weight, SchemaError> {
    if size(root).values > MAX_SCHEMA_VALUES {
        return Err(too_large(At::Root, "too many values", MAX_SCHEMA_VALUES));
    }
    let draft = root.get("$schema").and_then(Value::as_str);
    let base = if draft.is_some_and(|uri| uri.contains("draft-04")) { "id" } else { "$id" };
    let weight = Weight { parts: 0, patterns: 0, depth: 0, ways: 0 };
    // The whole may be referred to as well, and is open from the start.
    let mut walk = Walk { root, base, weight, open: vec![("#", 0)], level: 0 };
    let ways = walk.schema(root, At::Root, 0)?;
    let weight = Weight { ways, ..walk.weight };
    // What no reference uses must be harmless too, but costs nothing.
    walk.open.clear();
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
    /// The references that are being followed, and how many parts of parts the value was at then.
    open: Vec<(&'a str, usize)>,
    /// How many parts of parts of the instance it is at.
    level: usize,
}

impl<'a> Walk<'a> {
    /// Weighs a schema, and tells in how many ways a part of its value is led back.
    fn schema(
        &mut self,
        schema: &'a Value,
        at: At<'_>,
        depth: usize,
    ) -> Result<usize, SchemaError> {
        if depth > MAX_SCHEMA_DEPTH {
            return Err(too_large(at, "too many levels", MAX_SCHEMA_DEPTH));
        }
        self.weight.depth = self.weight.depth.max(depth);
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
        let (mut apart, mut together) = (0, 0);
        for (keyword, value) in fields {
            let ways = self.keyword(keyword, value, at.key(keyword), depth)?;
            match APART.contains(&keyword.as_str()) {
                true => apart = apart.max(ways),
                false => together += ways,
            }
        }
        if UNEVALUATED.into_iter().any(|keyword| fields.contains_key(keyword)) {
            together += self.ask_again(schema, at, depth)?;
        }
        match self.weight.patterns > MAX_PATTERNS {
            true => Err(too_large(at, "too many patterns", MAX_PATTERNS)),
            false => Ok(apart + together),
        }
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &'a Value,
        at: At<'_>,
        depth: usize,
    ) -> Result<usize, SchemaError> {
        let is_for_parts = FOR_PARTS.contains(&keyword);
        self.level += usize::from(is_for_parts);
        let is_apart = APART.contains(&keyword);
        let ways = match keyword {
            "$ref" => self.reference(value, at, depth)?,
            "pattern" => {
                self.weight.patterns += 1;
                0
            }
            _ if COMPARED.contains(&keyword) => self.add(size(value).values, at).map(|()| 0)?,
            _ if MAPPINGS.contains(&keyword) => {
                if keyword == "patternProperties" {
                    self.weight.patterns += value.as_object().map_or(0, Map::len);
                }
                let ways = self.mapping(value, at, depth + 1)?;
                if is_apart { ways.most } else { ways.all }
            }
            _ if SCHEMAS.contains(&keyword) => match value {
                Value::Array(items) => {
                    let mut ways = Ways::default();
                    for (index, item) in items.iter().enumerate() {
                        ways.add(self.schema(item, at.index(index), depth + 1)?);
                    }
                    if is_apart { ways.most } else { ways.all }
                }
                other => self.schema(other, at, depth + 1)?,
            },
            _ => 0,
        };
        self.level -= usize::from(is_for_parts);
        Ok(ways)
    }

    /// Weighs what an `unevaluated…` of a schema asks: each of its neighbours, and what those would be asked
    /// in turn.
    fn ask_again(
        &mut self,
        schema: &'a Value,
        at: At<'_>,
        depth: usize,
    ) -> Result<usize, SchemaError> {
        if depth > MAX_SCHEMA_DEPTH {
            return Err(too_large(at, "too many levels", MAX_SCHEMA_DEPTH));
        }
        let Value::Object(fields) = schema else { return Ok(0) };
        let mut ways = 0;
        for (keyword, value) in fields {
            if !ASKED_AGAIN.contains(&keyword.as_str()) {
                continue;
            }
            let at = at.key(keyword);
            ways += self.keyword(keyword, value, at, depth)?;
            match value {
                // It was followed before, so it leads somewhere, and not back without a part between.
                Value::String(reference) if keyword == "$ref" => {
                    let fragment = reference.strip_prefix('#').unwrap_or_default();
                    if let Some(target) = self.target(fragment, at)? {
                        ways += self.ask_again(target, at, depth + 1)?;
                    }
                }
                Value::Array(items) => {
                    for (index, item) in items.iter().enumerate() {
                        ways += self.ask_again(item, at.index(index), depth + 1)?;
                    }
                }
                Value::Object(schemas) if keyword == "dependentSchemas" => {
                    for (key, schema) in schemas {
                        ways += self.ask_again(schema, at.key(key), depth + 1)?;
                    }
                }
                // What is asked of parts was weighed with the keyword.
                _ if FOR_PARTS.contains(&keyword.as_str()) => {}
                other => ways += self.ask_again(other, at, depth + 1)?,
            }
        }
        Ok(ways)
    }

    fn add(&mut self, parts: usize, at: At<'_>) -> Result<(), SchemaError> {
        self.weight.parts += parts;
        match self.weight.parts > MAX_SCHEMA_PARTS {
            true => Err(too_large(at, "too many parts", MAX_SCHEMA_PARTS)),
            false => Ok(()),
        }
    }

    fn mapping(
        &mut self,
        mapping: &'a Value,
        at: At<'_>,
        depth: usize,
    ) -> Result<Ways, SchemaError> {
        let mut ways = Ways::default();
        for (key, schema) in mapping.as_object().into_iter().flatten() {
            ways.add(self.schema(schema, at.key(key), depth)?);
        }
        Ok(ways)
    }

    fn reference(
        &mut self,
        value: &'a Value,
        at: At<'_>,
        depth: usize,
    ) -> Result<usize, SchemaError> {
        // What is not text is no reference; the validator says so.
        let Value::String(reference) = value else { return Ok(0) };
        let pointer = || at.to_string();
        let shown = || shortened(reference);
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
        let ways = self.schema(target, at, depth + 1);
        self.open.pop();
        ways
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

/// In how many ways parts are led back by several schemas.
#[derive(Default)]
struct Ways {
    /// By the one that does so in most.
    most: usize,
    /// By all of them.
    all: usize,
}

impl Ways {
    fn add(&mut self, ways: usize) {
        self.most = self.most.max(ways);
        self.all += ways;
    }
}

fn too_large(at: At<'_>, what: &'static str, max: usize) -> SchemaError {
    SchemaError::TooLarge { pointer: at.to_string(), what, max }
}
