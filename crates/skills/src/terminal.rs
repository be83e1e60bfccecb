//! Sanitizer for text on a terminal.
//!
//! A document can contain escape sequences that set the clipboard (OSC 52), the title or the screen of a terminal. All
//! output to a terminal passes through here; pipes and files get every byte unchanged.

use std::borrow::Cow;

/// Replaces control characters of foreign text by their pictures, except line ends and tabs.
pub(crate) fn sanitize(text: &str) -> Cow<'_, str> {
    filter(text, Styles::Replace)
}

/// Sanitizes a line of our own that may contain foreign text: sequences for colour and weight pass, no others.
pub(crate) fn sanitize_styled(line: &str) -> Cow<'_, str> {
    filter(line, Styles::Keep)
}

/// Escapes the control characters that JSON allows; the value stays the same.
pub(crate) fn sanitize_json(json: &str) -> Cow<'_, str> {
    let is_raw = |c: char| matches!(c, '\u{7f}'..='\u{9f}');
    if !json.contains(is_raw) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if is_raw(c) {
            safe.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Treatment of sequences that set colour and weight.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Styles {
    Keep,
    Replace,
}

fn filter(text: &str, styles: Styles) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let style = if styles == Styles::Keep { style_length(rest) } else { 0 };
        let length = if style > 0 { style } else { c.len_utf8() };
        match &rest[..length] {
            sequence if style > 0 => safe.push_str(sequence),
            // Line end of Windows.
            "\r" if rest[1..].starts_with('\n') => safe.push('\r'),
            _ if is_control(c) => safe.push(picture(c)),
            _ => safe.push(c),
        }
        rest = &rest[length..];
    }
    Cow::Owned(safe)
}

fn is_control(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
}

/// Returns the length of a leading sequence `ESC [ … m`, which sets colour or weight, or 0.
fn style_length(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\u{1b}[") else { return 0 };
    let parameters = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if rest.as_bytes().get(parameters) == Some(&b'm') { parameters + 3 } else { 0 }
}

/// Returns the picture of a control character, one column wide.
fn picture(c: char) -> char {
    match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        _ => '\u{fffd}',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIPBOARD: &str = "a\u{1b}]52;c;aGk=\u{7}b";

    #[test]
    fn control_characters_become_pictures() {
        assert_eq!(sanitize(CLIPBOARD), "a␛]52;c;aGk=␇b");
        assert_eq!(sanitize("\u{1b}[2J\u{1b}]0;t\u{1b}\\"), "␛[2J␛]0;t␛\\");
        assert_eq!(sanitize("a\u{9b}31mb\u{7f}"), "a\u{fffd}31mb␡");
        assert_eq!(sanitize("over\rwritten\u{8}"), "over␍written␈");
        assert_eq!(sanitize("\u{1b}[31mred"), "␛[31mred");
    }

    #[test]
    fn ordinary_text_is_unchanged() {
        for text in ["", "# A\n\tb\r\nc\n", "é 技能 👩‍💻 \u{200f}"] {
            assert!(matches!(sanitize(text), Cow::Borrowed(_)) || text.contains('\r'), "{text}");
            assert_eq!(sanitize(text), text, "{text}");
        }
    }

    #[test]
    fn styled_lines_keep_colours_only() {
        assert_eq!(sanitize_styled("\u{1b}[1mid\u{1b}[0m x"), "\u{1b}[1mid\u{1b}[0m x");
        assert_eq!(sanitize_styled("\u{1b}[1;31m"), "\u{1b}[1;31m");
        assert_eq!(sanitize_styled("\u{1b}[2J\u{1b}[8"), "␛[2J␛[8");
        assert_eq!(sanitize_styled(CLIPBOARD), "a␛]52;c;aGk=␇b");
    }

    #[test]
    fn sanitized_json_has_the_same_value() {
        let text = "a\u{9b}b\u{7f}\u{1b}é";
        let json = serde_json::to_string(text).unwrap();
        let safe = sanitize_json(&json);
        assert!(!safe.contains(char::is_control), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
    }
}
