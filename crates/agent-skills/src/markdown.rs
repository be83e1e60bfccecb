//! Title, description and frontmatter of a Markdown document.
//!
//! Both texts are taken as the author wrote them (inline markup included); only the structure around
//! them is interpreted, by a CommonMark parser, so that a `#` inside a code block is not a heading.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};

use skills_core::{
    limits::{MAX_DESCRIPTION_CHARS, MAX_SUMMARY_CHARS},
    text::{truncate, truncate_within},
};

/// Bytes of a document that are scanned first; most have title and description at the top.
const FIRST_WINDOW: usize = 8 * 1024;

/// Title and description of a document, as an index shows them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DocumentSummary {
    /// First H1 in one line, truncated after 140 characters.
    pub title: Option<String>,
    /// First paragraph in one line, of at most 1024 characters.
    pub description: Option<String>,
}

/// Frontmatter block at the start of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrontmatterBlock {
    /// The first line is not a fence.
    Missing,
    /// The block is not closed.
    Unclosed,
    /// Block between two fences.
    Closed {
        /// Line of the opening fence, with its line end.
        opening_fence: Range<usize>,
        /// Range between the fences.
        yaml: Range<usize>,
        /// Line of the closing fence, with its line end.
        closing_fence: Range<usize>,
    },
}

/// Finds the frontmatter of a document without a byte order mark. A fence is a line `---`; trailing blanks are
/// ignored.
#[must_use]
pub fn find_frontmatter(text: &str) -> FrontmatterBlock {
    let is_fence = |line: &str| line.trim_end() == "---";
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| is_fence(line)) else {
        return FrontmatterBlock::Missing;
    };
    let start = first.len();
    let mut end = start;
    for line in lines {
        let next = end + line.len();
        if is_fence(line) {
            return FrontmatterBlock::Closed {
                opening_fence: 0..start,
                yaml: start..end,
                closing_fence: end..next,
            };
        }
        end = next;
    }
    FrontmatterBlock::Unclosed
}

/// Strips a byte order mark.
#[must_use]
pub fn strip_bom(document: &str) -> &str {
    document.strip_prefix('\u{feff}').unwrap_or(document)
}

/// Splits a document into its YAML frontmatter (without the fences) and the rest.
/// A block that is never closed is not frontmatter.
#[must_use]
pub fn split_frontmatter(document: &str) -> (Option<&str>, &str) {
    let text = strip_bom(document);
    match find_frontmatter(text) {
        FrontmatterBlock::Closed { yaml, closing_fence, .. } => {
            (Some(&text[yaml]), &text[closing_fence.end..])
        }
        FrontmatterBlock::Missing | FrontmatterBlock::Unclosed => (None, text),
    }
}

/// Extracts title and description.
#[must_use]
pub fn summarize(document: &str) -> DocumentSummary {
    let (_, text) = split_frontmatter(document);
    summarize_growing(text, FIRST_WINDOW)
}

/// Scans a growing window of the text: a document's blocks do not depend on later text.
fn summarize_growing(text: &str, mut window: usize) -> DocumentSummary {
    loop {
        let at = text.floor_char_boundary(window);
        let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1);
        let (summary, read_to) = scan(&text[..end]);
        // A block that reaches the end of the window may go on behind it.
        let is_settled = summary.title.is_some() && summary.description.is_some();
        if end == text.len() || (is_settled && read_to + 1 < end) {
            return summary;
        }
        window = window.saturating_mul(8);
    }
}

/// Summarizes a text, and returns where the last scanned block ends.
fn scan(text: &str) -> (DocumentSummary, usize) {
    let mut summary = DocumentSummary::default();
    let mut read_to = 0;
    let mut list_depth = 0_usize;
    let mut block: Option<Block> = None;
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::List(_)) => list_depth += 1,
            Event::End(TagEnd::List(_)) => list_depth = list_depth.saturating_sub(1),
            Event::Start(Tag::Heading { level: HeadingLevel::H1, .. }) => {
                block = Some(Block { part: Part::Title, inline: None });
            }
            // What stands in an item belongs to its list, not to a paragraph of the document.
            Event::Start(Tag::Paragraph) if list_depth == 0 => {
                block = Some(Block { part: Part::Description, inline: None });
            }
            Event::End(TagEnd::Heading(_) | TagEnd::Paragraph) => {
                read_to = range.end;
                if let Some(Block { part, inline: Some(range) }) = block.take() {
                    let slot = match part {
                        Part::Title => &mut summary.title,
                        Part::Description => &mut summary.description,
                    };
                    let line = one_line(&text[range]);
                    if slot.is_none() && !line.is_empty() {
                        *slot = Some(line);
                    }
                }
            }
            _ => {
                if let Some(block) = &mut block {
                    block.extend(range);
                }
            }
        }
        if summary.title.is_some() && summary.description.is_some() {
            break;
        }
    }
    let title = |text: String| truncate(text, MAX_SUMMARY_CHARS).into_owned();
    let description = |text: String| truncate_within(text, MAX_DESCRIPTION_CHARS).into_owned();
    summary.title = summary.title.map(title);
    summary.description = summary.description.map(description);
    (summary, read_to)
}

