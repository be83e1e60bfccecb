//! Lines of a Markdown manifest: headings, fences, and the sections they belong to.

/// Known sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Description,
    Parameters,
    Implementation,
    Returns,
}

impl Section {
    /// Returns the section of a heading. All names but `Description` may be followed by more text.
    pub(super) fn from_heading(heading: &str) -> Option<Self> {
        let begins = |name: &str| {
            heading.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
        };
        [Self::Description, Self::Parameters, Self::Implementation, Self::Returns].into_iter().find(
            |section| match section {
                Self::Description => section.matches(heading),
                _ => begins(section.name()),
            },
        )
    }

    /// Returns whether a heading is exactly the section's name.
    pub(super) fn matches(self, heading: &str) -> bool {
        heading.eq_ignore_ascii_case(self.name())
    }

    /// Returns whether the section accepts a block with this label.
    pub(super) fn accepts(self, label: &str) -> bool {
        let labels: &[&str] = match self {
            Self::Description => &[],
            Self::Parameters | Self::Returns => &["", "json", "jsonc"],
            Self::Implementation => &["", "yaml", "yml", "json"],
        };
        labels.iter().any(|known| known.eq_ignore_ascii_case(label))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Description => "Description",
            Self::Parameters => "Parameters",
            Self::Implementation => "Implementation",
            Self::Returns => "Returns",
        }
    }
}

/// Heading of a Markdown manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heading<'a> {
    /// Number of `#`; there is no upper limit.
    pub(super) level: usize,
    /// Text after the `#`.
    pub(super) text: &'a str,
}

impl<'a> Heading<'a> {
    /// Parses a heading. Without a space after the `#` it must be the name of a section.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let marks = unindented(line)?;
        let rest = marks.trim_start_matches('#');
        let level = marks.len() - rest.len();
        let text = rest.trim();
        let is_apart = rest.is_empty() || rest.starts_with(char::is_whitespace);
        (level > 0 && (is_apart || Section::from_heading(text).is_some()))
            .then_some(Self { level, text })
    }
}

/// Code block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block<'a> {
    /// Line of the opening fence, from 1.
    pub(super) line: usize,
    /// Label of the fence.
    pub(super) label: &'a str,
    /// Content after the label.
    pub(super) text: &'a str,
}

/// Code block with a label that does not fit its section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Skipped<'a> {
    pub(super) line: usize,
    pub(super) label: &'a str,
}

/// Open fence.
#[derive(Debug)]
pub(super) struct Fence<'a> {
    marker: char,
    length: usize,
    pub(super) block: Block<'a>,
    /// Offset of the content, after the label.
    pub(super) start: usize,
    /// Offset of the end, if it is on the same line.
    pub(super) end: Option<usize>,
}

impl<'a> Fence<'a> {
    /// Parses the fence that a line at a byte offset opens.
    pub(super) fn open(line: &'a str, at: usize, number: usize) -> Option<Self> {
        let marks = line.trim_start();
        let marker = marks.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let after = marks.trim_start_matches(marker);
        let length = marks.len() - after.len();
        if length < 3 {
            return None;
        }
        let is_label = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '.');
        let info = after.trim_start_matches([' ', '\t']);
        let label = &info[..info.find(|c| !is_label(c)).unwrap_or(info.len())];
        let content = &info[label.len()..];
        let start = at + line.len() - content.len();
        let end = match marker {
            '`' => content.find("```").map(|length| start + length),
            _ => None,
        };
        let block = Block { line: number, label, text: "" };
        Some(Self { marker, length, block, start, end })
    }

    /// Returns the offset at which the content ends, if a line at a byte offset closes the fence. A parameters block
    /// may also be closed at the end of its last line.
    pub(super) fn closed_by(&self, line: &str, at: usize, may_end_in_line: bool) -> Option<usize> {
        let text = line.trim_end();
        let before = text.trim_end_matches(self.marker);
        let is_closed = text.len() - before.len() >= self.length
            && (before.trim_start().is_empty() || (may_end_in_line && self.marker == '`'));
        is_closed.then_some(at + before.len())
    }
}

/// Strips up to three spaces; a line with more is code.
fn unindented(line: &str) -> Option<&str> {
    let text = line.trim_start_matches(' ');
    (line.len() - text.len() <= 3).then_some(text)
}
