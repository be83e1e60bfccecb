//! Table of all rules.

use super::{FindingLevel, ValidationMode};

/// Validation rule with its severity in both modes.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Stable code; never changes.
    pub code: &'static str,
    strict: FindingLevel,
    lenient: FindingLevel,
    /// Default hint; a finding may have a better one.
    pub hint: &'static str,
}

impl Rule {
    /// Returns the severity of the rule in a mode.
    #[must_use]
    pub const fn level(&self, mode: ValidationMode) -> FindingLevel {
        match mode {
            ValidationMode::Strict => self.strict,
            ValidationMode::Lenient => self.lenient,
        }
    }
}

macro_rules! rules {
    ($($name:ident = $code:literal, $strict:ident, $lenient:ident, $hint:literal;)*) => {
        $(pub(super) static $name: Rule = Rule {
            code: $code,
            strict: FindingLevel::$strict,
            lenient: FindingLevel::$lenient,
            hint: $hint,
        };)*

        /// All rules, in the order of the checks.
        pub static ALL: &[&Rule] = &[$(&$name),*];
    };
}

rules! {
    FILE_NAME = "file-name", Error, Warning, "rename it to SKILL.md";
    FILE_PATH = "file-path", Error, Error, "rename the file, so that every system can hold it and no tool takes it for its own";
    GIT_FILE = "git-file", Warning, Warning, "remove the file from the bundle: the git remotes of a server leave it out";
    TOO_LARGE = "too-large", Error, Error, "move what is not always needed to files of the bundle";
    EMPTY = "empty", Error, Error, "start with frontmatter that has a name and a description";
    ENCODING = "encoding", Error, Error, "save the file as UTF-8";
    BOM = "bom", Warning, Warning, "save the file as UTF-8 without a byte order mark; some clients look for --- at the first byte";
    FRONTMATTER_MISSING = "frontmatter-missing", Error, Error, "make --- the first line, then name: and description:, then --- again";
    FRONTMATTER_OPEN = "frontmatter-open", Error, Error, "end the frontmatter with a line that is exactly ---";
    FENCE = "fence", Error, Warning, "leave nothing but --- on the line";
    YAML = "yaml", Error, Error, "correct the YAML; values with : # or quotes in them are best put in quotes";
    YAML_COLON = "yaml-colon", Error, Warning, "put the value in quotes: a colon and a space inside it end the key for YAML";
    DUPLICATE_KEY = "duplicate-key", Error, Error, "keep one of them";
    NOT_A_MAPPING = "not-a-mapping", Error, Error, "write the frontmatter as lines of key: value";
    UNKNOWN_FIELD = "unknown-field", Error, Warning, "the specification has name, description, license, compatibility, metadata and allowed-tools; put the rest under metadata";
    CLIENT_EXTENSION = "client-extension", Error, Advice, "some clients know this field, the specification does not: leave it out of what is published, or put it under metadata";
    EXTENSION_VALUE = "extension-value", Warning, Warning, "write true or false";
    UNQUOTED_SCALAR = "unquoted-scalar", Warning, Warning, "put the value in quotes, so that every YAML reader takes it as text";
    NAME_MISSING = "name-missing", Error, Warning, "add name: with the name of the folder";
    NAME_UNKNOWN = "name-unknown", Error, Error, "add name: with 1 to 64 characters of a-z, 0-9 and -";
    NAME_TYPE = "name-type", Error, Warning, "write the name as one text";
    NAME_SPACE = "name-space", Error, Warning, "remove the white space around the name";
    NAME_TOO_LONG = "name-too-long", Error, Warning, "use at most 64 characters";
    NAME_LOWERCASE = "name-lowercase", Error, Warning, "use lower case letters only";
    NAME_EDGE_HYPHEN = "name-edge-hyphen", Error, Warning, "begin and end with a letter or a digit";
    NAME_DOUBLED_HYPHEN = "name-doubled-hyphen", Error, Warning, "use one hyphen at a time";
    NAME_CHARACTER = "name-character", Error, Warning, "use only a-z, 0-9 and -";
    NAME_DIRECTORY = "name-directory", Error, Warning, "give the folder and the skill the same name";
    NAME_RESERVED = "name-reserved", Warning, Warning, "choose another name: `skills sync` writes no folder of this one";
    DESCRIPTION_MISSING = "description-missing", Error, Error, "add a description of what the skill does and when to use it";
    DESCRIPTION_TYPE = "description-type", Error, Error, "write the description as one text";
    DESCRIPTION_TOO_LONG = "description-too-long", Error, Warning, "use at most 1024 characters; details belong in the body";
    DESCRIPTION_WHEN = "description-when", Advice, Advice, "add a sentence like: Use when the user asks for …";
    LICENSE_TYPE = "license-type", Error, Warning, "write the name of the license, or of the file that holds it, as one text";
    LICENSE_EMPTY = "license-empty", Warning, Warning, "name the license, or remove the field";
    LICENSE_FILE = "license-file", Advice, Advice, "add the file to the bundle, or name the license";
    COMPATIBILITY_TYPE = "compatibility-type", Error, Warning, "write what the skill needs as one text";
    COMPATIBILITY_EMPTY = "compatibility-empty", Error, Warning, "describe the requirements, or remove the field";
    COMPATIBILITY_TOO_LONG = "compatibility-too-long", Error, Warning, "use at most 500 characters";
    METADATA_TYPE = "metadata-type", Error, Warning, "write metadata as indented lines of key: value";
    METADATA_VALUE = "metadata-value", Warning, Warning, "make the value one text; metadata maps texts to texts";
    TOOLS_TYPE = "tools-type", Error, Warning, "write allowed-tools as one text with spaces between tools";
    TOOLS_LIST = "tools-list", Warning, Warning, "write allowed-tools as one text with spaces between tools, not as a list";
    TOOLS_COMMAS = "tools-commas", Warning, Warning, "put spaces, not commas, between tools";
    TOOLS_PARENTHESES = "tools-parentheses", Warning, Warning, "close every parenthesis, as in Bash(git add *)";
    TOOLS_EMPTY = "tools-empty", Warning, Warning, "name the tools, or remove the field";
    BODY_EMPTY = "body-empty", Advice, Advice, "say after the frontmatter how the task is done";
    BODY_LINES = "body-lines", Advice, Advice, "keep the body under 500 lines; move details to files and link to them";
    BODY_TOKENS = "body-tokens", Advice, Advice, "keep the body under 5000 tokens; move details to files and link to them";
    LINK_MISSING = "link-missing", Advice, Advice, "add the file to the bundle, or correct the path: it is relative to SKILL.md";
    LINK_OUTSIDE = "link-outside", Advice, Advice, "link to files of the bundle only; nothing else travels with it";
    HIDDEN_UNICODE = "hidden-unicode", Warning, Warning, "remove it, or find out why it is there: a reader does not see it, a model does";
    PIPE_TO_SHELL = "pipe-to-shell", Warning, Warning, "download, check what came, then run it; or bundle the script";
    ENCODED_BLOB = "encoded-blob", Advice, Advice, "put data in a file of the bundle, where it can be inspected";
    SECRET = "secret", Warning, Warning, "revoke it, and take it from the environment instead";
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn codes_are_unique_and_loading_is_never_stricter() {
        let codes: HashSet<_> = ALL.iter().map(|rule| rule.code).collect();
        assert_eq!(codes.len(), ALL.len());
        let weight = |level| match level {
            FindingLevel::Error => 2,
            FindingLevel::Warning => 1,
            FindingLevel::Advice => 0,
        };
        for rule in ALL {
            let [strict, lenient] = [ValidationMode::Strict, ValidationMode::Lenient]
                .map(|mode| weight(rule.level(mode)));
            assert!(lenient <= strict, "{}", rule.code);
            assert!(rule.code.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", rule.code);
        }
    }
}
