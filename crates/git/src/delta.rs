//! Deltas of packs: how to build an object from another one.
//!
//! Objects here change in one place: an entry of a tree, a line of a generated file. So a delta is the common start, the
//! bytes between, and the common end, found in one pass without an index.

/// Most bytes of one copy instruction, as git writes them.
const MAX_COPY: usize = 0x1_0000;
/// Most bytes of one insert instruction.
const MAX_INSERT: usize = 0x7f;

/// Builds a delta from `base` to `target`. Returns `None` if it would save less than half of the target.
#[must_use]
pub fn delta(base: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    let prefix = common_prefix(base, target);
    let (base_rest, target_rest) = (&base[prefix..], &target[prefix..]);
    let suffix = common_suffix(base_rest, target_rest);
    let middle = &target_rest[..target_rest.len() - suffix];
    if middle.len() * 2 > target.len() {
        return None;
    }
    let mut delta = Vec::with_capacity(middle.len() + 64);
    write_size(&mut delta, base.len());
    write_size(&mut delta, target.len());
    write_copies(&mut delta, 0, prefix);
    for part in middle.chunks(MAX_INSERT) {
        delta.push(u8::try_from(part.len()).unwrap_or(0));
        delta.extend_from_slice(part);
    }
    write_copies(&mut delta, base.len() - suffix, suffix);
    Some(delta)
}

fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    // Blocks first: a comparison of slices is one call, byte by byte is not.
    const BLOCK: usize = 1024;
    let blocks = left.chunks(BLOCK).zip(right.chunks(BLOCK));
    let equal = blocks.take_while(|(left, right)| left == right && left.len() == BLOCK).count();
    let start = equal * BLOCK;
    let rest = left[start..].iter().zip(&right[start..]);
    start + rest.take_while(|(left, right)| left == right).count()
}

fn common_suffix(left: &[u8], right: &[u8]) -> usize {
    const BLOCK: usize = 1024;
    let blocks = left.rchunks(BLOCK).zip(right.rchunks(BLOCK));
    let equal = blocks.take_while(|(left, right)| left == right && left.len() == BLOCK).count();
    let end = equal * BLOCK;
    let (left, right) = (&left[..left.len() - end], &right[..right.len() - end]);
    let rest = left.iter().rev().zip(right.iter().rev());
    end + rest.take_while(|(left, right)| left == right).count()
}

/// Appends a size: seven bits a byte, the lowest first.
fn write_size(out: &mut Vec<u8>, mut size: usize) {
    while size >= 0x80 {
        out.push(low_bits(size, 0x7f) | 0x80);
        size >>= 7;
    }
    out.push(low_bits(size, 0x7f));
}

fn write_copies(out: &mut Vec<u8>, mut offset: usize, mut length: usize) {
    while length > 0 {
        let size = length.min(MAX_COPY);
        let at = out.len();
        out.push(0x80);
        for index in 0..4 {
            let byte = low_bits(offset >> (8 * index), 0xff);
            if byte != 0 {
                out[at] |= 1 << index;
                out.push(byte);
            }
        }
        // A size of 64 KiB is written as none.
        for index in 0..2 {
            let byte = if size == MAX_COPY { 0 } else { low_bits(size >> (8 * index), 0xff) };
            if byte != 0 {
                out[at] |= 0x10 << index;
                out.push(byte);
            }
        }
        offset += size;
        length -= size;
    }
}

fn low_bits(value: usize, mask: usize) -> u8 {
    u8::try_from(value & mask).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Applies a delta as git does.
    fn apply(base: &[u8], delta: &[u8]) -> Vec<u8> {
        let mut bytes = delta.iter().copied();
        let mut size = || {
            let (mut size, mut shift) = (0_usize, 0);
            loop {
                let byte = bytes.next().unwrap();
                size |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    return size;
                }
            }
        };
        let (base_size, target_size) = (size(), size());
        assert_eq!(base_size, base.len());
        let mut target = Vec::new();
        while let Some(op) = bytes.next() {
            if op & 0x80 == 0 {
                target.extend(bytes.by_ref().take(usize::from(op)));
                continue;
            }
            let mut field = |count: u32, first: u32| {
                (0..count).fold(0_usize, |value, index| {
                    if op & (1 << (first + index)) == 0 {
                        return value;
                    }
                    value | usize::from(bytes.next().unwrap()) << (8 * index)
                })
            };
            let offset = field(4, 0);
            let size = match field(3, 4) {
                0 => MAX_COPY,
                size => size,
            };
            target.extend_from_slice(&base[offset..offset + size]);
        }
        assert_eq!(target.len(), target_size);
        target
    }

    #[test]
    fn a_change_in_a_large_object_is_a_small_delta() {
        let base: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut target = base.clone();
        target.splice(700_000..700_010, b"another text".iter().copied());
        let delta = delta(&base, &target).unwrap();
        assert!(delta.len() < 200, "{}", delta.len());
        assert_eq!(apply(&base, &delta), target);
    }

    #[test]
    fn an_object_that_is_mostly_new_gets_no_delta() {
        assert_eq!(delta(b"abc", b"something else"), None);
    }

    proptest! {
        #[test]
        fn a_delta_builds_its_target(
            start in prop::collection::vec(any::<u8>(), 0..3000),
            old in prop::collection::vec(any::<u8>(), 0..50),
            new in prop::collection::vec(any::<u8>(), 0..300),
            end in prop::collection::vec(any::<u8>(), 0..3000),
        ) {
            let base = [&start[..], &old, &end].concat();
            let target = [&start[..], &new, &end].concat();
            if let Some(delta) = delta(&base, &target) {
                prop_assert_eq!(apply(&base, &delta), target);
            }
        }
    }
}
