//! Bounds on what a document may expand to.
//!
//! The parser makes a tree of the whole text at once, so the text is cut before. What the tree becomes is bounded while it is
//! written: references, tables and footnotes repeat text, and nesting costs the sanitiser time in proportion to the
//! square of its depth.

use std::{cell::Cell, fmt};

use pulldown_cmark::{Event, Tag, TagEnd};
use skills_core::work::StopFlag;

use super::raw_html::{OpenTag, Token, is_formatting, split_token};

/// Most bytes of a document that are rendered: the largest root document.
pub(crate) const MAX_BYTES: usize = 256 << 10;
/// Most characters that may be markup, line ends and cells of tables; prose of 256 KiB has about 25 000.
const MAX_MARKS: usize = 48 << 10;
/// Marks that a short document may have, whatever its length: rows of a table have cells that are not in the text.
const MIN_MARKS: usize = 2 << 10;
/// Most tags of the HTML.
const MAX_TAGS: usize = 40_000;
/// Most bytes of the HTML, before the last part that is written.
const MAX_HTML_BYTES: usize = 2 << 20;
/// Deepest nesting of elements; deeper ones are left out and their text is kept.
const MAX_DEPTH: usize = 48;
/// Most tags of raw HTML; the rest is shown as text.
const MAX_RAW_TAGS: usize = 2000;

/// Returns the part of a text that is rendered.
pub(super) fn rendered_part(text: &str) -> &str {
    let text = first_part(text, MAX_BYTES);
    let max_marks = MAX_MARKS.min(MIN_MARKS + 2 * text.len());
    let (mut left, mut end, mut columns) = (max_marks, 0, 0);
    for line in text.split_inclusive(['\n', '\r']) {
        if line == "\n" && text[..end].ends_with('\r') {
            // The second half of a line end.
            end += line.len();
            continue;
        }
        match line.trim_matches([' ', '\t', '>', '\r', '\n']) {
            "" => columns = 0,
            row if is_delimiter_row(row) => columns = columns.max(row.matches('|').count() + 1),
            _ => {}
        }
        // The parser fills up every row of a table, which goes on until an empty line.
        let marks = line.bytes().filter(is_mark).count() + columns;
        let Some(less) = left.checked_sub(marks) else {
            // Marks are ASCII characters, so that the line may be cut before one.
            let mut marks = line.bytes().enumerate().filter(|(_, byte)| is_mark(byte));
            let in_line = marks.nth(left).filter(|_| columns == 0).map_or(0, |(at, _)| at);
            return first_part(text, end + in_line);
        };
        (left, end) = (less, end + line.len());
    }
    text
}

/// Returns the first bytes of a text, without a line that is cut unless it is most of them.
pub(crate) fn first_part(text: &str, max_bytes: usize) -> &str {
    let part = &text[..text.floor_char_boundary(max_bytes)];
    let end = part.rfind('\n').filter(|end| part.len() < text.len() && *end >= part.len() / 2);
    end.map_or(part, |end| &part[..=end])
}

/// Returns whether a character may be markup, for which the parser makes parts of its tree.
const fn is_mark(byte: &u8) -> bool {
    matches!(
        byte,
        b'\n'
            | b'\r'
            | b'*'
            | b'_'
            | b'~'
            | b'['
            | b']'
            | b'!'
            | b'<'
            | b'>'
            | b'&'
            | b'\\'
            | b'`'
            | b'|'
            | b'-'
            | b'+'
            | b'#'
            | b'.'
            | b')'
    )
}

/// Returns whether a line may be the one below the head of a table.
fn is_delimiter_row(line: &str) -> bool {
    line.contains('-') && line.bytes().all(|byte| matches!(byte, b'|' | b'-' | b':' | b' ' | b'\t'))
}

/// What a document may still expand to. The writer takes from it, and the events end when nothing is left.
#[derive(Debug)]
pub(super) struct Expansion {
    tags: Cell<usize>,
    bytes: Cell<usize>,
}

impl Expansion {
    pub(super) const fn new() -> Self {
        Self { tags: Cell::new(MAX_TAGS), bytes: Cell::new(MAX_HTML_BYTES) }
    }

    /// Returns the tags that are left.
    pub(super) const fn tags(&self) -> usize {
        self.tags.get()
    }

    const fn is_used_up(&self) -> bool {
        self.tags.get() == 0 || self.bytes.get() == 0
    }

    fn take(&self, tags: usize, bytes: usize) {
        self.tags.set(self.tags.get().saturating_sub(tags));
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }
}

/// Writer of HTML, which counts its bytes and tags.
pub(super) struct CountingWriter<'a> {
    pub(super) html: String,
    pub(super) left: &'a Expansion,
}

impl fmt::Write for CountingWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.left.take(text.bytes().filter(|byte| *byte == b'<').count(), text.len());
        self.html.push_str(text);
        Ok(())
    }
}

