//! Bounds on what a document may expand to. Nesting costs the sanitiser time in proportion to the square of its depth.

use pulldown_cmark::{Event, TagEnd};

/// Most events of a document; a document of 256 KiB of prose has about 20 000.
const MAX_EVENTS: usize = 120_000;
/// Deepest nesting of elements; deeper ones are left out and their text is kept.
const MAX_DEPTH: usize = 48;
/// Most tags of raw HTML; the rest is shown as text.
const MAX_RAW_TAGS: usize = 2000;

/// Events within bounds.
pub(super) struct Bounded<I> {
    events: I,
    left: usize,
    raw_tags_left: usize,
    /// Ends of the open elements.
    open: Vec<TagEnd>,
    /// Number of open elements that were left out.
    skipped: usize,
    is_truncated: bool,
}

impl<I> Bounded<I> {
    pub(super) const fn new(events: I) -> Self {
        Self {
            events,
            left: MAX_EVENTS,
            raw_tags_left: MAX_RAW_TAGS,
            open: Vec::new(),
            skipped: 0,
            is_truncated: false,
        }
    }

    /// Returns whether something was left out.
    pub(super) const fn is_truncated(&self) -> bool {
        self.is_truncated
    }
}

impl<'a, I: Iterator<Item = Event<'a>>> Iterator for Bounded<I> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Event<'a>> {
        loop {
            if self.left == 0 {
                self.is_truncated = true;
                return self.open.pop().map(Event::End);
            }
            self.left -= 1;
            match self.events.next()? {
                Event::Start(tag) => {
                    if self.skipped > 0 || self.open.len() >= MAX_DEPTH {
                        self.skipped += 1;
                        self.is_truncated = true;
                        continue;
                    }
                    self.open.push(tag.to_end());
                    return Some(Event::Start(tag));
                }
                Event::End(_) if self.skipped > 0 => self.skipped -= 1,
                Event::End(tag) => {
                    self.open.pop();
                    return Some(Event::End(tag));
                }
                Event::Html(html) => return Some(self.raw(html, Event::Html)),
                Event::InlineHtml(html) => return Some(self.raw(html, Event::InlineHtml)),
                event => return Some(event),
            }
        }
    }
}

impl<I> Bounded<I> {
    /// Passes raw HTML on while there are few tags, else as text.
    fn raw<'a>(
        &mut self,
        html: pulldown_cmark::CowStr<'a>,
        event: fn(pulldown_cmark::CowStr<'a>) -> Event<'a>,
    ) -> Event<'a> {
        let tags = html.matches('<').count();
        match self.raw_tags_left.checked_sub(tags) {
            Some(left) => {
                self.raw_tags_left = left;
                event(html)
            }
            None => {
                self.raw_tags_left = 0;
                self.is_truncated = true;
                Event::Text(html)
            }
        }
    }
}
