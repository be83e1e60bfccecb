//! Reading YAML with the place of everything.
//!
//! All frontmatter is read here and with these options, so that what one surface can read, all can. Places
//! are byte offsets into the YAML text that was given.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{
    Error, Location, MergeKeyPolicy, MessageFormatter as _, NonFiniteFloatPolicy, Options, Spanned,
    UserMessageFormatter,
};

use super::repair::quote_colons;

/// How many nodes aliases may add: enough for any real document, too few to be a bomb.
const MAX_REPLAYED: usize = 10_000;

/// The fields of a block of frontmatter.
#[derive(Debug, Clone, PartialEq)]
pub struct Fields {
    /// In the order in which they are written, each key once.
    pub entries: Vec<Entry>,
    /// The error that went away when values with a colon were quoted, if there was one.
    pub repaired: Option<Spot<String>>,
}

/// Something and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Spot<T> {
    /// Byte offset.
    pub at: usize,
    /// What stands there.
    pub value: T,
}

/// One pair of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: Spot<String>,
    /// Its value.
    pub value: Spot<Node>,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// Text, number, boolean or nothing.
    Scalar(Scalar),
    /// A list in either style.
    Sequence(Vec<Spot<Node>>),
    /// A mapping in either style.
    Mapping(Vec<Entry>),
}

/// A value without parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Scalar {
    /// As YAML types it.
    pub typed: Value,
    /// As it is written, for what is not text to YAML: `1.10` is not `1.1`.
    pub text: String,
}

/// Why frontmatter has no fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is not YAML.
    #[error("{message}")]
    Yaml {
        /// Where.
        at: usize,
        /// What the reader says.
        message: String,
    },
    /// A key is there twice.
    #[error("the key {key:?} is there twice")]
    DuplicateKey {
        /// Where the second is.
        at: usize,
        /// Which.
        key: String,
    },
    /// It is YAML, but not a mapping.
    #[error("the frontmatter is not a mapping of keys to values")]
    NotAMapping {
        /// Where it begins.
        at: usize,
    },
}

impl Node {
    /// The text of a scalar, as it is written.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Scalar(scalar) if !scalar.typed.is_null() => Some(&scalar.text),
            _ => None,
        }
    }

    /// Whether there is nothing.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Scalar(Scalar { typed: Value::Null, .. }))
    }

    /// The value as JSON.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Scalar(scalar) => scalar.typed.clone(),
            Self::Sequence(items) => items.iter().map(|item| item.value.to_value()).collect(),
            Self::Mapping(entries) => Value::Object(to_object(entries)),
        }
    }
}

impl Fields {
    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Spot<Node>> {
        self.entries.iter().find(|entry| entry.key.value == key).map(|entry| &entry.value)
    }
}

pub(super) fn to_object(entries: &[Entry]) -> Map<String, Value> {
    entries.iter().map(|entry| (entry.key.value.clone(), entry.value.value.to_value())).collect()
}

/// Reads YAML frontmatter. Nothing at all is a mapping without fields.
///
/// # Errors
/// When it is not a YAML mapping, even after values with a colon are quoted.
pub fn read(yaml: &str) -> Result<Fields, Unreadable> {
    let place = |location: Location| offset(yaml, location);
    match parse(yaml, options()) {
        Ok(raw) => fields(yaml, raw, &place, None),
        Err(error) => {
            let refused = unreadable(&error, yaml.len(), &place);
            let Unreadable::Yaml { at, message } = &refused else { return Err(refused) };
            let retried = quote_colons(yaml).and_then(|repaired| {
                let raw = parse(&repaired.yaml, options()).ok()?;
                let place = |location| repaired.before(offset(&repaired.yaml, location));
                let error = Spot { at: *at, value: message.clone() };
                fields(&repaired.yaml, raw, &place, Some(error)).ok()
            });
            retried.ok_or(refused)
        }
    }
}