/// Open element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Markdown(TagEnd),
    Raw(&'static str),
}

/// Element whose content is dropped.
#[derive(Debug, Clone, Copy)]
struct Dropping {
    name: &'static str,
    /// Number of elements that were open at its start.
    depth: usize,
}

/// Events within bounds, with elements of raw HTML that are well nested.
pub(super) struct Bounded<'a, I> {
    events: I,
    left: &'a Expansion,
    stop: &'a StopFlag,
    raw_tags_left: usize,
    open: Vec<Open>,
    /// Open elements of raw HTML that are opened again in others after them.
    formatting: usize,
    /// Number of open elements that were left out.
    skipped: usize,
    dropping: Option<Dropping>,
    /// Lines of an open block of raw HTML.
    html_block: Option<String>,
    /// End of an element whose elements of raw HTML were closed.
    next: Option<TagEnd>,
    is_truncated: bool,
}

impl<'a, I> Bounded<'a, I> {
    pub(super) const fn new(events: I, left: &'a Expansion, stop: &'a StopFlag) -> Self {
        Self {
            events,
            left,
            stop,
            raw_tags_left: MAX_RAW_TAGS,
            open: Vec::new(),
            formatting: 0,
            skipped: 0,
            dropping: None,
            html_block: None,
            next: None,
            is_truncated: false,
        }
    }

    /// Returns whether something was left out.
    pub(super) const fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Charges for the elements that the sanitiser may open again.
    fn charge(&self) {
        self.left.take(self.formatting, 0);
    }

    fn pop(&mut self) -> Option<Open> {
        let open = self.open.pop()?;
        self.formatting -= usize::from(matches!(open, Open::Raw(name) if is_formatting(name)));
        Some(open)
    }

    /// Closes the innermost element.
    fn close_last<'e>(&mut self) -> Option<Event<'e>> {
        Some(match self.pop()? {
            Open::Markdown(end) => Event::End(end),
            Open::Raw(name) => Event::InlineHtml(format!("</{name}>").into()),
        })
    }

    /// Closes the elements of raw HTML that were opened in the innermost element of Markdown.
    fn close_raw(&mut self) -> String {
        let mut html = String::new();
        while let Some(Open::Raw(name)) = self.open.last().copied() {
            self.pop();
            push_end(&mut html, name);
        }
        html
    }

    fn end<'e>(&mut self, end: TagEnd) -> Event<'e> {
        self.charge();
        let closed = self.close_raw();
        self.pop();
        self.dropping = self.dropping.filter(|dropping| dropping.depth <= self.open.len());
        if closed.is_empty() {
            return Event::End(end);
        }
        self.next = Some(end);
        Event::InlineHtml(closed.into())
    }

    /// Reads raw HTML, and writes the tags that a document may have so that elements are well nested.
    fn raw(&mut self, mut raw: &str) -> Option<String> {
        let mut html = String::new();
        let is_image = self.open.last() == Some(&Open::Markdown(TagEnd::Image));
        while !raw.is_empty() && !is_image {
            let is_tag = raw.starts_with('<');
            if is_tag && self.raw_tags_left == 0 {
                self.is_truncated = true;
                html.push_str(&raw.replace('<', "&lt;"));
                break;
            }
            self.raw_tags_left -= usize::from(is_tag);
            let (token, rest) = split_token(raw);
            raw = rest;
            match (token, self.dropping) {
                (Token::CloseDropped(name), Some(dropping)) if name == dropping.name => {
                    self.dropping = None;
                }
                (_, Some(_)) | (Token::Nothing | Token::CloseDropped(_), None) => {}
                (Token::Text(text), None) => html.push_str(&text.replace('<', "&lt;")),
                (Token::OpenDropped(name), None) => {
                    self.dropping = Some(Dropping { name, depth: self.open.len() });
                }
                (Token::Open(tag), None) => self.open_raw(&tag, &mut html),
                (Token::Close(name), None) => self.close_named(name, &mut html),
            }
        }
        (!html.is_empty()).then_some(html)
    }

    fn open_raw(&mut self, tag: &OpenTag, html: &mut String) {
        while let Some(Open::Raw(name)) = self.open.last().copied().filter(|_| !tag.is_void())
            && tag.ends(name)
        {
            self.pop();
            push_end(html, name);
        }
        if self.open.len() >= MAX_DEPTH {
            self.is_truncated = true;
            return;
        }
        self.charge();
        html.push_str(&tag.html);
        if !tag.is_void() {
            self.open.push(Open::Raw(tag.name));
            self.formatting += usize::from(is_formatting(tag.name));
        }
    }

