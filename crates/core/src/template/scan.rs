//! Finding placeholders in linear time.

use super::{Name, Placeholder};

/// What a placeholder begins with. It ends with as many braces.
pub(super) const OPEN: &str = "{{";

/// What stands at an opening.
pub(super) enum Scan<'t> {
    /// A placeholder, up to `end`.
    Found { placeholder: Placeholder<'t>, end: usize },
    /// No placeholder opens before this place.
    TextUpTo(usize),
}

/// Looks for a placeholder that opens at `open`, where there are two braces. What it has looked at in vain
/// is passed over, so that a text of nothing but openings costs no more than any other.
pub(super) fn scan(text: &str, open: usize) -> Scan<'_> {
    let bytes = text.as_bytes();
    let start = open + OPEN.len();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let name_end = start + bytes[start..].iter().take_while(|byte| is_name(byte)).count();
    if name_end == start {
        // Three braces: the second one may open a placeholder.
        return Scan::TextUpTo(open + 1);
    }
    let (default, end) = match bytes.get(name_end) {
        Some(b'}') => (None, name_end),
        Some(b'|') => {
            let rest = &text[name_end + 1..];
            // Every placeholder needs a closing brace; there is none.
            let Some(length) = rest.find('}') else { return Scan::TextUpTo(text.len()) };
            if length == 0 {
                return Scan::TextUpTo(name_end);
            }
            (Some(&rest[..length]), name_end + 1 + length)
        }
        // Names have no braces, so nothing opens within one.
        _ => return Scan::TextUpTo(name_end),
    };
    if bytes.get(end + 1) != Some(&b'}') {
        // Whatever opens before a lone closing brace meets it first.
        return Scan::TextUpTo(end + 1);
    }
    match Name::parse(&text[start..name_end]) {
        Some(name) => {
            Scan::Found { placeholder: Placeholder { name, default }, end: end + OPEN.len() }
        }
        None => Scan::TextUpTo(end + OPEN.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::super::{Name, Piece, Placeholder, Template};

    #[test]
    fn time_is_linear_whatever_the_text_is_made_of() {
        for unit in ["{{a|", "{", "{{a", "{{a}", "{{a|b} ", "{{{{a|}}", "{{a}}"] {
            let text = unit.repeat((1 << 20) / unit.len());
            let begun = Instant::now();
            let pieces = Template::parse(&text).pieces().len();
            // Quadratic time would be hours.
            assert!(begun.elapsed() < Duration::from_secs(10), "{unit}: {pieces} pieces");
        }
    }

    proptest! {
        #[test]
        fn the_scanner_agrees_with_the_expression(text in "[{}|a. ]{0,24}") {
            prop_assert_eq!(Template::parse(&text).pieces().to_vec(), by_trying(&text));
        }
    }

    /// The regular expression, tried at every place.
    fn by_trying(text: &str) -> Vec<Piece<'_>> {
        let (mut pieces, mut told, mut at) = (vec![], 0, 0);
        while at < text.len() {
            match matched(&text[at..]) {
                Some((placeholder, length)) => {
                    if told < at {
                        pieces.push(Piece::Text(&text[told..at]));
                    }
                    pieces.push(Piece::Placeholder(placeholder));
                    at += length;
                    told = at;
                }
                None => at += 1,
            }
        }
        if told < text.len() {
            pieces.push(Piece::Text(&text[told..]));
        }
        pieces
    }

    fn matched(text: &str) -> Option<(Placeholder<'_>, usize)> {
        let inner = text.strip_prefix("{{")?;
        let inner = &inner[..inner.find('}')?];
        text[2 + inner.len()..].starts_with("}}").then_some(())?;
        let (name, default) = match inner.split_once('|') {
            Some((name, default)) => (name, Some(default).filter(|text| !text.is_empty())?.into()),
            None => (inner, None),
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        (!name.is_empty() && name.chars().all(fits)).then_some(())?;
        Some((Placeholder { name: Name::Parameter(name), default }, inner.len() + 4))
    }
}
