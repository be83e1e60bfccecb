//! The logical key space: the keys under which layered gateways keep everything, and the form in which it is
//! imported and exported, one JSON object a line: `{"key", "value", "expiration"?}`.
//!
//! This is only the form. Where a value is kept and what is done with it is not known here.

mod key;

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use key::{Account, KeyError, LogicalKey, owner};

use crate::{Timestamp, limits::MAX_KEYSPACE_LINE_BYTES};

/// When a value ceases to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// At a moment, in seconds since 1970.
    At(u64),
    /// So many seconds from now on.
    After(u64),
}

impl Expiry {
    /// The moment, for who reads it now.
    #[must_use]
    pub fn moment(self, now: Timestamp) -> Timestamp {
        let micros = |seconds: u64| i64::try_from(seconds.saturating_mul(1_000_000));
        match self {
            Self::At(seconds) => Timestamp::from_micros(micros(seconds).unwrap_or(i64::MAX)),
            Self::After(seconds) => {
                let after = micros(seconds).unwrap_or(i64::MAX);
                Timestamp::from_micros(now.as_micros().saturating_add(after))
            }
        }
    }
}

/// A key and its value.
#[derive(Clone, PartialEq, Eq)]
pub struct Line {
    /// The key.
    pub key: LogicalKey,
    /// The value as text, to the byte: what a JSON string holds, and of any other JSON its text.
    pub value: String,
    /// When it ceases to be, if it does.
    pub expiry: Option<Expiry>,
}

/// Values may be secrets.
impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Line");
        shown.field("key", &self.key).field("expiry", &self.expiry).finish_non_exhaustive()
    }
}

/// A line that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct LineError {
    /// Which one, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: LineProblem,
}

/// What can be wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineProblem {
    /// Longer than any value.
    #[error("it is {0} bytes long, at most {MAX_KEYSPACE_LINE_BYTES} are allowed")]
    TooLong(usize),
    /// Not an object with a key and a value.
    #[error("it is not {{\"key\", \"value\"}} in JSON: {0}")]
    Malformed(String),
    /// The value is not written as text.
    #[error("its value is in base64; write it as text or JSON")]
    Base64,
    /// A moment and a time to live.
    #[error("it has an expiration and a ttl; one of them is enough")]
    TwoExpiries,
    /// No key of the key space.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl LineError {
    /// A stable code for machines.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match &self.problem {
            LineProblem::TooLong(_) => "line_too_long",
            LineProblem::Malformed(_) | LineProblem::Base64 | LineProblem::TwoExpiries => {
                "malformed_line"
            }
            LineProblem::Key(KeyError::Unknown(_)) => "unknown_key",
            LineProblem::Key(_) => "invalid_key",
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
    /// Objects and lists stand as they are, if they fit a line; everything else is a string, so that it is
    /// read back to the byte.
    fn of(text: &'a str) -> Self {
        let fits = text.starts_with(['{', '[']) && !text.contains(['\n', '\r']);
        match fits.then(|| serde_json::from_str::<&RawValue>(text)) {
            Some(Ok(raw)) if raw.get() == text => Self::Json(raw),
            _ => Self::Text(text),
        }
    }
}

impl Line {
    /// Reads a line; `None` for an empty one.
    ///
    /// # Errors
    /// When it is not a line of the key space; the error says which line and why.
    pub fn read(line: usize, text: &str) -> Result<Option<Self>, LineError> {
        Self::parse(text).map_err(|problem| LineError { line, problem })
    }

