//! Mirror of a registry behind a bus, for long-running surfaces.
//!
//! It uses only the functions and trigger types of the published contract, so it works with third-party registries.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use skills_bus::{Bus as _, CallError, Json};
use skills_core::Code;
use skills_engine::{
    ConnectionState, EngineBus, EngineConfig,
    trigger_listener::{FUNCTIONS_AVAILABLE, FunctionPresence, empty_config, listen},
};
use skills_registry::{ChangeEvent, SectionAccess};
use skills_remote::{BusCaller, Mirror, RemoteRegistry};
use skills_worker::{PROMPTS_ON_CHANGE, REFRESH_OP, SKILLS_ON_CHANGE};

use crate::Failure;

/// Function that receives change events.
const ON_CHANGE: &str = "surface::changed";
/// Trigger types of change events.
const TRIGGER_TYPES: [&str; 3] = [SKILLS_ON_CHANGE, PROMPTS_ON_CHANGE, FUNCTIONS_AVAILABLE];

/// Function that every registry has.
const REGISTRY_FUNCTION: &str = "skills::resources-list";

/// Function that every bus answers.
const ROUND_TRIP: &str = "engine::functions::info";

/// Poll interval of a private layer.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Key checks per poll, so that private content is dropped within a second of the key's end.
const KEY_CHECKS_PER_POLL: u32 = 4;

/// Longest wait of a call for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Bus caller that waits for a connection before each call.
struct ConnectedCaller {
    bus: EngineBus,
    url: String,
}

#[async_trait]
impl BusCaller for ConnectedCaller {
    async fn call(&self, id: &str, data: Json, timeout: Duration) -> Result<Json, CallError> {
        let mut connection = self.bus.connection();
        let connected = connection.wait_for(|now| matches!(now, ConnectionState::Connected { .. }));
        if tokio::time::timeout(CONNECT_TIMEOUT, connected).await.is_err() {
            let reason = match &*self.bus.connection().borrow() {
                ConnectionState::Lost { reason } => reason.clone(),
                _ => "no bus answers".to_owned(),
            };
            let message = format!("no connection to {}: {reason}; still trying", self.url);
            return Err(CallError::remote(Code::NotConnected, message));
        }
        self.bus.call(id, data, timeout).await
    }
}

/// Starts to connect and returns at once; calls wait for the connection.
///
/// # Errors
/// When the connection settings are invalid.
pub(crate) fn start(
    config: EngineConfig,
    timeout: Duration,
    key: Option<String>,
    sections: SectionAccess,
) -> Result<RemoteMirror, Failure> {
    let url = config.url.clone();
    let bus = EngineBus::connect(config)
        .map_err(|error| Failure::new(Code::BadEngine, error.to_string()))?;
    let caller = ConnectedCaller { bus: bus.clone(), url };
    let remote = RemoteRegistry::new(caller, timeout).with_key(key).with_sections(sections);
    let mirror = Arc::new(Mirror::new(remote));
    let receiver = Arc::clone(&mirror);
    let registry = FunctionPresence::new(REGISTRY_FUNCTION);
    let about = "Internal: receives changes of the registry.";
    let triggers = TRIGGER_TYPES.map(|trigger_type| (trigger_type, empty_config()));
    listen(&bus, ON_CHANGE, about, &triggers, move |event| {
        receiver.notify(match parse_change(event) {
            ChangeEvent::Functions if registry.has_returned(event)? => ChangeEvent::Everything,
            changed => changed,
        });
        Ok(())
    })
    .map_err(|error| Failure::from_coded(&error))?;
    Ok(RemoteMirror { mirror, bus })
}

