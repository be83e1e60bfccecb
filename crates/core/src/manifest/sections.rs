//! The parts of a legacy Markdown manifest: a heading, a description, and three blocks of code.
//!
//! One pass over the lines, and no line is looked at twice. What the blocks hold is not known here.

use super::section::{Block, Fence, Heading, Section, Skipped};
use crate::markdown::{Opening, opening};

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Sections<'a> {
    /// The first heading of level one.
    pub(super) name: Option<&'a str>,
    /// The text below the heading `Description`, as it is written.
    pub(super) description: Option<&'a str>,
    pub(super) parameters: Found<'a>,
    pub(super) implementation: Found<'a>,
    pub(super) returns: Found<'a>,
    /// The line of a fence that nothing closes.
    pub(super) unclosed: Option<usize>,
}

/// The block of a section.
#[derive(Debug, Default)]
pub(super) struct Found<'a> {
    /// The line of the first heading.
    pub(super) heading: Option<usize>,
    /// The first block with a label that fits.
    pub(super) block: Option<Block<'a>>,
    /// Blocks before it whose label does not fit.
    pub(super) skipped: Option<Skipped<'a>>,
}

/// Finds the parts of a text without a byte order mark.
pub(super) fn scan(text: &str) -> Sections<'_> {
    let start = match opening(text) {
        Opening::Closed { closing, .. } => closing.end,
        Opening::Missing | Opening::Open => 0,
    };
    let first_line = text[..start].bytes().filter(|&byte| byte == b'\n').count();
    let mut scan = Scan { text, ..Scan::default() };
    let mut at = start;
    for (index, line) in text[start..].split_inclusive('\n').enumerate() {
        scan.line(line, at, first_line + index + 1);
        at += line.len();
    }
    scan.finish()
}

#[derive(Default)]
struct Scan<'a> {
    text: &'a str,
    sections: Sections<'a>,
    /// The section that is being read, and the level of its heading.
    current: Option<(Section, usize)>,
    /// Where the description begins, while it is being read.
    description: Option<usize>,
    fence: Option<Fence<'a>>,
    /// The level of a heading that has its text on a later line.
    bare: Option<usize>,
}

impl<'a> Scan<'a> {
    fn line(&mut self, line: &'a str, at: usize, number: usize) {
        if let Some(fence) = &self.fence {
            let may_end_in_line = matches!(self.current, Some((Section::Parameters, _)));
            if let Some(end) = fence.closed_by(line, at, may_end_in_line) {
                let block = Block { text: &self.text[fence.start..end], ..fence.block };
                self.fence = None;
                self.take(block);
            }
            return;
        }
        if let Some(fence) = Fence::open(line, at, number) {
            self.bare = None;
            match fence.end {
                Some(end) => self.take(Block { text: &self.text[fence.start..end], ..fence.block }),
                None => self.fence = Some(fence),
            }
            return;
        }
        let text = line.trim();
        if let Some(heading) = Heading::of(line) {
            self.bare = heading.text.is_empty().then_some(heading.level);
            self.heading(heading, at, at + line.len(), number);
        } else if !text.is_empty()
            && let Some(level) = self.bare.take()
        {
            self.heading(Heading { level, text }, at, at + line.len(), number);
        }
    }

    fn heading(&mut self, heading: Heading<'a>, start: usize, end: usize, number: usize) {
        if let Some(begin) = self.description.take() {
            self.sections.description = Some(&self.text[begin..start]);
        }
        let is_name =
            heading.level == 1 && self.sections.name.is_none() && !heading.text.is_empty();
        if is_name {
            self.sections.name = Some(heading.text);
        }
        // What a tool is called may begin with the name of a section.
        let section =
            Section::of(heading.text).filter(|section| !is_name || section.is(heading.text));
        match section {
            Some(section) => {
                self.current = Some((section, heading.level));
                if section == Section::Description && self.sections.description.is_none() {
                    self.description = Some(end);
                }
                if let Some(found) = self.found(section) {
                    found.heading.get_or_insert(number);
                }
            }
            None if self.current.is_some_and(|(_, level)| heading.level <= level) => {
                self.current = None;
            }
            None => {}
        }
    }

    fn take(&mut self, block: Block<'a>) {
        let Some((section, _)) = self.current else { return };
        let fits = section.takes(block.label);
        let Some(found) = self.found(section) else { return };
        if found.block.is_none() && fits {
            found.block = Some(block);
        } else if found.block.is_none() {
            found.skipped.get_or_insert(Skipped { line: block.line, label: block.label });
        }
    }

    fn found(&mut self, section: Section) -> Option<&mut Found<'a>> {
        match section {
            Section::Description => None,
            Section::Parameters => Some(&mut self.sections.parameters),
            Section::Implementation => Some(&mut self.sections.implementation),
            Section::Returns => Some(&mut self.sections.returns),
        }
    }

    fn finish(mut self) -> Sections<'a> {
        if let Some(begin) = self.description {
            self.sections.description = Some(&self.text[begin..]);
        }
        self.sections.unclosed = self.fence.map(|fence| fence.block.line);
        self.sections
    }
}
