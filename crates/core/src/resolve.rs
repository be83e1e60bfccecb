//! The rule of resolution: layers that a caller sees, their order, and the names tried in each.
//!
//! `private:{uid}` comes before `official`, and `official` before `market`. In each layer the exact name is tried
//! first, then the name with the configured prefix. The first hit is the answer. Layers themselves are not known
//! here.

use std::{fmt, str::FromStr, sync::Arc};

use crate::{Field, RuleError, id, limits::MAX_ID_BYTES};

/// Default name prefix.
pub const DEFAULT_PREFIX: &str = "uniskill_";

/// Optional name prefix tried during resolution (`weather` also matches `uniskill_weather`). Empty disables it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(Arc<str>);

impl Prefix {
    /// Disables the prefix.
    #[must_use]
    pub fn none() -> Self {
        Self("".into())
    }

    /// Returns the prefix as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the short name that also resolves to an id, if there is one.
    #[must_use]
    pub fn strip<'a>(&self, id: &'a str) -> Option<&'a str> {
        let short = id.strip_prefix(&*self.0)?;
        // With the prefix twice, the shorter name has it and is looked up unchanged.
        (!self.0.is_empty() && !short.is_empty() && !short.starts_with(&*self.0)).then_some(short)
    }
}

impl Prefix {
    /// Returns the names whose resolution may change when an id is added or removed: the id and its short name.
    pub fn affected_names<'a>(&self, id: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        std::iter::once(id).chain(self.strip(id))
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self(DEFAULT_PREFIX.into())
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Prefix {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        if !text.is_empty() {
            id::check(Field::Prefix, text)?;
        }
        Ok(Self(text.into()))
    }
}

/// Names that are tried in each layer. Built without allocation.
#[derive(Clone)]
pub struct Candidates<'a> {
    exact: &'a str,
    /// Prefix and name, and their length in bytes; 0 for none.
    prefixed: ([u8; MAX_ID_BYTES], usize),
}

impl<'a> Candidates<'a> {
    /// Builds the stored names that `name` may refer to.
    #[must_use]
    pub fn new(name: &'a str, prefix: &Prefix) -> Self {
        let before = prefix.as_str().as_bytes();
        let len = before.len() + name.len();
        let mut prefixed = ([0; MAX_ID_BYTES], 0);
        // What would be longer than an id can be is nowhere.
        if !before.is_empty() && len <= MAX_ID_BYTES && !name.starts_with(prefix.as_str()) {
            prefixed.0[..before.len()].copy_from_slice(before);
            prefixed.0[before.len()..len].copy_from_slice(name.as_bytes());
            prefixed.1 = len;
        }
        Self { exact: name, prefixed }
    }

    fn prefixed(&self) -> Option<&str> {
        let (bytes, len) = &self.prefixed;
        // Made of two strings, so it is one.
        std::str::from_utf8(&bytes[..*len]).ok().filter(|name| !name.is_empty())
    }

    /// Returns the names, the exact one first.
    pub fn iter(&self) -> impl Iterator<Item = &str> + Clone {
        [Some(self.exact), self.prefixed()].into_iter().flatten()
    }
}

impl fmt::Debug for Candidates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Looks up candidate names in layers, in order of priority. The first hit is the answer, the others are shadowed by
/// it. Lazy: nothing is looked up beyond what the iterator is asked for.
pub fn hits<L: Copy, T>(
    layers: impl IntoIterator<Item = L>,
    names: &Candidates<'_>,
    look: impl Fn(L, &str) -> Option<T> + Copy,
) -> impl Iterator<Item = (L, T)> {
    let names = names.iter();
    layers.into_iter().flat_map(move |layer| {
        let found = move |name| look(layer, name).map(|found| (layer, found));
        names.clone().filter_map(found)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(name: &str, prefix: &str) -> Vec<String> {
        let candidates = Candidates::new(name, &prefix.parse().unwrap());
        candidates.iter().map(str::to_owned).collect()
    }

    #[test]
    fn the_exact_name_comes_before_the_prefixed_one() {
        assert_eq!(names("weather", "uniskill_"), ["weather", "uniskill_weather"]);
        assert_eq!(names("uniskill_weather", "uniskill_"), ["uniskill_weather"]);
        assert_eq!(names("weather", ""), ["weather"]);
        assert_eq!(names(&"a".repeat(55), "uniskill_").len(), 2);
        assert_eq!(names(&"a".repeat(56), "uniskill_").len(), 1, "no id is that long");
    }

    #[test]
    fn a_prefix_has_the_alphabet_of_ids() {
        assert!("".parse::<Prefix>().is_ok());
        for (text, words) in
            [("A", "lowercase"), ("a:", "lowercase"), (&"a".repeat(65), "too long")]
        {
            let error = text.parse::<Prefix>().expect_err(text).to_string();
            assert!(error.starts_with("prefix") && error.contains(words), "{error}");
        }
    }

    proptest! {
        #[test]
        fn strip_inverts_the_prefixed_candidate(
            prefix in "[ab_]{0,3}", id in "[ab_]{1,8}", name in "[ab_]{1,8}",
        ) {
            let prefix: Prefix = prefix.parse().unwrap();
            let candidates = Candidates::new(&name, &prefix);
            let leads_there = candidates.iter().skip(1).any(|candidate| candidate == id);
            prop_assert_eq!(prefix.strip(&id) == Some(&*name), leads_there);
            prop_assert_eq!(prefix.affected_names(&id).any(|other| other == name), leads_there || name == id);
        }
    }
}
