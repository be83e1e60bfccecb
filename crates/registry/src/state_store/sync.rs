//! Following what others write: events of the trigger type `state`, and a comparison of everything after a
//! connection was lost.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Deserialize;
use serde_json::Value;
use tokio::{sync::Notify, time::Instant};

use super::{
    StateStore,
    compare::Comparison,
    heard::{Heard, MAX_LOOKS, Queue, Task},
    key,
};
use crate::{Registry, RegistryError};

/// How long to wait before a record is looked at again that could not be read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What the state worker says when a value has changed.
#[derive(Debug, Clone, Deserialize)]
pub struct Event {
    /// Which scope.
    pub scope: String,
    /// Which key.
    pub key: String,
    /// What was there.
    #[serde(default)]
    pub old_value: Value,
    /// What is there now.
    #[serde(default)]
    pub new_value: Value,
}

/// Listens to events from before there is a registry to bring them to: what happens while everything is
/// read for the first time must not be missed.
#[derive(Debug, Clone, Default)]
pub struct Ear(Arc<Mutex<Hearing>>);

#[derive(Debug)]
enum Hearing {
    /// Which records to look at later.
    Noted(HashSet<(String, String)>),
    /// More than can be noted.
    TooMany,
    Follows(Follower),
}

impl Default for Hearing {
    fn default() -> Self {
        Self::Noted(HashSet::new())
    }
}

impl Ear {
    fn lock(&self) -> MutexGuard<'_, Hearing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an event, in the order in which it is called.
    pub fn hear(&self, event: Event) {
        let mut hearing = self.lock();
        match &mut *hearing {
            Hearing::Noted(subjects) => {
                subjects.insert((event.scope, event.key));
                if subjects.len() > MAX_LOOKS {
                    *hearing = Hearing::TooMany;
                }
            }
            Hearing::TooMany => {}
            Hearing::Follows(follower) => follower.hear(&event),
        }
    }

    /// Has everything compared: something may have happened of which no event tells.
    pub fn compare(&self) {
        let mut hearing = self.lock();
        match &*hearing {
            Hearing::Noted(_) | Hearing::TooMany => *hearing = Hearing::TooMany,
            Hearing::Follows(follower) => follower.compare(),
        }
    }

    /// From now on events go to a registry, after it has looked at what was told of before.
    pub fn follow(&self, follower: &Follower) {
        let mut hearing = self.lock();
        match &*hearing {
            Hearing::Noted(subjects) => follower.queue(|queue| {
                for (scope, id) in subjects {
                    if let Some(kind) = follower.store.scopes.kind(scope) {
                        queue.look_at(key(kind, id));
                    }
                }
            }),
            Hearing::TooMany => follower.compare(),
            Hearing::Follows(_) => {}
        }
        *hearing = Hearing::Follows(follower.clone());
    }
}

/// Brings what happens in the state into a registry.
#[derive(Debug, Clone)]
pub struct Follower {
    registry: Arc<Registry>,
    store: Arc<StateStore>,
    queue: Arc<Mutex<Queue>>,
    /// Something was added to the queue.
    added: Arc<Notify>,
}

impl Follower {
    /// A follower of `store` for the registry that stands on it.
    #[must_use]
    pub fn new(registry: Arc<Registry>, store: Arc<StateStore>) -> Self {
        Self { registry, store, queue: Arc::default(), added: Arc::default() }
    }

    /// Takes in an event. Queued when called, so events keep their order.
    pub fn hear(&self, event: &Event) {
        if let Some(heard) = Heard::of(event, &self.store.scopes) {
            self.queue(|queue| queue.hear(heard));
        }
    }

    /// Has everything compared, again and again until it could be.
    pub fn compare(&self) {
        self.queue(Queue::compare);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, add: impl FnOnce(&mut Queue)) {
        let mut queue = self.lock();
        add(&mut queue);
        if std::mem::replace(&mut queue.is_attended, true) {
            self.added.notify_one();
        } else {
            tokio::spawn(self.clone().attend());
        }
    }

    /// Carries out what is in the queue, one thing after the other, until there is nothing left.
    async fn attend(self) {
        let mut rests_until: Option<Instant> = None;
        loop {
            let rest = rests_until.filter(|until| Instant::now() < *until);
            let task = self.lock().next(rest.is_some());
            let done = match &task {
                Task::Nothing => return,
                Task::Rest => {
                    let until = rest.unwrap_or_else(Instant::now);
                    tokio::select! {
                        () = tokio::time::sleep_until(until) => {}
                        () = self.added.notified() => {}
                    }
                    continue;
                }
                Task::Hear => {
                    let (store, queue) = (Arc::clone(&self.store), Arc::clone(&self.queue));
                    let hear = move |now| store.hear(&queue, rest.is_some(), now);
                    self.registry.foreign(Box::new(hear)).await
                }
                Task::Look(key) => {
                    let (store, key) = (Arc::clone(&self.store), key.clone());
                    let look = move |now| store.look(&key, now).into();
                    self.registry.foreign(Box::new(look)).await
                }
                Task::Compare => self.resync().await,
            };
            let Err(error) = done else { continue };
            if matches!(error, RegistryError::Closed) {
                return;
            }
            tracing::debug!(%error, "the state could not be read; trying again");
            rests_until = Some(Instant::now() + LOOK_AGAIN);
            match task {
                Task::Look(key) => self.lock().look_at(key),
                Task::Compare => self.lock().compare(),
                Task::Hear | Task::Rest | Task::Nothing => {}
            }
        }
    }

    /// Compares everything; returns how many differences were found. Writes pass between its steps.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub async fn resync(&self) -> Result<usize, RegistryError> {
        let comparison = Arc::new(Mutex::new(Comparison::default()));
        let is_done = |comparison: &Mutex<Comparison>| {
            comparison.lock().unwrap_or_else(PoisonError::into_inner).is_done()
        };
        let mut differences = 0;
        while !is_done(&comparison) {
            let (store, comparison) = (Arc::clone(&self.store), Arc::clone(&comparison));
            let step = move |now| {
                let mut comparison = comparison.lock().unwrap_or_else(PoisonError::into_inner);
                comparison.step(&store, now)
            };
            differences += self.registry.foreign(Box::new(step)).await?;
        }
        Ok(differences)
    }
}
