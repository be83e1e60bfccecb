//! Explanation of a result: the fields that match, and the best passage.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::expansion::Concept;
use crate::{
    analysis::{
        DocumentRecord,
        markdown::{self, LineKind},
        stored_text::FieldTexts,
    },
    document::SearchField,
    text::{Beginnings, TokenKind, Tokenizer},
};

/// Length of a passage in bytes, about two lines.
const PASSAGE_BYTES: usize = 220;
/// Text before the first match of a passage, in bytes.
const LEAD_BYTES: usize = 50;
/// Most terms that are named for a field.
const MAX_TERMS: usize = 8;
/// Mark around a matched word.
const MARK: &str = "**";

/// Field of a result with the words in it that match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchedField {
    /// Field.
    pub field: SearchField,
    /// Words of the field, folded.
    pub terms: Vec<String>,
}

/// Explanation of a result.
#[derive(Debug, Default)]
pub(super) struct Explained {
    pub(super) matched: Vec<MatchedField>,
    pub(super) snippet: String,
}

/// Matched word of a text.
#[derive(Debug, Clone, Copy)]
struct Match {
    start: usize,
    end: usize,
    concept: usize,
    weight: f32,
}

/// Explains results of one query.
#[derive(Debug)]
pub(super) struct Explainer<'a> {
    /// Concepts by term, with the weight of the term.
    concepts: HashMap<&'a str, (usize, f32)>,
    tokenizer: Tokenizer,
}

impl<'a> Explainer<'a> {
    pub(super) fn new(concepts: &'a [Concept]) -> Self {
        let mut by_term: HashMap<&str, (usize, f32)> = HashMap::new();
        let mut beginnings = Beginnings::default();
        for (at, concept) in concepts.iter().enumerate() {
            for alternative in &concept.alternatives {
                for term in &alternative.terms {
                    beginnings.insert(term);
                    let found = by_term.entry(term).or_insert((at, alternative.score));
                    if found.1 < alternative.score {
                        *found = (at, alternative.score);
                    }
                }
            }
        }
        Self { concepts: by_term, tokenizer: Tokenizer::wanting(beginnings) }
    }

    /// Explains a result.
    pub(super) fn explain(&mut self, record: &DocumentRecord) -> Explained {
        let texts = record.text.read();
        let mut matched = Vec::new();
        self.match_field(SearchField::Id, &record.key.id, &mut matched);
        for (field, text) in texts.iter().filter(|(field, _)| *field != SearchField::Body) {
            self.match_field(field, text, &mut matched);
        }
        let body = texts.field(SearchField::Body);
        let matches = self.matches(body);
        let (headings, text) = split_headings(body, &matches);
        for (field, matches) in [(SearchField::Headings, headings), (SearchField::Body, text)] {
            push_matched(
                &mut matched,
                field,
                matches.iter().map(|found| &body[found.start..found.end]),
            );
        }
        matched.sort_by_key(|matched| matched.field);
        Explained { matched, snippet: self.snippet(&texts, body, &matches) }
    }

    fn snippet(&mut self, texts: &FieldTexts, body: &str, matches: &[Match]) -> String {
        if !matches.is_empty() {
            return passage(body, matches);
        }
        let description = texts.field(SearchField::Description);
        let text = if description.is_empty() { body } else { description };
        let matches = self.matches(text);
        passage(text, &matches)
    }

    fn match_field(&mut self, field: SearchField, text: &str, matched: &mut Vec<MatchedField>) {
        let matches = self.matches(text);
        push_matched(matched, field, matches.iter().map(|found| &text[found.start..found.end]));
    }

    fn matches(&mut self, text: &str) -> Vec<Match> {
        let Self { concepts, tokenizer } = self;
        let mut found: Vec<Match> = Vec::new();
        tokenizer.for_each(text, |token| {
            if token.kind == TokenKind::Joined {
                return;
            }
            if let Some(&(concept, weight)) = concepts.get(token.term) {
                let Some(last) = found.last_mut().filter(|last| token.start < last.end) else {
                    return found.push(Match {
                        start: token.start,
                        end: token.end,
                        concept,
                        weight,
                    });
                };
                // Pairs of characters overlap, and parts lie in their word.
                last.end = last.end.max(token.end);
            }
        });
        found
    }
}

