//! Groups of words that mean the same.

use std::collections::HashMap;

use crate::text::terms;

/// Default groups.
const DEFAULT_GROUPS: &str = include_str!("synonyms.txt");
/// Most groups that are used.
const MAX_GROUPS: usize = 4096;
/// Most members of a group.
const MAX_MEMBERS: usize = 64;
/// Most terms of a member.
const MAX_TERMS: usize = 6;

/// Terms of a word or of several.
pub(crate) type Phrase = Box<[Box<str>]>;

/// Table of synonym groups.
#[derive(Debug, Clone, Default)]
pub struct SynonymTable {
    groups: Vec<Vec<Phrase>>,
    /// Members by their first term: group and member.
    by_first: HashMap<Box<str>, Vec<(usize, usize)>>,
}

impl SynonymTable {
    /// Creates the default table with additional groups.
    #[must_use]
    pub fn with_groups<'a>(groups: impl IntoIterator<Item = &'a [String]>) -> Self {
        let mut table = Self::default();
        let lines = DEFAULT_GROUPS.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            table.add(line.split(','));
        }
        for group in groups {
            table.add(group.iter().map(String::as_str));
        }
        table
    }

    fn add<'a>(&mut self, members: impl Iterator<Item = &'a str>) {
        let phrase = |member: &str| -> Option<Phrase> {
            let terms = terms(member);
            let is_usable = (1..=MAX_TERMS).contains(&terms.len());
            is_usable.then(|| terms.into_iter().map(String::into_boxed_str).collect())
        };
        let mut group: Vec<Phrase> = Vec::new();
        for phrase in members.take(MAX_MEMBERS).filter_map(phrase) {
            if !group.contains(&phrase) {
                group.push(phrase);
            }
        }
        if group.len() < 2 || self.groups.len() == MAX_GROUPS {
            return;
        }
        let number = self.groups.len();
        for (at, phrase) in group.iter().enumerate() {
            self.by_first.entry(phrase[0].clone()).or_default().push((number, at));
        }
        self.groups.push(group);
    }

    /// Calls `sink` with the number of matched terms and the other members of each group that has a member at the
    /// start of `terms`.
    pub(crate) fn for_each_match(
        &self,
        terms: &[&str],
        mut sink: impl FnMut(usize, &mut dyn Iterator<Item = &Phrase>),
    ) {
        let Some(first) = terms.first() else { return };
        for &(group, member) in self.by_first.get(*first).into_iter().flatten() {
            let phrase = &self.groups[group][member];
            let is_match = phrase.len() <= terms.len()
                && phrase.iter().zip(terms).all(|(one, other)| **one == **other);
            if is_match {
                let others = self.groups[group].iter().enumerate();
                let mut others = others.filter(|(at, _)| *at != member).map(|(_, phrase)| phrase);
                sink(phrase.len(), &mut others);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synonyms(table: &SynonymTable, text: &str) -> Vec<String> {
        let terms = terms(text);
        let terms: Vec<&str> = terms.iter().map(String::as_str).collect();
        let mut found = Vec::new();
        table.for_each_match(&terms, |_, others| {
            found.extend(others.map(|phrase| phrase.join(" ")));
        });
        found
    }

    #[test]
    fn words_and_phrases_have_synonyms() {
        let table = SynonymTable::with_groups([]);
        assert!(synonyms(&table, "slides").contains(&"pptx".to_owned()));
        assert!(synonyms(&table, "pull request").contains(&"pr".to_owned()));
        assert!(synonyms(&table, "k8s").contains(&"kubernetes".to_owned()));
        assert!(synonyms(&table, "nonsense").is_empty());
    }

    #[test]
    fn groups_can_be_added() {
        let group = ["frobnicate".to_owned(), "twiddle".to_owned(), String::new()];
        let table = SynonymTable::with_groups([&group[..]]);
        assert_eq!(synonyms(&table, "frobnicating"), ["twiddl"]);
    }
}
