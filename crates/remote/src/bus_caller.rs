//! Calls of bus functions, over a connection of its own or through a worker.

use std::time::Duration;

use async_trait::async_trait;
use skills_bus::{CallError, Json, client::BusClient};

/// Client that can call functions on a bus.
#[async_trait]
pub trait BusCaller: Send + Sync {
    /// Calls a function and waits for its result.
    ///
    /// # Errors
    /// When the call fails or times out.
    async fn call(&self, id: &str, data: Json, timeout: Duration) -> Result<Json, CallError>;
}

#[async_trait]
impl BusCaller for BusClient {
    async fn call(&self, id: &str, data: Json, timeout: Duration) -> Result<Json, CallError> {
        Self::call(self, id, data, timeout).await
    }
}
