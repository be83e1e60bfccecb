//! Scanner for long runs of base64 or hexadecimal digits, in one line or wrapped.

use super::super::{findings::Findings, rules};

/// Shortest run that is reported, in characters.
const MIN_BLOB: usize = 256;
/// Shortest line that can be part of a wrapped run.
const MIN_LINE: usize = 40;
/// Fewest distinct characters of data; a run with fewer is a ruler or a banner.
const MIN_DISTINCT: u32 = 12;

pub(super) fn check(document: &str, findings: &mut Findings) {
    let mut report = |run: Run| {
        if run.is_blob() {
            let message = format!("there are {} characters of encoded data", run.len);
            findings.add(&rules::ENCODED_BLOB, run.at, message);
        }
    };
    let mut wrapped = Run::default();
    for (start, line) in super::lines(document) {
        let content = line.trim();
        if content.len() >= MIN_LINE && content.bytes().all(is_digit) {
            wrapped.extend(start + line.len() - line.trim_start().len(), content.as_bytes());
            continue;
        }
        report(std::mem::take(&mut wrapped));
        let mut at = start;
        for part in line.as_bytes().split_inclusive(|&byte| !is_digit(byte)) {
            // With one byte after the run, except at the end of the line.
            if part.len() >= MIN_BLOB {
                let digits = part.iter().take_while(|&&byte| is_digit(byte)).count();
                let mut run = Run::default();
                run.extend(at, &part[..digits]);
                report(run);
            }
            at += part.len();
        }
    }
    report(wrapped);
}

#[derive(Default)]
struct Run {
    at: usize,
    len: usize,
    /// One bit for each ASCII character that occurs.
    seen: u128,
}

impl Run {
    fn extend(&mut self, at: usize, bytes: &[u8]) {
        if self.len == 0 {
            self.at = at;
        }
        self.len += bytes.len();
        self.seen = bytes.iter().fold(self.seen, |seen, &byte| seen | 1 << (byte & 0x7f));
    }

    fn is_blob(&self) -> bool {
        let has_digit = (b'0'..=b'9').any(|digit| self.seen & (1 << digit) != 0);
        self.len >= MIN_BLOB && self.seen.count_ones() >= MIN_DISTINCT && has_digit
    }
}

const fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'_' | b'-')
}

#[cfg(test)]
mod tests {
    use super::{super::super::ValidationMode, *};

    fn places(text: &str) -> Vec<(usize, usize)> {
        let mut findings = Findings::new(ValidationMode::Strict);
        check(text, &mut findings);
        let findings = findings.into_report(text.as_bytes()).findings;
        findings.iter().map(|finding| (finding.line, finding.column)).collect()
    }

    fn data(len: usize) -> String {
        "aZ09bY18cX27dW36+/".chars().cycle().take(len).collect()
    }

    #[test]
    fn long_data_is_found() {
        let wrapped: Vec<String> = (0..5).map(|_| format!("  {}\n", data(76))).collect();
        assert_eq!(places(&format!("x\n{}end", wrapped.concat())), [(2, 3)]);
        assert_eq!(places(&format!("é: \"{}\" {}", data(256), data(300))), [(1, 5), (1, 263)]);
    }

    #[test]
    fn short_data_and_rulers_are_not_reported() {
        for text in
            [data(255), "-".repeat(500), "=".repeat(500), format!("{} ", data(250)).repeat(9)]
        {
            assert_eq!(places(&text), [], "{text}");
        }
    }
}
