//! Acronyms that a text explains, such as `continuous integration (CI)`. They are synonyms that the corpus itself
//! defines.

use crate::text::terms;

/// Most acronyms of a text.
const MAX_ALIASES: usize = 8;
/// Most letters of an acronym.
const MAX_LETTERS: usize = 6;

/// Acronym with the words it stands for, as terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alias {
    /// Term of the acronym.
    pub(crate) acronym: Box<str>,
    /// Terms of the words.
    pub(crate) words: Box<[Box<str>]>,
}

/// Finds acronyms in parentheses whose letters begin the words before them.
pub(crate) fn find(text: &str) -> Vec<Alias> {
    let mut found = Vec::new();
    for (open, _) in text.match_indices('(') {
        if found.len() == MAX_ALIASES {
            break;
        }
        let rest = &text[open + 1..];
        let Some(close) = rest.char_indices().take(MAX_LETTERS + 2).find(|&(_, c)| c == ')') else {
            continue;
        };
        found.extend(alias(&text[..open], &rest[..close.0]));
    }
    found
}

fn alias(before: &str, acronym: &str) -> Option<Alias> {
    let letters = acronym.strip_suffix('s').unwrap_or(acronym);
    let is_acronym = (2..=MAX_LETTERS).contains(&letters.len())
        && letters.bytes().all(|byte| byte.is_ascii_uppercase());
    if !is_acronym {
        return None;
    }
    let is_separator = |c: char| c.is_whitespace() || c == '-';
    let mut words: Vec<&str> = before.trim_end().rsplit(is_separator).take(letters.len()).collect();
    words.reverse();
    let begins = |(word, letter): (&&str, char)| {
        word.chars().next().is_some_and(|first| first.eq_ignore_ascii_case(&letter))
    };
    if words.len() != letters.len() || !words.iter().zip(letters.chars()).all(begins) {
        return None;
    }
    let acronym = terms(letters).into_iter().next()?.into_boxed_str();
    let words = words.iter().flat_map(|word| terms(word)).map(String::into_boxed_str).collect();
    Some(Alias { acronym, words })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acronyms_are_found_with_their_words() {
        let text = "Sets up continuous integration (CI) and Single-Page Applications (SPAs) (see docs) (IT).";
        let found = find(text);
        let shown: Vec<_> = found.iter().map(|a| (&*a.acronym, a.words.join(" "))).collect();
        assert_eq!(
            shown,
            [("ci", "continu integr".to_owned()), ("spa", "singl page applic".to_owned())]
        );
    }

    #[test]
    fn a_thousand_parentheses_cost_little() {
        assert!(find(&"(".repeat(100_000)).is_empty());
        assert!(find("é(é)(CI)").is_empty());
    }
}
