//! YAML parser that locates every value.
//!
//! All frontmatter is parsed here with the same options, so that all surfaces accept the same documents. Locations
//! are byte offsets into the YAML text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{
    Error, Location, MergeKeyPolicy, MessageFormatter as _, NonFiniteFloatPolicy, Options, Spanned,
    UserMessageFormatter,
};

use super::quote_colons::quote_colons;

/// Most nodes that aliases may add: enough for any real document, too few for a YAML bomb.
const MAX_ALIAS_NODES: usize = 10_000;

/// Fields of a frontmatter block.
#[derive(Debug, Clone, PartialEq)]
pub struct FrontmatterFields {
    /// Fields in document order, each key once.
    pub entries: Vec<FrontmatterEntry>,
    /// Error that quoting values with a colon repaired, if any.
    pub repaired: Option<Located<String>>,
}

/// Value with its location.
#[derive(Debug, Clone, PartialEq)]
pub struct Located<T> {
    /// Byte offset.
    pub at: usize,
    /// Value at that offset.
    pub value: T,
}

/// Key and value of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct FrontmatterEntry {
    /// Key.
    pub key: Located<String>,
    /// Value.
    pub value: Located<YamlNode>,
}

/// YAML value.
#[derive(Debug, Clone, PartialEq)]
pub enum YamlNode {
    /// Text, number, boolean or null.
    Scalar(YamlScalar),
    /// List in either style.
    Sequence(Vec<Located<YamlNode>>),
    /// Mapping in either style.
    Mapping(Vec<FrontmatterEntry>),
}

/// YAML scalar.
#[derive(Debug, Clone, PartialEq)]
pub struct YamlScalar {
    /// Value with its YAML type.
    pub typed: Value,
    /// Text as written, also of scalars that are not text: `1.10` is not `1.1`.
    pub text: String,
}

/// Error of parsing frontmatter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrontmatterError {
    /// The text is not YAML.
    #[error("{message}")]
    Yaml {
        /// Byte offset of the error.
        at: usize,
        /// Message of the parser.
        message: String,
    },
    /// A key is repeated.
    #[error("duplicate key {key:?}")]
    DuplicateKey {
        /// Byte offset of the second key.
        at: usize,
        /// Repeated key.
        key: String,
    },
    /// The YAML is not a mapping.
    #[error("the frontmatter is not a mapping of keys to values")]
    NotAMapping {
        /// Byte offset of the value.
        at: usize,
    },
}

impl YamlNode {
    /// Returns the text of a scalar as written; `None` for null.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Scalar(scalar) if !scalar.typed.is_null() => Some(&scalar.text),
            _ => None,
        }
    }

    /// Returns whether the value is null.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Scalar(YamlScalar { typed: Value::Null, .. }))
    }

    /// Converts the value to JSON.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Scalar(scalar) => scalar.typed.clone(),
            Self::Sequence(items) => items.iter().map(|item| item.value.to_value()).collect(),
            Self::Mapping(entries) => Value::Object(to_object(entries)),
        }
    }
}

impl FrontmatterFields {
    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Located<YamlNode>> {
        self.entries.iter().find(|entry| entry.key.value == key).map(|entry| &entry.value)
    }
}

pub(super) fn to_object(entries: &[FrontmatterEntry]) -> Map<String, Value> {
    entries.iter().map(|entry| (entry.key.value.clone(), entry.value.value.to_value())).collect()
}

/// Parses YAML frontmatter. Empty text is a mapping without fields.
///
/// # Errors
/// When it is not a YAML mapping, even after values with a colon are quoted.
pub fn parse(yaml: &str) -> Result<FrontmatterFields, FrontmatterError> {
    let place = |location: Location| offset(yaml, location);
    match parse_yaml(yaml, options()) {
        Ok(raw) => fields(yaml, raw, &place, None),
        Err(error) => {
            let refused = unreadable(&error, yaml.len(), &place);
            let FrontmatterError::Yaml { at, message } = &refused else { return Err(refused) };
            let retried = quote_colons(yaml).and_then(|repaired| {
                let raw = parse_yaml(&repaired.yaml, options()).ok()?;
                let place = |location| repaired.original_offset(offset(&repaired.yaml, location));
                let error = Located { at: *at, value: message.clone() };
                fields(&repaired.yaml, raw, &place, Some(error)).ok()
            });
            retried.ok_or(refused)
        }
    }
}

