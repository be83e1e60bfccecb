//! Ids of bundles, made from their names.

use skills_core::{Digest, SkillId, limits::MAX_ID_BYTES};

/// Characters of the digest in a shortened id.
const SUFFIX_CHARS: usize = 8;

/// Id of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignedId {
    /// Id for the registry.
    pub id: SkillId,
    /// Name that was too long for an id.
    pub shortened_from: Option<String>,
}

impl AssignedId {
    /// Returns the id of the first name that is valid; otherwise shortens the first that is only too long. The prefix
    /// is put before the name.
    pub(crate) fn from_names<'a>(
        prefix: &str,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Option<Self> {
        let mut names = names.map(|name| format!("{prefix}{name}"));
        let valid = names.clone().find_map(|name| name.parse().ok());
        valid
            .map(|id| Self { id, shortened_from: None })
            .or_else(|| names.find_map(|name| Self::shortened(&name)))
    }

    /// Shortens a name that would be an id if it were not too long. The id ends with a digest of the whole name, so it
    /// is the same each time and differs for other names.
    fn shortened(name: &str) -> Option<Self> {
        let digest = Digest::of(name.as_bytes()).to_string();
        let head = name.get(..MAX_ID_BYTES - SUFFIX_CHARS - 1)?.trim_end_matches(['-', '_']);
        // The rest of the name has to be valid too.
        let is_valid = name.bytes().collect::<Vec<_>>().chunks(MAX_ID_BYTES).all(|part| {
            std::str::from_utf8(part).is_ok_and(|part| part.parse::<SkillId>().is_ok())
        });
        let id = format!("{head}-{}", digest.get(..SUFFIX_CHARS)?).parse().ok()?;
        is_valid.then(|| Self { id, shortened_from: Some(name.to_owned()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assign(prefix: &str, names: &[&str]) -> Option<(String, bool)> {
        let assigned = AssignedId::from_names(prefix, names.iter().copied())?;
        Some((assigned.id.to_string(), assigned.shortened_from.is_some()))
    }

    #[test]
    fn a_valid_name_is_taken_before_a_long_one_is_shortened() {
        let long = "long-name-".repeat(10);
        assert_eq!(assign("", &["a", "b"]), Some(("a".to_owned(), false)));
        assert_eq!(assign("", &["A b", "b"]), Some(("b".to_owned(), false)));
        assert_eq!(assign("", &[&long, "b"]), Some(("b".to_owned(), false)));
        assert_eq!(assign("acme-", &["a"]), Some(("acme-a".to_owned(), false)));
        let (id, is_short) = assign("", &["A b", &long]).unwrap();
        assert!(is_short && id.len() <= MAX_ID_BYTES && id.starts_with("long-name-"), "{id}");
        assert_eq!(assign("", &[&long]).unwrap().0, id, "it is stable");
        assert_ne!(assign("", &[&format!("{long}x")]).unwrap().0, id);
        assert!(assign("acme-", &[&"n".repeat(MAX_ID_BYTES)]).unwrap().1, "the prefix counts");
    }

    #[test]
    fn an_invalid_name_is_not_shortened() {
        for name in ["A".repeat(100), format!("{}!", "a".repeat(100)), "\u{e9}".repeat(80)] {
            assert_eq!(assign("", &[&name]), None, "{name}");
        }
    }
}
