//! The three shapes of an `iii://` URI.

use std::{fmt, str::FromStr};

use crate::{HandlerId, RuleError, SkillId, id::INDEX_ID};

/// The scheme, with its slashes.
pub const SCHEME: &str = "iii://";

/// How much of a refused URI an error repeats.
const QUOTED_CHARS: usize = 120;

/// An address inside the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceUri {
    /// `iii://skills`: the index of all skills.
    Index,
    /// `iii://{id}`: the root document of a skill.
    Skill(SkillId),
    /// `iii://{id}/{function_id}`: what the function returns.
    Section {
        /// The skill the section belongs to.
        skill: SkillId,
        /// The function that gives its content.
        function: HandlerId,
    },
}

impl FromStr for ResourceUri {
    type Err = RuleError;

    fn from_str(uri: &str) -> Result<Self, RuleError> {
        let quoted = || uri.chars().take(QUOTED_CHARS).collect::<String>();
        let path = uri.strip_prefix(SCHEME).ok_or_else(|| RuleError::UriScheme(quoted()))?;
        match path.split_once('/') {
            None if path == INDEX_ID => Ok(Self::Index),
            None => Ok(Self::Skill(path.parse()?)),
            Some((_, rest)) if rest.contains('/') => Err(RuleError::UriSegments(quoted())),
            Some((id, function)) => {
                Ok(Self::Section { skill: id.parse()?, function: function.parse()? })
            }
        }
    }
}

impl fmt::Display for ResourceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index => write!(f, "{SCHEME}{INDEX_ID}"),
            Self::Skill(id) => write!(f, "{SCHEME}{id}"),
            Self::Section { skill, function } => write!(f, "{SCHEME}{skill}/{function}"),
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

    #[test]
    fn three_shapes() {
        assert_eq!(parse("iii://skills"), Ok(ResourceUri::Index));
        assert_eq!(parse("iii://brain"), Ok(ResourceUri::Skill("brain".parse().unwrap())));
        assert_eq!(
            parse("iii://brain/brain::summarize"),
            Ok(ResourceUri::Section {
                skill: "brain".parse().unwrap(),
                function: "brain::summarize".parse().unwrap(),
            })
        );
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
            let error = parse(uri).expect_err(uri);
            assert!(error.contains(words), "{uri}: {error}");
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
            let _ = parse(&uri);
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