/// Reads a YAML mapping to the letter of the core schema of YAML 1.2: `yes` is text, `<<` is a key like any
/// other, and nothing is repaired.
///
/// # Errors
/// When it is not a YAML mapping.
pub fn read_core(yaml: &str) -> Result<Fields, Unreadable> {
    let place = |location: Location| offset(yaml, location);
    let mut options = options();
    options.strict_booleans = true;
    options.merge_keys = MergeKeyPolicy::AsOrdinary;
    match parse(yaml, options) {
        Ok(raw) => fields(yaml, raw, &place, None),
        Err(error) => Err(unreadable(&error, yaml.len(), &place)),
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.with_snippet = false;
    options.emit_comments = false;
    options.non_finite_float_policy = NonFiniteFloatPolicy::PassThrough;
    options.alias_limits.max_total_replayed_events = MAX_REPLAYED;
    options
}

fn parse(yaml: &str, options: Options) -> Result<Spanned<Raw>, Error> {
    serde_saphyr::from_str_with_options(yaml, options)
}

fn fields(
    yaml: &str,
    raw: Spanned<Raw>,
    place: &dyn Fn(Location) -> usize,
    repaired: Option<Spot<String>>,
) -> Result<Fields, Unreadable> {
    let Spot { at, value } = node(yaml, raw, place);
    match value {
        Node::Mapping(entries) => Ok(Fields { entries, repaired }),
        Node::Scalar(Scalar { typed: Value::Null, text }) if text.is_empty() => {
            Ok(Fields { entries: Vec::new(), repaired })
        }
        _ => Err(Unreadable::NotAMapping { at }),
    }
}

fn unreadable(error: &Error, end: usize, place: &dyn Fn(Location) -> usize) -> Unreadable {
    let at = error.location().map_or(end, place);
    match error.without_snippet() {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            Unreadable::DuplicateKey { at, key: key.clone() }
        }
        error => {
            let message = UserMessageFormatter.format_message(error);
            Unreadable::Yaml { at, message: without_controls(&message) }
        }
    }
}

/// The reader quotes what it does not like as it is.
fn without_controls(message: &str) -> String {
    let mut plain = String::with_capacity(message.len());
    for c in message.chars() {
        match c.is_control() {
            true => plain.extend(c.escape_unicode()),
            false => plain.push(c),
        }
    }
    plain
}

fn node(yaml: &str, raw: Spanned<Raw>, place: &dyn Fn(Location) -> usize) -> Spot<Node> {
    let value = match raw.value {
        Raw::Scalar(typed) => {
            let text = match &typed {
                Value::String(text) => text.clone(),
                _ => written(yaml, raw.defined).to_owned(),
            };
            Node::Scalar(Scalar { typed, text })
        }
        Raw::NotFinite => {
            let text = written(yaml, raw.defined);
            Node::Scalar(Scalar { typed: text.into(), text: text.to_owned() })
        }
        Raw::Sequence(items) => {
            Node::Sequence(items.into_iter().map(|item| node(yaml, item, place)).collect())
        }
        Raw::Mapping(entries) => {
            let entry = |(key, value): (Spanned<String>, Spanned<Raw>)| Entry {
                key: Spot { at: place(key.referenced), value: key.value },
                value: node(yaml, value, place),
            };
            Node::Mapping(entries.into_iter().map(entry).collect())
        }
    };
    Spot { at: place(raw.referenced), value }
}

/// A byte offset that is inside the text and between two characters. Of errors only the number of
/// characters before them is known.
fn offset(yaml: &str, location: Location) -> usize {
    let span = location.span();
    let bytes = span.byte_offset().and_then(|bytes| usize::try_from(bytes).ok());
    let chars = || yaml.chars().take(usize::try_from(span.offset()).unwrap_or(0));
    yaml.floor_char_boundary(bytes.unwrap_or_else(|| chars().map(char::len_utf8).sum()))
}

