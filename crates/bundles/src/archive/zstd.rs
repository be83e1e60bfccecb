//! Zstandard streams: frames one after the other, each compared with its checksum.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

/// Reader of the decompressed bytes. A frame whose window is larger than 128 MiB is refused by the decoder.
pub(super) struct ZstdReader<R> {
    source: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> ZstdReader<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new() }
    }

    /// Compares the content of a finished frame with its checksum, if it has one.
    fn verify_checksum(&self) -> io::Result<()> {
        let stored = self.decoder.get_checksum_from_data();
        if stored.is_some() && stored != self.decoder.get_calculated_checksum() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum is wrong"));
        }
        Ok(())
    }

    /// Begins the next frame; false at the end of the stream.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                // Metadata of some compressors.
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => self.skip(u64::from(length))?,
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }

    fn skip(&mut self, length: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.source.by_ref().take(length), &mut io::sink())?;
        if skipped < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let count = self.decoder.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            if self.decoder.is_finished() {
                self.verify_checksum()?;
                if !self.next_frame()? {
                    return Ok(0);
                }
            } else {
                let blocks = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, blocks).map_err(io::Error::other)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn decompress(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        ZstdReader::new(bytes).read_to_end(&mut content).map(|_| content)
    }

    fn frame(content: &[u8]) -> Vec<u8> {
        compress_to_vec(content, CompressionLevel::Fastest)
    }

    #[test]
    fn frames_are_read_one_after_the_other() {
        let long: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let skippable = [b"\x50\x2a\x4d\x18\x03\0\0\0" as &[u8], b"abc"].concat();
        let stream = [&frame(&long)[..], &skippable, &frame(b""), &frame(b"end")].concat();
        assert_eq!(decompress(&stream).unwrap(), [&long[..], b"end"].concat());
        assert_eq!(decompress(b"").unwrap(), b"");
    }

    #[test]
    fn damaged_streams_are_refused() {
        let whole = frame(b"some text that is not compressible: 8f3a91c07d");
        let mut wrong_checksum = whole.clone();
        *wrong_checksum.last_mut().unwrap() ^= 1;
        for (case, stream) in [
            ("checksum", wrong_checksum),
            ("cut", whole[..whole.len() - 6].to_vec()),
            ("cut header", whole[..3].to_vec()),
            ("other format after a frame", [&whole[..], b"PK\x03\x04"].concat()),
            ("cut skippable frame", b"\x50\x2a\x4d\x18\xff\xff\xff\xffabc".to_vec()),
            // A window of 3.75 TiB.
            ("window", b"\x28\xb5\x2f\xfd\x00\xff\0\0\0".to_vec()),
        ] {
            assert!(decompress(&stream).is_err(), "{case}");
        }
    }
}
