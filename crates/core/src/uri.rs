//! The three shapes of an `iii://` URI, and the addresses of what single tiers hold.

use std::{fmt, str::FromStr};

use crate::{Field, HandlerId, RuleError, SkillId, Tier, id::INDEX_ID};

/// The scheme, with its slashes.
pub const SCHEME: &str = "iii://";

/// The scheme of what single tiers hold, with its slashes.
pub const TIER_SCHEME: &str = "skill://";

/// How much of a refused URI an error repeats.
const QUOTED_CHARS: usize = 120;

/// An address inside the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceUri {
    /// `iii://skills`: the index of all skills.
    Index,
    /// `iii://{id}`: the root document of a skill.
    Skill(SkillId),
    /// `iii://{id}/{path}`: a document of the skill's bundle, or else what the function of that name
    /// returns.
    Inside {
        /// The skill it belongs to.
        skill: SkillId,
        /// What follows the id, not empty.
        path: String,
    },
    /// `skill://{tier}/{id}` and `skill://{tier}/{id}/{path}`: the copy that one tier holds of a skill, also if
    /// another shadows it.
    Stored {
        /// Which tier; a private one is that of who asks.
        tier: Tier,
        /// The skill.
        skill: SkillId,
        /// A file of it; without, the root document.
        path: Option<String>,
    },
}

/// The function that a path inside a skill names, if it is not the path of a document.
///
/// # Errors
/// When it has more than one segment, or the function may not give content.
pub fn section(path: &str) -> Result<HandlerId, RuleError> {
    if path.contains('/') {
        return Err(RuleError::UriSegments(quoted(path)));
    }
    path.parse()
}

/// A path with its percent-encoded bytes decoded; `None` when it has none or they are not UTF-8.
#[must_use]
pub fn percent_decoded(path: &str) -> Option<String> {
    if !path.contains('%') {
        return None;
    }
    let bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte == b'%' {
            let digits = std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok()?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            decoded.push(u8::from_str_radix(digits, 16).ok()?);
            at += 3;
        } else {
            decoded.push(*byte);
            at += 1;
        }
    }
    String::from_utf8(decoded).ok()
}

