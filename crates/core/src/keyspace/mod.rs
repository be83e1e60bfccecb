//! Logical key space: the keys under which layered gateways store everything, and its import and export format, one
//! JSON object a line: `{"key", "value", "expiration"?}`.
//!
//! Only the format: storage and use of the values are elsewhere.

mod logical_key;

use std::{borrow::Cow, fmt, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use logical_key::{CreditsAccount, LogicalKey, LogicalKeyError, parse_owner};

use crate::{Code, Coded, Timestamp, limits::MAX_KEYSPACE_LINE_BYTES};

/// Expiry of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Seconds since 1970.
    At(u64),
    /// Seconds from now.
    After(u64),
}

impl Expiry {
    /// Returns the point in time, relative to `now`.
    #[must_use]
    pub fn to_timestamp(self, now: Timestamp) -> Timestamp {
        let (start, seconds) = match self {
            Self::At(seconds) => (Timestamp::from_micros(0), seconds),
            Self::After(seconds) => (now, seconds),
        };
        start.saturating_add(Duration::from_secs(seconds))
    }
}

/// Line of an import or export: a key and its value.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyspaceLine {
    /// Key of the value.
    pub key: LogicalKey,
    /// Value as text, byte for byte: the content of a JSON string, or the text of any other JSON.
    pub value: String,
    /// Expiry of the value, if any.
    pub expiry: Option<Expiry>,
}

/// Omits the value, which may be a secret.
impl fmt::Debug for KeyspaceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Line");
        shown.field("key", &self.key).field("expiry", &self.expiry).finish_non_exhaustive()
    }
}

/// Error of parsing a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct KeyspaceLineError {
    /// Line number, counted from 1.
    pub line: usize,
    /// Fault of the line.
    pub problem: LineFault,
}

/// Fault of a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// The line is too long.
    #[error("the line is {0} bytes long, at most {MAX_KEYSPACE_LINE_BYTES} are allowed")]
    TooLong(usize),
    /// The line is not an object with a key and a value.
    #[error("it is not {{\"key\", \"value\"}} in JSON: {0}")]
    Malformed(String),
    /// The value is in base64.
    #[error("the value is in base64; write it as text or JSON")]
    Base64,
    /// The line has an expiration and a time to live.
    #[error("the line has both an expiration and a ttl; keep one of them")]
    TwoExpiries,
    /// The key is not part of the key space.
    #[error(transparent)]
    Key(#[from] LogicalKeyError),
}

impl Coded for KeyspaceLineError {
    fn code(&self) -> Code {
        match &self.problem {
            LineFault::TooLong(_) => Code::LineTooLong,
            LineFault::Malformed(_) | LineFault::Base64 | LineFault::TwoExpiries => {
                Code::MalformedLine
            }
            LineFault::Key(LogicalKeyError::Unknown(_)) => Code::UnknownKey,
            LineFault::Key(_) => Code::InvalidKey,
        }
    }
}

#[derive(Deserialize)]
struct Read<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    value: &'a RawValue,
    expiration: Option<u64>,
    #[serde(alias = "expiration_ttl")]
    ttl: Option<u64>,
    #[serde(default)]
    base64: bool,
}

