//! Versions that clients of plugins see. They must be semantic versions that rise with every version of a skill, and an
//! author's own version may be anything, or fall after a rollback.

use std::fmt;

/// Semantic version without a pre-release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PluginVersion(u64, u64, u64);

impl PluginVersion {
    /// Version of a skill whose author names none.
    pub(crate) const FIRST: Self = Self(1, 0, 0);

    /// Version of a repository, which rises with each change.
    pub(crate) const fn of_revision(revision: u64) -> Self {
        Self(1, 0, revision)
    }

    /// Parses an author's version: one to three numbers, with an optional `v`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut numbers = [0; 3];
        let parts: Vec<&str> = text.split('.').collect();
        if parts.len() > numbers.len() {
            return None;
        }
        for (number, part) in numbers.iter_mut().zip(parts) {
            let is_number = part.len() <= 9 && part.bytes().all(|byte| byte.is_ascii_digit());
            *number = is_number.then(|| part.parse().ok()).flatten()?;
        }
        Some(Self(numbers[0], numbers[1], numbers[2]))
    }

    const fn next(self) -> Self {
        Self(self.0, self.1, self.2 + 1)
    }
}

impl fmt::Display for PluginVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Versions of one skill as clients see them, in the order of their numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct PluginVersions(Vec<(u64, PluginVersion)>);

impl PluginVersions {
    /// Adds a version. The author's version counts if it is higher than all before.
    pub(crate) fn add(&mut self, number: u64, author: Option<&str>) {
        let Err(at) = self.position(number) else { return };
        let author = author.and_then(PluginVersion::parse);
        let version = match self.0.last() {
            None => author.unwrap_or(PluginVersion::FIRST),
            Some((_, last)) => author.filter(|author| author > last).unwrap_or(last.next()),
        };
        if self.0.is_empty() {
            // Not the capacity for four: most skills have one version, and there are many skills.
            self.0.reserve_exact(1);
        }
        self.0.insert(at, (number, version));
    }

    /// Returns the number of a version.
    pub(crate) fn number(&self, version: PluginVersion) -> Option<u64> {
        self.0.iter().find(|(_, known)| *known == version).map(|(number, _)| *number)
    }

    /// Returns the highest number and its version.
    pub(crate) fn newest(&self) -> Option<(u64, PluginVersion)> {
        self.0.last().copied()
    }

    /// Returns how many versions there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the version with a number.
    pub(crate) fn get(&self, number: u64) -> PluginVersion {
        self.position(number).map_or(PluginVersion::FIRST, |at| self.0[at].1)
    }

    fn position(&self, number: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&number, |(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_rise_even_where_those_of_the_author_fall() {
        let mut versions = PluginVersions::default();
        let authors =
            [None, Some("1.4"), Some("v2.0.0"), Some("1.4"), Some("2.0.0-rc.1"), Some("10")];
        for (number, author) in (1..).zip(authors) {
            versions.add(number, author);
        }
        let texts: Vec<String> = (1..=6).map(|number| versions.get(number).to_string()).collect();
        assert_eq!(texts, ["1.0.0", "1.4.0", "2.0.0", "2.0.1", "2.0.2", "10.0.0"]);
    }

    #[test]
    fn only_plain_numbers_are_an_authors_version() {
        for text in ["", "1.", "1.2.3.4", "a", "1.x", "99999999999999999999", "-1"] {
            assert_eq!(PluginVersion::parse(text), None, "{text}");
        }
    }
}
