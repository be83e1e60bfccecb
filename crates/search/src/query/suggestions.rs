//! "Did you mean": near ids, and the query with corrected words.

use super::{
    corpus::Corpus,
    parse::Query,
    searcher::{Visibility, Visible},
};

/// Most suggestions.
const MAX_SUGGESTIONS: usize = 3;
/// Most ids that are compared.
const MAX_COMPARED: usize = 200_000;

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
    let wanted: Vec<char> = query.name_key.chars().collect();
    // A fifth of a name may differ, but not all of a short one.
    let max = (wanted.len() / 4).min(3);
    if max == 0 || wanted.len() > 64 {
        return vec![];
    }
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut compared = 0;
    for (partition, view) in corpus.segments() {
        for (record, document) in view.segment.records().iter().zip(0..) {
            compared += 1;
            if compared > MAX_COMPARED {
                break;
            }
            let Some(distance) = distance_within(&wanted, &record.id_key, max) else { continue };
            let is_shown = || visible(partition, &record.key) == Visibility::Shown;
            if distance > 0 && !view.is_deleted(document) && is_shown() {
                found.push((distance, record.key.id.to_string()));
            }
        }
    }
    found.sort();
    found.dedup();
    found.truncate(MAX_SUGGESTIONS);
    found
}

/// Returns the edit distance of two texts, with swapped neighbours as one edit, if it is small.
fn distance_within(one: &[char], other: &str, max: usize) -> Option<usize> {
    // Bytes are at least as many as characters.
    if other.len() + max < one.len() || other.len() > (one.len() + max) * 4 {
        return None;
    }
    let other: Vec<char> = other.chars().collect();
    if one.len().abs_diff(other.len()) > max {
        return None;
    }
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, &left) in one.iter().enumerate() {
        let mut current = vec![row + 1; other.len() + 1];
        for (column, &right) in other.iter().enumerate() {
            let substituted = last[column] + usize::from(left != right);
            let mut best = substituted.min(last[column + 1] + 1).min(current[column] + 1);
            let is_swap =
                row > 0 && column > 0 && one[row - 1] == right && other[column - 1] == left;
            if is_swap {
                best = best.min(before_last[column - 1] + 1);
            }
            current[column + 1] = best;
        }
        if current.iter().min().is_some_and(|least| *least > max) {
            return None;
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last.last().copied().filter(|distance| *distance <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits() {
        let distance =
            |one: &str, other: &str| distance_within(&one.chars().collect::<Vec<_>>(), other, 2);
        assert_eq!(distance("docker", "docker"), Some(0));
        assert_eq!(distance("dokcer", "docker"), Some(1));
        assert_eq!(distance("docke", "docker"), Some(1));
        assert_eq!(distance("dxckxr", "docker"), Some(2));
        assert_eq!(distance("abcdef", "docker"), None);
        assert_eq!(distance("", "ab"), Some(2));
    }
}
