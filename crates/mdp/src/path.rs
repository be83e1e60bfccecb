//! The rules of paths: what a segment may be, what a pattern matches, and which of two patterns is the more
//! specific. It knows no catalogue and no client; [`trie`](crate::trie) finds the pattern for a path.
//!
//! A *pattern* stands in a descriptor and may have parameters (`/goods/:id`); a *concrete* path is what is
//! asked for. A leaf that is reserved for skills or prompts can only stand at the end.

use std::cmp::Ordering;

/// Leaves of skills, exactly as they are spelled.
pub const SKILL_LEAVES: [&str; 2] = skills_core::skill::LEAVES;
/// Leaves of prompts, exactly as they are spelled.
pub const PROMPT_LEAVES: [&str; 2] = ["prompt.md", "PROMPT.md"];

/// How much of a refused segment an error repeats.
const QUOTED_CHARS: usize = 40;

/// One part of a path between two slashes. The order is that of specificity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment<'a> {
    /// `:id`, here without its colon: takes any segment.
    Param(&'a str),
    /// The leaf of a skill or a prompt: takes itself.
    Leaf(&'a str),
    /// Takes itself.
    Literal(&'a str),
}

impl Segment<'_> {
    const fn specificity(self) -> u8 {
        match self {
            Self::Param(_) => 0,
            Self::Leaf(_) => 1,
            Self::Literal(_) => 2,
        }
    }
}

/// What is wrong with a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Paths start at the root.
    #[error("a path starts with '/'")]
    NotAbsolute,
    /// Queries and fragments are no part of a path.
    #[error("a path has no '?' and no '#'")]
    Query,
    /// Two slashes in a row, or one at the end.
    #[error("a path has no empty segments and no slash at its end")]
    EmptySegment,
    /// A leaf that is reserved stands in the middle.
    #[error("{0:?} can only be the last segment")]
    LeafInside(String),
    /// A parameter where none may be.
    #[error("{0:?} is a parameter, and the path must be without any")]
    Param(String),
    /// Characters that a segment does not have.
    #[error(
        "{0:?} is not a segment: lower-case letters, digits, '-' and '_', beginning with a letter or a digit"
    )]
    Segment(String),
}

/// Whether parameters may stand in a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Params {
    Allowed,
    Refused,
}

/// The segments of a pattern.
///
/// # Errors
/// The first rule that is broken.
pub fn pattern(path: &str) -> Result<Vec<Segment<'_>>, PathError> {
    segments(path, Params::Allowed)?.collect()
}

/// Whether a path may stand in a descriptor.
#[must_use]
pub fn is_pattern(path: &str) -> bool {
    check(path, Params::Allowed).is_ok()
}

/// Whether a path may be asked for.
#[must_use]
pub fn is_concrete(path: &str) -> bool {
    check_concrete(path).is_ok()
}

/// The same, with the reason.
///
/// # Errors
/// The first rule that is broken.
pub fn check_concrete(path: &str) -> Result<(), PathError> {
    check(path, Params::Refused)
}

/// Whether a skill may have this path.
#[must_use]
pub fn is_skill(path: &str) -> bool {
    SKILL_LEAVES.contains(&leaf(path)) && is_pattern(path)
}

/// Whether a prompt may have this path.
#[must_use]
pub fn is_prompt(path: &str) -> bool {
    PROMPT_LEAVES.contains(&leaf(path)) && is_pattern(path)
}

/// The last segment.
#[must_use]
pub fn leaf(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The parts between the slashes.
pub fn split(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').skip(1)
}

/// How deep in a catalogue a path stands: the first two segments are one level, each further one is another.
#[must_use]
pub fn depth(path: &str) -> usize {
    split(path).count().saturating_sub(2).max(1)
}

/// What a pattern makes of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match<'a> {
    /// What the parameters stand for, in the order of the path.
    pub params: Vec<(&'a str, &'a str)>,
    /// See [`Specificity`].
    pub specificity: Specificity,
}

/// How narrow a pattern is, segment for segment. The greater is the more specific, and a longer one is
/// greater than what it begins with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Specificity(Vec<u8>);

