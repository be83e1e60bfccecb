//! Versions of entries: numbers, labels, and the addresses `id@version`. The rules of storage are not known here.
//!
//! `@` is in no id, so the text before it is the id. [`split_version`] is the only parser of such addresses; URIs use it
//! too.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{
    Digest, Field, RuleError,
    limits::{MAX_LABEL_BYTES, MAX_MESSAGE_BYTES, MAX_SELECTOR_BYTES, MIN_DIGEST_DIGITS},
    text::{MAX_QUOTED_CHARS, first_chars},
    uri::percent_decode,
};

/// Label whose version is served to callers that name none.
pub const STABLE: &str = "stable";

/// Name of the newest version. It moves by itself, so it cannot be set.
pub const LATEST: &str = "latest";

/// Separates an id from a version.
pub const VERSION_SEPARATOR: char = '@';

/// Prefix of a content digest in an address.
const DIGEST_PREFIX: &str = "sha256:";

/// Movable name of a version: 1 to 32 of `[a-z0-9-]`, not a number, and not `latest`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Arc<str>);

impl Label {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether entries serve the version with this label.
    #[must_use]
    pub fn is_stable(&self) -> bool {
        self.as_str() == STABLE
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Label {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let reason = if text.is_empty() || text.len() > MAX_LABEL_BYTES {
            "must have 1 to 32 characters"
        } else if !text.bytes().all(allowed) {
            "must be lowercase ASCII letters, digits and '-' only"
        } else if text.bytes().all(|byte| byte.is_ascii_digit()) {
            "must not be a number"
        } else if text == LATEST {
            "moves by itself and cannot be set"
        } else {
            return Ok(Self(text.into()));
        };
        Err(RuleError::Label { label: quoted(text), reason })
    }
}

impl Serialize for Label {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// First hexadecimal digits of a content digest, at least 12.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DigestPrefix(String);

impl DigestPrefix {
    /// Returns the digits in lower case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a digest begins with these digits.
    #[must_use]
    pub fn matches(&self, digest: &Digest) -> bool {
        digest.to_string().starts_with(&self.0)
    }

    /// Returns the smallest and the largest digest that begin with these digits, for a lookup in an index.
    #[must_use]
    pub fn bounds(&self) -> (Digest, Digest) {
        let bound = |fill: u8| {
            let digits = self.0.bytes().filter_map(|digit| char::from(digit).to_digit(16));
            let mut bytes = [fill << 4 | fill; 32];
            for (at, digit) in digits.enumerate() {
                let (byte, digit) = (&mut bytes[at / 2], digit as u8);
                *byte = if at % 2 == 0 { digit << 4 | (*byte & 0xf) } else { *byte & 0xf0 | digit };
            }
            Digest::from_bytes(bytes)
        };
        (bound(0), bound(0xf))
    }
}

/// Part of an address that selects a version of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VersionSelector {
    /// Number of a version, from 1.
    Number(u64),
    /// Content digest: `sha256:` and at least 12 hexadecimal digits.
    Digest(DigestPrefix),
    /// Newest version that is not yanked.
    Latest,
    /// A label, or else the author's own version.
    Name(String),
}

impl VersionSelector {
    /// Returns whether the selector names one immutable version. Others follow labels and the newest version.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        matches!(self, Self::Number(_) | Self::Digest(_))
    }
}

impl fmt::Display for VersionSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Digest(prefix) => write!(f, "{DIGEST_PREFIX}{}", prefix.as_str()),
            Self::Latest => f.write_str(LATEST),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl FromStr for VersionSelector {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let refused = || RuleError::Version(quoted(text));
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = text.parse().ok().filter(|number| *number > 0);
            return number.map(Self::Number).ok_or_else(refused);
        }
        if let Some(digits) = text.strip_prefix(DIGEST_PREFIX) {
            let is_prefix = (MIN_DIGEST_DIGITS..=64).contains(&digits.len())
                && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let prefix = || Self::Digest(DigestPrefix(digits.to_ascii_lowercase()));
            return is_prefix.then(prefix).ok_or_else(refused);
        }
        match text {
            LATEST => Ok(Self::Latest),
            name if is_author_version(name) => Ok(Self::Name(name.to_owned())),
            _ => Err(refused()),
        }
    }
}

impl Serialize for VersionSelector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u64(*number),
            other => serializer.collect_str(other),
        }
    }
}

/// Version in a request: a number, or the text of a selector.
#[derive(Deserialize)]
#[serde(untagged, expecting = "version must be a number from 1 or a text")]
enum SelectorValue {
    Number(u64),
    Text(String),
}

impl<'de> Deserialize<'de> for VersionSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match SelectorValue::deserialize(deserializer)? {
            SelectorValue::Number(number) => number.to_string(),
            SelectorValue::Text(text) => text,
        };
        text.parse().map_err(D::Error::custom)
    }
}

/// Returns whether a text can be addressed as the author's own version: up to 64 of `[A-Za-z0-9._+~-]`.
#[must_use]
pub fn is_author_version(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._+~-".contains(&byte);
    (1..=MAX_SELECTOR_BYTES).contains(&text.len()) && text.bytes().all(allowed)
}

/// Splits `id@version`. `id%40version` is the same: clients that expand URI templates encode the separator.
///
/// The id is not checked.
///
/// # Errors
/// When the text after the separator selects no version.
pub fn split_version(text: &str) -> Result<(Cow<'_, str>, Option<VersionSelector>), RuleError> {
    let decoded = match percent_decode(text) {
        Some(decoded) if decoded.contains(VERSION_SEPARATOR) => Cow::Owned(decoded),
        _ => Cow::Borrowed(text),
    };
    let Some(at) = decoded.find(VERSION_SEPARATOR) else { return Ok((decoded, None)) };
    let selector = decoded[at + VERSION_SEPARATOR.len_utf8()..].parse()?;
    let id = match decoded {
        Cow::Borrowed(text) => Cow::Borrowed(&text[..at]),
        Cow::Owned(mut text) => {
            text.truncate(at);
            Cow::Owned(text)
        }
    };
    Ok((id, Some(selector)))
}

