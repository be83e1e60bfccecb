//! Taking news together, so that what happens within a moment is told once.

use std::time::Duration;

use futures_util::{
    FutureExt as _, StreamExt as _,
    stream::{FusedStream, Stream},
};

/// News this close to each other are told together. A client hears of a change well within 50 ms.
const MOMENT: Duration = Duration::from_millis(5);
/// More are not taken along at once, so that news without end are told too.
const MAX_WAITING: usize = 10_000;

/// Waits for news, then takes in what comes within a moment and what is there already. `None` when there
/// will be none.
///
/// What was taken in stays so when this is dropped half way.
pub(crate) async fn gather<S>(news: &mut S, mut take: impl FnMut(S::Item)) -> Option<()>
where
    S: Stream + FusedStream + Unpin,
{
    take(news.next().await?);
    let moment = tokio::time::sleep(MOMENT);
    tokio::pin!(moment);
    loop {
        tokio::select! {
            // First, so that news without end do not put it off.
            biased;
            () = &mut moment => break,
            next = news.next() => match next {
                Some(next) => take(next),
                None => return Some(()),
            },
        }
    }
    // What is there already costs nothing to take along.
    for _ in 0..MAX_WAITING {
        match news.next().now_or_never() {
            Some(Some(next)) => take(next),
            Some(None) | None => break,
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_comes_within_a_moment_is_taken_together() {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let mut news = futures_util::stream::unfold(receiver, |mut receiver| async move {
            let next = receiver.recv().await?;
            Some((next, receiver))
        })
        .boxed()
        .fuse();
        for number in 0..3 {
            sender.send(number).unwrap();
        }
        let mut taken = vec![];
        assert_eq!(gather(&mut news, |next| taken.push(next)).await, Some(()));
        assert_eq!(taken, [0, 1, 2]);

        sender.send(3).unwrap();
        drop(sender);
        assert_eq!(gather(&mut news, |next| taken.push(next)).await, Some(()));
        assert_eq!(taken, [0, 1, 2, 3]);
        assert_eq!(gather(&mut news, |next| taken.push(next)).await, None);
    }
}
