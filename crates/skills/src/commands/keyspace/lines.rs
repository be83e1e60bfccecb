//! Reader of lines with a maximum length.

use std::io::{self, BufRead, Read as _};

use skills_core::limits::MAX_KEYSPACE_LINE_BYTES;

/// A line of a file.
pub(super) enum RawLine {
    /// Text of the line.
    Text(String),
    /// Reason why the line is invalid.
    Invalid(&'static str),
}

/// Reads numbered lines.
pub(super) struct LineReader<R> {
    reader: R,
    number: usize,
}

impl<R: BufRead> LineReader<R> {
    pub(super) const fn new(reader: R) -> Self {
        Self { reader, number: 0 }
    }

    /// Returns the next line and its number; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<(usize, RawLine)>> {
        let mut line = Vec::new();
        let limit = MAX_KEYSPACE_LINE_BYTES as u64 + 1;
        let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let raw = if line.len() > MAX_KEYSPACE_LINE_BYTES {
            self.skip_to_line_end()?;
            RawLine::Invalid("the line is too long")
        } else {
            String::from_utf8(line).map_or(RawLine::Invalid("the line is not UTF-8"), RawLine::Text)
        };
        Ok(Some((self.number, raw)))
    }

    fn skip_to_line_end(&mut self) -> io::Result<()> {
        loop {
            let available = self.reader.fill_buf()?;
            let end = available.iter().position(|&byte| byte == b'\n');
            let used = end.map_or(available.len(), |at| at + 1);
            let is_over = end.is_some() || available.is_empty();
            self.reader.consume(used);
            if is_over {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_too_long_line_does_not_hide_the_next() {
        let long = "x".repeat(MAX_KEYSPACE_LINE_BYTES + 5);
        let text = format!("one\n{long}\n\nlast");
        let mut lines = LineReader::new(text.as_bytes());
        let mut seen = Vec::new();
        while let Some((number, raw)) = lines.next().unwrap() {
            seen.push((number, matches!(raw, RawLine::Text(_))));
        }
        assert_eq!(seen, [(1, true), (2, false), (3, true), (4, true)]);
    }

    #[test]
    fn a_line_that_is_not_utf8_is_invalid() {
        let mut lines = LineReader::new(&b"\xff\nok\n"[..]);
        assert!(matches!(lines.next().unwrap(), Some((1, RawLine::Invalid(_)))));
        assert!(matches!(lines.next().unwrap(), Some((2, RawLine::Text(_)))));
        assert!(lines.next().unwrap().is_none());
    }
}
