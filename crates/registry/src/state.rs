//! The bus's key-value store: durable, on the same write path as the registry's own content.
//!
//! Values are JSON text. What the functions `state::*` look like on a bus is not known here.

use std::sync::Arc;

use skills_store::{
    Batch, BatchError, Compute, Effect, Mutation, NewValue, StateChange, StateEntry, Store,
    StoreError,
};

use crate::{Registry, RegistryError, Subscription, writer::WriteError};

/// A handle to the bus state.
#[derive(Debug, Clone)]
pub struct BusState {
    registry: Arc<Registry>,
}

/// What became of a conditional write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swap {
    /// It was written.
    Done(StateChange),
    /// Something else is there, as JSON text.
    Conflict(Option<String>),
}

impl Swap {
    /// The change of a write that had no condition.
    fn done(self) -> Result<StateChange, RegistryError> {
        match self {
            Self::Done(change) => Ok(change),
            Self::Conflict(_) => Err(RegistryError::Unexpected("a write without a condition")),
        }
    }
}

impl BusState {
    pub(crate) const fn new(registry: Arc<Registry>) -> Self {
        Self { registry }
    }

    /// Sets a value. Queued when called.
    pub fn set(
        &self,
        actor: &str,
        scope: String,
        key: String,
        value: String,
    ) -> impl Future<Output = Result<StateChange, RegistryError>> + Send + use<> {
        let value = NewValue::Given(value);
        let write = self.write(actor, Mutation::StateSet { scope, key, value });
        async move { write.await?.done() }
    }

    /// Sets a value to what `compute` makes of the present one, in one step. Queued when called.
    pub fn compute(
        &self,
        actor: &str,
        scope: String,
        key: String,
        compute: Compute,
    ) -> impl Future<Output = Result<Swap, RegistryError>> + Send + use<> {
        let value = NewValue::Computed(compute);
        self.write(actor, Mutation::StateSet { scope, key, value })
    }

    /// Removes a value. Queued when called.
    pub fn delete(
        &self,
        actor: &str,
        scope: String,
        key: String,
    ) -> impl Future<Output = Result<StateChange, RegistryError>> + Send + use<> {
        let write = self.write(actor, Mutation::StateDelete { scope, key });
        async move { write.await?.done() }
    }

    fn write(
        &self,
        actor: &str,
        mutation: Mutation,
    ) -> impl Future<Output = Result<Swap, RegistryError>> + Send + use<> {
        let write = self.registry.submit(Batch { actor: actor.into(), mutations: vec![mutation] });
        async move {
            match write.await {
                Ok(effects) => match effects.into_iter().next() {
                    Some(Effect::State(change)) => Ok(Swap::Done(change)),
                    _ => Err(RegistryError::Unexpected("a write of the state")),
                },
                Err(WriteError::Batch(BatchError::Conflict { current, .. })) => {
                    Ok(Swap::Conflict(current))
                }
                Err(WriteError::Batch(error)) => Err(error.into()),
                Err(WriteError::Registry(error)) => Err(error),
            }
        }
    }

    /// One value.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn get(&self, scope: String, key: String) -> Result<Option<String>, RegistryError> {
        self.read(move |store| store.state_get(&scope, &key)).await
    }

    /// The values of a scope after a position, in the order of their first insertion.
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
        self.read(move |store| store.state_page(&scope, after, limit, max_bytes)).await
    }

    /// How many values a scope has, and their size in bytes.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn size(&self, scope: String) -> Result<(u64, u64), RegistryError> {
        self.read(move |store| store.state_size(&scope)).await
    }

    /// The scopes that hold something, sorted.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn scopes(&self) -> Result<Vec<String>, RegistryError> {
        self.read(|store| store.state_scopes()).await
    }

    /// Every change of the bus state from now on.
    #[must_use]
    pub fn changes(&self) -> Subscription<Arc<StateChange>> {
        self.registry.published().state.subscribe()
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, RegistryError> {
        let store = Arc::clone(self.registry.store());
        let read = tokio::task::spawn_blocking(move || query(&*store));
        Ok(read.await.map_err(|_| RegistryError::Closed)??)
    }
}
