//! Tells notifications of this server's commits from those of other servers, which need a look at the log.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use skills_postgres::Notification;

use crate::Wake;

/// Newest revision that this server committed or is about to commit.
#[derive(Default)]
pub(super) struct OwnCommits {
    newest: AtomicU64,
    wake: Mutex<Option<Wake>>,
}

impl OwnCommits {
    /// Sets the callback for changes of other servers.
    pub(super) fn set_wake(&self, wake: Wake) {
        *self.wake.lock() = Some(wake);
    }

    /// Records a commit before it is sent, since its notification may arrive before its answer.
    pub(super) fn begin(self: &Arc<Self>, revision: u64) -> CommitInProgress {
        let before = self.newest.fetch_max(revision, Ordering::Relaxed);
        CommitInProgress { commits: Arc::clone(self), before, is_finished: false }
    }

    /// Wakes the follower, unless the notification is that of an own commit.
    pub(super) fn receive(&self, notification: &Notification) {
        let is_own = match notification {
            Notification::Connected => false,
            Notification::Payload(revision) => revision
                .parse()
                .is_ok_and(|revision: u64| revision <= self.newest.load(Ordering::Relaxed)),
        };
        if !is_own {
            self.wake();
        }
    }

    fn wake(&self) {
        let wake = self.wake.lock().clone();
        if let Some(wake) = wake {
            wake();
        }
    }
}

/// Commit whose result is not known yet. If it is dropped unfinished, the follower looks at the log: a notification of
/// another server may have been taken for that of this commit.
pub(super) struct CommitInProgress {
    commits: Arc<OwnCommits>,
    before: u64,
    is_finished: bool,
}

impl CommitInProgress {
    /// Records that the commit succeeded.
    pub(super) fn finish(mut self) {
        self.is_finished = true;
    }
}

impl Drop for CommitInProgress {
    fn drop(&mut self) {
        if !self.is_finished {
            self.commits.newest.store(self.before, Ordering::Relaxed);
            self.commits.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn commits() -> (Arc<OwnCommits>, Arc<AtomicUsize>) {
        let (commits, looks) = (Arc::new(OwnCommits::default()), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&looks);
        commits.set_wake(Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        }));
        (commits, looks)
    }

    fn notify(commits: &OwnCommits, revision: u64) {
        commits.receive(&Notification::Payload(revision.to_string()));
    }

    #[test]
    fn notifications_of_own_commits_are_ignored_before_and_after_the_answer() {
        let (commits, looks) = commits();
        let commit = commits.begin(7);
        notify(&commits, 7);
        commit.finish();
        notify(&commits, 7);
        assert_eq!(looks.load(Ordering::Relaxed), 0);
        notify(&commits, 8);
        commits.receive(&Notification::Connected);
        assert_eq!(looks.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_commit_that_failed_hides_no_change_of_another_server() {
        let (commits, looks) = commits();
        commits.begin(6).finish();
        let commit = commits.begin(7);
        notify(&commits, 7);
        assert_eq!(looks.load(Ordering::Relaxed), 0);
        drop(commit);
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        notify(&commits, 7);
        assert_eq!(looks.load(Ordering::Relaxed), 2);
    }
}