#[derive(Serialize)]
struct Written<'a> {
    key: String,
    value: Value<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<u64>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Value<'a> {
    Json(&'a RawValue),
    Text(&'a str),
}

impl<'a> Value<'a> {
    /// Writes objects and lists as they are if they fit a line; everything else becomes a string, so that it is read
    /// back byte for byte.
    fn of(text: &'a str) -> Self {
        let fits = text.starts_with(['{', '[']) && !text.contains(['\n', '\r']);
        match fits.then(|| serde_json::from_str::<&RawValue>(text)) {
            Some(Ok(raw)) if raw.get() == text => Self::Json(raw),
            _ => Self::Text(text),
        }
    }
}

impl KeyspaceLine {
    /// Parses a line; `None` for an empty one.
    ///
    /// # Errors
    /// When it is not a line of the key space; the error says which line and why.
    pub fn parse(line: usize, text: &str) -> Result<Option<Self>, KeyspaceLineError> {
        Self::parse_text(text).map_err(|problem| KeyspaceLineError { line, problem })
    }

    fn parse_text(text: &str) -> Result<Option<Self>, LineFault> {
        if text.len() > MAX_KEYSPACE_LINE_BYTES {
            return Err(LineFault::TooLong(text.len()));
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
        if text.is_empty() {
            return Ok(None);
        }
        let malformed = |error: serde_json::Error| LineFault::Malformed(error.to_string());
        let Read { key, value, expiration, ttl, base64 } =
            serde_json::from_str(text).map_err(malformed)?;
        if base64 {
            return Err(LineFault::Base64);
        }
        let expiry = match (expiration, ttl) {
            (None, None) => None,
            (Some(seconds), None) => Some(Expiry::At(seconds)),
            (None, Some(seconds)) => Some(Expiry::After(seconds)),
            (Some(_), Some(_)) => return Err(LineFault::TwoExpiries),
        };
        let value = match value.get() {
            string if string.starts_with('"') => {
                serde_json::from_str(string).map_err(|_| unreadable_text())?
            }
            json => json.to_owned(),
        };
        Ok(Some(Self { key: key.parse()?, value, expiry }))
    }
}

/// Hides the parser's message, which may repeat the value.
fn unreadable_text() -> LineFault {
    LineFault::Malformed("the value is not text in Unicode".to_owned())
}

/// Writes the line for an export, without the line end.
impl fmt::Display for KeyspaceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (expiration, ttl) = match self.expiry {
            None => (None, None),
            Some(Expiry::At(seconds)) => (Some(seconds), None),
            Some(Expiry::After(seconds)) => (None, Some(seconds)),
        };
        let value = Value::of(&self.value);
        let written = Written { key: self.key.to_string(), value, expiration, ttl };
        f.write_str(&serde_json::to_string(&written).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> KeyspaceLine {
        KeyspaceLine::parse(1, text).unwrap().unwrap()
    }

    #[test]
    fn values_are_kept_byte_for_byte() {
        let line = read(r#"{"key":"profile:ann","value":{"tier" : "PRO","credits":1.50}}"#);
        assert_eq!(line.value, r#"{"tier" : "PRO","credits":1.50}"#);
        assert_eq!(read(r#"{"key":"tier:ann","value":"PRO"}"#).value, "PRO");
        assert_eq!(read(r#"{"value":12,"key":"credits:ann","metadata":null}"#).value, "12");
        assert_eq!(read("\u{feff} {\"key\":\"tier:a\",\"value\":\"\\u00e9\"} ").value, "é");
        assert_eq!(KeyspaceLine::parse(7, " \t"), Ok(None));
    }

    #[test]
    fn expirations_are_absolute_or_relative() {
        let key = "auth:hash:15d6354290b017ae135247fb8d7a1c1e133738bca02c02e38fc0c5c1046d2206";
        let with = |more: &str| read(&format!(r#"{{"key":"{key}","value":"ann"{more}}}"#)).expiry;
        assert_eq!(with(""), None);
        assert_eq!(with(r#","expiration":1700000000"#), Some(Expiry::At(1_700_000_000)));
        assert_eq!(with(r#","ttl":60"#), Some(Expiry::After(60)));
        assert_eq!(with(r#","expiration_ttl":60"#), Some(Expiry::After(60)));
        let now = Timestamp::from_micros(5_000_000);
        assert_eq!(Expiry::After(60).to_timestamp(now), Timestamp::from_micros(65_000_000));
        assert_eq!(Expiry::At(60).to_timestamp(now), Timestamp::from_micros(60_000_000));
        assert_eq!(Expiry::After(u64::MAX).to_timestamp(now), Timestamp::from_micros(i64::MAX));
    }

    #[test]
    fn errors_name_the_line_and_never_the_value() {
        for (text, code, words) in [
            ("{", "malformed_line", "line 3: it is not"),
            ("[]", "malformed_line", "it is not"),
            (r#"{"key":"tier:ann"}"#, "malformed_line", "missing field `value`"),
            (r#"{"key":7,"value":"hidden"}"#, "malformed_line", "invalid type"),
            (r#"{"key":"tier:a","key":"tier:b","value":""}"#, "malformed_line", "duplicate"),
            (r#"{"key":"tier:a","value":"hidden\ud800"}"#, "malformed_line", "not text in Unicode"),
            (r#"{"key":"tier:a","value":"hidden","ttl":-1}"#, "malformed_line", "invalid value"),
            (r#"{"key":"tier:a","value":"","ttl":1,"expiration":1}"#, "malformed_line", "one of"),
            (r#"{"key":"tier:a","value":"","base64":true}"#, "malformed_line", "base64"),
            (r#"{"key":"colour:red","value":"hidden"}"#, "unknown_key", "line 3: no pattern"),
            (r#"{"key":"skill:market:a:b","value":"{}"}"#, "invalid_key", "has a ':'"),
            (&" ".repeat(MAX_KEYSPACE_LINE_BYTES + 1), "line_too_long", "bytes long"),
        ] {
            let error = KeyspaceLine::parse(3, text).expect_err(words);
            let said = error.to_string();
            assert_eq!(error.code().as_str(), code, "{said}");
            assert!(said.contains(words) && !said.contains("hidden"), "{said}");
        }
    }

    #[test]
    fn debug_output_omits_the_value() {
        let line = read(r#"{"key":"skill:secrets:ann","value":{"TOKEN":"hidden"}}"#);
        assert!(!format!("{line:?}").contains("hidden"));
    }

    #[test]
    fn objects_are_exported_verbatim() {
        let text = r#"{"key":"profile:ann","value":{"b":1,"a":[ ]},"expiration":5}"#;
        assert_eq!(read(text).to_string(), text);
        let line = KeyspaceLine { value: "{\n}".to_owned(), ..read(text) };
        assert_eq!(line.to_string(), r#"{"key":"profile:ann","value":"{\n}","expiration":5}"#);
    }

    proptest! {
        #[test]
        fn written_lines_parse_to_the_same_line(
            value in prop_oneof!["\\PC{0,40}", "[\\[{\" ,:\\]}\n0-9a]{0,12}", "\\{\"a\":[0-9]{1,3}\\}"],
            expiry in prop_oneof![
                Just(None),
                any::<u64>().prop_map(|s| Some(Expiry::At(s))),
                any::<u64>().prop_map(|s| Some(Expiry::After(s))),
            ],
        ) {
            let line = KeyspaceLine { key: LogicalKey::ToolsCache, value, expiry };
            let text = line.to_string();
            prop_assert!(!text.contains('\n'));
            prop_assert_eq!(KeyspaceLine::parse(1, &text), Ok(Some(line)));
        }

        #[test]
        fn parsing_never_panics(text in "\\PC{0,80}") {
            let _ = KeyspaceLine::parse(1, &text);
        }
    }
}