/// Checks the length of a message of a version or of a reason of a yank.
///
/// # Errors
/// When it is longer than 1 KiB.
pub fn check_message(field: Field, text: &str) -> Result<(), RuleError> {
    let (len, max) = (text.len(), MAX_MESSAGE_BYTES);
    if len > max {
        return Err(RuleError::TooLarge { field, len, max });
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    first_chars(text, MAX_QUOTED_CHARS).to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn selector(text: &str) -> Result<VersionSelector, String> {
        text.parse().map_err(|error: RuleError| error.to_string())
    }

    #[test]
    fn a_number_comes_before_a_digest_a_label_and_the_authors_version() {
        let name = |text: &str| Ok(VersionSelector::Name(text.to_owned()));
        assert_eq!(selector("3"), Ok(VersionSelector::Number(3)));
        assert_eq!(selector("007"), Ok(VersionSelector::Number(7)));
        assert_eq!(selector("latest"), Ok(VersionSelector::Latest));
        for text in ["stable", "1.4.0", "v2", "1.0.0-rc.1+build"] {
            assert_eq!(selector(text), name(text), "{text}");
        }
        let digest = selector("sha256:ABCDEF012345").unwrap();
        assert_eq!(digest.to_string(), "sha256:abcdef012345");
        assert!(digest.is_exact() && !selector("stable").unwrap().is_exact());
    }

    #[test]
    fn a_digest_is_within_the_bounds_of_its_prefixes() {
        let digest = Digest::of(b"x");
        for length in 12..=64 {
            let text = format!("sha256:{:.length$}", digest.to_string());
            let VersionSelector::Digest(prefix) = text.parse().unwrap() else { panic!("{text}") };
            let (low, high) = prefix.bounds();
            assert!(low <= digest && digest <= high, "{text}");
            assert!(prefix.matches(&low) && prefix.matches(&high), "{text}");
            assert_eq!(low == high, length == 64, "{text}");
        }
    }

    #[test]
    fn other_selectors_are_refused() {
        let long = "a".repeat(65);
        for text in [
            "",
            "0",
            "00",
            "99999999999999999999",
            "sha256:abc",
            "sha256:",
            "sha256:abcdef01234g",
            "sha512:abcdef012345",
            "a b",
            "a/b",
            "a@b",
            "é",
            "a:b",
            &long,
        ] {
            let error = selector(text).expect_err(text);
            assert!(error.starts_with("version must be"), "{text}: {error}");
            assert!(error.len() < 400, "{error}");
        }
    }

    #[test]
    fn a_label_is_short_and_neither_a_number_nor_latest() {
        for label in ["stable", "a", "2024-01", "-", &"x".repeat(32)] {
            assert!(label.parse::<Label>().is_ok(), "{label}");
        }
        for (label, words) in [
            ("", "1 to 32"),
            (&*"x".repeat(33), "1 to 32"),
            ("Stable", "lowercase"),
            ("a_b", "lowercase"),
            ("12", "not be a number"),
            ("latest", "moves by itself"),
        ] {
            let error = label.parse::<Label>().expect_err(label).to_string();
            assert!(error.contains(words), "{label}: {error}");
        }
    }

    #[test]
    fn an_address_splits_at_the_separator_in_either_form() {
        let split = |text| split_version(text).map(|(id, version)| (id.into_owned(), version));
        assert_eq!(split("alpha"), Ok(("alpha".into(), None)));
        for text in ["alpha@3", "alpha%403", "alph%61%403"] {
            assert_eq!(
                split(text),
                Ok(("alpha".into(), Some(VersionSelector::Number(3)))),
                "{text}"
            );
        }
        assert_eq!(split("alph%61"), Ok(("alph%61".into(), None)), "nothing else is decoded");
        let digest = split("a%40sha256%3Aabcdef012345").unwrap().1.unwrap();
        assert_eq!(digest.to_string(), "sha256:abcdef012345");
        for text in ["a@", "a@b@c", "a@0", "@@"] {
            assert!(split(text).is_err(), "{text}");
        }
    }

    #[test]
    fn requests_name_a_version_by_number_or_text() {
        let parse = |json: &str| serde_json::from_str::<VersionSelector>(json);
        assert_eq!(parse("3").unwrap(), VersionSelector::Number(3));
        assert_eq!(parse("\"3\"").unwrap(), VersionSelector::Number(3));
        assert_eq!(parse("\"latest\"").unwrap(), VersionSelector::Latest);
        assert!(parse("0").is_err() && parse("\"a b\"").is_err());
        for json in ["-1", "1.5", "null", "[]"] {
            let error = parse(json).unwrap_err().to_string();
            assert!(error.starts_with("version must be a number"), "{json}: {error}");
        }
        assert_eq!(serde_json::to_string(&VersionSelector::Number(3)).unwrap(), "3");
    }

    proptest! {
        #[test]
        fn parsed_selectors_print_unchanged(text in "[a-zA-Z0-9._+~-]{1,64}|sha256:[0-9a-f]{12,64}") {
            if let Ok(selector) = text.parse::<VersionSelector>() {
                prop_assert_eq!(selector.to_string().parse::<VersionSelector>(), Ok(selector));
            }
        }

        #[test]
        fn splitting_never_panics(text in "\\PC{0,60}") {
            let _ = split_version(&text);
        }
    }
}
