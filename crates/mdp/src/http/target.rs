//! What an address of a skill names.
//!
//! `/skills/{client}/{path}` and `/{client}/skills/{path}` are the same. The path is with or without the leaf
//! of a skill: no skill has a path on which the one could be taken for the other. Each segment is decoded
//! after the address has been split, and what comes out has to be a path by the rules, so that no segment leads
//! anywhere else.

use std::borrow::Cow;

use skills_core::{skill::has_leaf, uri::percent_decoded};

use crate::path::SKILL_LEAVES;

/// An address with a `%` that is not followed by two digits, or with bytes that are not UTF-8.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// A skill of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) client: String,
    /// With a slash at its start; empty for the root.
    pub(super) path: String,
}

impl Target {
    /// What an address names; `None` when it has another form.
    pub(super) fn of(address: &str) -> Option<Result<Self, Malformed>> {
        let address = address.strip_suffix('/').unwrap_or(address);
        let segments: Vec<&str> = address.strip_prefix('/')?.split('/').collect();
        let (client, path) = match segments.as_slice() {
            ["skills", client, path @ ..] | [client, "skills", path @ ..] => (*client, path),
            _ => return None,
        };
        Some(Self::decoded(client, path))
    }

    fn decoded(client: &str, segments: &[&str]) -> Result<Self, Malformed> {
        let client = decoded(client)?.into_owned();
        let mut path = String::new();
        for segment in segments {
            path.push('/');
            path.push_str(&decoded(segment)?);
        }
        Ok(Self { client, path })
    }

    fn has_leaf(&self) -> bool {
        has_leaf(&self.path)
    }

    /// The paths at which the skill may be, in the order in which they are tried.
    pub(super) fn skills(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let (given, added) = match self.has_leaf() {
            true => (Some(Cow::Borrowed(self.path.as_str())), &[][..]),
            false => (None, &SKILL_LEAVES[..]),
        };
        let added = added.iter().map(|leaf| Cow::Owned(format!("{}/{leaf}", self.path)));
        given.into_iter().chain(added)
    }

    /// The paths at which a stored document may be: any file of a skill has an address.
    pub(super) fn documents(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let is_inside = self.path.get(1..).is_some_and(|path| path.contains('/'));
        let given = (is_inside && !self.has_leaf()).then_some(Cow::Borrowed(self.path.as_str()));
        given.into_iter().chain(self.skills())
    }
}

fn decoded(segment: &str) -> Result<Cow<'_, str>, Malformed> {
    match segment.contains('%') {
        false => Ok(Cow::Borrowed(segment)),
        true => percent_decoded(segment).map(Cow::Owned).ok_or(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn target(address: &str) -> Option<(String, String)> {
        Target::of(address).map(|target| target.unwrap()).map(|target| (target.client, target.path))
    }

    fn some(client: &str, path: &str) -> Option<(String, String)> {
        Some((client.to_owned(), path.to_owned()))
    }

    #[test]
    fn both_forms_with_and_without_a_path() {
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
    fn where_it_is_looked_for() {
        let tried = |address: &str| -> Vec<String> {
            let target = Target::of(address).unwrap().unwrap();
            target.skills().map(Cow::into_owned).collect()
        };
        assert_eq!(tried("/skills/c/a"), ["/a/skill.md", "/a/SKILL.md"]);
        assert_eq!(tried("/skills/c/a/skill.md"), ["/a/skill.md"]);
        assert_eq!(tried("/skills/c/a/SKILL.md"), ["/a/SKILL.md"]);
        assert_eq!(tried("/skills/c"), ["/skill.md", "/SKILL.md"]);
        assert_eq!(tried("/c/skills/skill.md"), ["/skill.md"]);
        let documents = |address: &str| -> Vec<String> {
            let target = Target::of(address).unwrap().unwrap();
            target.documents().map(Cow::into_owned).collect()
        };
        assert_eq!(documents("/skills/registry/a"), ["/a/skill.md", "/a/SKILL.md"]);
        assert_eq!(documents("/skills/registry/a/b.png")[0], "/a/b.png");
    }

    #[test]
    fn malformed() {
        for address in ["/skills/x/%zz", "/skills/%/a", "/skills/x/%ff", "/%a/skills/b"] {
            assert_eq!(Target::of(address), Some(Err(Malformed)), "{address}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(address in "(/skills)?/\\PC{0,20}(/skills)?(/[%a-f0-9.]{0,6}){0,3}") {
            if let Some(Ok(target)) = Target::of(&address) {
                prop_assert!(target.skills().all(|path| path.starts_with('/')));
            }
        }
    }
}
