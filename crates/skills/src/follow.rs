//! A registry at the other end of a bus, kept in step with it: for surfaces that stay.
//!
//! It uses the functions and trigger types of the contract alone, so the registry may be of any make.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use skills_bus::{
    Bus as _, CallError, Json,
    engine::{Connection, EngineBus, EngineConfig},
};
use skills_registry::{Changed, Mirror, RemoteRegistry, remote::Caller};
use tokio::sync::watch;

use crate::{
    Failure,
    events::{FUNCTIONS_AVAILABLE, Presence, any, subscribe},
};

/// The function that is told of changes.
const CHANGED: &str = "surface::changed";
/// What tells of them.
const TRIGGER_TYPES: [&str; 3] = ["skills::on-change", "prompts::on-change", FUNCTIONS_AVAILABLE];

/// What is told when an administrator has the tools listed again.
const REFRESH_TOOLS: &str = "refresh-tools";

/// A function that every registry has.
const REGISTRY: &str = "skills::resources-list";

/// Between two looks at a private layer.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

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
pub(crate) fn start(
    config: EngineConfig,
    timeout: Duration,
    key: Option<String>,
) -> Result<Follower, Failure> {
    let url = config.url.clone();
    let bus = EngineBus::connect(config)
        .map_err(|error| Failure::new("bad_engine", error.to_string()))?;
    let caller = OnceConnected { bus: bus.clone(), url };
    let remote = RemoteRegistry::new(caller, timeout).with_key(key);
    let mirror = Arc::new(Mirror::new(remote));
    let hears = Arc::clone(&mirror);
    let registry = Presence::new(REGISTRY);
    let about = "Internal: told of changes of the registry.";
    let triggers = TRIGGER_TYPES.map(|trigger_type| (trigger_type, any()));
    subscribe(&bus, CHANGED, about, &triggers, move |event| {
        hears.hear(match changed(event) {
            Changed::Functions if registry.is_back(event)? => Changed::Everything,
            changed => changed,
        });
        Ok(())
    })?;
    Ok(Follower { mirror, bus })
}

/// What an event says has changed.
fn changed(event: &Json) -> Changed {
    let Ok(event) = event.parse::<serde_json::Value>() else { return Changed::Everything };
    let text = |key: &str| event.get(key).and_then(serde_json::Value::as_str).map(Arc::from);
    match (text("id"), text("name"), event.get("functions")) {
        (None, None, None) if text("op").as_deref() == Some(REFRESH_TOOLS) => Changed::Tools,
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
    /// Keeps the mirror in step. Ends only with an error.
    pub(crate) async fn run(&self) -> Failure {
        tokio::select! {
            failure = self.follow_connection() => failure,
            () = self.follow_private() => Failure::new("internal", "nobody looks any more"),
        }
    }

    /// What happens in a private layer is not announced on a bus.
    async fn follow_private(&self) {
        if !self.mirror.is_somebodys() {
            std::future::pending::<()>().await;
        }
        loop {
            if let Err(error) = self.mirror.look_at_private().await {
                tracing::debug!(%error, "the private layer cannot be looked at");
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// What happened while there was no connection is not known.
    async fn follow_connection(&self) -> Failure {
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
        assert_eq!(changed(json!({"op": "refresh-tools"})), Changed::Tools);
        assert_eq!(changed(json!({"what": "ever"})), Changed::Everything);
        assert_eq!(changed(json!(null)), Changed::Everything);
    }
}
