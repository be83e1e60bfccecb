//! Skill ids and prompt names: one alphabet, one length, two distinct types.

use std::{fmt, str::FromStr, sync::Arc};

use crate::{Field, RuleError, limits::MAX_ID_BYTES};

/// Id under which the index of all skills is served.
pub const INDEX_ID: &str = "skills";

pub(crate) fn check(field: Field, text: &str) -> Result<(), RuleError> {
    if text.is_empty() {
        return Err(RuleError::Empty(field));
    }
    if text.len() > MAX_ID_BYTES {
        return Err(RuleError::TooLong { field, len: text.len(), max: MAX_ID_BYTES });
    }
    let allowed = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_');
    match text.char_indices().find(|&(_, c)| !allowed(c)) {
        Some((at, found)) => Err(RuleError::Charset { field, found, at }),
        None => Ok(()),
    }
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the text as a shared pointer.
            #[must_use]
            pub fn to_shared(&self) -> Arc<str> {
                Arc::clone(&self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

identifier!(
    /// Id of a skill: 1 to 64 of `[a-z0-9_-]`, and not the id of the index.
    SkillId
);
identifier!(
    /// Name of a prompt: 1 to 64 of `[a-z0-9_-]`.
    PromptName
);

impl FromStr for SkillId {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        check(Field::Id, text)?;
        if text == INDEX_ID {
            return Err(RuleError::ReservedId(text.to_owned()));
        }
        Ok(Self(text.into()))
    }
}

impl FromStr for PromptName {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        check(Field::Name, text)?;
        Ok(Self(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id_error(text: &str) -> String {
        text.parse::<SkillId>().expect_err("must be refused").to_string()
    }

    #[test]
    fn errors_use_the_words_of_the_contract() {
        assert_eq!(id_error(""), "id must be non-empty");
        assert!(id_error(&"a".repeat(65)).starts_with("id too long: 65 bytes"));
        assert!(id_error("Upper").contains("lowercase"));
        assert!(id_error("a\0b").contains("lowercase"));
        assert!(id_error("a/b").contains("found '/' at byte 1"));
        assert_eq!(
            "".parse::<PromptName>().expect_err("empty").to_string(),
            "name must be non-empty"
        );
    }

    #[test]
    fn the_limit_is_inclusive() {
        assert!("a".repeat(64).parse::<SkillId>().is_ok());
        assert!("a".repeat(64).parse::<PromptName>().is_ok());
    }

    #[test]
    fn the_index_cannot_be_shadowed() {
        assert!(id_error("skills").contains("reserved"));
        assert!("skills".parse::<PromptName>().is_ok());
    }

    proptest! {
        #[test]
        fn accepts_exactly_the_alphabet(text in "\\PC{0,80}") {
            let ok = !text.is_empty()
                && text.len() <= 64
                && text.bytes().all(|b| b"abcdefghijklmnopqrstuvwxyz0123456789-_".contains(&b));
            prop_assert_eq!(text.parse::<PromptName>().is_ok(), ok);
        }

        #[test]
        fn accepted_ids_are_unchanged(text in "[a-z0-9_-]{1,64}") {
            prop_assume!(text != INDEX_ID);
            let id: SkillId = text.parse().unwrap();
            prop_assert_eq!(id.as_str(), text);
        }
    }
}
