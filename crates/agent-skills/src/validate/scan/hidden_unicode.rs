//! Scanner for invisible characters and characters that reorder text. One finding a line.

use std::borrow::Cow;

use super::super::{findings::Findings, rules};

/// Black flag, which tag characters turn into a regional flag.
const BLACK_FLAG: char = '\u{1f3f4}';
const CANCEL_TAG: char = '\u{e007f}';

pub(super) fn check(document: &str, findings: &mut Findings) {
    for (start, line) in super::lines(document) {
        // Most lines are ASCII, and nothing there hides.
        if line.is_ascii() {
            continue;
        }
        let line_start =
            if start == 0 { line.len() - line.trim_start_matches('\u{feff}').len() } else { 0 };
        let mut hidden = Line { text: &line[line_start..] }.hidden();
        if let Some((at, kind, c)) = hidden.next() {
            let more = match hidden.count() {
                0 => String::new(),
                more => format!(", and {more} more in this line"),
            };
            let message = format!("there is a {kind}, U+{:04X}{more}", u32::from(c));
            findings.add(&rules::HIDDEN_UNICODE, start + line_start + at, message);
        }
    }
}

/// Replaces invisible characters, and those that reorder text, by their names in brackets, such as `⟨U+202E⟩`, for
/// readers who have to see what a model sees.
#[must_use]
pub fn reveal_hidden(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut revealed = String::new();
    let mut end = 0;
    for (at, _, c) in (Line { text }).hidden() {
        revealed.push_str(&text[end..at]);
        revealed.push_str(&format!("⟨U+{:04X}⟩", u32::from(c)));
        end = at + c.len_utf8();
    }
    if end == 0 {
        return Cow::Borrowed(text);
    }
    revealed.push_str(&text[end..]);
    Cow::Owned(revealed)
}

struct Line<'a> {
    text: &'a str,
}

impl<'a> Line<'a> {
    fn hidden(&self) -> impl Iterator<Item = (usize, &'static str, char)> + use<'a> {
        let text = self.text;
        let mut before = None;
        let mut in_flag = false;
        text.char_indices().filter_map(move |(at, c)| {
            let after = || text[at + c.len_utf8()..].chars().next();
            let is_tag = matches!(c, '\u{e0020}'..=CANCEL_TAG);
            let is_part_of_flag = is_tag && (in_flag || before == Some(BLACK_FLAG));
            in_flag = is_part_of_flag && c != CANCEL_TAG;
            let is_joiner = matches!(c, '\u{200c}' | '\u{200d}');
            // Emoji and many scripts are joined by them; between ASCII characters they only hide.
            let joins = is_joiner && is_joined(before) && is_joined(after());
            before = Some(c);
            let kind = kind(c).filter(|_| !joins && !is_part_of_flag)?;
            Some((at, kind, c))
        })
    }
}

fn is_joined(neighbour: Option<char>) -> bool {
    neighbour.is_some_and(|c| !c.is_ascii() && kind(c).is_none())
}

const fn kind(c: char) -> Option<&'static str> {
    match c {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => {
            Some("control character that reorders text")
        }
        '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{180e}' => {
            Some("character without width")
        }
        '\u{e0000}'..='\u{e007f}' => Some("tag character"),
        '\u{ad}'
        | '\u{2061}'..='\u{2064}'
        | '\u{206a}'..='\u{206f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{3164}'
        | '\u{ffa0}'
        | '\u{e0100}'..='\u{e01ef}' => Some("character that is not shown"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        Line { text }.hidden().count()
    }

    #[test]
    fn hidden_characters_are_found() {
        for text in ["a\u{202e}b", "a\u{200b}b", "a\u{200d}b", "\u{e0041}", "x\u{feff}", "a\u{ad}b"]
        {
            assert_eq!(count(text), 1, "{text:?}");
        }
        assert_eq!(count("\u{e0041}\u{e0042}\u{e0043}"), 3);
        assert_eq!(count("🏴\u{e0067}\u{e007f}\u{e0041}"), 1);
    }

    #[test]
    fn hidden_characters_are_revealed_by_name() {
        assert_eq!(reveal_hidden("a\u{202e}b\u{200b}"), "a⟨U+202E⟩b⟨U+200B⟩");
        assert_eq!(reveal_hidden("\u{e0041}é"), "⟨U+E0041⟩é");
        assert!(matches!(reveal_hidden("👩\u{200d}💻"), Cow::Borrowed(_)));
    }

    #[test]
    fn joiners_of_scripts_and_emoji_are_not_reported() {
        for text in
            ["👩\u{200d}💻", "🏴\u{e0067}\u{e0062}\u{e007f}", "می\u{200c}خواهم", "é", "❤\u{fe0f}"]
        {
            assert_eq!(count(text), 0, "{text:?}");
        }
    }
}
