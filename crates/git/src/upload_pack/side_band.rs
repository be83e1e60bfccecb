//! Framing of a pack: in a band beside messages, or plain.

use crate::pkt_line::{MAX_PACKET, write_flush, write_frame};

/// Framing that a client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideBand {
    /// No frames.
    None,
    /// Frames of at most 1000 bytes.
    Small,
    /// Frames of at most 65520 bytes.
    Large,
}

/// Band of the pack.
const PACK: u8 = 1;
/// Band of an error, which ends the response.
const ERROR: u8 = 3;
/// Bytes of a frame before its data: length and band.
const HEAD: usize = 5;

impl SideBand {
    /// Returns bytes of the pack in frames.
    #[must_use]
    pub fn data(self, bytes: Vec<u8>) -> Vec<u8> {
        let size = match self {
            Self::None => return bytes,
            Self::Small => 1000 - HEAD,
            Self::Large => MAX_PACKET - HEAD,
        };
        let mut framed = Vec::with_capacity(bytes.len() + (bytes.len() / size + 1) * HEAD);
        for part in bytes.chunks(size) {
            write_frame(&mut framed, &[&[PACK], part]);
        }
        framed
    }

    /// Returns the end of the response.
    #[must_use]
    pub fn end(self) -> Vec<u8> {
        let mut end = Vec::new();
        if self != Self::None {
            write_flush(&mut end);
        }
        end
    }

    /// Returns the frame that tells the client why the response ends early; empty where there are no frames.
    #[must_use]
    pub fn error(self, message: &str) -> Vec<u8> {
        let mut frame = Vec::new();
        if self != Self::None {
            let end = message.floor_char_boundary(message.len().min(900));
            write_frame(&mut frame, &[&[ERROR], &message.as_bytes()[..end], b"\n"]);
        }
        frame
    }
}
