//! Tags of raw HTML in a document.
//!
//! Browsers, and the sanitiser with them, repair HTML: an element that is left open may be opened again in every element
//! after it, which makes a small document a large tree. So raw HTML is read here first, and only tags that a document may
//! have are written again, each in a form that cannot be read in another way. `bounds` sees that they are well nested.

use super::TAGS;

/// Longest tag with its attributes, in bytes. Longer ones are text.
const MAX_TAG_BYTES: usize = 4096;
/// Most attributes of a tag; the rest is dropped.
const MAX_ATTRIBUTES: usize = 16;
/// Attributes that a document may have; the sanitiser decides where.
const ATTRIBUTES: [&str; 15] = [
    "align", "alt", "class", "colspan", "height", "href", "id", "lang", "open", "rowspan", "src",
    "start", "tabindex", "title", "width",
];
/// Elements whose content is dropped with them.
const DROPPED: [&str; 7] = ["script", "style", "title", "noscript", "template", "svg", "math"];
/// Elements that are opened again after one in which they were left open.
const FORMATTING: [&str; 9] = ["a", "b", "code", "em", "i", "s", "small", "strong", "u"];

/// Part of raw HTML.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Text, which may hold character references.
    Text(&'a str),
    /// Start of an element that a document may have.
    Open(OpenTag),
    /// End of such an element.
    Close(&'static str),
    /// Start of an element whose content is dropped.
    OpenDropped(&'static str),
    /// End of such an element.
    CloseDropped(&'static str),
    /// Comment, or a tag that no document may have.
    Nothing,
}

/// Start of an element.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OpenTag {
    pub(super) name: &'static str,
    pub(super) html: String,
}

impl OpenTag {
    /// Returns whether the element has no end.
    pub(super) fn is_void(&self) -> bool {
        matches!(self.name, "br" | "hr" | "img")
    }

    /// Returns whether the element ends an open one that may have no end tag, such as the list item before it.
    pub(super) fn ends(&self, open: &str) -> bool {
        let is_cell = matches!(open, "td" | "th");
        let is_row = is_cell || open == "tr";
        match self.name {
            "li" | "p" => open == self.name,
            "dt" | "dd" => matches!(open, "dt" | "dd"),
            "td" | "th" => is_cell,
            "tr" => is_row,
            "thead" | "tbody" | "tfoot" => is_row || matches!(open, "thead" | "tbody" | "tfoot"),
            _ => false,
        }
    }
}

/// Returns whether an element is opened again after one in which it was left open.
pub(super) fn is_formatting(name: &str) -> bool {
    FORMATTING.contains(&name)
}

/// Returns the first token of raw HTML that is not empty, and the rest.
pub(super) fn split_token(html: &str) -> (Token<'_>, &str) {
    let Some(inner) = html.strip_prefix('<') else {
        let (text, rest) = html.split_at(html.find('<').unwrap_or(html.len()));
        return (Token::Text(text), rest);
    };
    let after = |end: &str| html.split_once(end).map_or("", |(_, rest)| rest);
    if inner.starts_with("!--") {
        return (Token::Nothing, after("-->"));
    }
    if inner.starts_with(['!', '?']) {
        return (Token::Nothing, after(">"));
    }
    let bounded = &inner[..inner.floor_char_boundary(MAX_TAG_BYTES)];
    match tag(bounded) {
        Some((token, rest)) => (token, &inner[bounded.len() - rest.len()..]),
        None => (Token::Text(&html[..1]), inner),
    }
}

/// Reads a tag behind its `<`; `None` if it is none.
fn tag(text: &str) -> Option<(Token<'_>, &str)> {
    let (is_close, text) = text.strip_prefix('/').map_or((false, text), |text| (true, text));
    let (name, mut rest) = text.split_at(text.find(is_name_end)?);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let mut html = format!("<{name}");
    let mut count = 0;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if let Some(rest) = rest.strip_prefix('>') {
            html.push('>');
            return Some((token(&name, is_close, html), rest));
        }
        let (attribute, value);
        (attribute, value, rest) = split_attribute(rest)?;
        let attribute = attribute.to_ascii_lowercase();
        count += 1;
        if count <= MAX_ATTRIBUTES && ATTRIBUTES.contains(&attribute.as_str()) {
            html.push_str(&format!(" {attribute}=\"{}\"", value.replace('"', "&quot;")));
        }
    }
}

fn is_name_end(c: char) -> bool {
    c.is_ascii_whitespace() || c == '/' || c == '>'
}

/// Reads an attribute: its name, its value with character references, and the rest. `None` if the tag has no end.
fn split_attribute(text: &str) -> Option<(&str, &str, &str)> {
    // A name may begin with `=`.
    let first = text.chars().next()?.len_utf8();
    let end = first + text[first..].find(|c: char| is_name_end(c) || c == '=')?;
    let (name, rest) = text.split_at(end);
    let after_name = rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
    let Some(value) = after_name.strip_prefix('=') else { return Some((name, "", rest)) };
    let value = value.trim_start_matches(|c: char| c.is_ascii_whitespace());
    for quote in ['"', '\''] {
        if let Some(quoted) = value.strip_prefix(quote) {
            let (value, rest) = quoted.split_once(quote)?;
            return Some((name, value, rest));
        }
    }
    let (value, rest) = value.split_at(value.find(|c: char| c.is_ascii_whitespace() || c == '>')?);
    Some((name, value, rest))
}

fn token(name: &str, is_close: bool, html: String) -> Token<'static> {
    let dropped = DROPPED.into_iter().find(|dropped| *dropped == name);
    match (TAGS.get(name).copied(), dropped, is_close) {
        (Some(name), _, true) => Token::Close(name),
        (Some(name), _, false) => Token::Open(OpenTag { name, html }),
        (None, Some(name), true) => Token::CloseDropped(name),
        (None, Some(name), false) => Token::OpenDropped(name),
        (None, None, _) => Token::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all tokens as text: `b` and `/b` for tags of a document, `!b` and `!/b` for those whose content is dropped.
    fn tokens(mut html: &str) -> Vec<String> {
        let mut tokens = Vec::new();
        while !html.is_empty() {
            let (token, rest) = split_token(html);
            assert!(rest.len() < html.len(), "{html:?}");
            tokens.push(match token {
                Token::Text(text) => format!("{text:?}"),
                Token::Open(tag) => tag.html,
                Token::Close(name) => format!("</{name}>"),
                Token::OpenDropped(name) => format!("!{name}"),
                Token::CloseDropped(name) => format!("!/{name}"),
                Token::Nothing => "-".to_owned(),
            });
            html = rest;
        }
        tokens
    }

    #[test]
    fn tags_are_written_in_one_form() {
        for (html, expected) in [
            ("a<B>c</b >", &["\"a\"", "<b>", "\"c\"", "</b>"] as &[&str]),
            ("<img/src=x alt='\"' onerror=y>", &["<img src=\"x\" alt=\"&quot;\">"]),
            ("<a href = \"x>y\" title>", &["<a href=\"x>y\" title=\"\">"]),
            ("<b\n=x =>", &["<b>"]),
            ("<td colspan=2/>", &["<td colspan=\"2/\">"]),
            ("<!-- <b> --><?x?><!x>", &["-", "-", "-"]),
            ("<!-- <b>", &["-"]),
            ("<form><blink></form>", &["-", "-", "-"]),
            ("<SCRIPT>x</script>", &["!script", "\"x\"", "!/script"]),
            (
                "1 < 2 <3 </ <b",
                &[
                    "\"1 \"", "\"<\"", "\" 2 \"", "\"<\"", "\"3 \"", "\"<\"", "\"/ \"", "\"<\"",
                    "\"b\"",
                ],
            ),
            ("<b title=\"x>", &["\"<\"", "\"b title=\\\"x>\""]),
        ] {
            assert_eq!(tokens(html), expected, "{html}");
        }
    }

    #[test]
    fn a_tag_is_bounded_in_bytes_and_attributes() {
        let many = format!("<b {}title=x>", "lang=x ".repeat(MAX_ATTRIBUTES));
        assert!(!tokens(&many)[0].contains("title"), "{many}");
        let long = format!("<b title={}>", "x".repeat(MAX_TAG_BYTES));
        assert_eq!(tokens(&long)[0], "\"<\"");
    }
}
