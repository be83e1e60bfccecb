//! Rules of paths: valid segments, patterns, and captured parameters. It knows no catalog and no client;
//! [`trie`](crate::trie) finds the pattern for a path.
//!
//! A *pattern* is the path of a descriptor and may have parameters (`/goods/:id`); a *concrete* path is that of a call. A
//! leaf that is reserved for skills or prompts can only be the last segment.

use skills_core::text::first_chars;

/// Leaves of skills, in their exact spelling.
pub(crate) const SKILL_LEAVES: [&str; 2] = skills_core::skill::SKILL_LEAVES;
/// Leaves of prompts, in their exact spelling.
pub(crate) const PROMPT_LEAVES: [&str; 2] = ["prompt.md", "PROMPT.md"];

/// Characters of an invalid segment that an error repeats.
const MAX_QUOTED_CHARS: usize = 40;

/// Part of a path between two slashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Segment<'a> {
    /// Parameter such as `:id`, without its colon: matches any segment.
    Param(&'a str),
    /// Leaf of a skill or a prompt: matches itself.
    Leaf(&'a str),
    /// Literal: matches itself.
    Literal(&'a str),
}

/// Violation of a rule of paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path does not start with a slash.
    #[error("a path starts with '/'")]
    NotAbsolute,
    /// The path has a query or a fragment.
    #[error("a path has no '?' and no '#'")]
    Query,
    /// The path has two slashes in a row, or one at its end.
    #[error("a path has no empty segments and no slash at its end")]
    EmptySegment,
    /// A reserved leaf is not the last segment.
    #[error("{0:?} can only be the last segment")]
    LeafInside(String),
    /// A concrete path has a parameter.
    #[error("{0:?} is a parameter, and the path must be without any")]
    Param(String),
    /// A segment has invalid characters.
    #[error(
        "{0:?} is not a segment: lower-case letters, digits, '-' and '_', beginning with a letter or a digit"
    )]
    Segment(String),
}

/// Parses a pattern.
///
/// # Errors
/// The first violated rule.
pub(crate) fn parse_pattern(path: &str) -> Result<Vec<Segment<'_>>, PathError> {
    segments(path, true)?.collect()
}

/// Returns whether a path is valid in a descriptor.
#[must_use]
pub(crate) fn is_pattern(path: &str) -> bool {
    check(path, true).is_ok()
}

/// Checks the path of a call.
///
/// # Errors
/// The first violated rule.
pub(crate) fn check_concrete(path: &str) -> Result<(), PathError> {
    check(path, false)
}

/// Returns whether a path is valid for a skill.
#[must_use]
pub(crate) fn is_skill(path: &str) -> bool {
    SKILL_LEAVES.contains(&leaf(path)) && is_pattern(path)
}

/// Returns whether a path is valid for a prompt.
#[must_use]
pub(crate) fn is_prompt(path: &str) -> bool {
    PROMPT_LEAVES.contains(&leaf(path)) && is_pattern(path)
}

/// Returns the last segment.
#[must_use]
pub(crate) fn leaf(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Splits a path into its segments.
pub(crate) fn split(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').skip(1)
}

/// Returns the depth of a path in a catalog: the first two segments are one level, each further one is another.
#[must_use]
pub(crate) fn depth(path: &str) -> usize {
    split(path).count().saturating_sub(2).max(1)
}

/// Returns the values of a pattern's parameters in a path that matches it. Of two with one name the last counts.
#[must_use]
pub(crate) fn capture_params<'a>(
    pattern: &[Segment<'a>],
    path: &'a str,
) -> Vec<(&'a str, &'a str)> {
    let mut params: Vec<(&str, &str)> = Vec::new();
    for (segment, value) in pattern.iter().zip(split(path)) {
        let Segment::Param(name) = segment else { continue };
        match params.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => params.push((name, value)),
        }
    }
    params
}

fn check(path: &str, allow_params: bool) -> Result<(), PathError> {
    segments(path, allow_params)?.try_for_each(|segment| segment.map(drop))
}

fn segments(
    path: &str,
    allow_params: bool,
) -> Result<impl Iterator<Item = Result<Segment<'_>, PathError>>, PathError> {
    let inner = path.strip_prefix('/').ok_or(PathError::NotAbsolute)?;
    if inner.contains(['?', '#']) {
        return Err(PathError::Query);
    }
    let last = inner.split('/').count() - 1;
    let parts = inner.split('/').enumerate();
    Ok(parts.map(move |(at, part)| segment(part, at == last, allow_params)))
}

fn segment(part: &str, is_last: bool, allow_params: bool) -> Result<Segment<'_>, PathError> {
    if part.is_empty() {
        return Err(PathError::EmptySegment);
    }
    if is_leaf(part) {
        return if is_last {
            Ok(Segment::Leaf(part))
        } else {
            Err(PathError::LeafInside(part.into()))
        };
    }
    let quoted = || first_chars(part, MAX_QUOTED_CHARS).to_owned();
    match part.strip_prefix(':') {
        Some(name) if is_name(name) && allow_params => Ok(Segment::Param(name)),
        Some(name) if is_name(name) => Err(PathError::Param(quoted())),
        None if is_name(part.strip_prefix('.').unwrap_or(part)) => Ok(Segment::Literal(part)),
        _ => Err(PathError::Segment(quoted())),
    }
}

