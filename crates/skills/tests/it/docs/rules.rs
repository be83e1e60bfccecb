//! Rules of `skills_core` that pages repeat: reserved prefixes and limits.

use skills_core::{handler_id::RESERVED_PREFIXES, limits};

use super::{code_spans, read};

#[test]
fn pages_list_the_reserved_prefixes() {
    for (page, before, after) in [
        ("SECURITY.md", "Functions in the namespaces ", " cannot back"),
        ("docs/bus.md", "| function behind a section or a prompt | ", " |\n"),
    ] {
        let text = read(page);
        let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("{page}: no {before}"));
        let (sentence, _) = rest.split_once(after).unwrap();
        assert_eq!(code_spans(sentence).collect::<Vec<_>>(), RESERVED_PREFIXES, "{page}");
    }
}

/// Formats a number of bytes in its largest binary unit.
fn size(bytes: usize) -> String {
    match bytes {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}

/// Formats a number in groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|it| str::from_utf8(it).unwrap()).collect();
    groups.join(" ")
}

#[test]
fn pages_state_the_limits_of_content() {
    let files = format!("{} files", limits::MAX_BUNDLE_FILES);
    let body = size(limits::MAX_SKILL_BYTES);
    for (page, subject, limit) in [
        ("docs/bus.md", "| skill id, prompt name |", format!("1 to {} of", limits::MAX_ID_BYTES)),
        ("docs/bus.md", "| skill |", body.clone()),
        ("docs/bus.md", "| bundle |", files.clone()),
        ("docs/bus.md", "| bundle |", size(limits::MAX_BUNDLE_BYTES)),
        ("docs/bus.md", "| prompt |", size(limits::MAX_PROMPT_BYTES)),
        ("docs/bus.md", "title of a skill", format!("{} characters", limits::MAX_SUMMARY_CHARS)),
        (
            "docs/bus.md",
            "of the description",
            format!("{} characters", limits::MAX_DESCRIPTION_CHARS),
        ),
        ("docs/bundles.md", "`SKILL.md`", files),
        ("docs/bundles.md", "`SKILL.md`", size(limits::MAX_BUNDLE_BYTES)),
        ("docs/bundles.md", "`SKILL.md`", body.clone()),
        ("docs/bundles.md", "| other names |", size(limits::MAX_NAME_BYTES)),
        ("docs/validate.md", "| `too-large` |", body),
        ("docs/keys.md", "| uid |", size(limits::MAX_OWNER_BYTES)),
        ("docs/keys.md", "| `--ttl`", grouped(limits::MAX_KEY_SECONDS)),
        ("docs/keys.md", "| secrets that a skill", limits::MAX_SECRETS_OF_SKILL.to_string()),
    ] {
        let text = read(page);
        let mut lines = text.lines().filter(|line| line.contains(subject));
        assert!(lines.any(|line| line.contains(&limit)), "{page}: {subject} does not say {limit}");
    }
}
