//! Single lines of a legacy Markdown manifest: headings, fences, and the sections they belong to.

/// The sections that mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Description,
    Parameters,
    Implementation,
    Returns,
}

impl Section {
    /// The section that a heading begins. All but the description may go on after their name.
    pub(super) fn of(heading: &str) -> Option<Self> {
        let begins = |name: &str| {
            heading.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
        };
        [Self::Description, Self::Parameters, Self::Implementation, Self::Returns].into_iter().find(
            |section| match section {
                Self::Description => section.is(heading),
                _ => begins(section.name()),
            },
        )
    }

    /// Whether a heading is the section's name and nothing else.
    pub(super) fn is(self, heading: &str) -> bool {
        heading.eq_ignore_ascii_case(self.name())
    }

    /// Whether a block with this label can be the section's.
    pub(super) fn takes(self, label: &str) -> bool {
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

/// A heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heading<'a> {
    /// How many `#` it has, however many those are.
    pub(super) level: usize,
    /// What stands behind them.
    pub(super) text: &'a str,
}

impl<'a> Heading<'a> {
    /// The heading that a line is. Without a blank after the `#` it must be the name of a section.
    pub(super) fn of(line: &'a str) -> Option<Self> {
        let marks = unindented(line)?;
        let rest = marks.trim_start_matches('#');
        let level = marks.len() - rest.len();
        let text = rest.trim();
        let is_apart = rest.is_empty() || rest.starts_with(char::is_whitespace);
        (level > 0 && (is_apart || Section::of(text).is_some())).then_some(Self { level, text })
    }
}

/// A block of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block<'a> {
    /// The line of its opening fence, from 1.
    pub(super) line: usize,
    /// What the fence says it is.
    pub(super) label: &'a str,
    /// What it holds, from the label on.
    pub(super) text: &'a str,
}

/// A block that was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Skipped<'a> {
    pub(super) line: usize,
    pub(super) label: &'a str,
}

/// A fence that is open.
#[derive(Debug)]
pub(super) struct Fence<'a> {
    marker: char,
    length: usize,
    pub(super) block: Block<'a>,
    /// Where the content begins: behind the label.
    pub(super) start: usize,
    /// Where it ends, when that is on the same line.
    pub(super) end: Option<usize>,
}

impl<'a> Fence<'a> {
    /// The fence that a line at a byte offset opens.
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

    /// Where the content ends, if a line at a byte offset closes the fence. A block of parameters may also
    /// be closed at the end of its last line.
    pub(super) fn closed_by(&self, line: &str, at: usize, may_end_in_line: bool) -> Option<usize> {
        let text = line.trim_end();
        let before = text.trim_end_matches(self.marker);
        let is_closed = text.len() - before.len() >= self.length
            && (before.trim_start().is_empty() || (may_end_in_line && self.marker == '`'));
        is_closed.then_some(at + before.len())
    }
}

/// A line without up to three blanks; with more it is code.
fn unindented(line: &str) -> Option<&str> {
    let text = line.trim_start_matches(' ');
    (line.len() - text.len() <= 3).then_some(text)
}