/// Returns whether a segment is reserved for skills or prompts.
fn is_leaf(part: &str) -> bool {
    SKILL_LEAVES.contains(&part) || PROMPT_LEAVES.contains(&part)
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let is_start = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.next().is_some_and(is_start)
        && bytes.all(|byte| is_start(byte) || byte == b'-' || byte == b'_')
}

#[cfg(test)]
mod tests {
    use modeldriveprotocol_client as oracle;
    use proptest::prelude::*;

    use super::*;
    use crate::{trie::Trie, wire::Method};

    #[test]
    fn valid_paths_of_skills_and_prompts() {
        for path in [
            "/skill.md",
            "/a/SKILL.md",
            "/.ai/skill.md",
            "/a-/b_c/skill.md",
            "/:id/skill.md",
            "/:id-x/skill.md",
        ] {
            assert!(is_skill(path), "{path}");
        }
        for path in ["/a/prompt.md", "/PROMPT.md"] {
            assert!(is_prompt(path) && !is_skill(path), "{path}");
        }
    }

    #[test]
    fn invalid_paths_of_skills_and_prompts() {
        for path in [
            "/a/b",
            "/a/Skill.md",
            "/A/skill.md",
            "/a b/skill.md",
            "/a//skill.md",
            "/a/skill.md/",
            "a/skill.md",
            "/./skill.md",
            "/../skill.md",
            "/a.b/skill.md",
            "/-a/skill.md",
            "/_a/skill.md",
            "/:Id/skill.md",
            "/:/skill.md",
            "/skill.md/skill.md",
            "/é/skill.md",
            "/a%20b/skill.md",
            "/a/prompt.md",
            "/a?x/skill.md",
            "/a#x/skill.md",
            "",
            "/",
            "skill.md",
        ] {
            assert!(!is_skill(path), "{path}");
            assert!(!is_prompt(path) || path == "/a/prompt.md", "{path}");
        }
    }

    #[test]
    fn an_error_names_the_violated_rule() {
        for (path, error) in [
            ("a", PathError::NotAbsolute),
            ("/a?b", PathError::Query),
            ("/a//b", PathError::EmptySegment),
            ("/", PathError::EmptySegment),
            ("/skill.md/b", PathError::LeafInside("skill.md".into())),
            ("/:id", PathError::Param(":id".into())),
            ("/..", PathError::Segment("..".into())),
        ] {
            assert_eq!(check_concrete(path), Err(error), "{path}");
        }
        let long = check_concrete(&format!("/{}", "A".repeat(100_000))).expect_err("upper case");
        assert!(long.to_string().len() < 200);
    }

    #[test]
    fn depths_as_in_the_specification() {
        for (path, expected) in [
            ("/skill.md", 1),
            ("/team/review/skill.md", 1),
            ("/team/review/files/skill.md", 2),
            ("/a", 1),
            ("/a/b", 1),
            ("/a/b/c", 1),
            ("/a/b/c/d", 2),
        ] {
            assert_eq!(depth(path), expected, "{path}");
        }
    }

    /// Strings that are often paths, and often almost paths.
    fn near_paths() -> impl Strategy<Value = String> {
        let segment = prop_oneof![
            4 => "[a-c][a-c0-9_-]{0,2}",
            2 => ":[a-b]{0,2}",
            1 => "\\.?[A-Za-z0-9._:-]{0,3}",
            2 => prop::sample::select(vec!["skill.md", "SKILL.md", "prompt.md", "PROMPT.md"])
                .prop_map(str::to_owned),
            1 => "\\PC{0,3}",
        ];
        (prop::collection::vec(segment, 0..5), prop_oneof![9 => Just("/"), 1 => Just("")])
            .prop_map(|(segments, start)| format!("{start}{}", segments.join("/")))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn agrees_with_the_published_client_on_what_a_path_is(path in near_paths()) {
            prop_assert_eq!(is_pattern(&path), oracle::is_path_pattern(&path));
            prop_assert_eq!(check_concrete(&path).is_ok(), oracle::is_concrete_path(&path));
            prop_assert_eq!(is_skill(&path), oracle::is_skill_path(&path));
            prop_assert_eq!(is_prompt(&path), oracle::is_prompt_path(&path));
        }

        #[test]
        fn agrees_with_the_published_client_on_what_matches(
            pattern in near_paths(), path in near_paths(),
        ) {
            let segments = parse_pattern(&pattern).ok().filter(|_| check_concrete(&path).is_ok());
            let ours = segments.and_then(|segments| {
                let mut trie = Trie::default();
                trie.insert(&segments, Method::Get, 0);
                trie.find(Method::Get, &path).map(|_| capture_params(&segments, &path))
            });
            let theirs = oracle::match_path_pattern(&pattern, &path);
            prop_assert_eq!(ours.is_some(), theirs.is_some());
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                let params: serde_json::Map<_, _> =
                    ours.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
                prop_assert_eq!(params, theirs.params);
            }
        }
    }
}
