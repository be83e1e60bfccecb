//! Derived forms of a word that stemming keeps apart: `parse` and `parser`, `deploy` and `deployment`.

use crate::text::stem;

/// Endings that make a noun or an adjective of a verb, longest first.
const ENDINGS: [&str; 12] =
    ["ization", "ation", "ement", "ment", "ator", "ness", "able", "ing", "ion", "er", "or", "al"];
/// Shortest word that keeps its meaning without an ending.
const MIN_BASE: usize = 3;

/// Calls `sink` with the stems of words that may be derived from a folded word, or that it may be derived from.
pub(super) fn for_each(word: &str, mut sink: impl FnMut(&str)) {
    let is_plain = word.len() > MIN_BASE && word.bytes().all(|byte| byte.is_ascii_lowercase());
    if !is_plain {
        return;
    }
    let mut buffer = String::new();
    let mut emit = |parts: &[&str]| {
        buffer.clear();
        parts.iter().for_each(|part| buffer.push_str(part));
        stem(&mut buffer);
        sink(&buffer);
    };
    let singular = word.strip_suffix('s').unwrap_or(word);
    for ending in ENDINGS {
        if let Some(base) = singular.strip_suffix(ending)
            && base.len() >= MIN_BASE
        {
            emit(&[base]);
            emit(&[base, "e"]);
            // `planner`: the consonant is doubled.
            if let [.., before, last] = base.as_bytes()
                && before == last
            {
                emit(&[&base[..base.len() - 1]]);
            }
        }
    }
    let base = singular.strip_suffix('e').unwrap_or(singular);
    for ending in ["er", "or", "ation", "ion"] {
        emit(&[base, ending]);
    }
    emit(&[singular, "ment"]);
    if let Some(last) = singular.chars().next_back() {
        emit(&[singular, last.encode_utf8(&mut [0; 4]), "er"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(word: &str, form: &str) -> bool {
        let mut stemmed = form.to_owned();
        stem(&mut stemmed);
        let mut found = false;
        for_each(word, |candidate| found |= candidate == stemmed);
        found
    }

    #[test]
    fn derived_forms_are_found_both_ways() {
        for (one, other) in [
            ("parser", "parse"),
            ("deploy", "deployment"),
            ("tester", "test"),
            ("planner", "plan"),
            ("scraper", "scrape"),
            ("translator", "translate"),
            ("linter", "lint"),
        ] {
            assert!(has(one, other) && has(other, one), "{one} {other}");
        }
        assert!(!has("her", "h"));
    }
}
