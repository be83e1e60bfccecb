//! Cache of the stems of words: texts repeat their words, and a stem costs twenty times a lookup.

use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;

use super::{stem, stop_words::is_stop_word};

/// Words in the cache. Each is at most as long as a term, so that it takes half a megabyte at most.
const SLOTS: usize = 4096;

#[derive(Debug, Clone, Default)]
struct Slot {
    folded: String,
    term: String,
    is_stop_word: bool,
}

/// Cache with one slot per hash: a word displaces the one before.
#[derive(Debug)]
pub(crate) struct StemCache {
    slots: Vec<Slot>,
    hasher: RandomState,
}

impl Default for StemCache {
    fn default() -> Self {
        Self { slots: vec![Slot::default(); SLOTS], hasher: RandomState::default() }
    }
}

impl StemCache {
    fn stem(&mut self, folded: &str, term: &mut String) -> bool {
        let hash = self.hasher.hash_one(folded);
        let at = usize::try_from(hash % SLOTS as u64).unwrap_or_default();
        let slot = &mut self.slots[at];
        if slot.folded != folded {
            slot.folded.clear();
            slot.folded.push_str(folded);
            slot.is_stop_word = stem_into(&mut None, folded, &mut slot.term);
        }
        term.clone_from(&slot.term);
        slot.is_stop_word
    }
}

/// Writes the stem of a folded word to `term`. Returns whether the word is a stop word.
pub(super) fn stem_into(cache: &mut Option<StemCache>, folded: &str, term: &mut String) -> bool {
    if let Some(cache) = cache {
        return cache.stem(folded, term);
    }
    term.clear();
    term.push_str(folded);
    stem(term);
    is_stop_word(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_stems_are_those_of_the_stemmer_also_when_words_share_a_slot() {
        let mut cache = Some(StemCache::default());
        let (mut cached, mut plain) = (String::new(), String::new());
        let letters = |number: usize| -> String {
            number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
        };
        let words = || (0..3 * SLOTS).map(|number| format!("{}ings", letters(number)));
        let real = ["the", "extracting", "tables", "only", "kubernetes"].map(str::to_owned);
        for word in words().chain(real.clone()).chain(words()).chain(real) {
            let is_stop_word = stem_into(&mut cache, &word, &mut cached);
            assert_eq!(is_stop_word, stem_into(&mut None, &word, &mut plain), "{word}");
            assert_eq!(cached, plain);
        }
    }
}