enum Part {
    Title,
    Description,
}

/// Heading or paragraph being read, with the span of its inline content.
struct Block {
    part: Part,
    inline: Option<Range<usize>>,
}

impl Block {
    fn extend(&mut self, range: Range<usize>) {
        match &mut self.inline {
            Some(inline) => inline.end = inline.end.max(range.end),
            None => self.inline = Some(range),
        }
    }
}

/// Joins the lines of a block by single spaces, without quotation markers.
fn one_line(source: &str) -> String {
    let lines = source.lines().map(|line| line.trim().trim_start_matches('>').trim());
    let mut joined = String::with_capacity(source.len());
    for line in lines.filter(|line| !line.is_empty()) {
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(line);
    }
    joined
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn both(document: &str) -> (Option<String>, Option<String>) {
        let summary = summarize(document);
        (summary.title, summary.description)
    }

    fn some(title: &str, description: &str) -> (Option<String>, Option<String>) {
        (Some(title.into()), Some(description.into()))
    }

    #[test]
    fn first_h1_and_first_paragraph() {
        assert_eq!(
            both("# brain\n\nHelps build UIs.\n\nMore.\n"),
            some("brain", "Helps build UIs.")
        );
        assert_eq!(both("## sub\n\nText\n\n# late\n"), some("late", "Text"));
        assert_eq!(both("Title\n=====\nText"), some("Title", "Text"));
        assert_eq!(both("# one\n# two\n\nText"), some("one", "Text"));
    }

    #[test]
    fn lines_are_joined_by_a_space() {
        assert_eq!(both("# t\n\none\n  two\r\nthree\n"), some("t", "one two three"));
        assert_eq!(both("# t\n\n> quoted\n> text\n"), some("t", "quoted text"));
    }

    #[test]
    fn inline_markup_stays_as_written() {
        assert_eq!(
            both("# The `x` tool #\n\nSee [`guide`](iii://a/b::c) **now**."),
            some("The `x` tool", "See [`guide`](iii://a/b::c) **now**.")
        );
    }

    #[test]
    fn code_is_neither_heading_nor_paragraph() {
        assert_eq!(
            both("```sh\n# not a title\n\nnot text\n```\n\n# real\n\nText"),
            some("real", "Text")
        );
        assert_eq!(both("~~~\n# no\n~~~\n\nText"), (None, Some("Text".into())));
        assert_eq!(both("    # indented\n\n# t\n\nx"), some("t", "x"));
    }

    #[test]
    fn frontmatter_is_neither_heading_nor_paragraph() {
        let document = "---\nname: x\n# a comment\n---\n# t\n\nText";
        assert_eq!(both(document), some("t", "Text"));
        assert_eq!(both(&document.replace('\n', "\r\n")), some("t", "Text"));
        assert_eq!(both(&format!("\u{feff}{document}")), some("t", "Text"));
        assert_eq!(split_frontmatter(document).0, Some("name: x\n# a comment\n"));
    }

    #[test]
    fn unclosed_frontmatter_is_text() {
        assert_eq!(split_frontmatter("---\nname: x\n"), (None, "---\nname: x\n"));
        assert_eq!(split_frontmatter("--- \nx: 1\n---"), (Some("x: 1\n"), ""));
    }

    #[test]
    fn lists_and_html_comments_are_not_paragraphs() {
        assert_eq!(both("# t\n\n- item\n\n- other\n\nText"), some("t", "Text"));
        assert_eq!(both("<!-- note -->\n\n# t\n\nText"), some("t", "Text"));
    }

    #[test]
    fn documents_without_text_have_no_summary() {
        assert_eq!(both(""), (None, None));
        assert_eq!(both("#\n\n---\n"), (None, None));
    }

    #[test]
    fn long_texts_are_truncated() {
        let exact = "é".repeat(1024);
        assert_eq!(both(&exact).1, Some(exact.clone()));
        assert_eq!(both(&format!("{exact}é")).1, Some(format!("{}...", "é".repeat(1021))));
        let long = "t".repeat(200_000);
        assert_eq!(both(&format!("# {long}")).0, Some(format!("{}...", &long[..140])));
    }

    proptest! {
        #[test]
        fn never_panics_and_stays_short(document in "(\\PC|\n|#|`|-|>| |\t){0,400}") {
            let summary = summarize(&document);
            if let Some(description) = summary.description {
                prop_assert!(description.chars().count() <= 1024);
                prop_assert!(!description.contains('\n'));
            }
        }

        #[test]
        fn a_partial_scan_finds_the_same_as_a_full_scan(
            document in "((# |## |> |- |```|~~~|===|---|<!--|-->|<p>|    |\t|a|b c|`|\\[x\\]: y)?\n?){0,40}",
            window in 1_usize..40,
        ) {
            prop_assert_eq!(summarize_growing(&document, window), scan(&document).0);
        }

        #[test]
        fn a_plain_paragraph_is_its_own_description(words in "[a-z]{1,9}( [a-z]{1,9}){0,9}") {
            prop_assert_eq!(both(&format!("# T\n\n{words}\n")), some("T", &words));
        }
    }
}
