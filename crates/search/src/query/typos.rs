//! Words one typing error away: a letter too many, too few or wrong, or two neighbours swapped.

use super::corpus::Corpus;
use crate::text::stem;

/// Shortest word in which an error is tolerated, in characters.
pub(super) const MIN_CHARS: usize = 5;
/// Longest word for which corrections are tried, in characters.
const MAX_CHARS: usize = 24;
/// Shortest stem of a corrected word, in characters.
const MIN_STEM_CHARS: usize = 4;
/// Most corrections of a word.
const MAX_CORRECTIONS: usize = 4;

/// Known word near a misspelled one.
#[derive(Debug, Clone)]
pub(super) struct Correction {
    /// Folded word.
    pub(super) folded: String,
    /// Its stem, which documents have.
    pub(super) term: String,
    /// Number of documents that have it.
    pub(super) frequency: u32,
}

/// Returns the corrections of a folded word, the most frequent first.
pub(super) fn corrections(word: &str, corpus: &Corpus<'_>) -> Vec<Correction> {
    let mut found: Vec<Correction> = Vec::new();
    let mut term = String::new();
    let mut edits = corpus.work.get().edits;
    let (before, limit) = (edits, corpus.work.limits.edits);
    for_each_edit(word, |edited| {
        if edits >= limit {
            return;
        }
        edits += 1;
        term.clear();
        term.push_str(edited);
        stem(&mut term);
        // An error that makes a word look inflected leads to stems that have little to do with it.
        let is_too_short = term.len() < edited.len() && term.chars().count() < MIN_STEM_CHARS;
        if is_too_short || found.iter().any(|correction| correction.term == term) {
            return;
        }
        let frequency = corpus.probe(&term);
        if frequency > 0 {
            let (folded, term) = (edited.to_owned(), term.clone());
            found.push(Correction { folded, term, frequency });
        }
    });
    corpus.work.count(|work| work.edits += edits - before);
    found.sort_by(|one, other| {
        other.frequency.cmp(&one.frequency).then_with(|| one.term.cmp(&other.term))
    });
    found.truncate(MAX_CORRECTIONS);
    found
}

/// Calls `sink` with each text that is one edit away.
fn for_each_edit(word: &str, mut sink: impl FnMut(&str)) {
    let chars: Vec<char> = word.chars().collect();
    if !(MIN_CHARS..=MAX_CHARS).contains(&chars.len()) {
        return;
    }
    let letters = alphabet(&chars);
    let mut text = String::with_capacity(word.len() + 4);
    let mut emit = |head: &[char], middle: &[char], tail: &[char]| {
        text.clear();
        text.extend(head.iter().chain(middle).chain(tail));
        sink(&text);
    };
    for at in 0..=chars.len() {
        let (head, tail) = chars.split_at(at);
        if let [first, second, rest @ ..] = tail {
            emit(head, &[*second, *first], rest);
        }
        if let [_, rest @ ..] = tail {
            emit(head, &[], rest);
        }
        for &letter in &letters {
            emit(head, &[letter], tail);
            if let [first, rest @ ..] = tail
                && *first != letter
            {
                emit(head, &[letter], rest);
            }
        }
    }
}

/// Returns the letters that may be missing or wrong in a word: those of its script.
fn alphabet(word: &[char]) -> Vec<char> {
    let first = word.iter().find(|c| c.is_alphabetic()).copied().unwrap_or('a');
    match first {
        '\u{400}'..='\u{4ff}' => ('а'..='я').collect(),
        '\u{370}'..='\u{3ff}' => ('α'..='ω').collect(),
        _ => ('a'..='z').chain('0'..='9').collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_is_covered() {
        let reaches = |word: &str, other: &str| {
            let mut found = false;
            for_each_edit(word, |edited| found |= edited == other);
            found
        };
        for typo in ["dokcer", "dcker", "doccker", "doxker", "odcker", "docke", "dockerr"] {
            assert!(reaches(typo, "docker"), "{typo}");
        }
        assert!(reaches("перевд", "перевод"));
        assert!(!reaches("gti", "git"), "too short");
        assert!(!reaches("dkcre", "docker"), "two errors");
    }
}
