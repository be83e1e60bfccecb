//! Folding: one spelling for what people type in several.

use std::borrow::Cow;

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

/// Folds a text: lower case, compatibility forms unified, accents removed from letters.
///
/// Marks of other scripts stay, because they change the letter there (`か` and `が`).
#[must_use]
pub fn fold(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(text.to_ascii_lowercase())
        } else {
            Cow::Borrowed(text)
        };
    }
    let decomposed = DecomposingNormalizerBorrowed::new_nfkd().normalize(text);
    let mut folded = String::with_capacity(decomposed.len());
    for c in decomposed.chars().flat_map(char::to_lowercase) {
        match c {
            // Combining accents of Latin, Greek and Cyrillic letters.
            '\u{300}'..='\u{36f}' => {}
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'ø' => folded.push('o'),
            'ł' => folded.push('l'),
            'đ' | 'ð' => folded.push('d'),
            'þ' => folded.push_str("th"),
            'ı' => folded.push('i'),
            c => folded.push(c),
        }
    }
    Cow::Owned(ComposingNormalizerBorrowed::new_nfc().normalize(&folded).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_one_word_fold_to_one() {
        for (text, folded) in [
            ("PDF", "pdf"),
            ("Café", "cafe"),
            ("Cafe\u{301}", "cafe"),
            ("ＰＤＦ", "pdf"),
            ("Straße", "strasse"),
            ("Łódź", "lodz"),
            ("ガイド", "ガイド"),
            ("ｶﾞｲﾄﾞ", "ガイド"),
            ("한국어", "한국어"),
            ("ﬁle", "file"),
        ] {
            assert_eq!(fold(text), folded, "{text}");
        }
    }

    proptest! {
        #[test]
        fn folding_twice_changes_nothing(text in "\\PC{0,24}") {
            let once = fold(&text).into_owned();
            prop_assert_eq!(fold(&once).into_owned(), once);
        }
    }
}
