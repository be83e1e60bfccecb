//! A registry at the other end of a bus, kept in step with it: for surfaces that stay.
//!
//! It uses the functions and trigger types of the contract alone, so the registry may be of any make.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use skills_bus::{
    Bus, Call, CallError, FunctionSpec, Json,
    engine::{Connection, EngineBus, EngineConfig},
};
use skills_registry::{Changed, Mirror, RemoteRegistry, remote::Caller};
use tokio::sync::watch;
use uuid::Uuid;

use crate::Failure;

/// The function that is told of changes. Each process has one of its own under this name.
const CHANGED: &str = "surface::changed";
/// What tells of them.
const TRIGGER_TYPES: [&str; 3] =
    ["skills::on-change", "prompts::on-change", "engine::functions-available"];

/// A function that every registry has, as a list of functions shows it.
const REGISTRY: &str = "\"skills::resources-list\"";

/// How long a call waits for a connection that is not there (yet).
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);

/// Calls once there is a connection.
struct OnceConnected {
    bus: EngineBus,
    url: String,
}

#[async_trait]
impl Caller for OnceConnected {
    async fn call(&self, id: &str, data: Json, timeout: Duration) -> Result<Json, CallError> {
        let mut connection = self.bus.connection();
        let connected = connection.wait_for(|now| matches!(now, Connection::Connected { .. }));
        if tokio::time::timeout(CONNECTED_WITHIN, connected).await.is_err() {
            let message = format!("no bus answers at {}; trying again and again", self.url);
            return Err(CallError::remote("not_connected", message));
        }
        self.bus.call(id, data, timeout).await
    }
}

/// Begins to connect, and returns at once: calls wait until it is done.
///
/// # Errors
/// When the settings cannot be right.
pub(crate) fn start(config: EngineConfig, timeout: Duration) -> Result<Follower, Failure> {
    let url = config.url.clone();
    let bus = EngineBus::connect(config)
        .map_err(|error| Failure::new("bad_engine", error.to_string()))?;
    let caller = OnceConnected { bus: bus.clone(), url };
    let mirror = Arc::new(Mirror::new(RemoteRegistry::new(caller, timeout)));
    let id = format!("{CHANGED}::{}", Uuid::new_v4().simple());
    let spec = FunctionSpec {
        id: id.clone(),
        description: "Internal: told of changes of the registry.".to_owned(),
        ..FunctionSpec::default()
    };
    let hears = Arc::clone(&mirror);
    let presence = Presence::default();
    let function = move |call: Call| {
        hears.hear(presence.notice(changed(&call.data), &call.data));
        std::future::ready(Ok(Json::null()))
    };
    bus.register_function(spec, Arc::new(function));
    for trigger_type in TRIGGER_TYPES {
        let subscription = bus.subscribe(trigger_type, &id, &Json::from(&serde_json::json!({})));
        // It lasts as long as the process.
        subscription
            .map(std::mem::forget)
            .map_err(|error| Failure::new(error.code(), error.to_string()))?;
    }
    Ok(Follower { mirror, bus })
}

/// Whether there is a registry on the bus. One that has gone and come back may have other content.
#[derive(Default)]
struct Presence {
    was_missing: AtomicBool,
}

impl Presence {
    fn notice(&self, changed: Changed, event: &Json) -> Changed {
        if changed != Changed::Functions {
            return changed;
        }
        let is_missing = !event.as_str().contains(REGISTRY);
        match self.was_missing.swap(is_missing, Ordering::SeqCst) && !is_missing {
            true => Changed::Everything,
            false => Changed::Functions,
        }
    }
}

/// What an event says has changed.
fn changed(event: &Json) -> Changed {
    let Ok(event) = event.parse::<serde_json::Value>() else { return Changed::Everything };
    let text = |key: &str| event.get(key).and_then(serde_json::Value::as_str).map(Arc::from);
    match (text("id"), text("name"), event.get("functions")) {
        (Some(id), None, _) => Changed::Skill(id),
        (None, Some(name), _) => Changed::Prompt(name),
        (None, None, Some(_)) => Changed::Functions,
        _ => Changed::Everything,
    }
}

/// A mirror and the connection that keeps it in step.
pub(crate) struct Follower {
    pub(crate) mirror: Arc<Mirror>,
    bus: EngineBus,
}

impl Follower {
    /// Follows the connection: what happened while there was none is not known. Ends only with an error.
    pub(crate) async fn run(&self) -> Failure {
        let mut connection = self.bus.connection();
        loop {
            if let Err(failure) = self.look(&mut connection) {
                return failure;
            }
            if connection.changed().await.is_err() {
                return Failure::new("internal", "the connection to the bus is gone");
            }
        }
    }

    fn look(&self, connection: &mut watch::Receiver<Connection>) -> Result<(), Failure> {
        match &*connection.borrow_and_update() {
            Connection::Connected { .. } => self.mirror.hear(Changed::Everything),
            Connection::Rejected { reason } => {
                let message = format!("the bus does not take this worker: {reason}");
                return Err(Failure::new("rejected", message));
            }
            Connection::Connecting | Connection::Lost { .. } => {}
        }
        Ok(())
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
    fn events_of_the_contract_and_others() {
        let changed = |event| changed(&Json::from(&event));
        assert_eq!(changed(json!({"op": "register", "id": "a"})), Changed::Skill("a".into()));
        assert_eq!(changed(json!({"op": "register", "name": "p"})), Changed::Prompt("p".into()));
        assert_eq!(changed(json!({"functions": []})), Changed::Functions);
        assert_eq!(changed(json!({"what": "ever"})), Changed::Everything);
        assert_eq!(changed(json!(null)), Changed::Everything);
    }

    #[test]
    fn a_registry_that_comes_back_may_have_other_content() {
        let presence = Presence::default();
        let notice = |ids: &[&str]| {
            let rows: Vec<_> = ids.iter().map(|id| json!({ "function_id": id })).collect();
            presence.notice(Changed::Functions, &Json::from(&json!({ "functions": rows })))
        };
        assert_eq!(notice(&["skills::resources-list", "a::b"]), Changed::Functions);
        assert_eq!(notice(&["a::b"]), Changed::Functions);
        assert_eq!(notice(&["skills::resources-list"]), Changed::Everything);
        assert_eq!(notice(&["skills::resources-list"]), Changed::Functions);
    }
}
