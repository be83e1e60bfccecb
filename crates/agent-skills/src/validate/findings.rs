//! Collector of findings. Turns byte offsets into lines and columns in one pass over the document.

use std::collections::HashMap;

use super::{Finding, FindingLevel, ValidationMode, ValidationReport, rules::Rule};

/// Characters of a value that a message repeats.
const MAX_QUOTED_CHARS: usize = 60;

/// Most findings of one rule that are listed one by one.
const MAX_PER_RULE: usize = 100;

/// Findings collected so far.
pub(super) struct Findings {
    mode: ValidationMode,
    found: Vec<Found>,
    /// Number of findings by rule code.
    counts: HashMap<&'static str, usize>,
}

struct Found {
    at: usize,
    level: FindingLevel,
    code: &'static str,
    message: String,
    hint: String,
}

impl Findings {
    pub(super) fn new(mode: ValidationMode) -> Self {
        Self { mode, found: Vec::new(), counts: HashMap::new() }
    }

    /// Adds a finding at a byte offset, with the rule's hint.
    pub(super) fn add(&mut self, rule: &Rule, at: usize, message: impl Into<String>) {
        self.add_with_hint(rule, at, message, rule.hint);
    }

    /// Adds a finding with a hint of its own.
    pub(super) fn add_with_hint(
        &mut self,
        rule: &Rule,
        at: usize,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let count = self.counts.entry(rule.code).or_default();
        *count += 1;
        if *count > MAX_PER_RULE {
            return;
        }
        self.found.push(Found {
            at,
            level: rule.level(self.mode),
            code: rule.code,
            message: message.into(),
            hint: hint.into(),
        });
    }

    pub(super) fn into_report(mut self, document: &[u8]) -> ValidationReport {
        for (code, count) in &self.counts {
            let more = count.saturating_sub(MAX_PER_RULE);
            let last = self.found.iter_mut().rev().find(|found| more > 0 && found.code == *code);
            if let Some(last) = last {
                last.message.push_str(&format!(" (and {more} more like this)"));
            }
        }
        self.found.sort_by_key(|found| found.at);
        let mut cursor = Cursor::new(document);
        let place = |found: Found| {
            let (line, column) = cursor.advance_to(found.at);
            let Found { level, code, message, hint, .. } = found;
            Finding { level, code, line, column, message, hint }
        };
        ValidationReport { findings: self.found.into_iter().map(place).collect() }
    }
}

/// Line and column counter over a document. Invalid bytes count as characters.
struct Cursor<'a> {
    document: &'a [u8],
    at: usize,
    line: usize,
    column: usize,
}

impl<'a> Cursor<'a> {
    const fn new(document: &'a [u8]) -> Self {
        Self { document, at: 0, line: 1, column: 1 }
    }

    fn advance_to(&mut self, at: usize) -> (usize, usize) {
        let end = at.clamp(self.at, self.document.len());
        for &byte in &self.document[self.at..end] {
            match byte {
                b'\n' => (self.line, self.column) = (self.line + 1, 1),
                // The bytes of a character after its first.
                0x80..=0xbf => {}
                _ => self.column += 1,
            }
        }
        self.at = end;
        (self.line, self.column)
    }
}

/// Quotes a value for a message: truncated and escaped, so that it cannot control a terminal or hide text.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let mut cursor = Cursor::new("ab\r\né🎃x\n".as_bytes());
        assert_eq!(cursor.advance_to(1), (1, 2));
        assert_eq!(cursor.advance_to(4), (2, 1));
        assert_eq!(cursor.advance_to(10), (2, 3));
        assert_eq!(cursor.advance_to(99), (3, 1));
    }

    #[test]
    fn excess_findings_of_a_rule_are_counted() {
        let mut findings = Findings::new(ValidationMode::Strict);
        for at in 0..MAX_PER_RULE + 7 {
            findings.add(&super::super::rules::BOM, at, "found");
        }
        let found = findings.into_report(&[b' '; 200]).findings;
        assert_eq!(found.len(), MAX_PER_RULE);
        assert_eq!(
            found.last().map(|last| last.message.as_str()),
            Some("found (and 7 more like this)")
        );
    }

    #[test]
    fn quoted_values_are_truncated_and_escaped() {
        assert_eq!(quoted("a\u{1b}\u{202e}"), r#""a\u{1b}\u{202e}""#);
        assert_eq!(quoted(&"x".repeat(99)).chars().count(), 63);
    }
}
