//! `iii://` URIs in their three forms, `skill://` URIs of the copies in single tiers, and both with a version.

use std::{borrow::Cow, fmt, str::FromStr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::{
    Field, HandlerId, RuleError, SkillId, Tier, VersionSelector,
    id::INDEX_ID,
    text::{MAX_QUOTED_CHARS, first_chars},
    version::{VERSION_SEPARATOR, split_version},
};

/// Scheme of registry URIs, with its slashes.
pub const SCHEME: &str = "iii://";

/// Scheme of copies in single tiers, and of the skills extension of MCP, with its slashes.
pub const SKILL_SCHEME: &str = "skill://";

/// Bytes that are encoded in a component: all but the unreserved characters of RFC 3986.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Bytes that are encoded in a path: all but those that RFC 3986 allows there.
const PATH: &AsciiSet = &COMPONENT
    .remove(b'/')
    .remove(b':')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=');

/// Address inside the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceUri {
    /// `iii://skills`: the index of all skills.
    Index,
    /// `iii://{id}`: the root document of a skill.
    Skill(SkillId),
    /// `iii://{id}/{path}`: a document of the skill's bundle, or else the section of the function of that name.
    Path {
        /// Skill of the path.
        skill: SkillId,
        /// Path after the id, not empty.
        path: String,
    },
    /// `skill://{tier}/{id}` and `skill://{tier}/{id}/{path}`: one tier's copy of a skill, even if another tier
    /// shadows it.
    InTier {
        /// Tier of the copy; the private tier is that of the caller.
        tier: Tier,
        /// Skill of the copy.
        skill: SkillId,
        /// File of the bundle; `None` for the root document.
        path: Option<String>,
    },
    /// `iii://{id}@{version}`, `skill://{tier}/{id}@{version}`, and both with a path: a file of one version.
    Version {
        /// Tier of the copy; `None` for the one that the id resolves to.
        tier: Option<Tier>,
        /// Skill of the version.
        skill: SkillId,
        /// Requested version.
        version: VersionSelector,
        /// File of the bundle; `None` for the root document.
        path: Option<String>,
    },
}

impl ResourceUri {
    /// Returns the skill of the address, and the tier that it names.
    #[must_use]
    pub const fn skill(&self) -> Option<(Option<Tier>, &SkillId)> {
        match self {
            Self::Index => None,
            Self::Skill(skill) | Self::Path { skill, .. } => Some((None, skill)),
            Self::InTier { tier, skill, .. } => Some((Some(*tier), skill)),
            Self::Version { tier, skill, .. } => Some((*tier, skill)),
        }
    }
}

/// Parses the function of a section from a path that is not a document.
///
/// # Errors
/// When it has more than one segment, or the function may not give content.
pub fn parse_section(path: &str) -> Result<HandlerId, RuleError> {
    if path.contains('/') {
        return Err(RuleError::UriSegments(first_chars(path, MAX_QUOTED_CHARS).to_owned()));
    }
    path.parse()
}

/// Returns the functions that a document links as sections of a skill, in order. Markdown links, autolinks and plain
/// text all count, because readers follow each of them.
pub fn linked_sections<'a>(
    id: &str,
    document: &'a str,
) -> impl Iterator<Item = HandlerId> + use<'a> {
    let prefix = format!("{SCHEME}{id}/");
    let starts: Vec<usize> = document.match_indices(&prefix).map(|(at, _)| at).collect();
    starts.into_iter().filter_map(move |at| {
        let rest = &document[at + prefix.len()..];
        let ends = |c: char| c.is_whitespace() || "()[]<>\"'`|/?#".contains(c);
        let link = &rest[..rest.find(ends).unwrap_or(rest.len())];
        link.trim_end_matches(['.', ',', ';', ':', '!', '*', '_']).parse().ok()
    })
}

