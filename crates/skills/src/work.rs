//! Work that waits for disks and cores, off the threads that everything else runs on.

use std::{
    num::NonZero,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::Failure;

/// Work that waits for a disk.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Failure::new("internal", error.to_string()))
}

/// How many threads get on without getting into each other's way.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// The results for all items, in their order.
///
/// # Errors
/// When the work on one of them panicked.
pub(crate) fn on_all_cores<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Result<Vec<R>, Failure> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
        }
    };
    let others = cores().min(items.len());
    let parts: Vec<thread::Result<Vec<(usize, R)>>> = thread::scope(|scope| {
        let others: Vec<_> = (1..others).map(|_| scope.spawn(run)).collect();
        let own = Ok(run());
        others.into_iter().map(thread::ScopedJoinHandle::join).chain([own]).collect()
    });
    let mut all = Vec::with_capacity(items.len());
    for part in parts {
        all.extend(part.map_err(|_| Failure::new("internal", "a part of the work was lost"))?);
    }
    all.sort_unstable_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..1_000).collect();
        assert_eq!(on_all_cores(&items, |item| item * 2).unwrap()[999], 1_998);
        assert!(on_all_cores(&items[..0], |item| *item).unwrap().is_empty());
    }
}
