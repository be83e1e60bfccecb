//! What the name of an Agent Skill may be.
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

/// Which letters and digits a name may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Alphabet {
    /// `a-z` and `0-9`.
    #[default]
    Ascii,
    /// Those of every script, compared in Normalization Form KC.
    Unicode,
}

/// Something that a name must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameFault {
    /// There is nothing.
    Empty,
    /// It has more than [`MAX_NAME_CHARS`] characters.
    TooLong {
        /// How many.
        chars: usize,
    },
    /// It has a letter that is not lower case.
    NotLowercase,
    /// It starts or ends with a hyphen.
    EdgeHyphen,
    /// It has two hyphens in a row.
    DoubledHyphen,
    /// It has a character that is no letter, digit or hyphen of the alphabet; this is the first.
    Character(char),
}

/// A name in the form in which it is judged and compared.
#[must_use]
pub fn normalised(name: &str, alphabet: Alphabet) -> Cow<'_, str> {
    match alphabet {
        Alphabet::Ascii => Cow::Borrowed(name),
        Alphabet::Unicode => ComposingNormalizerBorrowed::new_nfkc().normalize(name),
    }
}

/// Everything that is wrong with a name.
#[must_use]
pub fn name_faults(name: &str, alphabet: Alphabet) -> Vec<NameFault> {
    let name = normalised(name, alphabet);
    if name.is_empty() {
        return vec![NameFault::Empty];
    }
    let mut faults = Vec::new();
    let chars = name.chars().count();
    if chars > MAX_NAME_CHARS {
        faults.push(NameFault::TooLong { chars });
    }
    let is_lowercase = match alphabet {
        Alphabet::Ascii => !name.bytes().any(|byte| byte.is_ascii_uppercase()),
        Alphabet::Unicode => name.to_lowercase() == name,
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

/// Whether a text may be the name of an Agent Skill: 1 to 64 of `[a-z0-9-]`, with no hyphen at an end and
/// none doubled.
#[must_use]
pub fn is_skill_name(name: &str) -> bool {
    name_faults(name, Alphabet::Ascii).is_empty()
}

/// By general category, not by the property Alphabetic: that one also holds of vowel signs, which are
/// marks on a letter.
fn is_letter_or_digit(c: char, alphabet: Alphabet) -> bool {
    let is_of_any_script = || {
        let category = CodePointMapData::<GeneralCategory>::new().get(c);
        GeneralCategoryGroup::Letter.union(GeneralCategoryGroup::Number).contains(category)
    };
    c.is_ascii_alphanumeric() || (alphabet == Alphabet::Unicode && is_of_any_script())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unicode(name: &str) -> Vec<NameFault> {
        name_faults(name, Alphabet::Unicode)
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
        let ascii = |name: &str| name_faults(name, Alphabet::Ascii);
        assert_eq!(ascii(""), [Empty]);
        assert_eq!(ascii("-A--b_c"), [NotLowercase, EdgeHyphen, DoubledHyphen, Character('_')]);
        assert_eq!(ascii(&"a".repeat(65)), [TooLong { chars: 65 }]);
        assert_eq!(ascii("É"), [Character('É')]);
        assert_eq!(unicode("É"), [NotLowercase]);
    }

    #[test]
    fn letters_of_every_script() {
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
        assert_eq!(normalised("ﬁle", Alphabet::Unicode), "file");
    }

    proptest! {
        #[test]
        fn what_is_right_in_ascii_is_right_in_unicode(name in "[a-z0-9A-Z_-]{0,70}") {
            prop_assert_eq!(name_faults(&name, Alphabet::Ascii), unicode(&name));
        }

        #[test]
        fn never_panics(name in "\\PC{0,80}") {
            let _ = unicode(&name);
            let _ = is_skill_name(&name);
        }
    }
}
