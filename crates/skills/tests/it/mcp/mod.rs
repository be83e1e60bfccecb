//! MCP of the real binary over HTTP and stdio, with and without sessions.
//!
//! - `sessions`, `stateless`, `stdio`: protocol revisions and transports
//! - `resources`, `pagination`, `extension`, `prompts`, `completion`, `tools`, `worker_tools`,
//!   `skills_profile`: content
//! - `notifications`, `listen`, `session_streams`, `bursts`: change notifications
//! - `bus`, `third_party_registry`, `engine_mode`: registries behind a bus
//! - `security`, `bad_input`, `limits`: hostile and faulty clients

mod bad_input;
mod bursts;
mod bus;
mod completion;
mod engine_mode;
mod extension;
mod limits;
mod listen;
mod notifications;
mod pagination;
mod prompts;
mod resources;
mod security;
mod session_streams;
mod sessions;
mod skills_profile;
mod stateless;
mod stdio;
mod third_party_registry;
mod tools;
mod worker_tools;

use serde_json::Value;
use skills_testkit::Worker;

/// Calls a function many times concurrently and waits for all answers.
async fn many(worker: &Worker, function_id: &str, inputs: impl Iterator<Item = Value>) {
    let calls: Vec<_> = inputs.map(|input| worker.start(function_id, &input)).collect();
    for call in calls {
        call.await.unwrap();
    }
}
