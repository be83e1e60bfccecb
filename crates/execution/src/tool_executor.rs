//! The trait that surfaces call tools through, and its implementations besides [`Executor`].

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};
use skills_core::Caller;
use skills_registry::RegistryError;
use skills_remote::Mirror;
use tokio::sync::watch;

use crate::{ExecuteError, Executor, ToolCall};

/// Executes stored tools, in this process or behind a bus.
#[async_trait]
pub trait ToolExecutor: Send + Sync {
    /// Calls the tool that a name resolves to in the caller's view, and returns its result.
    ///
    /// # Errors
    /// See [`ExecuteError`].
    async fn call_tool(
        &self,
        caller: &Caller,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, ExecuteError>;
}

#[async_trait]
impl ToolExecutor for Executor {
    async fn call_tool(
        &self,
        caller: &Caller,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, ExecuteError> {
        self.execute(ToolCall { caller, name, arguments, request_id: None }).await
    }
}

/// Forwards to the registry on the bus, which knows the caller by the key that the mirror was opened with.
#[async_trait]
impl ToolExecutor for Mirror {
    async fn call_tool(
        &self,
        _: &Caller,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, ExecuteError> {
        Ok(Mirror::call_tool(self, name, arguments).await?)
    }
}

/// Executor of a process without a vault: refuses every call.
#[derive(Debug, Clone, Copy)]
pub struct NoExecutor;

#[async_trait]
impl ToolExecutor for NoExecutor {
    async fn call_tool(
        &self,
        _: &Caller,
        _: &str,
        _: Map<String, Value>,
    ) -> Result<Value, ExecuteError> {
        Err(ExecuteError::NoExecutor)
    }
}

/// Handle of an executor whose registry may still be opening; every call waits for it.
#[derive(Debug)]
pub struct PendingExecutor<E: ?Sized = Executor>(watch::Receiver<Option<Arc<E>>>);

impl<E: ?Sized> Clone for PendingExecutor<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E: ?Sized> PendingExecutor<E> {
    /// Creates a handle and the sender that completes it.
    #[must_use]
    pub fn channel() -> (watch::Sender<Option<Arc<E>>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self(receiver))
    }

    /// Creates a handle of an executor that exists.
    #[must_use]
    pub fn ready(executor: Arc<E>) -> Self {
        Self(watch::channel(Some(executor)).1)
    }

    /// Waits for the executor.
    ///
    /// # Errors
    /// [`RegistryError::Closed`] when the process stops before the registry is open.
    pub async fn get(&self) -> Result<Arc<E>, RegistryError> {
        let mut opened = self.0.clone();
        let executor = opened.wait_for(Option::is_some).await.ok().and_then(|it| it.clone());
        executor.ok_or(RegistryError::Closed)
    }
}

#[async_trait]
impl<E: ToolExecutor + ?Sized> ToolExecutor for PendingExecutor<E> {
    async fn call_tool(
        &self,
        caller: &Caller,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, ExecuteError> {
        self.get().await?.call_tool(caller, name, arguments).await
    }
}
