//! Fields outside the specification.

use super::{
    document::Frontmatter,
    findings::{Findings, quoted},
    rules,
};
use crate::agent_skill::parse_bool;

/// Fields of the specification.
const FIELDS: [&str; 6] =
    ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

/// Extension fields that some clients support. They are kept.
const EXTENSIONS: [&str; 16] = [
    "agent",
    "argument-hint",
    "arguments",
    "context",
    "disable-model-invocation",
    "disallowed-tools",
    "effort",
    "hooks",
    "mode",
    "model",
    "paths",
    "shell",
    "tags",
    "user-invocable",
    "version",
    "when_to_use",
];

/// Extension fields that hold a boolean.
const FLAGS: [&str; 2] = ["disable-model-invocation", "user-invocable"];

pub(super) fn check(frontmatter: &Frontmatter, findings: &mut Findings) {
    for entry in &frontmatter.fields.entries {
        let key = entry.key.value.as_str();
        let at = frontmatter.place(entry.key.at);
        if FIELDS.contains(&key) {
            continue;
        }
        if EXTENSIONS.contains(&key) {
            let message = format!("{key} is a field of some clients, not of the specification");
            match key {
                "version" => findings.add_with_hint(
                    &rules::CLIENT_EXTENSION,
                    at,
                    message,
                    "put it under metadata, in quotes",
                ),
                _ => findings.add(&rules::CLIENT_EXTENSION, at, message),
            }
        } else {
            let message = format!("the specification has no field {}", quoted(key));
            match similar_field(key) {
                Some(field) => {
                    let hint = format!("write {field}");
                    findings.add_with_hint(&rules::UNKNOWN_FIELD, at, message, hint);
                }
                None => findings.add(&rules::UNKNOWN_FIELD, at, message),
            }
        }
        if FLAGS.contains(&key) && parse_bool(&entry.value.value).is_none() {
            let message = format!("{key} is neither true nor false");
            findings.add(&rules::EXTENSION_VALUE, frontmatter.place(entry.value.at), message);
        }
    }
}

/// Finds the known field that differs only in case, hyphens and underscores.
fn similar_field(key: &str) -> Option<&'static str> {
    let letters = |key: &str| {
        key.chars()
            .filter(char::is_ascii_alphabetic)
            .map(|c| c.to_ascii_lowercase())
            .collect::<String>()
    };
    let key = letters(key);
    let mut known = FIELDS.into_iter().chain(EXTENSIONS);
    known.find(|known| letters(known) == key || (*known == "license" && key == "licence"))
}
