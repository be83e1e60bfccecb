//! Truncation and neutralisation of texts for messages, logs and listings.

use std::borrow::Cow;

/// Most characters of an id, a path or a URI that a message repeats.
pub const MAX_QUOTED_CHARS: usize = 120;

/// Mark at the end of a truncated text.
pub const ELLIPSIS: &str = "...";

/// Returns the first characters of a text.
#[must_use]
pub fn first_chars(text: &str, max: usize) -> &str {
    text.char_indices().nth(max).map_or(text, |(end, _)| &text[..end])
}

/// Truncates a text to `max` characters, followed by an ellipsis.
#[must_use]
pub fn truncate<'a>(text: impl Into<Cow<'a, str>>, max: usize) -> Cow<'a, str> {
    let text = text.into();
    match first_chars(&text, max) {
        start if start.len() < text.len() => format!("{}{ELLIPSIS}", start.trim_end()).into(),
        _ => text,
    }
}

/// Truncates a text so that it has at most `max` characters with its ellipsis.
#[must_use]
pub fn truncate_within<'a>(text: impl Into<Cow<'a, str>>, max: usize) -> Cow<'a, str> {
    let text = text.into();
    // A character has at least one byte.
    if text.len() <= max || text.chars().nth(max).is_none() {
        return text;
    }
    truncate(text, max - ELLIPSIS.len())
}

/// Joins the words of a text by single spaces.
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    let is_one_line = text.trim().len() == text.len()
        && !text.contains("  ")
        && !text.contains(|c: char| c.is_whitespace() && c != ' ');
    if is_one_line {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns foreign text with control characters, and so line ends and control sequences, replaced by spaces.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_has_no_control_characters() {
        assert_eq!(plain("a\x1b[31mb\nc\u{9b}2J"), "a [31mb c 2J");
    }

    #[test]
    fn characters_count_and_not_bytes() {
        for (text, start, truncated) in
            [("", "", ""), ("éé", "éé", "éé"), ("ééé", "ééé", "ééé"), ("éééé", "ééé", "ééé...")]
        {
            assert_eq!((first_chars(text, 3), &*truncate(text, 3)), (start, truncated), "{text}");
        }
    }

    #[test]
    fn limits_count_characters_not_bytes() {
        let text = "é".repeat(10);
        assert_eq!(truncate(text.as_str(), 10), text);
        assert_eq!(truncate(text.as_str(), 9), format!("{}...", "é".repeat(9)));
        assert_eq!(truncate_within(text.as_str(), 10), text);
        assert_eq!(truncate_within(text.as_str(), 9), format!("{}...", "é".repeat(6)));
    }

    #[test]
    fn lines_and_runs_of_blanks_become_single_spaces() {
        for (text, line) in
            [("a b", "a b"), (" a\n  b\r\n\tc ", "a b c"), ("a\u{a0}b", "a b"), ("\n", "")]
        {
            assert_eq!(one_line(text), line, "{text:?}");
        }
    }
}