/// Parses a YAML mapping with the core schema of YAML 1.2: `yes` is text, `<<` is an ordinary key, and nothing is
/// repaired.
///
/// # Errors
/// When it is not a YAML mapping.
pub fn parse_core_schema(yaml: &str) -> Result<FrontmatterFields, FrontmatterError> {
    let place = |location: Location| offset(yaml, location);
    let mut options = options();
    options.strict_booleans = true;
    options.merge_keys = MergeKeyPolicy::AsOrdinary;
    match parse_yaml(yaml, options) {
        Ok(raw) => fields(yaml, raw, &place, None),
        Err(error) => Err(unreadable(&error, yaml.len(), &place)),
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.with_snippet = false;
    options.emit_comments = false;
    options.non_finite_float_policy = NonFiniteFloatPolicy::PassThrough;
    options.alias_limits.max_total_replayed_events = MAX_ALIAS_NODES;
    options
}

fn parse_yaml(yaml: &str, options: Options) -> Result<Spanned<Raw>, Error> {
    serde_saphyr::from_str_with_options(yaml, options)
}

fn fields(
    yaml: &str,
    raw: Spanned<Raw>,
    place: &dyn Fn(Location) -> usize,
    repaired: Option<Located<String>>,
) -> Result<FrontmatterFields, FrontmatterError> {
    let Located { at, value } = node(yaml, raw, place);
    match value {
        YamlNode::Mapping(entries) => Ok(FrontmatterFields { entries, repaired }),
        YamlNode::Scalar(YamlScalar { typed: Value::Null, text }) if text.is_empty() => {
            Ok(FrontmatterFields { entries: Vec::new(), repaired })
        }
        _ => Err(FrontmatterError::NotAMapping { at }),
    }
}

fn unreadable(error: &Error, end: usize, place: &dyn Fn(Location) -> usize) -> FrontmatterError {
    let at = error.location().map_or(end, place);
    match error.without_snippet() {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            FrontmatterError::DuplicateKey { at, key: key.clone() }
        }
        error => {
            let message = UserMessageFormatter.format_message(error);
            FrontmatterError::Yaml { at, message: without_controls(&message) }
        }
    }
}

/// Escapes control characters, which the parser quotes verbatim.
fn without_controls(message: &str) -> String {
    let mut plain = String::with_capacity(message.len());
    for c in message.chars() {
        if c.is_control() { plain.extend(c.escape_unicode()) } else { plain.push(c) }
    }
    plain
}

fn node(yaml: &str, raw: Spanned<Raw>, place: &dyn Fn(Location) -> usize) -> Located<YamlNode> {
    let value = match raw.value {
        Raw::Scalar(typed) => {
            let text = match &typed {
                Value::String(text) => text.clone(),
                _ => source_text(yaml, raw.defined).to_owned(),
            };
            YamlNode::Scalar(YamlScalar { typed, text })
        }
        Raw::NotFinite => {
            let text = source_text(yaml, raw.defined);
            YamlNode::Scalar(YamlScalar { typed: text.into(), text: text.to_owned() })
        }
        Raw::Sequence(items) => {
            YamlNode::Sequence(items.into_iter().map(|item| node(yaml, item, place)).collect())
        }
        Raw::Mapping(entries) => {
            let entry = |(key, value): (Spanned<String>, Spanned<Raw>)| FrontmatterEntry {
                key: Located { at: place(key.referenced), value: key.value },
                value: node(yaml, value, place),
            };
            YamlNode::Mapping(entries.into_iter().map(entry).collect())
        }
    };
    Located { at: place(raw.referenced), value }
}

/// Converts a location to a byte offset on a character boundary. Errors only have a character offset.
fn offset(yaml: &str, location: Location) -> usize {
    let span = location.span();
    let bytes = span.byte_offset().and_then(|bytes| usize::try_from(bytes).ok());
    let chars = || yaml.chars().take(usize::try_from(span.offset()).unwrap_or(0));
    yaml.floor_char_boundary(bytes.unwrap_or_else(|| chars().map(char::len_utf8).sum()))
}

/// Returns the source text at a location.
fn source_text(yaml: &str, location: Location) -> &str {
    let start = offset(yaml, location);
    let len = location.span().byte_len().and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
    yaml.get(start..start.saturating_add(len)).unwrap_or_default().trim()
}

