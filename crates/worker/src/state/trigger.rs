//! The trigger type `state`: functions that are called after a value has changed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use skills_bus::{Bus, CallError, Json, TriggerBinding, TriggerProvider, TriggerTypeSpec};
use skills_registry::{BusState, Delivery, Subscription};
use skills_store::StateChange;
use tokio_util::task::AbortOnDropHandle;

/// How long a condition function may take.
const CONDITION_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn register(bus: &Arc<dyn Bus>, state: &BusState) {
    let provider =
        StateTrigger { bus: Arc::downgrade(bus), state: state.clone(), bindings: Mutex::default() };
    let spec = TriggerTypeSpec {
        id: "state".to_owned(),
        description: "Fires after a value of the bus state was created, updated or deleted."
            .to_owned(),
        ..TriggerTypeSpec::default()
    };
    bus.register_trigger_type(spec, Arc::new(provider));
}

/// Which changes a subscriber wants.
#[derive(Debug, Default, Deserialize)]
struct Config {
    scope: Option<String>,
    key: Option<String>,
    condition_function_id: Option<String>,
}

impl Config {
    fn wants(&self, change: &StateChange) -> bool {
        let matches = |wanted: &Option<String>, given: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == given)
        };
        matches(&self.scope, &change.scope) && matches(&self.key, &change.key)
    }
}

#[derive(Serialize)]
struct Event<'a> {
    r#type: &'static str,
    event_type: &'static str,
    scope: &'a str,
    key: &'a str,
    old_value: Option<&'a RawValue>,
    new_value: Option<&'a RawValue>,
}

impl<'a> Event<'a> {
    fn of(change: &'a StateChange) -> Self {
        let raw = |text: &'a Option<String>| {
            text.as_deref().and_then(|text| serde_json::from_str(text).ok())
        };
        Self {
            r#type: "state",
            event_type: match (&change.old, &change.new) {
                (_, None) => "state:deleted",
                (None, Some(_)) => "state:created",
                (Some(_), Some(_)) => "state:updated",
            },
            scope: &change.scope,
            key: &change.key,
            old_value: raw(&change.old),
            new_value: raw(&change.new),
        }
    }
}

/// The task of one subscription, and what it was asked for.
struct Follower {
    follows: (String, String),
    _task: AbortOnDropHandle<()>,
}

struct StateTrigger {
    /// Weak, because the bus holds this provider.
    bus: Weak<dyn Bus>,
    state: BusState,
    bindings: Mutex<HashMap<String, Follower>>,
}

impl TriggerProvider for StateTrigger {
    fn bind(&self, binding: TriggerBinding) -> Result<(), CallError> {
        let TriggerBinding { id, function_id, config } = binding;
        let mut bindings = self.bindings.lock().unwrap_or_else(PoisonError::into_inner);
        let follows = (function_id.clone(), config.as_str().to_owned());
        // Bound again as it was: it goes on where it is, with what it has yet to hear.
        if bindings.get(&id).is_some_and(|follower| follower.follows == follows) {
            return Ok(());
        }
        let config = config.parse::<Option<Config>>().map_err(|error| {
            CallError::remote(
                "trigger_registration_failed",
                format!("config of a state trigger: {error}"),
            )
        })?;
        let follow =
            follow(self.bus.clone(), self.state.changes(), function_id, config.unwrap_or_default());
        let task = AbortOnDropHandle::new(tokio::spawn(follow));
        bindings.insert(id, Follower { follows, _task: task });
        Ok(())
    }

    fn unbind(&self, trigger_id: &str) {
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner).remove(trigger_id);
    }
}

async fn follow(
    bus: Weak<dyn Bus>,
    mut changes: Subscription<Arc<StateChange>>,
    function_id: String,
    config: Config,
) {
    while let Some(delivery) = changes.next().await {
        let change = match delivery {
            Delivery::Item(change) if config.wants(&change) => change,
            Delivery::Item(_) => continue,
            Delivery::Missed(missed) => {
                tracing::warn!(
                    function_id,
                    missed,
                    "a state subscriber is too slow and missed changes"
                );
                continue;
            }
        };
        let Some(bus) = bus.upgrade() else { return };
        let Ok(event) = Json::from_serialize(&Event::of(&change)) else { continue };
        if let Some(condition) = &config.condition_function_id
            && !holds(&*bus, condition, event.clone()).await
        {
            continue;
        }
        if let Err(error) = bus.notify(&function_id, event, None).await {
            tracing::debug!(function_id, %error, "a state change was not delivered");
        }
    }
}

async fn holds(bus: &dyn Bus, condition: &str, event: Json) -> bool {
    match bus.call(condition, event, CONDITION_TIMEOUT).await.map(|result| result.parse::<Value>())
    {
        Ok(Ok(Value::Bool(answer))) => answer,
        Ok(Ok(Value::Null) | Err(_)) => false,
        Ok(Ok(_)) => true,
        Err(error) => {
            tracing::warn!(condition, %error, "a condition function failed; the change is not delivered");
            false
        }
    }
}
