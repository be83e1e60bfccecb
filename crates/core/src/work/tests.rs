use std::{sync::mpsc, time::Duration};

use tokio::sync::oneshot;

use super::*;
use crate::budget::{MemoryBudget, OverBudget};

const COMPUTE: WorkKind = WorkKind::compute("test");
const IO: WorkKind = WorkKind::io("test of I/O");

fn accounts(bytes: usize) -> WorkAccounts {
    WorkAccounts::with_compute_permits(MemoryBudget::new(bytes), 8)
}

/// Starts work that ends when the returned sender is dropped, and waits until it runs.
async fn start(account: &WorkAccount, kind: WorkKind, bytes: usize) -> mpsc::Sender<()> {
    let ((started, is_started), (end, ended)) = (oneshot::channel(), mpsc::channel());
    let permit = account.permit(kind, bytes).await.unwrap();
    let work = move |_: &StopFlag| {
        let _ = started.send(());
        let _ = ended.recv();
    };
    tokio::spawn(permit.run(work));
    is_started.await.unwrap();
    end
}

#[tokio::test(start_paused = true)]
async fn a_client_that_uses_its_threads_leaves_threads_to_others() {
    let accounts = accounts(1 << 20);
    let (one, other) = (accounts.open(), accounts.open());
    let mut running = vec![];
    for _ in 0..client_share(8) {
        running.push(one.permit(COMPUTE, 0).await.unwrap());
    }
    assert_eq!(one.permit(COMPUTE, 0).await.unwrap_err(), WorkError::Busy);
    assert!(one.permit(IO, 0).await.is_ok(), "another pool");
    assert_eq!(other.run(COMPUTE, 0, |_| 7).await, Ok(7));
    drop(running);
    assert_eq!(one.run(COMPUTE, 0, |_| 7).await, Ok(7));
}

