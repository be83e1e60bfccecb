//! Following what others write: events of the trigger type `state`, and a comparison of everything after a
//! connection was lost.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use skills_core::EntryKey;

use super::{StateStore, key};
use crate::Registry;

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

/// Brings what happens in the state into a registry.
#[derive(Debug, Clone)]
pub struct Follower {
    registry: Arc<Registry>,
    store: Arc<StateStore>,
}

impl Follower {
    /// A follower of `store` for the registry that stands on it.
    #[must_use]
    pub const fn new(registry: Arc<Registry>, store: Arc<StateStore>) -> Self {
        Self { registry, store }
    }

    /// Takes in an event. Queued when called, so events keep their order.
    pub fn hear(&self, event: Event) {
        let store = Arc::clone(&self.store);
        let subject = self.store.scopes.kind(&event.scope).map(|kind| key(kind, &event.key));
        let heard = self.registry.foreign(Box::new(move |now| store.hear(&event, now).into()));
        let again = self.clone();
        tokio::spawn(async move {
            // Events may overtake each other; a second look settles what the order left open.
            match (heard.await, subject) {
                (Ok(1..), Some(subject)) => again.look(subject).await,
                (Ok(_), _) | (Err(_), None) => {}
                (Err(error), Some(subject)) => {
                    tracing::warn!(%error, %subject, "the state could not be read; it is compared again later");
                }
            }
        });
    }

    async fn look(&self, subject: EntryKey) {
        let store = Arc::clone(&self.store);
        let look = self.registry.foreign(Box::new(move |now| store.look(&subject, now).into()));
        if let Err(error) = look.await {
            tracing::debug!(%error, "a second look at the state failed");
        }
    }

    /// Compares everything; returns how many differences were found.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub async fn resync(&self) -> Result<usize, crate::RegistryError> {
        let store = Arc::clone(&self.store);
        self.registry.foreign(Box::new(move |now| store.resync(now))).await
    }
}