/// Parses a change event; an unknown one means that everything may have changed.
fn parse_change(event: &Json) -> ChangeEvent {
    let Ok(event) = event.parse::<serde_json::Value>() else { return ChangeEvent::Everything };
    let text = |key: &str| event.get(key).and_then(serde_json::Value::as_str).map(Arc::from);
    match (text("id"), text("name"), event.get("functions")) {
        (None, None, None) if text("op").as_deref() == Some(REFRESH_OP) => ChangeEvent::Tools,
        (Some(id), None, _) => ChangeEvent::Skill(id),
        (None, Some(name), _) => ChangeEvent::Prompt(name),
        (None, None, Some(_)) => ChangeEvent::Functions,
        _ => ChangeEvent::Everything,
    }
}

/// A mirror and the connection that updates it.
pub(crate) struct RemoteMirror {
    pub(crate) mirror: Arc<Mirror>,
    bus: EngineBus,
}

impl RemoteMirror {
    /// Updates the mirror. Ends only with an error.
    pub(crate) async fn run(&self) -> Failure {
        tokio::select! {
            failure = self.watch_connection() => failure,
            () = self.poll_private_layer() => Failure::new(Code::Internal, "polling the private layer ended"),
        }
    }

    /// Waits until the connection is lost, or cannot be established.
    pub(crate) async fn wait_until_lost(&self) {
        let mut connection = self.bus.connection();
        let _ = connection.wait_for(|now| matches!(now, ConnectionState::Lost { .. })).await;
    }

    /// Polls the private layer, whose changes are not announced on a bus, and the key.
    async fn poll_private_layer(&self) {
        if !self.mirror.has_key() {
            std::future::pending::<()>().await;
        }
        loop {
            if let Err(error) = self.mirror.refresh_private().await {
                tracing::debug!(%error, "cannot poll the private layer");
            }
            for _ in 1..KEY_CHECKS_PER_POLL {
                tokio::time::sleep(POLL_INTERVAL / KEY_CHECKS_PER_POLL).await;
                if let Err(error) = self.mirror.check_key().await {
                    tracing::debug!(%error, "cannot check the key");
                }
            }
            tokio::time::sleep(POLL_INTERVAL / KEY_CHECKS_PER_POLL).await;
        }
    }

    /// Refreshes everything on each connection, since changes before it are unknown.
    async fn watch_connection(&self) -> Failure {
        let mut connection = self.bus.connection();
        loop {
            let state = connection.borrow_and_update().clone();
            let is_connected = match state {
                ConnectionState::Connected { .. } => true,
                ConnectionState::Rejected { reason } => {
                    let message = format!("the bus rejected this worker: {reason}");
                    return Failure::new(Code::Rejected, message);
                }
                ConnectionState::Connecting | ConnectionState::Lost { .. } => false,
            };
            let changed = tokio::select! {
                changed = connection.changed() => changed,
                () = self.wait_until_subscribed(), if is_connected => {
                    self.mirror.notify(ChangeEvent::Everything);
                    connection.changed().await
                }
            };
            if changed.is_err() {
                return Failure::new(Code::Internal, "the connection to the bus ended");
            }
        }
    }

    /// Waits until the bus has the subscriptions of this connection, which were sent before the call: it handles messages
    /// in order. A change before that is not reported, so everything counts as changed afterwards.
    async fn wait_until_subscribed(&self) {
        let nothing = Json::from(&serde_json::json!({ "function_id": "" }));
        // An error is an answer, too.
        let _ = self.bus.call(ROUND_TRIP, nothing, CONNECT_TIMEOUT).await;
    }

    pub(crate) async fn stop(&self) {
        self.bus.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn change_events_are_parsed() {
        let parse = |event| parse_change(&Json::from(&event));
        assert_eq!(parse(json!({"op": "register", "id": "a"})), ChangeEvent::Skill("a".into()));
        assert_eq!(parse(json!({"op": "register", "name": "p"})), ChangeEvent::Prompt("p".into()));
        assert_eq!(parse(json!({"functions": []})), ChangeEvent::Functions);
        assert_eq!(parse(json!({"op": "refresh-tools"})), ChangeEvent::Tools);
        assert_eq!(parse(json!({"what": "ever"})), ChangeEvent::Everything);
        assert_eq!(parse(json!(null)), ChangeEvent::Everything);
    }
}
