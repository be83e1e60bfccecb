//! Rules for the name of an Agent Skill.
//!
//! The specification allows `a-z`, `0-9` and hyphens; its words about Unicode contradict that, and the
//! protocols that carry names are ASCII. Letters of other scripts are therefore a choice of the caller.

use std::borrow::Cow;

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::{
    CodePointMapData,
    props::{GeneralCategory, GeneralCategoryGroup},
};

/// Longest name of an Agent Skill, in characters.
pub const MAX_NAME_CHARS: usize = 64;

/// Alphabet of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameAlphabet {
    /// `a-z` and `0-9`.
    #[default]
    Ascii,
    /// Letters and digits of every script, compared in Normalization Form KC.
    Unicode,
}

/// Fault of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameFault {
    /// The name is empty.
    Empty,
    /// The name has more than [`MAX_NAME_CHARS`] characters.
    TooLong {
        /// Number of characters.
        chars: usize,
    },
    /// The name has upper case letters.
    NotLowercase,
    /// The name starts or ends with a hyphen.
    EdgeHyphen,
    /// The name has two hyphens in a row.
    DoubledHyphen,
    /// The name has a character outside the alphabet; this is the first.
    Character(char),
}

/// Normalises a name for validation and comparison.
#[must_use]
pub fn normalise_name(name: &str, alphabet: NameAlphabet) -> Cow<'_, str> {
    match alphabet {
        NameAlphabet::Ascii => Cow::Borrowed(name),
        NameAlphabet::Unicode => ComposingNormalizerBorrowed::new_nfkc().normalize(name),
    }
}

/// Returns all faults of a name.
#[must_use]
pub fn name_faults(name: &str, alphabet: NameAlphabet) -> Vec<NameFault> {
    let name = normalise_name(name, alphabet);
    if name.is_empty() {
        return vec![NameFault::Empty];
    }
    let mut faults = Vec::new();
    let chars = name.chars().count();
    if chars > MAX_NAME_CHARS {
        faults.push(NameFault::TooLong { chars });
    }
    let is_lowercase = match alphabet {
        NameAlphabet::Ascii => !name.bytes().any(|byte| byte.is_ascii_uppercase()),
        NameAlphabet::Unicode => name.to_lowercase() == name,
    };
    if !is_lowercase {
        faults.push(NameFault::NotLowercase);
    }
    if name.starts_with('-') || name.ends_with('-') {
        faults.push(NameFault::EdgeHyphen);
    }
    if name.contains("--") {
        faults.push(NameFault::DoubledHyphen);
    }
    if let Some(found) = name.chars().find(|&c| c != '-' && !is_letter_or_digit(c, alphabet)) {
        faults.push(NameFault::Character(found));
    }
    faults
}

/// Returns whether a text is a valid Agent Skill name: 1 to 64 of `[a-z0-9-]`, no hyphen at either end, none doubled.
#[must_use]
pub fn is_skill_name(name: &str) -> bool {
    name_faults(name, NameAlphabet::Ascii).is_empty()
}

/// Checks the general category and not the property Alphabetic, which includes vowel signs (marks on a letter).
fn is_letter_or_digit(c: char, alphabet: NameAlphabet) -> bool {
    let is_of_any_script = || {
        let category = CodePointMapData::<GeneralCategory>::new().get(c);
        GeneralCategoryGroup::Letter.union(GeneralCategoryGroup::Number).contains(category)
    };
    c.is_ascii_alphanumeric() || (alphabet == NameAlphabet::Unicode && is_of_any_script())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unicode(name: &str) -> Vec<NameFault> {
        name_faults(name, NameAlphabet::Unicode)
    }

    #[test]
    fn names() {
        for name in ["a", "a-b", "0", "a1-b2-c3", "true", "claude", &"a".repeat(64)] {
            assert!(is_skill_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "a--b", "A", "a_b", "é", "a b", &"a".repeat(65)] {
            assert!(!is_skill_name(name), "{name}");
        }
    }

    #[test]
    fn every_fault_is_named() {
        use NameFault::{Character, DoubledHyphen, EdgeHyphen, Empty, NotLowercase, TooLong};
        let ascii = |name: &str| name_faults(name, NameAlphabet::Ascii);
        assert_eq!(ascii(""), [Empty]);
        assert_eq!(ascii("-A--b_c"), [NotLowercase, EdgeHyphen, DoubledHyphen, Character('_')]);
        assert_eq!(ascii(&"a".repeat(65)), [TooLong { chars: 65 }]);
        assert_eq!(ascii("É"), [Character('É')]);
        assert_eq!(unicode("É"), [NotLowercase]);
    }

    #[test]
    fn letters_of_every_script_are_allowed_in_unicode() {
        for name in [
            "straße",
            "ı",
            "ς",
            "x²",
            "٣",
            "ⅳ",
            "技能",
            "שלום",
            "ภาษาไทย",
            "cafe\u{301}",
            "ﬁle",
            "ａｂｃ",
            "𝐚",
            &"技".repeat(64),
        ] {
            assert_eq!(unicode(name), [], "{name}");
        }
        for name in ["Ⅳ", "İ", "ǅ", "НАВЫК", "𐐀"] {
            assert!(unicode(name).contains(&NameFault::NotLowercase), "{name}");
        }
        for name in ["नमस्ते", "🎃", "a\u{200d}b", "a–b", "a‑b", "a_b"] {
            assert!(matches!(unicode(name)[..], [NameFault::Character(_)]), "{name}");
        }
        assert_eq!(unicode(&"技".repeat(65)), [NameFault::TooLong { chars: 65 }]);
        assert_eq!(normalise_name("ﬁle", NameAlphabet::Unicode), "file");
    }

    proptest! {
        #[test]
        fn ascii_names_have_the_same_faults_in_unicode(name in "[a-z0-9A-Z_-]{0,70}") {
            prop_assert_eq!(name_faults(&name, NameAlphabet::Ascii), unicode(&name));
        }

        #[test]
        fn never_panics(name in "\\PC{0,80}") {
            let _ = unicode(&name);
            let _ = is_skill_name(&name);
        }
    }
}
