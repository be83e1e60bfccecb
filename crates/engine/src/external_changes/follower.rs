//! Applies events of the `state` trigger to a registry and compares all records after a lost connection.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use skills_core::{EntryKey, Timestamp, work::run_own};
use skills_registry::{Registry, RegistryError};
use tokio::{sync::Notify, time::Instant};

use super::{
    StateTriggerEvent,
    comparison::Comparison,
    event_queue::{EventQueue, StateEvent, Task},
};
use crate::state_store::{StaleRead, StateScopes, StateStore};

/// Backoff after the state could not be read.
const BACKOFF: Duration = Duration::from_secs(1);

/// Applies external changes of the state to a registry.
#[derive(Debug, Clone)]
pub struct Follower {
    registry: Arc<Registry>,
    store: Arc<StateStore>,
    queue: Arc<Mutex<EventQueue>>,
    /// Signals an addition to the queue.
    added: Arc<Notify>,
}

impl Follower {
    /// Creates a follower for a registry that was opened on `store`.
    #[must_use]
    pub fn new(registry: Arc<Registry>, store: Arc<StateStore>) -> Self {
        Self { registry, store, queue: Arc::default(), added: Arc::default() }
    }

    /// Queues an event. Events keep the order of these calls.
    pub fn push(&self, event: &StateTriggerEvent) {
        let decode = |key: &EntryKey, value: &str| self.store.decode_event(key, value);
        let Some((key, new)) = event.decode_new(self.scopes(), decode) else { return };
        let is_known = || {
            self.store.confirm_open_write(&key, new.as_ref())
                || self.store.confirm_known(&key, new.as_ref(), Timestamp::now())
        };
        // Most events report own writes and need no task.
        if self.queue.lock().has_no_events() && is_known() {
            return;
        }
        self.update_queue(|queue| queue.push(StateEvent::new(event, key, new)));
    }

    /// Queues a comparison of all records, which is retried until it succeeds.
    pub(super) fn request_comparison(&self) {
        self.update_queue(EventQueue::enqueue_comparison);
    }

    pub(super) fn scopes(&self) -> &StateScopes {
        self.store.scopes()
    }

    /// Changes the queue and makes sure that a task empties it.
    pub(super) fn update_queue(&self, update: impl FnOnce(&mut EventQueue)) {
        let mut queue = self.queue.lock();
        update(&mut queue);
        if std::mem::replace(&mut queue.is_running, true) {
            self.added.notify_one();
        } else {
            tokio::spawn(self.clone().run());
        }
    }

    /// Runs queued tasks one after the other until the queue is empty.
    async fn run(self) {
        let mut backoff_until: Option<Instant> = None;
        loop {
            let backoff = backoff_until.filter(|until| Instant::now() < *until);
            let write_ended = self.store.write_ended();
            tokio::pin!(write_ended);
            write_ended.as_mut().enable();
            let task = self.next_task(backoff.is_some());
            let result = match &task {
                Task::Idle => return,
                Task::Wait => {
                    let backoff_ended = async {
                        match backoff {
                            Some(until) => tokio::time::sleep_until(until).await,
                            None => std::future::pending().await,
                        }
                    };
                    tokio::select! {
                        () = backoff_ended => {}
                        () = self.added.notified() => {}
                        () = write_ended => {}
                    }
                    continue;
                }
                Task::ApplyEvents => {
                    let (store, queue) = (Arc::clone(&self.store), Arc::clone(&self.queue));
                    let apply = move |now| store.apply_events(&queue, now);
                    self.registry.apply_external(Box::new(apply)).await
                }
                Task::Recheck(key) => self.recheck(key).await,
                Task::Compare => self.resync().await,
            };
            let Err(error) = result else { continue };
            if matches!(error, RegistryError::Closed) {
                return;
            }
            tracing::debug!(%error, "cannot read the state; retrying");
            backoff_until = Some(Instant::now() + BACKOFF);
            match task {
                Task::Recheck(key) => self.queue.lock().enqueue_recheck(key),
                Task::Compare => self.queue.lock().enqueue_comparison(),
                Task::ApplyEvents | Task::Wait | Task::Idle => {}
            }
        }
    }

    fn next_task(&self, in_backoff: bool) -> Task {
        let now = Timestamp::now();
        let is_writing = |key: &EntryKey| self.store.index().is_writing(key);
        let mut queue = self.queue.lock();
        queue.unpark(is_writing, |event| {
            self.store.confirm_known(&event.key, event.new.as_ref(), now)
        });
        queue.next_task(in_backoff, is_writing)
    }

    /// Reads a record and applies it. If it is stale, the record is queued for another recheck.
    async fn recheck(&self, key: &EntryKey) -> Result<usize, RegistryError> {
        let arrived = self.queue.lock().take_events_of(key);
        let fetched = match self.store.fetch(key.clone()).await {
            Ok(fetched) => fetched,
            Err(error) => {
                let mut queue = self.queue.lock();
                arrived.into_iter().for_each(|event| queue.park(event));
                return Err(error.into());
            }
        };
        let (store, queue, key) = (Arc::clone(&self.store), Arc::clone(&self.queue), key.clone());
        let apply = move |now| match store.apply_recheck(fetched, &arrived, now) {
            Ok(change) => change.into_iter().collect(),
            Err(StaleRead) => {
                queue.lock().enqueue_recheck(key);
                vec![]
            }
        };
        self.registry.apply_external(Box::new(apply)).await
    }

    /// Compares all records with the state and returns the number of differences. Writes proceed meanwhile.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub async fn resync(&self) -> Result<usize, RegistryError> {
        let comparison = Arc::new(Mutex::new(Comparison::default()));
        let mut differences = 0;
        while !comparison.lock().is_done() {
            let (store, reader) = (Arc::clone(&self.store), Arc::clone(&comparison));
            // On a blocking thread, because decoding a page takes a while.
            let read =
                run_own("comparison with the state", move || reader.lock().read(&store)).await;
            let read = read.map_err(|_| RegistryError::Closed)??;
            let (store, comparison) = (Arc::clone(&self.store), Arc::clone(&comparison));
            let queue = Arc::clone(&self.queue);
            let apply = move |now| {
                let found = comparison.lock().apply(read, &store, now);
                let mut queue = queue.lock();
                found.stale.into_iter().for_each(|key| queue.enqueue_recheck(key));
                found.changes
            };
            differences += self.registry.apply_external(Box::new(apply)).await?;
        }
        // Starts a task for rechecks of stale records.
        self.update_queue(|_| {});
        Ok(differences)
    }
}
