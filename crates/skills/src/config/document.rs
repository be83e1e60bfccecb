//! The configuration file as a tree of values with their positions.
//!
//! It knows YAML and no settings. A message names the type of a value and never the value, which may be a credential; for
//! the same reason the types do not implement `Debug`.

use std::{convert::Infallible, fmt, path::Path};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// Line and column, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    line: u64,
    column: u64,
}

impl From<Location> for Position {
    fn from(location: Location) -> Self {
        Self { line: location.line(), column: location.column() }
    }
}

impl Position {
    /// Position of an error without a location.
    pub(super) const START: Self = Self { line: 1, column: 1 };

    /// Returns `path:line:column`.
    pub(super) fn in_file(self, path: &Path) -> String {
        format!("{}:{}:{}", path.display(), self.line, self.column)
    }
}

/// Error of a setting. The reason does not contain a value that may be a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unusable {
    pub(super) at: Position,
    /// Name within a setting that is a mapping.
    pub(super) entry: Option<String>,
    pub(super) reason: String,
    pub(super) hint: Option<String>,
}

/// A value and its position.
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) value: Value,
}

/// Names and values of a mapping, in the order of the file.
pub(super) type Entries = Vec<(Spanned<String>, Node)>;

/// A YAML value.
pub(super) enum Value {
    Empty,
    Flag(bool),
    Whole(u64),
    /// A negative or fractional number, which no setting accepts.
    OtherNumber,
    Text(String),
    List(Vec<Node>),
    Map(Entries),
}

impl Value {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Flag(_) => "true or false",
            Self::Whole(_) | Self::OtherNumber => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

impl Node {
    pub(super) fn unusable(&self, reason: impl Into<String>) -> Unusable {
        Unusable { at: self.at, entry: None, reason: reason.into(), hint: None }
    }

    fn expected(&self, expected: &str) -> Unusable {
        match self.value {
            Value::Empty => self.unusable("has no value"),
            _ => self.unusable(format!("must be {expected}, not {}", self.value.kind())),
        }
    }

    pub(super) fn text(&self) -> Result<&str, Unusable> {
        match &self.value {
            Value::Text(text) => Ok(text),
            Value::Flag(_) | Value::Whole(_) | Value::OtherNumber => Err(Unusable {
                hint: Some("put the value in quotes".to_owned()),
                ..self.expected("text")
            }),
            _ => Err(self.expected("text")),
        }
    }

    pub(super) fn flag(&self) -> Result<bool, Unusable> {
        match self.value {
            Value::Flag(flag) => Ok(flag),
            _ => Err(self.expected("true or false")),
        }
    }

    pub(super) fn whole(&self) -> Result<u64, Unusable> {
        match self.value {
            Value::Whole(number) => Ok(number),
            _ => Err(self.expected("a whole number")),
        }
    }

    /// Parses a list of texts.
    pub(super) fn parse_list<T, E: fmt::Display>(
        &self,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Vec<T>, Unusable> {
        let Value::List(entries) = &self.value else { return Err(self.expected("a list")) };
        let entry = |entry: &Node| {
            parse(entry.text()?)
                .map_err(|error| entry.unusable(format!("has an unusable entry: {error}")))
        };
        entries.iter().map(entry).collect()
    }

    /// Parses a list of groups of two texts or more.
    pub(super) fn parse_groups(&self) -> Result<Vec<Vec<String>>, Unusable> {
        let Value::List(entries) = &self.value else {
            return Err(self.expected("a list of groups"));
        };
        let group = |entry: &Node| {
            let group = entry.parse_list(|text| Ok::<_, Infallible>(text.to_owned()))?;
            if group.len() < 2 {
                return Err(entry.unusable("has a group of fewer than two words".to_owned()));
            }
            Ok(group)
        };
        entries.iter().map(group).collect()
    }

    /// Returns the entries of a section, which may be empty.
    pub(super) fn section(self) -> Result<Entries, Unusable> {
        match self.value {
            Value::Map(entries) => Ok(entries),
            Value::Empty => Ok(vec![]),
            _ => Err(self.expected("a mapping of settings")),
        }
    }
}

/// Parses a file; `None` if it is empty. An error may have no position.
pub(super) fn parse(text: &str) -> Result<Option<Node>, (Option<Position>, &'static str)> {
    serde_saphyr::from_str(text).map_err(|error| {
        let location = error.location().filter(|location| *location != Location::UNKNOWN);
        let reason = match error.without_snippet() {
            serde_saphyr::Error::DuplicateMappingKey { .. } => "a setting is given twice",
            serde_saphyr::Error::MultipleDocuments { .. } => "more than one YAML document",
            _ => "not valid YAML",
        };
        (location.map(Position::from), reason)
    })
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, .. } = Spanned::deserialize(deserializer)?;
        Ok(Self { at: referenced.into(), value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Empty)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Empty)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Flag(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(u64::try_from(number).map_or(Value::OtherNumber, Value::Whole))
    }

    fn visit_u128<E>(self, _: u128) -> Result<Value, E> {
        Ok(Value::OtherNumber)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Value, E> {
        Ok(Value::OtherNumber)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::OtherNumber)
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut list = vec![];
        while let Some(entry) = entries.next_element()? {
            list.push(entry);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = vec![];
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Value::Map(map))
    }
}
