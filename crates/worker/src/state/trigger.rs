//! The trigger type `state`: calls functions after a value has changed.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use skills_bus::{Bus, CallError, Json, TriggerBinding, TriggerProvider, TriggerTypeSpec};
use skills_core::{Code, LogLimiter};
use skills_registry::{BusState, FeedItem, FeedSubscription, StateChange};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Timeout of a condition function.
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

/// Configuration of a subscription: the changes that it wants.
#[derive(Debug, Default, Deserialize)]
struct TriggerConfig {
    scope: Option<String>,
    key: Option<String>,
    condition_function_id: Option<String>,
}

impl TriggerConfig {
    fn matches(&self, change: &StateChange) -> bool {
        let matches = |filter: &Option<String>, value: &str| {
            filter.as_deref().is_none_or(|filter| filter == value)
        };
        matches(&self.scope, &change.scope) && matches(&self.key, &change.key)
    }
}

#[derive(Serialize)]
struct StateEvent<'a> {
    r#type: &'static str,
    event_type: &'static str,
    scope: &'a str,
    key: &'a str,
    old_value: Option<&'a RawValue>,
    new_value: Option<&'a RawValue>,
}

impl<'a> StateEvent<'a> {
    fn new(change: &'a StateChange) -> Self {
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

/// Subscription and its task.
struct Binding {
    /// Id and configuration of the target function.
    target: (String, String),
    subscriber: watch::Sender<Option<String>>,
    _task: AbortOnDropHandle<()>,
}

struct StateTrigger {
    /// Weak, because the bus owns this provider.
    bus: Weak<dyn Bus>,
    state: BusState,
    bindings: Mutex<HashMap<String, Binding>>,
}

impl TriggerProvider for StateTrigger {
    fn bind(&self, binding: TriggerBinding) -> Result<(), CallError> {
        let TriggerBinding { id, function_id, config, subscriber } = binding;
        let mut bindings = self.bindings.lock();
        let target = (function_id.clone(), config.as_str().to_owned());
        // An unchanged binding keeps its task and its pending changes.
        if let Some(binding) = bindings.get(&id).filter(|binding| binding.target == target) {
            binding.subscriber.send_replace(subscriber);
            return Ok(());
        }
        let config = config.parse::<Option<TriggerConfig>>().map_err(|error| {
            CallError::remote(
                Code::TriggerRegistrationFailed,
                format!("invalid config of a state trigger: {error}"),
            )
        })?;
        let subscriber = watch::Sender::new(subscriber);
        let follow = follow(
            self.bus.clone(),
            self.state.changes(),
            function_id,
            config.unwrap_or_default(),
            subscriber.subscribe(),
        );
        let task = AbortOnDropHandle::new(tokio::spawn(follow));
        bindings.insert(id, Binding { target, subscriber, _task: task });
        Ok(())
    }

    fn unbind(&self, trigger_id: &str) {
        self.bindings.lock().remove(trigger_id);
    }
}

async fn follow(
    bus: Weak<dyn Bus>,
    mut changes: FeedSubscription<Arc<StateChange>>,
    function_id: String,
    config: TriggerConfig,
    subscriber: watch::Receiver<Option<String>>,
) {
    // Limited, because a subscriber can cause both warnings with every change.
    let (slow, failing) = (LogLimiter::default(), LogLimiter::default());
    while let Some(delivery) = changes.next().await {
        let change = match delivery {
            FeedItem::Item(change) if config.matches(&change) => change,
            FeedItem::Item(_) => continue,
            FeedItem::Missed(missed) => {
                if let Some(suppressed) = slow.check(Instant::now()) {
                    tracing::warn!(
                        function_id,
                        missed,
                        suppressed,
                        "slow state subscriber missed changes"
                    );
                }
                continue;
            }
        };
        let Some(bus) = bus.upgrade() else { return };
        let subscriber = subscriber.borrow().clone();
        let subscriber = subscriber.as_deref();
        if !bus.may_deliver(&function_id, subscriber) {
            continue;
        }
        let Ok(event) = Json::from_serialize(&StateEvent::new(&change)) else { continue };
        if let Some(condition) = &config.condition_function_id
            && !(condition_holds(&*bus, subscriber, condition, event.clone(), &failing).await
                // The function may have become private in the meantime.
                && bus.may_deliver(&function_id, subscriber))
        {
            continue;
        }
        if let Err(error) = bus.notify(&function_id, event, None).await {
            tracing::debug!(function_id, %error, "state change not delivered");
        }
    }
}

async fn condition_holds(
    bus: &dyn Bus,
    subscriber: Option<&str>,
    condition: &str,
    event: Json,
    failing: &LogLimiter,
) -> bool {
    let result = bus.call_for(subscriber, condition, event, CONDITION_TIMEOUT).await;
    match result.map(|result| result.parse::<Value>()) {
        Ok(Ok(Value::Bool(holds))) => holds,
        Ok(Ok(Value::Null) | Err(_)) => false,
        Ok(Ok(_)) => true,
        Err(error) => {
            if let Some(suppressed) = failing.check(Instant::now()) {
                tracing::warn!(condition, %error, suppressed, "condition function failed; change not delivered");
            }
            false
        }
    }
}
