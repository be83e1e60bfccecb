//! Bus state: the key-value store of the bus, durable and on the write path of the registry's own content.
//!
//! Values are JSON text. This module does not know the `state::*` functions.

use std::sync::Arc;

use skills_core::{WorkAccount, WorkKind};
use skills_store::{BatchError, Compute, Effect, Mutation, NewValue, Store, StoreError};

use crate::{
    FeedSubscription, PendingWrite, Registry, RegistryError, StateChange, StateEntry,
    writer::BatchResult,
};

/// Reading the state of the bus.
const READ: WorkKind = WorkKind::io("reading the state of the bus");

/// Handle of the bus state.
#[derive(Debug, Clone)]
pub struct BusState {
    registry: Arc<Registry>,
}

/// Result of a conditional write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swap {
    /// The value was written.
    Done(StateChange),
    /// The condition does not hold for the current value, which is JSON text.
    Conflict(Option<String>),
}

impl BusState {
    pub(crate) const fn new(registry: Arc<Registry>) -> Self {
        Self { registry }
    }

    /// Sets a value.
    pub fn set(
        &self,
        actor: &str,
        scope: String,
        key: String,
        value: String,
    ) -> PendingWrite<StateChange> {
        let value = NewValue::Given(value);
        let mutation = Mutation::StateSet { scope, key, value };
        self.registry.submit(actor, vec![mutation], to_state_change)
    }

    /// Sets a value to the result of `compute` on the current one, atomically.
    pub fn compute(
        &self,
        actor: &str,
        scope: String,
        key: String,
        compute: Compute,
    ) -> PendingWrite<Swap> {
        let value = NewValue::Computed(compute);
        let mutation = Mutation::StateSet { scope, key, value };
        self.registry.submit(actor, vec![mutation], |result| match result {
            Err(BatchError::Conflict { current, .. }) => Ok(Swap::Conflict(current)),
            result => to_state_change(result).map(Swap::Done),
        })
    }

    /// Removes a value.
    pub fn delete(&self, actor: &str, scope: String, key: String) -> PendingWrite<StateChange> {
        let mutation = Mutation::StateDelete { scope, key };
        self.registry.submit(actor, vec![mutation], to_state_change)
    }

    /// Returns a value.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn get(&self, scope: String, key: String) -> Result<Option<String>, RegistryError> {
        self.read(0, move |store| store.state_get(&scope, &key)).await
    }

    /// Returns the values of a scope after a position, in the order of their first insertion.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn page(
        &self,
        scope: String,
        after: i64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<StateEntry>, RegistryError> {
        self.read(max_bytes, move |store| store.state_page(&scope, after, limit, max_bytes)).await
    }

    /// Returns the number of values of a scope and their size in bytes.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn size(&self, scope: String) -> Result<(u64, u64), RegistryError> {
        self.read(0, move |store| store.state_size(&scope)).await
    }

    /// Returns the scopes that are not empty, sorted.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn scopes(&self) -> Result<Vec<String>, RegistryError> {
        self.read(0, |store| store.state_scopes()).await
    }

    /// Subscribes to all changes of the bus state from now on.
    #[must_use]
    pub fn changes(&self) -> FeedSubscription<Arc<StateChange>> {
        self.registry.publisher().state.subscribe()
    }

    /// Reads the store. Connections of the bus, whose messages bound what is read, share an account without a limit of
    /// memory.
    async fn read<T: Send + 'static>(
        &self,
        bytes: usize,
        query: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, RegistryError> {
        let store = Arc::clone(self.registry.store());
        Ok(WorkAccount::current().run(READ, bytes, move |_| query(&*store)).await??)
    }
}

fn to_state_change(result: BatchResult) -> Result<StateChange, RegistryError> {
    match result?.pop() {
        Some(Effect::State(change)) => Ok(change),
        _ => Err(RegistryError::Unexpected("a write of the state")),
    }
}