/// A path as it stands in a URI: what may not stand there is percent-encoded.
#[must_use]
pub fn percent_encoded(path: &str) -> String {
    let may_stand =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:@!$&'()*+,;=".contains(&byte);
    path.bytes().fold(String::with_capacity(path.len()), |mut encoded, byte| {
        match may_stand(byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}

fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_CHARS).collect()
}

/// What follows the scheme, if that begins with a tier.
fn stored(rest: &str) -> Option<Result<ResourceUri, RuleError>> {
    let (tier, rest) = rest.split_once('/')?;
    let tier = tier.parse().ok()?;
    let (id, path) = rest.split_once('/').map_or((rest, None), |(id, path)| (id, Some(path)));
    let path = path.map(str::to_owned);
    Some(id.parse().map(|skill| ResourceUri::Stored { tier, skill, path }))
}

impl FromStr for ResourceUri {
    type Err = RuleError;

    fn from_str(uri: &str) -> Result<Self, RuleError> {
        if let Some(stored) = uri.strip_prefix(TIER_SCHEME).and_then(stored) {
            return stored;
        }
        let path = uri.strip_prefix(SCHEME).ok_or_else(|| RuleError::UriScheme(quoted(uri)))?;
        match path.split_once('/') {
            None if path == INDEX_ID => Ok(Self::Index),
            None => Ok(Self::Skill(path.parse()?)),
            Some((id, "")) => {
                let _: SkillId = id.parse()?;
                Err(RuleError::Empty(Field::FunctionId))
            }
            Some((id, path)) => Ok(Self::Inside { skill: id.parse()?, path: path.to_owned() }),
        }
    }
}

impl fmt::Display for ResourceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index => write!(f, "{SCHEME}{INDEX_ID}"),
            Self::Skill(id) => write!(f, "{SCHEME}{id}"),
            Self::Inside { skill, path } => write!(f, "{SCHEME}{skill}/{path}"),
            Self::Stored { tier, skill, path: None } => write!(f, "{TIER_SCHEME}{tier}/{skill}"),
            Self::Stored { tier, skill, path: Some(path) } => {
                write!(f, "{TIER_SCHEME}{tier}/{skill}/{path}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(uri: &str) -> Result<ResourceUri, String> {
        uri.parse().map_err(|error: RuleError| error.to_string())
    }

    /// Parses a URI that is not the path of a document.
    fn parse_section(uri: &str) -> Result<(), String> {
        match parse(uri)? {
            ResourceUri::Inside { path, .. } => {
                section(&path).map(drop).map_err(|error| error.to_string())
            }
            _ => Ok(()),
        }
    }

    #[test]
    fn three_shapes() {
        assert_eq!(parse("iii://skills"), Ok(ResourceUri::Index));
        assert_eq!(parse("iii://brain"), Ok(ResourceUri::Skill("brain".parse().unwrap())));
        assert_eq!(
            parse("iii://brain/brain::summarize"),
            Ok(ResourceUri::Inside {
                skill: "brain".parse().unwrap(),
                path: "brain::summarize".to_owned(),
            })
        );
        assert!(parse("iii://brain/references/a.md").is_ok());
    }

    #[test]
    fn a_tier_has_addresses_of_its_own() {
        for uri in ["skill://private/a", "skill://market/a/SKILL.md", "skill://official/a/b/c.md"] {
            assert_eq!(parse(uri).unwrap().to_string(), uri);
        }
        for (uri, words) in [
            ("skill://a/SKILL.md", "must start with iii://"),
            ("skill://private", "must start with iii://"),
            ("skill://private/", "id must be non-empty"),
            ("skill://market/A/x", "lowercase"),
        ] {
            let error = parse(uri).expect_err(uri);
            assert!(error.contains(words), "{uri}: {error}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_a_reason() {
        for (uri, words) in [
            ("http://brain", "must start with iii://"),
            ("III://brain", "must start with iii://"),
            ("", "must start with iii://"),
            ("iii://", "id must be non-empty"),
            ("iii:///f", "id must be non-empty"),
            ("iii://a/b/c", "more than one path segment"),
            ("iii://a/b/", "more than one path segment"),
            ("iii://a/", "function_id must be non-empty"),
            ("iii://Brain", "lowercase"),
            ("iii://brain?x=1", "lowercase"),
            ("iii://brain/state::get", "internal namespace"),
            ("iii://skills/x::y", "reserved"),
        ] {
            let error = parse_section(uri).expect_err(uri);
            assert!(error.contains(words), "{uri}: {error}");
        }
    }

    #[test]
    fn percent_encoding() {
        assert_eq!(percent_decoded("a%20b/%C3%A9").as_deref(), Some("a b/é"));
        assert_eq!(percent_encoded("a b/é.md"), "a%20b/%C3%A9.md");
        for broken in ["plain", "a%2", "a%zz", "a%+1", "%FF"] {
            assert_eq!(percent_decoded(broken), None, "{broken}");
        }
    }

    #[test]
    fn an_error_does_not_repeat_a_long_uri() {
        let error = parse(&"x".repeat(100_000)).expect_err("no scheme");
        assert!(error.len() < 200);
    }

    proptest! {
        #[test]
        fn never_panics(uri in "(iii://)?\\PC{0,40}(/\\PC{0,40}){0,3}") {
            let _ = parse_section(&uri);
        }

        #[test]
        fn what_parses_prints_as_it_was(id in "[a-z0-9_-]{1,64}", function in "[a-zA-Z0-9_:.-]{1,60}") {
            for uri in [format!("iii://{id}"), format!("iii://{id}/{function}")] {
                if let Ok(parsed) = parse(&uri) {
                    prop_assert_eq!(parsed.to_string(), uri);
                }
            }
        }
    }
}
