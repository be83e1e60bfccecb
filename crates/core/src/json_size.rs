//! Size of JSON text as a tree, estimated before it is parsed.
//!
//! A tree takes many times the memory of its text: `[0]` is three bytes and hundreds as a tree. Every surface that parses
//! text of untrusted clients counts its values first, refuses more than [`MAX_VALUES`] and reserves [`memory_size`] bytes.
//!
//! The other direction grows too: a control character is one byte and six as JSON. Surfaces that write content into
//! JSON measure it first, by [`escaped_size`] or [`JsonSize`].

use std::io;

use serde::Serialize;
use serde_json::Value;

/// Most values of a request. Together with [`VALUE_BYTES`] it bounds what one request costs.
pub const MAX_VALUES: usize = 100_000;

/// Bytes by which text may be longer than base64 and still is sent as text.
const BASE64_MARGIN: usize = 1024;

/// Memory of one value of a tree, including allocations during parsing.
pub const VALUE_BYTES: usize = 448;

/// Upper bound of the number of values in JSON text, in one pass and without allocation.
///
/// Text that is not JSON gives some number.
#[must_use]
pub fn count_values(text: &[u8]) -> usize {
    let (mut count, mut in_string, mut is_escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

/// Returns the bytes to reserve for text that is parsed into a tree: the text, its strings, and its values.
#[must_use]
pub const fn memory_size(text_bytes: usize, values: usize) -> usize {
    text_bytes.saturating_mul(3).saturating_add(values.saturating_mul(VALUE_BYTES))
}

/// Returns the bytes of a text inside a JSON string, without the quotes around it.
#[must_use]
pub fn escaped_size(text: &str) -> usize {
    let extra = |byte: u8| {
        let is_control = usize::from(byte < 0x20);
        // `\b`, `\t`, `\n`, `\f` and `\r` have short forms, the other control characters are `\u00XX`.
        let is_short = usize::from((8..=13).contains(&byte) && byte != 11);
        let is_quoted = usize::from(byte == b'"') + usize::from(byte == b'\\');
        is_control * 5 - is_short * 4 + is_quoted
    };
    text.len() + text.bytes().map(extra).sum::<usize>()
}

/// Returns the text of a file that is shorter as a JSON string than in base64. Control characters take six bytes in
/// JSON, so that a file of them would not fit in a message that has room for its base64.
#[must_use]
pub fn compact_text(bytes: &[u8]) -> Option<&str> {
    let base64 = bytes.len().div_ceil(3) * 4;
    // A few escapes in a short text do not count.
    std::str::from_utf8(bytes).ok().filter(|text| escaped_size(text) <= base64 + BASE64_MARGIN)
}

/// Size of a tree as compact JSON text, measured without writing the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JsonSize {
    /// Bytes of the text.
    pub bytes: usize,
    /// Bytes of the text inside a JSON string.
    pub escaped: usize,
    /// Values of the tree.
    pub values: usize,
}

impl JsonSize {
    /// Measures a tree.
    #[must_use]
    pub fn measure(value: &Value) -> Self {
        let mut size = Self { values: values(value), ..Self::default() };
        // The writer never fails, and a tree has no keys but strings.
        let _ = serde_json::to_writer(&mut size, value);
        size
    }

    /// Returns the bytes to reserve for the tree and its text.
    #[must_use]
    pub const fn memory_size(self) -> usize {
        memory_size(self.bytes, self.values)
    }
}

/// Returns the bytes of a value as compact JSON text, measured without writing the text.
#[must_use]
pub fn serialized_size(value: &impl Serialize) -> usize {
    let mut size = JsonSize::default();
    // The writer never fails; of what cannot be serialized, the part before is measured.
    let _ = serde_json::to_writer(&mut size, value);
    size.bytes
}

impl io::Write for JsonSize {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        // JSON text has no control characters.
        let quoted = text.iter().filter(|byte| matches!(byte, b'"' | b'\\')).count();
        self.bytes += text.len();
        self.escaped += text.len() + quoted;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values).sum(),
        Value::Object(fields) => fields.values().map(values).sum(),
        _ => 0_usize,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn punctuation_in_a_string_is_no_value() {
        assert_eq!(count_values(br#"{"a,[": "\\\",{"}"#), 2);
        assert_eq!(count_values(b"[0,0,[0]]"), 5);
    }

    #[test]
    fn the_largest_request_fits_its_reservation() {
        assert!(memory_size(4 << 20, MAX_VALUES) < 64 << 20);
    }

    proptest! {
        #[test]
        fn measured_size_equals_written_size(text in "[\\x00-\\x7f\\u{80}é日]{0,40}") {
            let value = Value::String(text.clone());
            let written = value.to_string();
            prop_assert_eq!(escaped_size(&text) + 2, written.len());
            let expected = JsonSize {
                bytes: written.len(),
                escaped: escaped_size(&written),
                values: 1,
            };
            prop_assert_eq!(JsonSize::measure(&value), expected);
        }

        #[test]
        fn the_count_is_an_upper_bound(text in "[\\[\\]{},:\"\\\\a0 ]{0,30}") {
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                prop_assert!(count_values(text.as_bytes()) >= values(&value), "{text}");
            }
        }
    }
}
