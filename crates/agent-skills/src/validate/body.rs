//! Length of the body, and the heuristic for descriptions that say when to use the skill.

use super::{MAX_BODY_LINES, MAX_BODY_TOKENS, findings::Findings, rules};

/// Words and phrases that say when to use a skill. Heuristic: a miss costs one line of advice.
const WHEN: [&str; 22] = [
    "when",
    "whenever",
    "if",
    "use for",
    "use this",
    "use it",
    "use to",
    "useful for",
    "used for",
    "used to",
    "trigger",
    "triggers",
    "asks",
    "mentions",
    "before",
    "after",
    "during",
    "while",
    "wenn",
    "quand",
    "cuando",
    "quando",
];

pub(super) fn check(body: &str, start: usize, findings: &mut Findings) {
    if body.trim().is_empty() {
        return findings.add(&rules::BODY_EMPTY, start, "there is nothing after the frontmatter");
    }
    let lines = body.lines().count();
    if lines > MAX_BODY_LINES {
        findings.add(&rules::BODY_LINES, start, format!("the body has {lines} lines"));
    }
    let tokens = tokens(body);
    if tokens > MAX_BODY_TOKENS {
        findings.add(&rules::BODY_TOKENS, start, format!("the body has about {tokens} tokens"));
    }
}

/// Estimates the number of tokens: a quarter for an ASCII character, half for letters of other alphabets, one for
/// ideographs, syllables and emoji.
fn tokens(text: &str) -> usize {
    let quarters = |c: char| match c {
        '\0'..='\x7f' => 1,
        '\u{80}'..='\u{2e7f}' => 2,
        _ => 4,
    };
    text.chars().map(quarters).sum::<usize>().div_ceil(4)
}

/// Returns whether a description says when to use its skill. Descriptions in a script that no keyword here is written
/// in always pass.
pub(super) fn says_when(description: &str) -> bool {
    let letters = description.chars().filter(|c| c.is_alphabetic()).count();
    let ascii = description.chars().filter(char::is_ascii_alphabetic).count();
    if ascii * 2 < letters {
        return true;
    }
    let words = description.to_lowercase();
    let words = words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let words = format!(" {} ", words.collect::<Vec<_>>().join(" "));
    WHEN.iter().any(|phrase| words.contains(&format!(" {phrase} ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_estimated() {
        assert_eq!(tokens(""), 0);
        assert_eq!(tokens(&"word ".repeat(100)), 125);
        assert_eq!(tokens("技能"), 2);
        assert_eq!(tokens("дом"), 2);
    }

    #[test]
    fn descriptions_that_say_when_are_recognised() {
        for text in [
            "Reads PDF. Use when the user asks.",
            "Use this\nfor forms",
            "Für Formulare, wenn es PDF sind",
            "処理します",
            "Triggers: pdf, form",
        ] {
            assert!(says_when(text), "{text}");
        }
        for text in ["Reads PDF files.", "A whenabouts helper"] {
            assert!(!says_when(text), "{text}");
        }
    }
}