/// Value as the YAML parser delivers it.
enum Raw {
    Scalar(Value),
    /// Number that JSON does not have.
    NotFinite,
    Sequence(Vec<Spanned<Raw>>),
    Mapping(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Number::from_f64(value).map_or(Raw::NotFinite, |number| Raw::Scalar(number.into())))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut sequence = Vec::new();
        while let Some(item) = items.next_element()? {
            sequence.push(item);
        }
        Ok(Raw::Sequence(sequence))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut mapping = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            mapping.push(entry);
        }
        Ok(Raw::Mapping(mapping))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_value_has_its_offset() {
        let yaml = "# c\nname: a\nmetadata:\n  v: 1.10\n  é: [x, 'y']\n";
        let fields = parse(yaml).unwrap();
        let keys: Vec<_> =
            fields.entries.iter().map(|e| (e.key.at, e.key.value.as_str())).collect();
        assert_eq!(keys, [(4, "name"), (12, "metadata")]);
        assert_eq!(fields.get("name").unwrap().at, yaml.find(" a").unwrap() + 1);
        let YamlNode::Mapping(metadata) = &fields.get("metadata").unwrap().value else { panic!() };
        assert_eq!(metadata[0].value.value.text(), Some("1.10"));
        let YamlNode::Sequence(items) = &metadata[1].value.value else { panic!() };
        assert_eq!(items[1].at, yaml.find("'y'").unwrap());
    }

    #[test]
    fn scalars_keep_their_notation() {
        for text in
            ["007", "1e3", "0x1F", "true", "yes", "~", "null", ".inf", "-1", "1_000", "1e999"]
        {
            let fields = parse(&format!("a: {text}  # c\nb: c\n")).unwrap();
            let YamlNode::Scalar(scalar) = &fields.get("a").unwrap().value else { panic!() };
            assert_eq!(scalar.text, text, "{text}");
        }
    }

    #[test]
    fn errors_have_an_offset() {
        let at = |yaml: &str| match parse(yaml).unwrap_err() {
            FrontmatterError::Yaml { at, .. }
            | FrontmatterError::DuplicateKey { at, .. }
            | FrontmatterError::NotAMapping { at } => at,
        };
        assert_eq!(at("a: 1\na: 2\n"), 5);
        assert_eq!(at("- a\n"), 0);
        assert!(at("é: b\nc: [\n") >= 6);
        assert_eq!(at("é: b\nc: %x\n"), 9);
        assert!(
            matches!(parse("a: 1\na: 2\n"), Err(FrontmatterError::DuplicateKey { key, .. }) if key == "a")
        );
        assert!(matches!(parse("just text"), Err(FrontmatterError::NotAMapping { at: 0 })));
        assert_eq!(parse("").unwrap().entries, []);
        assert_eq!(parse("# only a comment\n").unwrap().entries, []);
    }

    #[test]
    fn an_unquoted_value_with_a_colon_is_repaired() {
        let yaml = "name: a\ndescription: Use when: it's so\nlicense: MIT\n";
        let fields = parse(yaml).unwrap();
        assert!(fields.repaired.is_some());
        let description = fields.get("description").unwrap();
        assert_eq!(description.value.text(), Some("Use when: it's so"));
        assert_eq!(description.at, yaml.find("Use").unwrap());
        assert_eq!(fields.get("license").unwrap().at, yaml.find("MIT").unwrap());
    }

    #[test]
    fn alias_bombs_and_deep_nesting_are_refused() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..12 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(",");
            bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert!(parse(&bomb).is_err());
        assert!(parse(&format!("a: {}", "[".repeat(100_000))).is_err());
        assert!(parse(&"- ".repeat(100_000)).is_err());
        let deep = format!("a: {}{}", "[".repeat(200), "]".repeat(200));
        let _ = parse(&deep);
    }

    proptest! {
        #[test]
        fn never_panics(yaml in "((name|a|é|- |  |\t|\\? )?(: |:|\\[|\\]|\\{|\\}|&a|\\*a|!x|'|\"|\\||>|#|x|~|1|<<|\r|,)?\n?){0,24}") {
            if let Ok(fields) = parse(&yaml) {
                for entry in fields.entries {
                    prop_assert!(yaml.is_char_boundary(entry.key.at));
                    prop_assert!(yaml.is_char_boundary(entry.value.at));
                }
            }
        }
    }
}
