//! Scenario of the Rust interoperability clients, independent of the SDK version.
//!
//! - `lib.rs`: [`Sdk`], the SDK functions that a client needs, and the command line
//! - `client.rs`: the contract's functions as methods
//! - `phases.rs`: the phases `write`, `read` and `stay`
//! - `seed.rs`: the phase `seed`, which checks another worker's skill and prompt
//! - `checks.rs`: counting checks, collecting events, waiting with a deadline

mod checks;
mod client;
mod phases;
mod seed;

use std::future::Future;

use anyhow::bail;
use serde_json::Value;

use crate::client::Client;

/// Function body that any SDK version can register.
pub type Handler = Box<dyn Fn(Value) -> Result<Value, String> + Send + Sync>;

/// SDK functions that a client needs.
pub trait Sdk: Clone + Send + Sync + 'static {
    fn connect(url: &str) -> Self;

    fn call(
        &self,
        function_id: &str,
        payload: Value,
    ) -> impl Future<Output = Result<Value, String>> + Send;

    fn register_function(&self, function_id: &str, handler: Handler);

    /// Registers `target` and subscribes it to the changes of `source`.
    fn subscribe(
        &self,
        source: &str,
        target: &str,
        on_event: impl Fn(Value) + Send + Sync + 'static,
    ) -> impl Future<Output = Result<(), String>> + Send;

    /// Blocks until the connection is closed.
    fn shutdown(&self);
}

/// Runs `CLIENT PHASE URL`. The last line of standard output is `checks N`.
pub fn main<S: Sdk>() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [phase, url] = arguments.as_slice() else {
        bail!("usage: CLIENT write|read|stay|seed URL");
    };
    let sdk = S::connect(url);
    let mut client = Client::new(sdk.clone());
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(async {
        match phase.as_str() {
            "write" => client.write().await,
            "read" => client.read_again().await,
            "stay" => client.stay().await,
            "seed" => client.seed().await,
            other => bail!("no such phase: {other}"),
        }
    });
    sdk.shutdown();
    outcome?;
    println!("checks {}", client.checks.count());
    Ok(())
}
