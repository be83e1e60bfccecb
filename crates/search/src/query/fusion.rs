//! Fusion of two orders by reciprocal rank: documents that both put high come first, and their scores, which are not
//! comparable, do not matter.

/// Rank at which a place counts half as much as the first.
const RANK_OFFSET: f32 = 60.0;

/// Returns the items of two orders with their fused scores, the best first. Ties keep the first order.
pub(super) fn fuse<T: Copy>(
    one: &[T],
    other: &[T],
    is_same: impl Fn(&T, &T) -> bool,
) -> Vec<(T, f32)> {
    let score = |rank: usize| 100.0 / (RANK_OFFSET + rank as f32 + 1.0);
    let mut fused: Vec<(T, f32)> =
        one.iter().enumerate().map(|(rank, item)| (*item, score(rank))).collect();
    for (rank, item) in other.iter().enumerate() {
        match fused.iter_mut().find(|(known, _)| is_same(known, item)) {
            Some((_, known)) => *known += score(rank),
            None => fused.push((*item, score(rank))),
        }
    }
    fused.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    fused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_orders_like_comes_first() {
        let fused = fuse(&['a', 'b', 'c'], &['c', 'b', 'd'], |one, other| one == other);
        let order: String = fused.iter().map(|(item, _)| *item).collect();
        assert_eq!(order, "cbad");
        assert!(fused.is_sorted_by(|one, other| one.1 >= other.1));
        assert_eq!(fuse(&['a'], &[], |one, other| one == other).len(), 1);
    }
}
