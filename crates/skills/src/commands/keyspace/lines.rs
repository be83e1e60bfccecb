//! The lines of a file, one at a time, none longer than a line may be.

use std::io::{self, BufRead, Read as _};

use skills_core::limits::MAX_KEYSPACE_LINE_BYTES;

/// A line of a file.
pub(super) enum Raw {
    /// Its text.
    Text(String),
    /// Why it has none.
    Bad(&'static str),
}

/// Reads a file line by line, with the number of each.
pub(super) struct Lines<R> {
    reader: R,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    pub(super) const fn new(reader: R) -> Self {
        Self { reader, number: 0 }
    }

    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<(usize, Raw)>> {
        let mut line = Vec::new();
        let most = MAX_KEYSPACE_LINE_BYTES as u64 + 1;
        let read = self.reader.by_ref().take(most).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let raw = if line.len() > MAX_KEYSPACE_LINE_BYTES {
            self.skip_the_rest()?;
            Raw::Bad("it is longer than any value of the key space")
        } else {
            String::from_utf8(line).map_or(Raw::Bad("it is not UTF-8"), Raw::Text)
        };
        Ok(Some((self.number, raw)))
    }

    fn skip_the_rest(&mut self) -> io::Result<()> {
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
    fn a_line_that_is_too_long_does_not_hide_the_next() {
        let long = "x".repeat(MAX_KEYSPACE_LINE_BYTES + 5);
        let text = format!("one\n{long}\n\nlast");
        let mut lines = Lines::new(text.as_bytes());
        let mut seen = Vec::new();
        while let Some((number, raw)) = lines.next().unwrap() {
            seen.push((number, matches!(raw, Raw::Text(_))));
        }
        assert_eq!(seen, [(1, true), (2, false), (3, true), (4, true)]);
    }

    #[test]
    fn what_is_not_text_is_said() {
        let mut lines = Lines::new(&b"\xff\nok\n"[..]);
        assert!(matches!(lines.next().unwrap(), Some((1, Raw::Bad(_)))));
        assert!(matches!(lines.next().unwrap(), Some((2, Raw::Text(_)))));
        assert!(lines.next().unwrap().is_none());
    }
}