    /// Closes an element of raw HTML, and those in it. An end without a start in the same element of Markdown is dropped.
    fn close_named(&mut self, name: &'static str, html: &mut String) {
        self.charge();
        let open = self.open.iter().rev().take_while(|open| matches!(open, Open::Raw(_)));
        let Some(at) = open.copied().position(|open| open == Open::Raw(name)) else { return };
        for _ in 0..=at {
            if let Some(Open::Raw(name)) = self.pop() {
                push_end(html, name);
            }
        }
    }
}

fn push_end(html: &mut String, name: &str) {
    html.push_str("</");
    html.push_str(name);
    html.push('>');
}

impl<'a, I: Iterator<Item = Event<'a>>> Iterator for Bounded<'_, I> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Event<'a>> {
        loop {
            if let Some(end) = self.next.take() {
                return Some(Event::End(end));
            }
            if self.stop.is_raised() {
                return None;
            }
            if self.left.is_used_up() {
                self.is_truncated = true;
                return self.close_last();
            }
            let Some(event) = self.events.next() else { return self.close_last() };
            match event {
                Event::Start(Tag::HtmlBlock) => self.html_block = Some(String::new()),
                Event::End(TagEnd::HtmlBlock) => {
                    let block = self.html_block.take().unwrap_or_default();
                    if let Some(html) = self.raw(&block) {
                        return Some(Event::Html(html.into()));
                    }
                }
                Event::Html(line) => {
                    if let Some(block) = &mut self.html_block {
                        block.push_str(&line);
                    }
                }
                Event::InlineHtml(html) => {
                    if let Some(html) = self.raw(&html) {
                        return Some(Event::InlineHtml(html.into()));
                    }
                }
                Event::Start(tag) => {
                    let is_too_deep = self.skipped > 0 || self.open.len() >= MAX_DEPTH;
                    if is_too_deep || self.dropping.is_some() {
                        self.is_truncated |= is_too_deep;
                        self.skipped += 1;
                        continue;
                    }
                    self.charge();
                    self.open.push(Open::Markdown(tag.to_end()));
                    return Some(Event::Start(tag));
                }
                Event::End(_) if self.skipped > 0 => self.skipped -= 1,
                Event::End(tag) => return Some(self.end(tag)),
                event if self.dropping.is_none() => return Some(event),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::number;

    #[test]
    fn the_documentation_has_the_limits() {
        let grouped = |count: usize| number(count as u64).replace('\u{202f}', " ");
        let row = format!(
            "| rendered Markdown | {} KiB, {} characters that may be markup, cells of tables among them, {} tags, {MAX_DEPTH} levels |",
            MAX_BYTES >> 10,
            grouped(MAX_MARKS),
            grouped(MAX_TAGS),
        );
        assert!(crate::DOCUMENTATION.contains(&row), "{row}");
    }

    #[test]
    fn a_text_is_cut_between_lines() {
        assert_eq!(first_part("ab\ncd\n", 6), "ab\ncd\n");
        assert_eq!(first_part("ab\ncd\n", 4), "ab\n");
        assert_eq!(first_part("a\nlong", 5), "a\nlon", "most of it is one line");
        assert_eq!(first_part("ab\u{e9}", 3), "ab");
        let long = "word word\n".repeat(MAX_BYTES / 10 + 1);
        assert_eq!(rendered_part(&long).len(), MAX_BYTES / 10 * 10);
    }

    #[test]
    fn a_text_is_cut_before_it_has_too_many_marks() {
        let lines = "*a*\n".repeat(MAX_MARKS);
        assert_eq!(rendered_part(&lines).len(), MAX_MARKS / 3 * 4);
        assert_eq!(rendered_part(&"\u{e9}*".repeat(MAX_MARKS + 1)).len(), MAX_MARKS * 3 + 2);
        let prose = "The quick **brown** fox jumps over the [lazy](dog.md) dog and `runs` away.\n";
        let prose = prose.repeat(MAX_BYTES / prose.len());
        assert_eq!(rendered_part(&prose), prose);
    }

    #[test]
    fn cells_that_a_row_of_a_table_does_not_have_count() {
        for (line_end, prefix) in [("\n", ""), ("\r", ""), ("\r\n", ""), ("\n", "> ")] {
            let (wide, delimiters) = ("a|".repeat(500), "-|".repeat(500));
            let table = [&*wide, &*delimiters].map(|row| format!("{prefix}{row}{line_end}"));
            let rows = format!("{prefix}x{line_end}").repeat(10_000);
            let text = format!("{}{rows}", table.concat());
            let shown = rendered_part(&text);
            let rows = shown.split(['\r', '\n']).filter(|line| line.ends_with('x')).count();
            assert!((80..100).contains(&rows), "{rows} rows with {line_end:?} {prefix:?}");
            let others = format!("{}{line_end}{}", table.concat(), "x\n".repeat(1000));
            assert_eq!(rendered_part(&others), others, "after the table");
        }
    }
}
