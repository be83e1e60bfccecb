//! Blocking work of commands, and of jobs of the server, outside the async threads.

use skills_core::{Code, work::run_own};
use std::{
    num::NonZero,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::Failure;

/// Runs blocking work on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let done = run_own("a job of the command", work).await;
    done.map_err(|error| Failure::new(Code::Internal, error.to_string()))
}

/// Returns the number of cores.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Maps items on all cores. The results are in the order of the items.
///
/// # Errors
/// When the work on an item panicked.
pub(crate) fn par_map<T: Sync, R: Send>(
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
    let threads = cores().min(items.len());
    let parts: Vec<thread::Result<Vec<(usize, R)>>> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let own = Ok(run());
        others.into_iter().map(thread::ScopedJoinHandle::join).chain([own]).collect()
    });
    let mut all = Vec::with_capacity(items.len());
    for part in parts {
        all.extend(part.map_err(|_| Failure::new(Code::Internal, "a worker thread panicked"))?);
    }
    all.sort_unstable_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..1_000).collect();
        assert_eq!(par_map(&items, |item| item * 2).unwrap()[999], 1_998);
        assert!(par_map(&items[..0], |item| *item).unwrap().is_empty());
    }
}
