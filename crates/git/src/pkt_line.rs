//! Frames of the protocol: four hexadecimal digits of length, then the bytes.

/// Most bytes of a frame, with its length.
pub const MAX_PACKET: usize = 65_520;
/// Digits of a length.
const HEAD: usize = 4;

/// Request that breaks the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Length that is not four hexadecimal digits, or is reserved.
    #[error("a line has an invalid length")]
    Length,
    /// Line that ends after the request.
    #[error("the request ends within a line")]
    Truncated,
    /// Line that is not expected at its place.
    #[error("unexpected line {0:?}")]
    UnexpectedLine(String),
    /// Text that should be an object id.
    #[error("{0:?} is not an object id")]
    ObjectId(String),
    /// Command of protocol 2 that is not offered.
    #[error("unknown command {0:?}")]
    Command(String),
    /// Hash function other than SHA-1.
    #[error("unsupported object format {0:?}")]
    ObjectFormat(String),
    /// Request without a want.
    #[error("the request wants nothing")]
    NoWants,
    /// Request for more than a client can need.
    #[error("the request has more than {0} wants")]
    TooManyWants(usize),
    /// Depth that is not a number from 1.
    #[error("{0:?} is not a depth")]
    Depth(String),
}

impl ProtocolError {
    /// Creates the error for a line, which is quoted in part.
    pub(crate) fn unexpected(line: &str) -> Self {
        Self::UnexpectedLine(quoted(line))
    }
}

/// Returns the first characters of a text that a client sent.
pub(crate) fn quoted(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Frame of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Line without its end.
    Line(&'a str),
    /// End of a message.
    Flush,
    /// End of a section.
    Delimiter,
}

/// Iterator over the frames of a request.
#[derive(Debug, Clone)]
pub struct Packets<'a>(&'a [u8]);

impl<'a> Packets<'a> {
    /// Reads frames from a whole request.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn read(&mut self) -> Result<Packet<'a>, ProtocolError> {
        let (head, rest) = self.0.split_at_checked(HEAD).ok_or(ProtocolError::Truncated)?;
        let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
        let digits = std::str::from_utf8(head).ok().filter(|_| head.iter().all(is_digit));
        let length = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
        let length = length.ok_or(ProtocolError::Length)?;
        match length {
            0 => {
                self.0 = rest;
                return Ok(Packet::Flush);
            }
            1 => {
                self.0 = rest;
                return Ok(Packet::Delimiter);
            }
            2 | 3 => return Err(ProtocolError::Length),
            _ if length > MAX_PACKET => return Err(ProtocolError::Length),
            _ => {}
        }
        let (line, rest) = rest.split_at_checked(length - HEAD).ok_or(ProtocolError::Truncated)?;
        self.0 = rest;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let text = std::str::from_utf8(line);
        text.map(Packet::Line)
            .map_err(|_| ProtocolError::unexpected(&String::from_utf8_lossy(line)))
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Result<Packet<'a>, ProtocolError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let packet = self.read();
        if packet.is_err() {
            self.0 = &[];
        }
        Some(packet)
    }
}

/// Appends a line and its end.
pub fn write_line(out: &mut Vec<u8>, line: &str) {
    write_frame(out, &[line.as_bytes(), b"\n"]);
}

/// Appends a frame of several parts, which fit in [`MAX_PACKET`].
pub fn write_frame(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let length: usize = HEAD + parts.iter().map(|part| part.len()).sum::<usize>();
    out.extend_from_slice(format!("{length:04x}").as_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Appends the end of a message.
pub fn write_flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0000");
}

/// Appends the end of a section.
pub fn write_delimiter(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0001");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Vec<Result<Packet<'_>, ProtocolError>> {
        Packets::new(bytes).collect()
    }

    #[test]
    fn frames_are_read_as_they_are_written() {
        let mut bytes = Vec::new();
        write_line(&mut bytes, "want it");
        write_delimiter(&mut bytes);
        write_flush(&mut bytes);
        assert_eq!(bytes, b"000cwant it\n00010000");
        let expected = [Packet::Line("want it"), Packet::Delimiter, Packet::Flush].map(Ok);
        assert_eq!(read(&bytes), expected);
    }

    #[test]
    fn malformed_frames_end_the_request() {
        for (bytes, error) in [
            (b"00" as &[u8], ProtocolError::Truncated),
            (b"zzzz", ProtocolError::Length),
            (b"+010aaaaaaaaaaaa", ProtocolError::Length),
            (b"0002", ProtocolError::Length),
            (b"fff5", ProtocolError::Length),
            (b"0010abc", ProtocolError::Truncated),
            (b"0006\xff\xfe0000", ProtocolError::UnexpectedLine("\u{fffd}\u{fffd}".to_owned())),
        ] {
            assert_eq!(read(bytes), [Err(error)], "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_input_breaks_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read(&bytes).len() <= bytes.len());
        }
    }
}
