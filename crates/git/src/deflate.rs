//! Fast compression of small objects.
//!
//! A repository of skills is mostly objects of 40 bytes to a few kilobytes. A general compressor clears some 300 KiB of
//! tables for each, which takes ten times as long as compressing it. This one keeps its only table from object to object,
//! and writes one block with the fixed codes of DEFLATE, or the bytes as they are if that is not longer.

/// Objects above this size are worth the tables of a general compressor, which finds more matches.
pub(crate) const MAX_INPUT: usize = 16 << 10;

/// Header of a zlib stream: a window of 32 KiB, the fastest level.
const ZLIB_HEADER: [u8; 2] = [0x78, 0x01];
const MIN_MATCH: usize = 4;
const MAX_MATCH: usize = 258;
const HASH_BITS: u32 = 12;

/// Fixed codes of literals and lengths, bit-reversed as they are written, with their numbers of bits.
const LITERALS: [(u16, u8); 288] = literal_codes();
/// First length of each length symbol from 257 on, and its number of extra bits.
const LENGTHS: [(u16, u8); 29] = bases::<29>(3, 4);
/// First distance of each distance symbol, and its number of extra bits.
const DISTANCES: [(u16, u8); 30] = bases::<30>(1, 2);

/// Compressor of small objects. The table of positions survives from object to object: positions count on, so those of
/// earlier objects are told by their value.
#[derive(Debug)]
pub(crate) struct SmallCompressor {
    /// Position of the last occurrence of a hash, counted over all objects.
    positions: Box<[u32]>,
    /// Position of the first byte of the next object.
    start: u32,
}

impl Default for SmallCompressor {
    fn default() -> Self {
        Self { positions: vec![0; 1 << HASH_BITS].into(), start: 1 }
    }
}

impl SmallCompressor {
    /// Appends a zlib stream of at most [`MAX_INPUT`] bytes.
    pub(crate) fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&ZLIB_HEADER);
        let body = out.len();
        self.fixed_block(input, out);
        if out.len() - body > input.len() + 5 {
            out.truncate(body);
            stored_block(input, out);
        }
        out.extend_from_slice(&adler32(input).to_be_bytes());
    }

    fn fixed_block(&mut self, input: &[u8], out: &mut Vec<u8>) {
        let length = u32::try_from(input.len()).unwrap_or(u32::MAX);
        if self.start.checked_add(length).is_none() {
            self.positions.fill(0);
            self.start = 1;
        }
        let start = self.start;
        let mut bits = BitWriter { out, buffer: 0, count: 0 };
        // Last block, fixed codes.
        bits.write(0b011, 3);
        let mut at = 0;
        while let Some(next) = input.get(at..at + MIN_MATCH) {
            let word = u32::from_le_bytes([next[0], next[1], next[2], next[3]]);
            let slot =
                &mut self.positions[(word.wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS)) as usize];
            let candidate = std::mem::replace(slot, start + at as u32);
            let found = candidate.checked_sub(start).map(|position| position as usize);
            if let Some(from) = found.filter(|from| input[*from..].starts_with(next)) {
                let most = MAX_MATCH.min(input.len() - at);
                let pairs = input[from..].iter().zip(&input[at..at + most]);
                let matching = pairs.take_while(|(left, right)| left == right).count();
                bits.write_match(matching, at - from);
                at += matching;
            } else {
                bits.write_symbol(usize::from(next[0]));
                at += 1;
            }
        }
        for byte in &input[at..] {
            bits.write_symbol(usize::from(*byte));
        }
        // End of the block.
        bits.write_symbol(256);
        bits.flush();
        self.start += length;
    }
}

/// Appends bytes as they are, in a last block.
fn stored_block(input: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(input.len()).unwrap_or(u16::MAX);
    out.push(1);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
    out.extend_from_slice(input);
}

/// Writer of bits, the lowest of a byte first.
struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    buffer: u64,
    count: u32,
}

impl BitWriter<'_> {
    fn write(&mut self, value: u64, count: u32) {
        self.buffer |= value << self.count;
        self.count += count;
        if self.count >= 32 {
            self.out.extend_from_slice(&(self.buffer as u32).to_le_bytes());
            self.buffer >>= 32;
            self.count -= 32;
        }
    }

    fn write_symbol(&mut self, symbol: usize) {
        let (code, count) = LITERALS[symbol];
        self.write(u64::from(code), u32::from(count));
    }

    fn write_match(&mut self, length: usize, distance: usize) {
        let (symbol, extra, count) = symbol_of(&LENGTHS, length);
        self.write_symbol(257 + symbol);
        self.write(extra, count);
        let (symbol, extra, count) = symbol_of(&DISTANCES, distance);
        self.write(u64::from((symbol as u8).reverse_bits() >> 3), 5);
        self.write(extra, count);
    }

    fn flush(self) {
        let bytes = self.count.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.buffer.to_le_bytes()[..bytes]);
    }
}

