//! URL paths of skills.
//!
//! `/skills/{client}/{path}` and `/{client}/skills/{path}` are equivalent. The leaf of the skill is optional: no skill has
//! a path on which both forms could be confused. Each segment is decoded after the URL path is split, and the result has
//! to be a valid MDP path, so no segment can escape it.

use std::borrow::Cow;

use skills_core::{skill::has_skill_leaf, uri::percent_decode};

use crate::path::SKILL_LEAVES;

/// URL path with an invalid percent encoding, or with bytes that are not UTF-8.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidEncoding;

/// Skill of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) client: String,
    /// Path with a leading slash; empty for the root.
    pub(super) path: String,
}

impl Target {
    /// Parses a URL path; `None` if it is no path of a skill.
    pub(super) fn parse(address: &str) -> Option<Result<Self, InvalidEncoding>> {
        let address = address.strip_suffix('/').unwrap_or(address);
        let segments: Vec<&str> = address.strip_prefix('/')?.split('/').collect();
        let (client, path) = match segments.as_slice() {
            ["skills", client, path @ ..] | [client, "skills", path @ ..] => (*client, path),
            _ => return None,
        };
        Some(Self::decode(client, path))
    }

    fn decode(client: &str, segments: &[&str]) -> Result<Self, InvalidEncoding> {
        let client = decode(client)?.into_owned();
        let mut path = String::new();
        for segment in segments {
            path.push('/');
            path.push_str(&decode(segment)?);
        }
        Ok(Self { client, path })
    }

    /// Returns the possible MDP paths of the skill, in the order of lookup.
    pub(super) fn skill_paths(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let given = has_skill_leaf(&self.path).then_some(Cow::Borrowed(self.path.as_str()));
        let leaves = if given.is_some() { &[][..] } else { &SKILL_LEAVES[..] };
        let with_leaf = leaves.iter().map(|leaf| Cow::Owned(format!("{}/{leaf}", self.path)));
        given.into_iter().chain(with_leaf)
    }

    /// Returns the possible MDP paths of a stored document, which may be any file of a skill.
    pub(super) fn document_paths(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let is_inside = self.path.get(1..).is_some_and(|path| path.contains('/'));
        let given =
            (is_inside && !has_skill_leaf(&self.path)).then_some(Cow::Borrowed(self.path.as_str()));
        given.into_iter().chain(self.skill_paths())
    }
}

fn decode(segment: &str) -> Result<Cow<'_, str>, InvalidEncoding> {
    if segment.contains('%') {
        percent_decode(segment).map(Cow::Owned).ok_or(InvalidEncoding)
    } else {
        Ok(Cow::Borrowed(segment))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn target(address: &str) -> Option<(String, String)> {
        Target::parse(address)
            .map(|target| target.unwrap())
            .map(|target| (target.client, target.path))
    }

    fn some(client: &str, path: &str) -> Option<(String, String)> {
        Some((client.to_owned(), path.to_owned()))
    }

    #[test]
    fn both_forms_are_parsed_with_and_without_a_path() {
        for address in ["/skills/c/team/review", "/c/skills/team/review", "/skills/c/team/review/"]
        {
            assert_eq!(target(address), some("c", "/team/review"), "{address}");
        }
        for address in ["/skills/c", "/skills/c/", "/c/skills", "/c/skills/"] {
            assert_eq!(target(address), some("c", ""), "{address}");
        }
        assert_eq!(target("/skills/skills/a"), some("skills", "/a"));
        assert_eq!(target("/skills/c/team%2Freview"), some("c", "/team/review"));
        assert_eq!(target("/skills/a%20b/x"), some("a b", "/x"));
        assert_eq!(target("/skills/c/a//b"), some("c", "/a//b"));
        for address in ["/", "/skills", "/c", "/a/b/skills/c", "/v1/x", ""] {
            assert_eq!(target(address), None, "{address}");
        }
    }

    #[test]
    fn the_lookup_order_is_lower_case_leaf_first() {
        let tried = |address: &str| -> Vec<String> {
            let target = Target::parse(address).unwrap().unwrap();
            target.skill_paths().map(Cow::into_owned).collect()
        };
        assert_eq!(tried("/skills/c/a"), ["/a/skill.md", "/a/SKILL.md"]);
        assert_eq!(tried("/skills/c/a/skill.md"), ["/a/skill.md"]);
        assert_eq!(tried("/skills/c/a/SKILL.md"), ["/a/SKILL.md"]);
        assert_eq!(tried("/skills/c"), ["/skill.md", "/SKILL.md"]);
        assert_eq!(tried("/c/skills/skill.md"), ["/skill.md"]);
        let documents = |address: &str| -> Vec<String> {
            let target = Target::parse(address).unwrap().unwrap();
            target.document_paths().map(Cow::into_owned).collect()
        };
        assert_eq!(documents("/skills/registry/a"), ["/a/skill.md", "/a/SKILL.md"]);
        assert_eq!(documents("/skills/registry/a/b.png")[0], "/a/b.png");
    }

    #[test]
    fn invalid_encodings_are_rejected() {
        for address in ["/skills/x/%zz", "/skills/%/a", "/skills/x/%ff", "/%a/skills/b"] {
            assert_eq!(Target::parse(address), Some(Err(InvalidEncoding)), "{address}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(address in "(/skills)?/\\PC{0,20}(/skills)?(/[%a-f0-9.]{0,6}){0,3}") {
            if let Some(Ok(target)) = Target::parse(&address) {
                prop_assert!(target.skill_paths().all(|path| path.starts_with('/')));
            }
        }
    }
}
