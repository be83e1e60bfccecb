//! Following what others write: events of the trigger type `state`, and a comparison of everything after a
//! connection was lost.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Deserialize;
use serde_json::Value;
use skills_core::EntryKey;

use super::{StateStore, compare::Comparison, key};
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
pub struct Ear(Arc<Mutex<Heard>>);

#[derive(Debug)]
enum Heard {
    /// Which records to look at later.
    Noted(HashSet<(String, String)>),
    Follows(Follower),
}

impl Default for Heard {
    fn default() -> Self {
        Self::Noted(HashSet::new())
    }
}

impl Ear {
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an event, in the order in which it is called.
    pub fn hear(&self, event: Event) {
        match &mut *self.lock() {
            Heard::Noted(subjects) => {
                subjects.insert((event.scope, event.key));
            }
            Heard::Follows(follower) => follower.hear(event),
        }
    }

    /// From now on events go to a registry, after it has looked at what was told of before.
    pub fn follow(&self, follower: &Follower) {
        let mut heard = self.lock();
        if let Heard::Noted(subjects) = &*heard {
            for (scope, id) in subjects {
                if let Some(kind) = follower.store.scopes.kind(scope) {
                    let (follower, subject) = (follower.clone(), key(kind, id));
                    tokio::spawn(async move { follower.look_until_read(subject).await });
                }
            }
        }
        *heard = Heard::Follows(follower.clone());
    }
}

/// Brings what happens in the state into a registry.
#[derive(Debug, Clone)]
pub struct Follower {
    registry: Arc<Registry>,
    store: Arc<StateStore>,
    /// What could not be read when an event told of it.
    unread: Arc<Mutex<HashSet<EntryKey>>>,
}

impl Follower {
    /// A follower of `store` for the registry that stands on it.
    #[must_use]
    pub fn new(registry: Arc<Registry>, store: Arc<StateStore>) -> Self {
        Self { registry, store, unread: Arc::default() }
    }

    /// Takes in an event. Queued when called, so events keep their order.
    pub fn hear(&self, event: Event) {
        let store = Arc::clone(&self.store);
        let subject = self.store.scopes.kind(&event.scope).map(|kind| key(kind, &event.key));
        let heard = self.registry.foreign(Box::new(move |now| store.hear(&event, now).into()));
        let again = self.clone();
        tokio::spawn(async move {
            match (heard.await, subject) {
                // Events may overtake each other; a second look settles what the order left open.
                (Ok(1..), Some(subject)) => again.look_until_read(subject).await,
                (Ok(_) | Err(RegistryError::Closed), _) | (Err(_), None) => {}
                (Err(error), Some(subject)) => {
                    tracing::debug!(%error, %subject, "the state could not be read; trying again");
                    tokio::time::sleep(LOOK_AGAIN).await;
                    again.look_until_read(subject).await;
                }
            }
        });
    }

    /// Looks at a record until the state answers. One look at a time is enough for each.
    async fn look_until_read(&self, subject: EntryKey) {
        let unread = || self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (store, key) = (Arc::clone(&self.store), subject.clone());
            let look = self.registry.foreign(Box::new(move |now| store.look(&key, now).into()));
            match look.await {
                Ok(_) | Err(RegistryError::Closed) => return,
                Err(error) => tracing::debug!(%error, %subject, "a look at the state failed"),
            }
            if !unread().insert(subject.clone()) {
                return;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
            unread().remove(&subject);
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