fn push_matched<'t>(
    matched: &mut Vec<MatchedField>,
    field: SearchField,
    words: impl Iterator<Item = &'t str>,
) {
    let mut terms: Vec<String> = Vec::new();
    for word in words {
        let word = crate::text::fold(word);
        if terms.len() < MAX_TERMS && !terms.iter().any(|known| *known == word) {
            terms.push(word.into_owned());
        }
    }
    if !terms.is_empty() {
        matched.push(MatchedField { field, terms });
    }
}

/// Splits the matches of a body into those of headings and those of text.
fn split_headings(body: &str, matches: &[Match]) -> (Vec<Match>, Vec<Match>) {
    let mut headings = Vec::new();
    if body.contains('#') {
        markdown::for_each_line(body, |kind, line| {
            if kind == LineKind::Heading {
                let start = line.as_ptr() as usize - body.as_ptr() as usize;
                headings.push(start..start + line.len());
            }
        });
    }
    let is_heading = |found: &Match| {
        let after = headings.partition_point(|heading| heading.start <= found.start);
        after > 0 && headings[after - 1].contains(&found.start)
    };
    matches.iter().copied().partition(is_heading)
}

/// Returns the passage of a text that has the most of the query, with the matches marked.
fn passage(text: &str, matches: &[Match]) -> String {
    let first = best_start(matches);
    let anchor = matches.get(first).map_or(0, |found| found.start);
    let lead = text.floor_char_boundary(anchor.saturating_sub(LEAD_BYTES));
    // Begins with a line or a word.
    let before = &text[lead..anchor];
    let start = match before.rfind('\n') {
        Some(at) => lead + at + 1,
        None if lead == 0 => 0,
        None => before.find(char::is_whitespace).map_or(anchor, |at| lead + at + 1),
    };
    let end = text.floor_char_boundary(start + PASSAGE_BYTES);
    let end = if end < text.len() {
        text[start..end].rfind(char::is_whitespace).map_or(end, |at| start + at)
    } else {
        end
    };
    let mut passage = String::with_capacity(PASSAGE_BYTES + 32);
    if !text[..start].trim().is_empty() {
        passage.push('…');
    }
    let mut at = start;
    for found in matches.iter().filter(|found| found.start >= start && found.end <= end) {
        push_plain(&mut passage, &text[at..found.start]);
        passage.push_str(MARK);
        passage.push_str(&text[found.start..found.end]);
        passage.push_str(MARK);
        at = found.end;
    }
    push_plain(&mut passage, &text[at..end]);
    let length = passage.trim_end().len();
    passage.truncate(length);
    if !text[end..].trim().is_empty() {
        passage.push('…');
    }
    passage
}

/// Returns the first match of the window with the largest weight of distinct concepts.
fn best_start(matches: &[Match]) -> usize {
    /// Windows that are compared; a text with more matches is about the query everywhere.
    const MAX_WINDOWS: usize = 256;
    let window = |first: usize| -> f32 {
        let limit = matches[first].start + PASSAGE_BYTES - LEAD_BYTES;
        let mut seen: Vec<usize> = Vec::new();
        let mut weight = 0.0;
        for found in matches[first..].iter().take_while(|found| found.end <= limit).take(32) {
            if seen.contains(&found.concept) {
                weight += found.weight * 0.05;
            } else {
                seen.push(found.concept);
                weight += found.weight;
            }
        }
        weight
    };
    let windows = (0..matches.len().min(MAX_WINDOWS)).map(|first| (first, window(first)));
    windows.rev().max_by(|one, other| one.1.total_cmp(&other.1)).map_or(0, |(first, _)| first)
}

/// Appends text without Markdown emphasis, which would look like marks, in one line.
fn push_plain(passage: &mut String, text: &str) {
    let mut is_line_start = passage.is_empty() || passage.ends_with('…');
    for c in text.chars() {
        match c {
            '*' | '`' => {}
            '#' if is_line_start => {}
            '\n' => is_line_start = true,
            c => is_line_start &= c.is_whitespace(),
        }
        match c {
            '*' | '`' => {}
            '#' if is_line_start => {}
            c if c.is_whitespace() => {
                if !passage.is_empty() && !passage.ends_with(' ') {
                    passage.push(' ');
                }
            }
            c if c.is_control() => {}
            c => passage.push(c),
        }
    }
}
