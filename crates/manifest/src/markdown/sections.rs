//! Section scanner for Markdown manifests: a heading, a description, and three code blocks.
//!
//! Scans every line once. The content of blocks is not known here.

use super::blocks::{Block, Fence, Heading, Section, Skipped};
use skills_agent_skills::markdown::{FrontmatterBlock, find_frontmatter};

/// Sections of a Markdown manifest.
#[derive(Debug, Default)]
pub(super) struct Sections<'a> {
    /// First heading of level one.
    pub(super) name: Option<&'a str>,
    /// Text below the heading `Description`, as written.
    pub(super) description: Option<&'a str>,
    pub(super) parameters: SectionBlock<'a>,
    pub(super) implementation: SectionBlock<'a>,
    pub(super) returns: SectionBlock<'a>,
    /// Line of an unclosed fence.
    pub(super) unclosed: Option<usize>,
}

/// Code block of a section.
#[derive(Debug, Default)]
pub(super) struct SectionBlock<'a> {
    /// Line of the first heading.
    pub(super) heading: Option<usize>,
    /// First block with a fitting label.
    pub(super) block: Option<Block<'a>>,
    /// First block before it whose label does not fit.
    pub(super) skipped: Option<Skipped<'a>>,
}

/// Scans a text without a byte order mark.
pub(super) fn scan(text: &str) -> Sections<'_> {
    let start = match find_frontmatter(text) {
        FrontmatterBlock::Closed { closing_fence, .. } => closing_fence.end,
        FrontmatterBlock::Missing | FrontmatterBlock::Unclosed => 0,
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
    /// Current section and the level of its heading.
    current: Option<(Section, usize)>,
    /// Offset of the description while it is being read.
    description: Option<usize>,
    fence: Option<Fence<'a>>,
    /// Level of a heading whose text is on a later line.
    bare: Option<usize>,
}

impl<'a> Scan<'a> {
    fn line(&mut self, line: &'a str, at: usize, number: usize) {
        if let Some(fence) = &self.fence {
            let may_end_in_line = matches!(self.current, Some((Section::Parameters, _)));
            if let Some(end) = fence.closed_by(line, at, may_end_in_line) {
                let block = Block { text: &self.text[fence.start..end], ..fence.block };
                self.fence = None;
                self.add_block(block);
            }
            return;
        }
        if let Some(fence) = Fence::open(line, at, number) {
            self.bare = None;
            match fence.end {
                Some(end) => {
                    self.add_block(Block { text: &self.text[fence.start..end], ..fence.block })
                }
                None => self.fence = Some(fence),
            }
            return;
        }
        let text = line.trim();
        if let Some(heading) = Heading::parse(line) {
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
        let section = Section::from_heading(heading.text)
            .filter(|section| !is_name || section.matches(heading.text));
        match section {
            Some(section) => {
                self.current = Some((section, heading.level));
                if section == Section::Description && self.sections.description.is_none() {
                    self.description = Some(end);
                }
                if let Some(found) = self.block_mut(section) {
                    found.heading.get_or_insert(number);
                }
            }
            None if self.current.is_some_and(|(_, level)| heading.level <= level) => {
                self.current = None;
            }
            None => {}
        }
    }

    fn add_block(&mut self, block: Block<'a>) {
        let Some((section, _)) = self.current else { return };
        let fits = section.accepts(block.label);
        let Some(found) = self.block_mut(section) else { return };
        if found.block.is_none() && fits {
            found.block = Some(block);
        } else if found.block.is_none() {
            found.skipped.get_or_insert(Skipped { line: block.line, label: block.label });
        }
    }

    fn block_mut(&mut self, section: Section) -> Option<&mut SectionBlock<'a>> {
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
