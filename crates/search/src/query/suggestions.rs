//! "Did you mean": near ids, and the query with corrected words.

use super::{
    corpus::Corpus,
    parse::Query,
    searcher::{Visibility, Visible},
};
use crate::index::IdSignature;

/// Most suggestions.
const MAX_SUGGESTIONS: usize = 3;
/// Longest text that is compared with ids, in characters.
const MAX_CHARS: usize = 64;

/// Returns suggestions for a query: it with corrected words, and ids at a small distance.
pub(super) fn suggest(
    query: &Query,
    corpus: &Corpus<'_>,
    corrections: &[(String, String)],
    visible: &Visible<'_>,
) -> Vec<String> {
    let mut found = Vec::new();
    if !corrections.is_empty() {
        let corrected = |word: &str| {
            let correction = corrections.iter().find(|(wrong, _)| wrong == word);
            correction.map_or(word, |(_, right)| right).to_owned()
        };
        let words: Vec<String> = query.name_key.split(' ').map(corrected).collect();
        found.push(words.join(" "));
    }
    for (_, id) in near_ids(query, corpus, visible) {
        if found.len() < MAX_SUGGESTIONS && !found.contains(&id) {
            found.push(id);
        }
    }
    found
}

/// Returns the ids near the text of a query, the nearest first.
fn near_ids(query: &Query, corpus: &Corpus<'_>, visible: &Visible<'_>) -> Vec<(usize, String)> {
    let wanted: Vec<char> = query.name_key.chars().take(MAX_CHARS + 1).collect();
    // A quarter of a name may differ, but not all of a short one.
    let max = (wanted.len() / 4).min(3);
    if max == 0 || wanted.len() > MAX_CHARS {
        return vec![];
    }
    let signature = IdSignature::of(&query.name_key);
    let bytes = wanted.iter().map(|c| c.len_utf8()).max().unwrap_or(1);
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut distance = EditDistance::new(&wanted, max);
    let (mut compared, limit) = (0, corpus.work.limits.compared_ids);
    for (partition, view) in corpus.segments() {
        for (other, document) in view.segment.id_signatures().iter().zip(0..) {
            if !signature.may_be_near(*other, max, bytes) || view.is_deleted(document) {
                continue;
            }
            if compared == limit {
                break;
            }
            compared += 1;
            let record = view.segment.record(document);
            let Some(distance) = distance.to(&record.id_key) else { continue };
            let is_shown = || visible(partition, &record.key) == Visibility::Shown;
            if distance > 0 && is_shown() {
                found.push((distance, record.key.id.to_string()));
            }
        }
    }
    corpus.work.count(|work| work.compared_ids += compared);
    found.sort();
    found.dedup();
    found.truncate(MAX_SUGGESTIONS);
    found
}

/// Edit distance from one text to others, with swapped neighbours as one edit. Distances above the largest one are not
/// computed.
struct EditDistance<'a> {
    wanted: &'a [char],
    max: usize,
    other: Vec<char>,
    /// The last three rows of the table of distances.
    rows: [Vec<usize>; 3],
}

impl<'a> EditDistance<'a> {
    fn new(wanted: &'a [char], max: usize) -> Self {
        Self { wanted, max, other: Vec::new(), rows: Default::default() }
    }

    /// Returns the distance to a text, if it is small.
    fn to(&mut self, other: &str) -> Option<usize> {
        let Self { wanted, max, other: chars, rows } = self;
        chars.clear();
        chars.extend(other.chars().take(wanted.len() + *max + 1));
        if wanted.len().abs_diff(chars.len()) > *max {
            return None;
        }
        let beyond = *max + 1;
        for row in &mut *rows {
            row.clear();
            row.resize(chars.len() + 1, beyond);
        }
        let [before_last, last, current] = rows;
        for (column, distance) in last.iter_mut().enumerate().take(beyond) {
            *distance = column;
        }
        for (row, left) in wanted.iter().enumerate() {
            // Only columns near the diagonal can have a small distance.
            let start = row.saturating_sub(*max);
            let end = (row + beyond).min(chars.len());
            current.fill(beyond);
            if start == 0 {
                current[0] = (row + 1).min(beyond);
            }
            let mut least = current[0];
            for column in start..end {
                let substituted = last[column] + usize::from(*left != chars[column]);
                let mut best = substituted.min(last[column + 1] + 1).min(current[column] + 1);
                let is_swap = row > 0
                    && column > 0
                    && wanted[row - 1] == chars[column]
                    && chars[column - 1] == *left;
                if is_swap {
                    best = best.min(before_last[column - 1] + 1);
                }
                current[column + 1] = best.min(beyond);
                least = least.min(best);
            }
            if least > *max {
                return None;
            }
            std::mem::swap(before_last, last);
            std::mem::swap(last, current);
        }
        last.last().copied().filter(|distance| *distance <= *max)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn distances_count_edits() {
        let distance = |one: &str, other: &str| {
            EditDistance::new(&one.chars().collect::<Vec<_>>(), 2).to(other)
        };
        assert_eq!(distance("docker", "docker"), Some(0));
        assert_eq!(distance("dokcer", "docker"), Some(1));
        assert_eq!(distance("docke", "docker"), Some(1));
        assert_eq!(distance("dxckxr", "docker"), Some(2));
        assert_eq!(distance("abcdef", "docker"), None);
        assert_eq!(distance("", "ab"), Some(2));
    }

    /// Returns the distance by its definition.
    fn plain_distance(one: &[char], other: &[char]) -> usize {
        let mut table = vec![vec![0; other.len() + 1]; one.len() + 1];
        for row in 0..=one.len() {
            for column in 0..=other.len() {
                table[row][column] = if row == 0 || column == 0 {
                    row + column
                } else {
                    let is_other = usize::from(one[row - 1] != other[column - 1]);
                    let edited = table[row - 1][column].min(table[row][column - 1]) + 1;
                    let mut best = edited.min(table[row - 1][column - 1] + is_other);
                    let is_swap = row > 1
                        && column > 1
                        && one[row - 1] == other[column - 2]
                        && one[row - 2] == other[column - 1];
                    if is_swap {
                        best = best.min(table[row - 2][column - 2] + 1);
                    }
                    best
                };
            }
        }
        table[one.len()][other.len()]
    }

    proptest! {
        #[test]
        fn small_distances_are_found_and_no_near_id_is_skipped(
            one in "[ab é]{0,8}", other in "[ab é]{0,8}", max in 0_usize..4,
        ) {
            let (left, right): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
            let expected = Some(plain_distance(&left, &right)).filter(|distance| *distance <= max);
            prop_assert_eq!(EditDistance::new(&left, max).to(&other), expected);
            let may_be_near = IdSignature::of(&one).may_be_near(IdSignature::of(&other), max, 2);
            prop_assert!(may_be_near || expected.is_none());
        }
    }
}