impl Specificity {
    /// That of a pattern.
    #[must_use]
    pub fn of(pattern: &[Segment<'_>]) -> Self {
        Self(pattern.iter().map(|segment| segment.specificity()).collect())
    }

    /// Segment for segment: 0 for a parameter, 1 for a reserved leaf, 2 for a literal.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

/// Which of two patterns is the more specific.
#[must_use]
pub fn compare(left: &Specificity, right: &Specificity) -> Ordering {
    left.cmp(right)
}

/// Matches one pattern with one concrete path. For a whole catalogue there is [`trie`](crate::trie).
#[must_use]
pub fn match_pattern<'a>(pattern: &'a str, path: &'a str) -> Option<Match<'a>> {
    let segments = self::pattern(pattern).ok().filter(|_| is_concrete(path))?;
    let is_there = |(segment, value): (&Segment<'_>, &str)| match segment {
        Segment::Param(_) => true,
        Segment::Leaf(text) | Segment::Literal(text) => *text == value,
    };
    if split(path).count() != segments.len() || !segments.iter().zip(split(path)).all(is_there) {
        return None;
    }
    Some(Match { params: captured(&segments, path), specificity: Specificity::of(&segments) })
}

/// What the parameters of a pattern stand for in a path that matches it. Of two with one name the last counts.
#[must_use]
pub fn captured<'a>(pattern: &[Segment<'a>], path: &'a str) -> Vec<(&'a str, &'a str)> {
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

fn check(path: &str, params: Params) -> Result<(), PathError> {
    segments(path, params)?.try_for_each(|segment| segment.map(drop))
}

fn segments(
    path: &str,
    params: Params,
) -> Result<impl Iterator<Item = Result<Segment<'_>, PathError>>, PathError> {
    let inner = path.strip_prefix('/').ok_or(PathError::NotAbsolute)?;
    if inner.contains(['?', '#']) {
        return Err(PathError::Query);
    }
    let last = inner.split('/').count() - 1;
    let parts = inner.split('/').enumerate();
    Ok(parts.map(move |(at, part)| segment(part, at == last, params)))
}

fn segment(part: &str, is_last: bool, params: Params) -> Result<Segment<'_>, PathError> {
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
    match part.strip_prefix(':') {
        Some(name) if is_name(name) && params == Params::Allowed => Ok(Segment::Param(name)),
        Some(name) if is_name(name) => Err(PathError::Param(quoted(part))),
        None if is_name(part.strip_prefix('.').unwrap_or(part)) => Ok(Segment::Literal(part)),
        _ => Err(PathError::Segment(quoted(part))),
    }
}

/// Whether a segment is reserved for skills or prompts.
fn is_leaf(part: &str) -> bool {
    SKILL_LEAVES.contains(&part) || PROMPT_LEAVES.contains(&part)
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let is_start = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.next().is_some_and(is_start)
        && bytes.all(|byte| is_start(byte) || byte == b'-' || byte == b'_')
}

fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use modeldriveprotocol_client as oracle;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn skills_that_are_accepted() {
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
    fn skills_that_are_refused() {
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
    fn a_refusal_says_which_rule_it_was() {
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

    /// Texts that are often paths, and often only just not.
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

    fn numbers(specificity: &Specificity) -> Vec<i32> {
        specificity.as_slice().iter().map(|number| i32::from(*number)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn agrees_with_the_published_client_on_what_a_path_is(path in near_paths()) {
            prop_assert_eq!(is_pattern(&path), oracle::is_path_pattern(&path));
            prop_assert_eq!(is_concrete(&path), oracle::is_concrete_path(&path));
            prop_assert_eq!(is_skill(&path), oracle::is_skill_path(&path));
            prop_assert_eq!(is_prompt(&path), oracle::is_prompt_path(&path));
        }

        #[test]
        fn agrees_with_the_published_client_on_what_matches(
            pattern in near_paths(), path in near_paths(),
        ) {
            let ours = match_pattern(&pattern, &path);
            let theirs = oracle::match_path_pattern(&pattern, &path);
            prop_assert_eq!(ours.is_some(), theirs.is_some());
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                prop_assert_eq!(numbers(&ours.specificity), theirs.specificity);
                let params: serde_json::Map<_, _> =
                    ours.params.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
                prop_assert_eq!(params, theirs.params);
            }
        }

        #[test]
        fn agrees_with_the_published_client_on_which_is_more_specific(
            left in near_paths(), right in near_paths(),
        ) {
            if let (Ok(left), Ok(right)) = (pattern(&left), pattern(&right)) {
                let (left, right) = (Specificity::of(&left), Specificity::of(&right));
                let theirs = oracle::compare_path_specificity(&numbers(&left), &numbers(&right));
                prop_assert_eq!(compare(&left, &right), theirs.cmp(&0));
            }
        }
    }
}