/// Decodes percent-encoded bytes. Returns `None` when there are none, or when they are malformed or not UTF-8.
#[must_use]
pub fn percent_decode(path: &str) -> Option<String> {
    let mut escapes = path.split('%').skip(1).peekable();
    escapes.peek()?;
    let is_escape = |rest: &str| matches!(rest.as_bytes(), [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
    let decoded = || percent_decode_str(path).decode_utf8().ok();
    escapes.all(is_escape).then(decoded)?.map(Cow::into_owned)
}

/// Percent-encodes a path for a URI.
#[must_use]
pub fn percent_encode_path(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

/// Percent-encodes one component of a URI, including every reserved character.
#[must_use]
pub fn percent_encode_component(text: &str) -> String {
    utf8_percent_encode(text, COMPONENT).to_string()
}

/// Parses the part after the scheme if it begins with a tier.
fn parse_tier_uri(rest: &str) -> Option<Result<ResourceUri, RuleError>> {
    let (tier, rest) = rest.split_once('/')?;
    let tier = tier.parse().ok()?;
    let (id, path) = rest.split_once('/').map_or((rest, None), |(id, path)| (id, Some(path)));
    let path = path.map(str::to_owned);
    Some(parse_in_tier(tier, id, path))
}

fn parse_in_tier(tier: Tier, id: &str, path: Option<String>) -> Result<ResourceUri, RuleError> {
    let (id, version) = split_version(id)?;
    let skill = id.parse()?;
    Ok(match version {
        Some(version) => ResourceUri::Version { tier: Some(tier), skill, version, path },
        None => ResourceUri::InTier { tier, skill, path },
    })
}

impl FromStr for ResourceUri {
    type Err = RuleError;

    fn from_str(uri: &str) -> Result<Self, RuleError> {
        if let Some(parsed) = uri.strip_prefix(SKILL_SCHEME).and_then(parse_tier_uri) {
            return parsed;
        }
        let refused = || RuleError::UriScheme(first_chars(uri, MAX_QUOTED_CHARS).to_owned());
        let path = uri.strip_prefix(SCHEME).ok_or_else(refused)?;
        let (id, path) = path.split_once('/').map_or((path, None), |(id, path)| (id, Some(path)));
        let (id, version) = split_version(id)?;
        if (&*id, &version, path) == (INDEX_ID, &None, None) {
            return Ok(Self::Index);
        }
        let skill = id.parse()?;
        match (version, path) {
            (_, Some("")) => Err(RuleError::Empty(Field::FunctionId)),
            (Some(version), path) => {
                Ok(Self::Version { tier: None, skill, version, path: path.map(str::to_owned) })
            }
            (None, None) => Ok(Self::Skill(skill)),
            (None, Some(path)) => Ok(Self::Path { skill, path: path.to_owned() }),
        }
    }
}

impl fmt::Display for ResourceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index => write!(f, "{SCHEME}{INDEX_ID}"),
            Self::Skill(id) => write!(f, "{SCHEME}{id}"),
            Self::Path { skill, path } => write!(f, "{SCHEME}{skill}/{path}"),
            Self::InTier { tier, skill, path: None } => write!(f, "{SKILL_SCHEME}{tier}/{skill}"),
            Self::InTier { tier, skill, path: Some(path) } => {
                write!(f, "{SKILL_SCHEME}{tier}/{skill}/{path}")
            }
            Self::Version { tier, skill, version, path } => {
                match tier {
                    Some(tier) => write!(f, "{SKILL_SCHEME}{tier}/")?,
                    None => f.write_str(SCHEME)?,
                }
                write!(f, "{skill}{VERSION_SEPARATOR}{version}")?;
                path.iter().try_for_each(|path| write!(f, "/{path}"))
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
    fn parse_section_uri(uri: &str) -> Result<(), String> {
        match parse(uri)? {
            ResourceUri::Path { path, .. } => {
                parse_section(&path).map(drop).map_err(|error| error.to_string())
            }
            _ => Ok(()),
        }
    }

    #[test]
    fn the_three_forms_parse() {
        assert_eq!(parse("iii://skills"), Ok(ResourceUri::Index));
        assert_eq!(parse("iii://brain"), Ok(ResourceUri::Skill("brain".parse().unwrap())));
        assert_eq!(
            parse("iii://brain/brain::summarize"),
            Ok(ResourceUri::Path {
                skill: "brain".parse().unwrap(),
                path: "brain::summarize".to_owned(),
            })
        );
        assert!(parse("iii://brain/references/a.md").is_ok());
    }

    #[test]
    fn tier_uris_round_trip() {
        for uri in ["skill://private/a", "skill://market/a/SKILL.md", "skill://official/a/b/c.md"] {
            assert_eq!(parse(uri).unwrap().to_string(), uri, "{uri}");
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
    fn a_uri_may_name_a_version() {
        for uri in [
            "iii://a@3",
            "iii://a@stable/references/b.md",
            "iii://a@sha256:0123456789ab",
            "skill://market/a@1.4.0",
            "skill://private/a@latest/b/c.md",
        ] {
            let parsed = parse(uri).unwrap();
            assert!(matches!(parsed, ResourceUri::Version { .. }), "{uri}");
            assert_eq!(parsed.to_string(), uri);
        }
        assert_eq!(parse("iii://alpha%403"), parse("iii://alpha@3"));
        assert_eq!(parse("iii://alpha%403/x"), parse("iii://alpha@3/x"));
        assert_eq!(parse("skill://official/a%40stable/x"), parse("skill://official/a@stable/x"));
        for (uri, words) in [
            ("iii://a@", "version must be"),
            ("iii://a@b@c", "version must be"),
            ("iii://@3", "id must be non-empty"),
            ("iii://skills@3", "reserved"),
            ("iii://a@3/", "must be non-empty"),
            ("iii://A@3", "lowercase"),
            ("skill://market/a@0", "version must be"),
        ] {
            let error = parse(uri).expect_err(uri);
            assert!(error.contains(words), "{uri}: {error}");
        }
    }

    #[test]
    fn other_uris_are_refused_with_a_reason() {
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
            let error = parse_section_uri(uri).expect_err(uri);
            assert!(error.contains(words), "{uri}: {error}");
        }
    }

    #[test]
    fn links_into_the_skill_are_its_linked_sections() {
        let linked = |document: &str| -> Vec<String> {
            linked_sections("brain", document).map(|function| function.to_string()).collect()
        };
        let document = "See [x](iii://brain/brain::a) and iii://brain/brain::b.\n\
            `iii://brain/brain::a`, iii://other/o::p, iii://brain, iii://brain/state::get";
        assert_eq!(linked(document), ["brain::a", "brain::b", "brain::a"]);
        assert_eq!(linked("<iii://brain/brain::bc>"), ["brain::bc"], "the whole id");
        assert!(linked("iii://brain/").is_empty());
    }

    #[test]
    fn percent_encoding_round_trips_and_malformed_escapes_are_refused() {
        assert_eq!(percent_decode("a%20b/%C3%A9").as_deref(), Some("a b/é"));
        assert_eq!(percent_encode_path("a b/é.md"), "a%20b/%C3%A9.md");
        assert_eq!(percent_encode_component("a/b?é.md"), "a%2Fb%3F%C3%A9.md");
        for broken in ["plain", "a%2", "a%zz", "a%+1", "%FF"] {
            assert_eq!(percent_decode(broken), None, "{broken}");
        }
    }

    #[test]
    fn errors_truncate_long_uris() {
        let error = parse(&"x".repeat(100_000)).expect_err("no scheme");
        assert!(error.len() < 200);
    }

    proptest! {
        #[test]
        fn parsing_never_panics(uri in "(iii://)?\\PC{0,40}(/\\PC{0,40}){0,3}") {
            let _ = parse_section_uri(&uri);
        }

        #[test]
        fn parsed_uris_print_unchanged(id in "[a-z0-9_-]{1,64}", function in "[a-zA-Z0-9_:.-]{1,60}") {
            for uri in [format!("iii://{id}"), format!("iii://{id}/{function}")] {
                if let Ok(parsed) = parse(&uri) {
                    prop_assert_eq!(parsed.to_string(), uri);
                }
            }
        }
    }
}
