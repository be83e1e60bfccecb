//! Work that several callers wait for, such as a cache that is filled: one at a time goes on with it, for a turn, on its
//! own account.

use std::{pin::pin, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout_at},
};

use super::{StopFlag, WorkAccount, WorkError, WorkKind, WorkPermit};
use crate::budget::OverBudget;

/// State that callers work on in turns. Clones are handles to the same state.
#[derive(Debug)]
pub struct Turns<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    /// State; `None` while a caller works on it.
    state: Mutex<Option<T>>,
    /// Notified when a caller puts the state back.
    returned: Notify,
}

/// State that a caller works on, put back when it is dropped.
struct Taken<T> {
    shared: Arc<Shared<T>>,
    state: Option<T>,
}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        *self.shared.state.lock() = self.state.take();
        self.shared.returned.notify_waiters();
    }
}

/// Turn of a caller.
#[derive(Debug)]
pub struct Turn<'a> {
    stop: &'a StopFlag,
    deadline: Instant,
}

/// Reason why a turn ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnd {
    /// The work is done, or the turn is over.
    Over,
    /// The caller's share of memory is used up. It waits a moment for another turn.
    OutOfMemory,
}

/// Time for which a caller waits for memory of its own share, in work that goes on in parts.
pub const MEMORY_WAIT: Duration = Duration::from_secs(10);
/// Interval in which such a caller tries again.
pub const MEMORY_RETRY: Duration = Duration::from_millis(50);

/// Time after which a caller that has not found what it waits for gives up, however many turns it took.
const TIME_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Duration of a turn, after which another caller may have the thread.
const TURN: Duration = Duration::from_millis(250);

impl Turn<'_> {
    /// Returns whether the turn has to end. Work that checks it after each step gets on however short its turns are.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stop.is_raised() || Instant::now() >= self.deadline
    }

    /// Returns the flag that is raised when the caller is gone.
    #[must_use]
    pub const fn stop(&self) -> &StopFlag {
        self.stop
    }
}

impl<T> Clone for Turns<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Default> Default for Turns<T> {
    fn default() -> Self {
        Self(Arc::new(Shared { state: Mutex::new(Some(T::default())), returned: Notify::new() }))
    }
}

impl<T: Send + 'static> Turns<T> {
    /// Returns what is in the state, unless a caller works on it.
    pub fn peek<R>(&self, look: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        look(self.0.state.lock().as_ref()?)
    }

    /// Waits until no caller works on the state. Returns what is found in it.
    async fn wait<R>(&self, find: impl Fn(&T) -> Option<R>) -> Option<R> {
        loop {
            let mut returned = pin!(self.0.returned.notified());
            // Registers before the state is looked at: it may be put back in between.
            returned.as_mut().enable();
            if let Some(state) = &*self.0.state.lock() {
                return find(state);
            }
            returned.await;
        }
    }

    /// Takes turns until `find` finds something in the state. A caller whose turn ends early, since it is gone or its turn
    /// failed, leaves the state for the next one.
    ///
    /// Callers wait for the state without a thread, and for a thread without the state: one that has to wait for a thread
    /// or for memory holds up nobody else.
    ///
    /// # Errors
    /// When a turn fails, the account has no thread or memory for it in time, or nothing is found within five minutes.
    pub async fn take<R, E: From<WorkError> + Send + 'static>(
        &self,
        account: &WorkAccount,
        (kind, bytes): (WorkKind, usize),
        find: impl Fn(&T) -> Option<R>,
        turn: impl Fn(&mut T, &Turn<'_>) -> Result<TurnEnd, E> + Clone + Send + 'static,
    ) -> Result<R, E> {
        let deadline = Instant::now() + TIME_LIMIT;
        // Time until which the caller waits for memory, while it lacks some.
        let mut give_up = None;
        loop {
            match timeout_at(deadline, self.wait(&find)).await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) if Instant::now() < deadline => {}
                _ => return Err(WorkError::Busy.into()),
            }
            let permit = match account.permit(kind, bytes).await {
                // A share that is too small for a turn stays so.
                Err(WorkError::OverBudget(_)) if bytes <= account.memory().capacity() => {
                    wait_for_memory(&mut give_up).await?;
                    continue;
                }
                acquired => acquired?,
            };
            // Another caller that was waiting may have been faster.
            let Some(state) = self.0.state.lock().take() else { continue };
            let taken = Taken { shared: Arc::clone(&self.0), state: Some(state) };
            if let Some(found) = taken.state.as_ref().and_then(&find) {
                return Ok(found);
            }
            match run_turn(permit, taken, turn.clone()).await? {
                TurnEnd::Over => give_up = None,
                TurnEnd::OutOfMemory => wait_for_memory(&mut give_up).await?,
            }
        }
    }
}

/// Waits a moment for memory. `give_up` is the time after which a caller that still lacks it fails; `None` before it waits
/// for the first time.
async fn wait_for_memory(give_up: &mut Option<Instant>) -> Result<(), WorkError> {
    let now = Instant::now();
    if now >= *give_up.get_or_insert(now + MEMORY_WAIT) {
        return Err(OverBudget.into());
    }
    sleep(MEMORY_RETRY).await;
    Ok(())
}