#[tokio::test]
async fn work_keeps_its_memory_and_thread_until_it_ends_also_without_its_caller() {
    let accounts = accounts(1 << 20);
    let account = accounts.open();
    let ((started, is_started), (end, ended)) = (oneshot::channel(), mpsc::channel::<()>());
    let (stopped, is_stopped) = oneshot::channel();
    let permit = account.permit(COMPUTE, 1000).await.unwrap();
    let caller = tokio::spawn(permit.run(move |stop: &StopFlag| {
        let _ = started.send(());
        let _ = ended.recv();
        let _ = stopped.send(stop.is_raised());
    }));
    is_started.await.unwrap();
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    assert_eq!(accounts.memory().reserved(), 1000);
    drop(end);
    assert!(is_stopped.await.unwrap(), "the work is told that its caller is gone");
    // The permit is released just after the work has ended: another one needs all bytes.
    while account.memory().reserved() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn work_without_memory_does_not_start() {
    let accounts = accounts(800);
    let (one, other) = (accounts.open(), accounts.open());
    assert_eq!(one.run(IO, 301, |_| ()).await, Err(WorkError::OverBudget(OverBudget)));
    let end = start(&one, IO, 300).await;
    assert_eq!(one.run(IO, 1, |_| ()).await, Err(WorkError::OverBudget(OverBudget)));
    assert_eq!(other.run(IO, 300, |_| ()).await, Ok(()));
    drop(end);
}

#[tokio::test]
async fn a_panic_of_work_is_an_error_and_releases_its_permit() {
    let account = accounts(1000).open();
    let work = |_: &StopFlag| -> () { panic!("of the test") };
    assert_eq!(account.run(COMPUTE, 100, work).await, Err(WorkError::Panicked("test")));
    assert_eq!(account.memory().reserved(), 0);
}

#[test]
fn a_flag_is_raised_at_its_deadline() {
    let now = std::time::Instant::now();
    assert!(StopFlag::with_deadline(now).is_raised());
    let flag = StopFlag::with_deadline(now + Duration::from_secs(3600));
    assert_eq!(flag.check(), Ok(()));
    flag.clone().raise();
    assert_eq!(flag.check(), Err(Stopped));
}

#[tokio::test]
async fn a_task_has_the_account_of_its_scope() {
    let account = accounts(1000).open();
    let within = account.scope(async { WorkAccount::current() }).await;
    assert_eq!(within, account);
    assert_eq!(WorkAccount::current(), WorkAccount::process());
    assert_ne!(within, WorkAccount::process());
}

#[test]
fn two_clients_leave_a_quarter_of_what_outlives_requests_to_large_entries_of_others() {
    let accounts = accounts(256 << 20);
    let clients: Vec<_> = (0..3).map(|_| accounts.open()).collect();
    let fill = |client: &WorkAccount| {
        std::iter::from_fn(|| client.held_memory().try_reserve(1 << 20).ok()).collect::<Vec<_>>()
    };
    let held: Vec<_> = clients[..2].iter().map(fill).collect();
    assert!(held.iter().all(|held| held.len() == 48));
    assert!(clients[2].held_memory().try_reserve(32 << 20).is_ok());
}

#[tokio::test]
async fn what_outlives_requests_leaves_memory_to_requests() {
    let accounts = accounts(8 << 20);
    let clients: Vec<_> = (0..9).map(|_| accounts.open()).collect();
    let held: Vec<_> = clients
        .iter()
        .flat_map(|client| std::iter::from_fn(|| client.held_memory().try_reserve(1000).ok()))
        .collect();
    assert!(accounts.memory().reserved() <= 4 << 20);
    assert!(clients[8].run(COMPUTE, 2 << 20, |_| ()).await.is_ok(), "a large request");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_gone_while_it_waits_leaves_no_permit_behind() {
    let account = accounts(1000).open();
    let mut running = vec![];
    for _ in 0..client_share(8) {
        running.push(account.permit(COMPUTE, 0).await.unwrap());
    }
    let waiting = tokio::time::timeout(Duration::from_secs(1), account.permit(COMPUTE, 100));
    assert!(waiting.await.is_err());
    assert_eq!(account.memory().reserved(), 0);
    drop(running);
    assert!(account.permit(COMPUTE, 100).await.is_ok());
}

#[tokio::test]
async fn a_permit_that_is_not_waited_for_is_one_that_is_free() {
    let accounts = accounts(1000);
    let (one, other) = (accounts.open(), accounts.open());
    let take = |account: &WorkAccount| account.try_permit(COMPUTE, 10);
    let mut held: Vec<_> = (0..client_share(8)).map(|_| take(&one).unwrap()).collect();
    assert_eq!(take(&one).unwrap_err(), WorkError::Busy);
    assert_eq!(accounts.memory().reserved(), 30, "a refusal reserves nothing");
    assert_eq!(one.try_permit(COMPUTE, 1000).unwrap_err(), WorkError::OverBudget(OverBudget));
    held.push(take(&other).unwrap());
    drop(held);
    assert!(take(&one).is_ok());
}

#[tokio::test]
async fn reads_of_work_are_on_the_account_of_its_caller() {
    let account = accounts(1 << 20).open();
    let own = account.clone();
    let same = account.run(COMPUTE, 0, move |_| {
        own.block_on(async {
            let current = WorkAccount::current();
            (current == own, current.run(IO, 10, |_| 7).await)
        })
    });
    assert_eq!(same.await, Ok((true, Ok(7))));
}

#[tokio::test]
async fn work_reserves_memory_as_it_goes_on_within_the_share_of_its_caller() {
    let accounts = accounts(800);
    let (one, other) = (accounts.open(), accounts.open());
    let memory = accounts.memory().clone();
    let permit = one.permit(COMPUTE, 100).await.unwrap();
    let grown = permit.run_growing(move |work| {
        work.try_grow(200)?;
        let refused = work.try_grow(1);
        assert_eq!((refused, memory.reserved()), (Err(WorkError::OverBudget(OverBudget)), 300));
        work.shrink_to(50);
        Ok::<_, WorkError>((work.reserved(), memory.reserved()))
    });
    assert_eq!(grown.await, Ok(Ok((50, 50))));
    assert_eq!(accounts.memory().reserved(), 0);
    assert!(other.permit(COMPUTE, 300).await.is_ok());
    assert_eq!(RunningWork::of_process().try_grow(1 << 40), Ok(()));
}
