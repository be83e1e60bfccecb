//! Zstandard streams: frames one after the other, each compared with its checksum.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

use super::meter::Meter;

/// Largest window, in bytes: that of the highest compression level.
const MAX_WINDOW: u64 = 128 << 20;

/// Reader of the decompressed bytes. The window of a frame, which its header declares, is reserved before it is allocated.
pub(super) struct ZstdReader<'a, 'w, R> {
    source: R,
    decoder: FrameDecoder,
    meter: &'a Meter<'w>,
    max_window: u64,
}

impl<'a, 'w, R: BufRead> ZstdReader<'a, 'w, R> {
    pub(super) fn new(source: R, meter: &'a Meter<'w>) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(0);
        let max_window = MAX_WINDOW.min(meter.max_bytes() / 4);
        Self { source, decoder, meter, max_window }
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
            let mut header = Vec::new();
            let source = RecordedReader { source: &mut self.source, read: &mut header };
            let begun = match self.decoder.reset(source) {
                // The header is read again after its window is reserved.
                Err(FrameDecoderError::WindowSizeTooBig { requested, .. })
                    if requested <= self.max_window =>
                {
                    self.reserve_window(requested)?;
                    self.decoder.reset(header.as_slice().chain(&mut self.source))
                }
                begun => begun,
            };
            match begun {
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

    /// Reserves the memory of a window. It is as large again while the buffer grows.
    fn reserve_window(&mut self, window: u64) -> io::Result<()> {
        let more = 2 * (window - self.decoder.max_window_size());
        self.meter.reserve(usize::try_from(more).unwrap_or(usize::MAX))?;
        self.decoder.set_max_window_size(window);
        Ok(())
    }

    fn skip(&mut self, length: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.source.by_ref().take(length), &mut io::sink())?;
        if skipped < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

impl<R: BufRead> Read for ZstdReader<'_, '_, R> {
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

/// Reader that keeps what is read.
struct RecordedReader<'a, R> {
    source: R,
    read: &'a mut Vec<u8>,
}

impl<R: Read> Read for RecordedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.read.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use skills_core::RunningWork;

    use super::*;

    fn decompress(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let (mut content, mut work) = (Vec::new(), RunningWork::of_process());
        let meter = Meter::new(1 << 30, &mut work);
        ZstdReader::new(bytes, &meter).read_to_end(&mut content).map(|_| content)
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