/// Returns the symbol of a length or distance, its extra bits and their number.
fn symbol_of(bases: &[(u16, u8)], value: usize) -> (usize, u64, u32) {
    let symbol = bases.partition_point(|(first, _)| usize::from(*first) <= value) - 1;
    let (first, extra) = bases[symbol];
    (symbol, (value - usize::from(first)) as u64, u32::from(extra))
}

/// Builds a table of first values: `group` symbols for each number of extra bits, the first group counted twice.
const fn bases<const COUNT: usize>(first: u16, group: usize) -> [(u16, u8); COUNT] {
    let mut table = [(0, 0); COUNT];
    let (mut value, mut symbol) = (first, 0);
    while symbol < COUNT {
        let extra = if symbol < group { 0 } else { (symbol / group - 1) as u8 };
        table[symbol] = (value, extra);
        value = value.wrapping_add(1 << extra);
        symbol += 1;
    }
    // The longest match has a symbol of its own.
    if COUNT == 29 {
        table[28] = (258, 0);
    }
    table
}

const fn literal_codes() -> [(u16, u8); 288] {
    let mut table = [(0, 0); 288];
    let mut symbol = 0;
    while symbol < 288 {
        let at = symbol as u16;
        let (code, count) = match symbol {
            0..=143 => (0x30 + at, 8),
            144..=255 => (0x190 + at - 144, 9),
            256..=279 => (at - 256, 7),
            _ => (0xc0 + at - 280, 8),
        };
        table[symbol] = (code.reverse_bits() >> (16 - count), count);
        symbol += 1;
    }
    table
}

/// Checksum at the end of a zlib stream.
fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    // Most bytes whose sums fit 32 bits.
    const BLOCK: usize = 5552;
    let (mut low, mut high) = (1_u32, 0_u32);
    for block in bytes.chunks(BLOCK) {
        for byte in block {
            low += u32::from(*byte);
            high += low;
        }
        low %= MODULUS;
        high %= MODULUS;
    }
    high << 16 | low
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;

    fn inflate(stream: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut reader = flate2::bufread::ZlibDecoder::new(stream);
        reader.read_to_end(&mut bytes).unwrap();
        assert_eq!(reader.total_in(), stream.len() as u64);
        bytes
    }

    fn round_trip(compressor: &mut SmallCompressor, input: &[u8]) -> usize {
        let mut out = Vec::new();
        compressor.compress(input, &mut out);
        assert_eq!(inflate(&out), input);
        out.len()
    }

    #[test]
    fn every_length_and_distance_has_its_code() {
        let mut compressor = SmallCompressor::default();
        for length in 0..600 {
            round_trip(&mut compressor, &vec![b'x'; length]);
        }
        let noise = |count: usize| -> Vec<u8> {
            (0..count as u64)
                .map(|index| (index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
                .collect()
        };
        for distance in (8..MAX_INPUT - 40).step_by(97) {
            let mut input = b"the same words at a distance".to_vec();
            input.extend(noise(distance - 8));
            input.extend_from_slice(b"the same words at a distance");
            input.truncate(MAX_INPUT);
            round_trip(&mut compressor, &input);
        }
    }

    #[test]
    fn text_gets_smaller_and_noise_hardly_larger() {
        let mut compressor = SmallCompressor::default();
        let text = "A line of words, and a few words more.\n".repeat(50);
        assert!(round_trip(&mut compressor, text.as_bytes()) < 120);
        let noise: Vec<u8> = (0..4000_u64)
            .map(|index| (index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 | 0x80)
            .collect();
        assert!(round_trip(&mut compressor, &noise) <= noise.len() + 11);
    }

    #[test]
    fn positions_start_again_before_they_overflow() {
        let mut compressor = SmallCompressor { start: u32::MAX - 5000, ..Default::default() };
        for _ in 0..5 {
            round_trip(&mut compressor, "words and words and words\n".repeat(100).as_bytes());
        }
        assert!(compressor.start < 100_000);
    }

    proptest! {
        #[test]
        fn a_stream_inflates_to_its_input(
            inputs in prop::collection::vec(prop::collection::vec(0_u8..5, 0..2000), 1..6),
            noise in prop::collection::vec(any::<u8>(), 0..2000),
        ) {
            let mut compressor = SmallCompressor::default();
            for input in inputs.iter().chain([&noise]) {
                round_trip(&mut compressor, input);
            }
        }
    }
}
