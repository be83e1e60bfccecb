//! Packs, written object by object. The writer keeps nothing but the bytes that were not taken yet.
//!
//! The entry of an object depends on the object alone, or on the object and the base of its delta. So an entry can be
//! copied from one pack to another.

use flate2::{Compress, Compression, FlushCompress, Status};
use sha1::{Digest as _, Sha1};

use crate::{
    ObjectId, ObjectKind,
    deflate::{MAX_INPUT, SmallCompressor},
};

/// Number of an entry that is a delta against an object named by its id.
const REF_DELTA: u8 = 7;

/// Most bytes of a buffer that are reserved for the bytes to come.
const MAX_RESERVED: usize = 128 << 10;
/// Most bytes that are added to a buffer at a time while a large object is compressed.
const MAX_STEP: usize = 64 << 10;

/// Failure to compress an object.
#[derive(Debug, thiserror::Error)]
#[error("cannot compress an object: {0}")]
pub struct PackError(#[from] flate2::CompressError);

/// Writer of one pack.
#[derive(Debug)]
pub struct PackWriter {
    buffer: Vec<u8>,
    hash: Sha1,
    small: SmallCompressor,
    /// Compressor of large objects, once there was one.
    large: Option<Compress>,
}

impl PackWriter {
    /// Starts a pack with a known number of objects.
    #[must_use]
    pub fn new(objects: u32) -> Self {
        let mut buffer = b"PACK\0\0\0\x02".to_vec();
        buffer.extend_from_slice(&objects.to_be_bytes());
        Self { buffer, hash: Sha1::new(), small: SmallCompressor::default(), large: None }
    }

    /// Appends a whole object.
    ///
    /// # Errors
    /// When it cannot be compressed.
    pub fn object(&mut self, kind: ObjectKind, bytes: &[u8]) -> Result<(), PackError> {
        self.head(kind.pack_type(), bytes.len());
        self.deflate(bytes)
    }

    /// Begins an object that is appended in parts by [`continue_object`](Self::continue_object).
    pub fn begin_object(&mut self, kind: ObjectKind, size: usize) {
        self.head(kind.pack_type(), size);
        self.large().reset();
    }

    /// Appends the next part of the object that was begun last, until a number of bytes is [pending](Self::pending).
    /// `bytes` are those of the whole object. Returns whether all of it is appended.
    ///
    /// # Errors
    /// When it cannot be compressed.
    pub fn continue_object(&mut self, bytes: &[u8], pending: usize) -> Result<bool, PackError> {
        self.deflate_large(bytes, pending)
    }

    /// Appends an object as a delta against one that is in the pack, or that the reader has.
    ///
    /// # Errors
    /// When it cannot be compressed.
    pub fn delta(&mut self, base: &ObjectId, delta: &[u8]) -> Result<(), PackError> {
        self.head(REF_DELTA, delta.len());
        self.buffer.extend_from_slice(base.as_bytes());
        self.deflate(delta)
    }

    /// Appends an entry as another pack has it.
    pub fn entry(&mut self, entry: &[u8]) {
        self.buffer.extend_from_slice(entry);
    }

    /// Returns the number of bytes that were not taken yet.
    #[must_use]
    pub const fn pending(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the bytes that were written since [`pending`](Self::pending) had a value, unless they were taken.
    #[must_use]
    pub fn written_since(&self, pending: usize) -> &[u8] {
        self.buffer.get(pending..).unwrap_or_default()
    }

    /// Takes the bytes written so far.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        let next = Vec::with_capacity(self.buffer.len().min(MAX_RESERVED));
        let bytes = std::mem::replace(&mut self.buffer, next);
        self.hash.update(&bytes);
        bytes
    }

    /// Ends the pack. Returns the rest of its bytes.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        let mut bytes = self.take();
        bytes.extend_from_slice(&self.hash.finalize());
        bytes
    }

    /// Appends kind and size of an entry: four bits of the size with the kind, then seven a byte.
    fn head(&mut self, kind: u8, size: usize) {
        let low = |value: usize, mask: usize| u8::try_from(value & mask).unwrap_or(0);
        let mut rest = size >> 4;
        let mut byte = kind << 4 | low(size, 0x0f);
        while rest > 0 {
            self.buffer.push(byte | 0x80);
            byte = low(rest, 0x7f);
            rest >>= 7;
        }
        self.buffer.push(byte);
    }

    fn deflate(&mut self, bytes: &[u8]) -> Result<(), PackError> {
        if bytes.len() <= MAX_INPUT {
            self.small.compress(bytes, &mut self.buffer);
            return Ok(());
        }
        self.large().reset();
        self.deflate_large(bytes, usize::MAX).map(drop)
    }

    fn large(&mut self) -> &mut Compress {
        self.large.get_or_insert_with(|| Compress::new(Compression::fast(), true))
    }

    /// Goes on with the stream of the large compressor. Returns whether it has ended.
    fn deflate_large(&mut self, bytes: &[u8], pending: usize) -> Result<bool, PackError> {
        let Self { buffer, large, .. } = self;
        let compress = large.get_or_insert_with(|| Compress::new(Compression::fast(), true));
        while buffer.len() < pending {
            let read = usize::try_from(compress.total_in()).unwrap_or(usize::MAX);
            let rest = bytes.get(read..).unwrap_or_default();
            buffer.reserve((rest.len() / 2 + 64).min(MAX_STEP));
            let status = compress.compress_vec(rest, buffer, FlushCompress::Finish)?;
            if status == Status::StreamEnd {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_trailer_have_the_format_of_git() {
        let mut pack = PackWriter::new(1);
        pack.object(ObjectKind::Blob, &[b'x'; 300]).unwrap();
        let first = pack.take();
        assert_eq!(&first[..12], b"PACK\0\0\0\x02\0\0\0\x01");
        // 300 = 18 * 16 + 12.
        assert_eq!(&first[12..14], &[0xbc, 18]);
        let rest = pack.finish();
        assert_eq!(rest, Sha1::digest(&first).to_vec());
    }

    #[test]
    fn what_cannot_be_compressed_is_still_written_whole() {
        let noise: Vec<u8> = (0..200_000_u64)
            .map(|index| (index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
            .collect();
        let mut pack = PackWriter::new(1);
        pack.object(ObjectKind::Blob, &noise).unwrap();
        let bytes = pack.finish();
        let mut inflated = Vec::new();
        let mut reader = flate2::read::ZlibDecoder::new(&bytes[15..]);
        std::io::Read::read_to_end(&mut reader, &mut inflated).unwrap();
        assert_eq!(inflated, noise);
    }

    #[test]
    fn a_large_object_is_appended_in_parts_of_a_bounded_size() {
        let mut state = 7_u64;
        let random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let noise: Vec<u8> = std::iter::repeat_with(random).take(1_000_000).collect();
        let mut pack = PackWriter::new(2);
        pack.begin_object(ObjectKind::Blob, noise.len());
        let (mut bytes, mut largest) = (vec![], 0);
        while !pack.continue_object(&noise, 100_000).unwrap() {
            largest = largest.max(pack.pending());
            bytes.extend(pack.take());
        }
        pack.object(ObjectKind::Blob, b"next").unwrap();
        bytes.extend(pack.finish());
        assert!((100_000..200_000).contains(&largest), "{largest}");
        let mut inflated = Vec::new();
        let mut reader = flate2::bufread::ZlibDecoder::new(&bytes[16..]);
        std::io::Read::read_to_end(&mut reader, &mut inflated).unwrap();
        assert!(inflated == noise);
        // Kind and size of the next object: a blob of four bytes.
        assert_eq!(reader.into_inner()[0], 0x34);
    }

    #[test]
    fn an_entry_of_one_pack_can_be_copied_to_another() {
        let mut first = PackWriter::new(2);
        first.object(ObjectKind::Blob, b"one").unwrap();
        let before = first.pending();
        first.object(ObjectKind::Tree, &[7; 20_000]).unwrap();
        let mut second = PackWriter::new(2);
        second.object(ObjectKind::Blob, b"one").unwrap();
        second.entry(first.written_since(before));
        assert_eq!(first.finish(), second.finish());
    }
}