    fn parse(text: &str) -> Result<Option<Self>, LineProblem> {
        if text.len() > MAX_KEYSPACE_LINE_BYTES {
            return Err(LineProblem::TooLong(text.len()));
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
        if text.is_empty() {
            return Ok(None);
        }
        let malformed = |error: serde_json::Error| LineProblem::Malformed(error.to_string());
        let Read { key, value, expiration, ttl, base64 } =
            serde_json::from_str(text).map_err(malformed)?;
        if base64 {
            return Err(LineProblem::Base64);
        }
        let expiry = match (expiration, ttl) {
            (None, None) => None,
            (Some(seconds), None) => Some(Expiry::At(seconds)),
            (None, Some(seconds)) => Some(Expiry::After(seconds)),
            (Some(_), Some(_)) => return Err(LineProblem::TwoExpiries),
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

/// Not the parser's words: they may repeat the value.
fn unreadable_text() -> LineProblem {
    LineProblem::Malformed("its value is not text in Unicode".to_owned())
}

/// The line as it is exported, without its end.
impl fmt::Display for Line {
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

    fn read(text: &str) -> Line {
        Line::read(1, text).unwrap().unwrap()
    }

    #[test]
    fn values_are_text_to_the_byte() {
        let line = read(r#"{"key":"profile:ann","value":{"tier" : "PRO","credits":1.50}}"#);
        assert_eq!(line.value, r#"{"tier" : "PRO","credits":1.50}"#);
        assert_eq!(read(r#"{"key":"tier:ann","value":"PRO"}"#).value, "PRO");
        assert_eq!(read(r#"{"value":12,"key":"credits:ann","metadata":null}"#).value, "12");
        assert_eq!(read("\u{feff} {\"key\":\"tier:a\",\"value\":\"\\u00e9\"} ").value, "é");
        assert_eq!(Line::read(7, " \t"), Ok(None));
    }

    #[test]
    fn a_value_may_cease_to_be() {
        let key = "auth:hash:15d6354290b017ae135247fb8d7a1c1e133738bca02c02e38fc0c5c1046d2206";
        let with = |more: &str| read(&format!(r#"{{"key":"{key}","value":"ann"{more}}}"#)).expiry;
        assert_eq!(with(""), None);
        assert_eq!(with(r#","expiration":1700000000"#), Some(Expiry::At(1_700_000_000)));
        assert_eq!(with(r#","ttl":60"#), Some(Expiry::After(60)));
        assert_eq!(with(r#","expiration_ttl":60"#), Some(Expiry::After(60)));
        let now = Timestamp::from_micros(5_000_000);
        assert_eq!(Expiry::After(60).moment(now), Timestamp::from_micros(65_000_000));
        assert_eq!(Expiry::At(60).moment(now), Timestamp::from_micros(60_000_000));
        assert_eq!(Expiry::After(u64::MAX).moment(now), Timestamp::from_micros(i64::MAX));
    }

    #[test]
    fn what_is_wrong_is_said_with_the_line_and_never_with_the_value() {
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
            let error = Line::read(3, text).expect_err(words);
            let said = error.to_string();
            assert_eq!(error.code(), code, "{said}");
            assert!(said.contains(words) && !said.contains("hidden"), "{said}");
        }
    }

    #[test]
    fn a_line_does_not_show_its_value_in_passing() {
        let line = read(r#"{"key":"skill:secrets:ann","value":{"TOKEN":"hidden"}}"#);
        assert!(!format!("{line:?}").contains("hidden"));
    }

    #[test]
    fn objects_stand_in_the_line_as_they_are() {
        let text = r#"{"key":"profile:ann","value":{"b":1,"a":[ ]},"expiration":5}"#;
        assert_eq!(read(text).to_string(), text);
        let line = Line { value: "{\n}".to_owned(), ..read(text) };
        assert_eq!(line.to_string(), r#"{"key":"profile:ann","value":"{\n}","expiration":5}"#);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            value in prop_oneof!["\\PC{0,40}", "[\\[{\" ,:\\]}\n0-9a]{0,12}", "\\{\"a\":[0-9]{1,3}\\}"],
            expiry in prop_oneof![
                Just(None),
                any::<u64>().prop_map(|s| Some(Expiry::At(s))),
                any::<u64>().prop_map(|s| Some(Expiry::After(s))),
            ],
        ) {
            let line = Line { key: LogicalKey::ToolsCache, value, expiry };
            let text = line.to_string();
            prop_assert!(!text.contains('\n'));
            prop_assert_eq!(Line::read(1, &text), Ok(Some(line)));
        }

        #[test]
        fn no_text_is_too_odd(text in "\\PC{0,80}") {
            let _ = Line::read(1, &text);
        }
    }
}
