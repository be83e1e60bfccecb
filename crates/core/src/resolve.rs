//! The one rule of resolution: which layers a caller looks in, in which order, and under which names.
//!
//! `private:{uid}` comes before `official`, and that before `market`. In each of them a name is looked for as it
//! is, and then with the configured prefix before it. The first hit answers. How a layer is looked into is not
//! known here.

use std::{fmt, str::FromStr, sync::Arc};

use crate::{Field, RuleError, Tier, id, limits::MAX_ID_BYTES};

/// The prefix that names have unless another is configured.
pub const DEFAULT_PREFIX: &str = "uniskill_";

/// The tiers in order of priority.
pub const TIERS: [Tier; 3] = [Tier::Private, Tier::Official, Tier::Market];

/// What may stand before a name that is looked for. Empty: nothing does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(Arc<str>);

impl Prefix {
    /// No prefix: names are looked for as they are.
    #[must_use]
    pub fn none() -> Self {
        Self("".into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The shorter name that leads to an id as well, if there is one: an entry of that name answers, or stops
    /// answering, when this id comes or goes.
    #[must_use]
    pub fn stripped<'a>(&self, id: &'a str) -> Option<&'a str> {
        let short = id.strip_prefix(&*self.0)?;
        // With the prefix twice, the shorter name has it and is looked for only as it is.
        (!self.0.is_empty() && !short.is_empty() && !short.starts_with(&*self.0)).then_some(short)
    }
}

impl Prefix {
    /// What may lead to something else when an id comes or goes: itself, and the shorter name.
    pub fn names_of<'a>(&self, id: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        std::iter::once(id).chain(self.stripped(id))
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

/// The names under which something is looked for in each layer. Made without allocating.
#[derive(Clone)]
pub struct Candidates<'a> {
    exact: &'a str,
    /// The prefix and the name, and how many bytes that is; 0 for none.
    prefixed: ([u8; MAX_ID_BYTES], usize),
}

impl<'a> Candidates<'a> {
    /// The names that `name` may have in storage.
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

    /// The names, the exact one first.
    pub fn iter(&self) -> impl Iterator<Item = &str> + Clone {
        [Some(self.exact), self.prefixed()].into_iter().flatten()
    }
}

impl fmt::Debug for Candidates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// What is found, the one that answers first and those that it shadows after it. Layers come in order of
/// priority; nothing is looked for beyond what is asked of the iterator.
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
    fn exact_first_then_prefixed_unless_it_is_already() {
        assert_eq!(names("weather", "uniskill_"), ["weather", "uniskill_weather"]);
        assert_eq!(names("uniskill_weather", "uniskill_"), ["uniskill_weather"]);
        assert_eq!(names("weather", ""), ["weather"]);
        assert_eq!(names(&"a".repeat(55), "uniskill_").len(), 2);
        assert_eq!(names(&"a".repeat(56), "uniskill_").len(), 1, "no id is that long");
    }

    #[test]
    fn a_prefix_is_made_of_what_ids_are_made_of() {
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
        fn stripping_tells_which_names_lead_to_an_id(
            prefix in "[ab_]{0,3}", id in "[ab_]{1,8}", name in "[ab_]{1,8}",
        ) {
            let prefix: Prefix = prefix.parse().unwrap();
            let candidates = Candidates::new(&name, &prefix);
            let leads_there = candidates.iter().skip(1).any(|candidate| candidate == id);
            prop_assert_eq!(prefix.stripped(&id) == Some(&*name), leads_there);
            prop_assert_eq!(prefix.names_of(&id).any(|other| other == name), leads_there || name == id);
        }
    }
}
