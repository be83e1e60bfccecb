//! Detects keys that end, for connections that were opened with one.
//!
//! One task polls all watched keys several times a second: another process may change the vault, and a key may expire, so
//! there is no notification. It knows keys and no connections: those wait for [`KeyDirectory::wait_until_ended`].

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use skills_core::{Caller, KeyDirectory, KeyEnd, KeyLookup, User, work::run_own};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Poll interval; connections end within a second of their key.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Key directory that notifies connections when their key ends.
pub(crate) struct KeyWatch(Arc<Inner>);

struct Inner {
    keys: Arc<dyn KeyDirectory>,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    /// Tokens of watched keys, owned by the waiting connections.
    ends: HashMap<User, Weak<CancellationToken>>,
    /// Set while the polling task runs, which is while a key is watched.
    is_running: bool,
}

impl KeyWatch {
    pub(crate) fn new(keys: Arc<dyn KeyDirectory>) -> Self {
        Self(Arc::new(Inner { keys, watched: Mutex::default() }))
    }

    fn end_token(&self, user: &User) -> Arc<CancellationToken> {
        let mut watched = self.0.watched.lock();
        if let Some(end) = watched.ends.get(user).and_then(Weak::upgrade) {
            return end;
        }
        let end = Arc::new(CancellationToken::new());
        watched.ends.insert(user.clone(), Arc::downgrade(&end));
        if !watched.is_running {
            watched.is_running = true;
            tokio::spawn(poll(Arc::downgrade(&self.0)));
        }
        end
    }
}

impl KeyDirectory for KeyWatch {
    fn lookup(&self, bearer: &str) -> KeyLookup {
        self.0.keys.lookup(bearer)
    }

    fn is_active(&self, caller: &Caller) -> bool {
        self.0.keys.is_active(caller)
    }

    fn wait_until_ended(&self, caller: &Caller) -> KeyEnd {
        let Caller::User(user) = caller else { return Box::pin(std::future::pending()) };
        let end = self.end_token(user);
        Box::pin(async move { end.cancelled().await })
    }
}

impl Inner {
    /// Cancels the tokens of ended keys, and returns whether any key is still watched.
    fn check_keys(&self) -> bool {
        let watched: Vec<(User, Arc<CancellationToken>)> = {
            let mut watched = self.watched.lock();
            watched.ends.retain(|_, end| end.strong_count() > 0);
            watched.is_running = !watched.ends.is_empty();
            let ends = watched.ends.iter();
            ends.filter_map(|(user, end)| Some((user.clone(), end.upgrade()?))).collect()
        };
        let is_watching = !watched.is_empty();
        for (user, end) in watched {
            let caller = Caller::User(user.clone());
            if !self.keys.is_active(&caller) {
                tracing::info!(actor = caller.actor(), "key ended, closing its connections");
                self.watched.lock().ends.remove(&user);
                end.cancel();
            }
        }
        is_watching
    }
}

async fn poll(inner: Weak<Inner>) {
    let mut tick = interval(POLL_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(inner) = inner.upgrade() else { return };
        // The vault is a file, so the check blocks.
        match run_own("check of watched keys", move || inner.check_keys()).await {
            Ok(true) => {}
            Ok(false) => return,
            // The task goes on: nothing else would start it again.
            Err(error) => tracing::error!(%error, "key check failed, retrying"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use skills_core::Digest;
    use tokio::time::timeout;

    use super::*;

    /// Directory of a list of users.
    struct UserList(Mutex<Vec<Caller>>);

    impl KeyDirectory for UserList {
        fn lookup(&self, _: &str) -> KeyLookup {
            KeyLookup::NotAKey
        }

        fn is_active(&self, caller: &Caller) -> bool {
            self.0.lock().contains(caller)
        }
    }

    fn user(key: &[u8]) -> Caller {
        Caller::User(User { owner: "ann".parse().unwrap(), key: Digest::of(key) })
    }

    async fn has_ended(end: &mut KeyEnd) -> bool {
        timeout(Duration::from_secs(1), end).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn all_waiters_of_a_key_are_notified_within_a_second() {
        let (one, other) = (user(b"one"), user(b"other"));
        let users = Arc::new(UserList(Mutex::new(vec![one.clone(), other.clone()])));
        let watch = KeyWatch::new(Arc::<UserList>::clone(&users));
        let mut first = watch.wait_until_ended(&one);
        let mut second = watch.wait_until_ended(&one);
        let mut active = watch.wait_until_ended(&other);
        users.0.lock().retain(|caller| *caller == other);
        assert!(has_ended(&mut first).await && has_ended(&mut second).await);
        assert!(!has_ended(&mut active).await, "the other key is active");
        let mut wait_until_ended = watch.wait_until_ended(&one);
        assert!(has_ended(&mut wait_until_ended).await, "a key that ended before");
    }

    /// Panics at the first check and then knows no key.
    struct PanicsOnce(AtomicBool);

    impl KeyDirectory for PanicsOnce {
        fn lookup(&self, _: &str) -> KeyLookup {
            KeyLookup::NotAKey
        }

        fn is_active(&self, _: &Caller) -> bool {
            assert!(self.0.swap(true, Ordering::Relaxed), "the first check");
            false
        }
    }

    #[tokio::test(start_paused = true)]
    async fn polling_goes_on_after_a_panic() {
        let keys = Arc::new(PanicsOnce(AtomicBool::new(false)));
        let watch = KeyWatch::new(Arc::<PanicsOnce>::clone(&keys));
        let end = watch.wait_until_ended(&user(b"one"));
        timeout(Duration::from_secs(10), end).await.unwrap();
        assert!(keys.0.load(Ordering::Relaxed), "it has panicked");
    }

    #[tokio::test(start_paused = true)]
    async fn polling_stops_when_no_key_is_watched() {
        let watch = KeyWatch::new(Arc::new(UserList(Mutex::default())));
        assert!(!watch.0.watched.lock().is_running);
        let mut anonymous = watch.wait_until_ended(&Caller::Anonymous);
        assert!(!has_ended(&mut anonymous).await && !watch.0.watched.lock().is_running);
        let mut end = watch.wait_until_ended(&user(b"one"));
        assert!(has_ended(&mut end).await);
        drop(end);
        for _ in 0..100 {
            if !watch.0.watched.lock().is_running {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL / 5).await;
        }
        panic!("the task still runs");
    }
}