async fn run_turn<T: Send + 'static, E: From<WorkError> + Send + 'static>(
    permit: WorkPermit,
    mut taken: Taken<T>,
    turn: impl FnOnce(&mut T, &Turn<'_>) -> Result<TurnEnd, E> + Send + 'static,
) -> Result<TurnEnd, E> {
    let run = move |stop: &StopFlag| match &mut taken.state {
        Some(state) => turn(state, &Turn { stop, deadline: Instant::now() + TURN }),
        None => Ok(TurnEnd::Over),
    };
    permit.run(run).await?
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::sync::oneshot;

    use super::*;
    use crate::{budget::MemoryBudget, work::WorkAccounts};

    const KIND: WorkKind = WorkKind::compute("test");

    fn accounts() -> WorkAccounts {
        WorkAccounts::with_compute_permits(MemoryBudget::new(1000), 8)
    }

    async fn count_to(
        turns: &Turns<usize>,
        account: &WorkAccount,
        most: usize,
    ) -> Result<usize, WorkError> {
        let find = |count: &usize| (*count >= most).then_some(*count);
        let turn = |count: &mut usize, _: &Turn<'_>| {
            *count += 1;
            Ok(TurnEnd::Over)
        };
        turns.take(account, (KIND, 10), find, turn).await
    }

    #[tokio::test]
    async fn callers_share_what_each_of_them_does() {
        let (accounts, turns) = (accounts(), Turns::default());
        let callers = (0..20).map(|_| {
            let (account, turns) = (accounts.open(), turns.clone());
            tokio::spawn(async move { count_to(&turns, &account, 5).await })
        });
        for caller in callers.collect::<Vec<_>>() {
            assert_eq!(caller.await.unwrap(), Ok(5));
        }
        assert_eq!(turns.peek(|count| Some(*count)), Some(5));
    }

    #[tokio::test]
    async fn a_caller_that_waits_for_its_threads_holds_up_nobody() {
        let (accounts, turns) = (accounts(), Turns::default());
        let busy = accounts.open();
        let held: Vec<_> = std::iter::from_fn(|| busy.try_permit(KIND, 0).ok()).collect();
        let (waiting, account) = (turns.clone(), busy.clone());
        let waiting = tokio::spawn(async move { count_to(&waiting, &account, 5).await });
        tokio::task::yield_now().await;
        assert_eq!(count_to(&turns, &accounts.open(), 3).await, Ok(3));
        drop(held);
        assert_eq!(waiting.await.unwrap(), Ok(5), "it goes on where the other has stopped");
    }

    #[tokio::test]
    async fn a_turn_of_a_caller_that_is_gone_leaves_its_work_to_the_next() {
        let (accounts, turns) = (accounts(), Turns::<usize>::default());
        let ((started, is_started), (end, ended)) = (oneshot::channel(), mpsc::channel::<()>());
        let channels = Arc::new(parking_lot::Mutex::new(Some((started, ended))));
        let (own, account) = (turns.clone(), accounts.open());
        let gone = tokio::spawn(async move {
            let turn = move |count: &mut usize, turn: &Turn<'_>| {
                let (started, ended) = channels.lock().take().unwrap();
                let _ = started.send(());
                let _ = ended.recv();
                *count += if turn.is_over() { 100 } else { 1 };
                Ok::<_, WorkError>(TurnEnd::Over)
            };
            own.take(&account, (KIND, 0), |_| None::<()>, turn).await
        });
        is_started.await.unwrap();
        assert_eq!(turns.peek(|count| Some(*count)), None, "a caller works on it");
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        drop(end);
        assert_eq!(count_to(&turns, &accounts.open(), 101).await, Ok(101));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_without_memory_tries_again_and_then_fails() {
        let (accounts, turns) = (accounts(), Turns::<usize>::default());
        let account = accounts.open();
        let wait_until = |most: usize| {
            let find = move |tries: &usize| (*tries >= most).then_some(*tries);
            let turn = |tries: &mut usize, _: &Turn<'_>| {
                *tries += 1;
                Ok::<_, WorkError>(TurnEnd::OutOfMemory)
            };
            turns.take(&account, (KIND, 0), find, turn)
        };
        assert_eq!(wait_until(3).await, Ok(3));
        assert_eq!(wait_until(usize::MAX).await, Err(WorkError::OverBudget(OverBudget)));
        assert_eq!(accounts.memory().reserved(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_waits_for_the_memory_of_a_turn() {
        let (accounts, turns) = (accounts(), Turns::default());
        let account = accounts.open();
        let held = account.memory().try_reserve(account.memory().capacity()).unwrap();
        let refused = count_to(&turns, &account, 5).await;
        assert_eq!(refused, Err(WorkError::OverBudget(OverBudget)));
        let release = async {
            sleep(MEMORY_WAIT / 2).await;
            drop(held);
        };
        let (counted, ()) = tokio::join!(count_to(&turns, &account, 5), release);
        assert_eq!(counted, Ok(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_whose_turns_do_not_bring_what_it_waits_for_gives_up() {
        let (accounts, turns) = (accounts(), Turns::<bool>::default());
        let start = Instant::now();
        // Each turn that lacks memory is followed by one that does not.
        let turn = |lacks_memory: &mut bool, _: &Turn<'_>| {
            *lacks_memory = !*lacks_memory;
            Ok::<_, WorkError>(if *lacks_memory { TurnEnd::OutOfMemory } else { TurnEnd::Over })
        };
        let given_up = turns.take(&accounts.open(), (KIND, 0), |_| None::<()>, turn).await;
        assert_eq!(given_up, Err(WorkError::Busy));
        assert!(start.elapsed() >= TIME_LIMIT);
    }
}