fn written(yaml: &str, location: Location) -> &str {
    let start = offset(yaml, location);
    let len = location.span().byte_len().and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
    yaml.get(start..start.saturating_add(len)).unwrap_or_default().trim()
}

/// What the reader hands over.
enum Raw {
    Scalar(Value),
    /// A number that JSON does not have.
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
    fn everything_has_its_place() {
        let yaml = "# c\nname: a\nmetadata:\n  v: 1.10\n  é: [x, 'y']\n";
        let fields = read(yaml).unwrap();
        let keys: Vec<_> =
            fields.entries.iter().map(|e| (e.key.at, e.key.value.as_str())).collect();
        assert_eq!(keys, [(4, "name"), (12, "metadata")]);
        assert_eq!(fields.get("name").unwrap().at, yaml.find(" a").unwrap() + 1);
        let Node::Mapping(metadata) = &fields.get("metadata").unwrap().value else { panic!() };
        assert_eq!(metadata[0].value.value.text(), Some("1.10"));
        let Node::Sequence(items) = &metadata[1].value.value else { panic!() };
        assert_eq!(items[1].at, yaml.find("'y'").unwrap());
    }

    #[test]
    fn scalars_keep_what_is_written() {
        for text in
            ["007", "1e3", "0x1F", "true", "yes", "~", "null", ".inf", "-1", "1_000", "1e999"]
        {
            let fields = read(&format!("a: {text}  # c\nb: c\n")).unwrap();
            let Node::Scalar(scalar) = &fields.get("a").unwrap().value else { panic!() };
            assert_eq!(scalar.text, text);
        }
    }

    #[test]
    fn what_cannot_be_read_has_a_place() {
        let at = |yaml: &str| match read(yaml).unwrap_err() {
            Unreadable::Yaml { at, .. }
            | Unreadable::DuplicateKey { at, .. }
            | Unreadable::NotAMapping { at } => at,
        };
        assert_eq!(at("a: 1\na: 2\n"), 5);
        assert_eq!(at("- a\n"), 0);
        assert!(at("é: b\nc: [\n") >= 6);
        assert_eq!(at("é: b\nc: %x\n"), 9);
        assert!(
            matches!(read("a: 1\na: 2\n"), Err(Unreadable::DuplicateKey { key, .. }) if key == "a")
        );
        assert!(matches!(read("just text"), Err(Unreadable::NotAMapping { at: 0 })));
        assert_eq!(read("").unwrap().entries, []);
        assert_eq!(read("# only a comment\n").unwrap().entries, []);
    }

    #[test]
    fn a_value_with_a_colon_is_read_on_a_second_try() {
        let yaml = "name: a\ndescription: Use when: it's so\nlicense: MIT\n";
        let fields = read(yaml).unwrap();
        assert!(fields.repaired.is_some());
        let description = fields.get("description").unwrap();
        assert_eq!(description.value.text(), Some("Use when: it's so"));
        assert_eq!(description.at, yaml.find("Use").unwrap());
        assert_eq!(fields.get("license").unwrap().at, yaml.find("MIT").unwrap());
    }

    #[test]
    fn bombs_and_towers_are_refused() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..12 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(",");
            bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert!(read(&bomb).is_err());
        assert!(read(&format!("a: {}", "[".repeat(100_000))).is_err());
        assert!(read(&"- ".repeat(100_000)).is_err());
        let deep = format!("a: {}{}", "[".repeat(200), "]".repeat(200));
        let _ = read(&deep);
    }

    proptest! {
        #[test]
        fn never_panics(yaml in "((name|a|é|- |  |\t|\\? )?(: |:|\\[|\\]|\\{|\\}|&a|\\*a|!x|'|\"|\\||>|#|x|~|1|<<|\r|,)?\n?){0,24}") {
            if let Ok(fields) = read(&yaml) {
                for entry in fields.entries {
                    prop_assert!(yaml.is_char_boundary(entry.key.at));
                    prop_assert!(yaml.is_char_boundary(entry.value.at));
                }
            }
        }
    }
}
