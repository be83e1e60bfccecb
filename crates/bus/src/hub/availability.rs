//! Trigger type `engine::functions-available`: sends subscribers the list of functions whenever it changes. SDKs 0.11
//! expose it as `on_functions_available`.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use skills_core::Debounce;

use super::{Hub, Inner, builtins};
use crate::{Bus as _, CallError, Json, TriggerBinding, TriggerProvider, TriggerTypeSpec};

/// Debounce of changed functions: each message lists all functions, and a worker that registers a thousand causes one
/// message.
const DEBOUNCE: Debounce = Debounce::window(Duration::from_millis(50));

/// Time that a subscriber has to take a message, so that one that does not read does not delay the others.
const SEND_TIMEOUT: Duration = Duration::from_millis(50);

struct Availability {
    /// Weak, because the hub owns its providers.
    hub: Weak<Inner>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    subscribers: BTreeMap<String, TriggerBinding>,
    is_running: bool,
}

/// Registers the trigger type on a hub.
pub(super) fn register(hub: &Hub) {
    let spec = TriggerTypeSpec {
        id: "engine::functions-available".into(),
        description: "Fires with the list of functions whenever it changes.".into(),
        ..TriggerTypeSpec::default()
    };
    let provider = Availability { hub: Arc::downgrade(&hub.inner), state: Mutex::default() };
    hub.inner.triggers.register_local_type(&spec, Arc::new(Provider(Arc::new(provider))));
}

struct Provider(Arc<Availability>);

impl TriggerProvider for Provider {
    fn bind(&self, binding: TriggerBinding) -> Result<(), CallError> {
        let mut state = self.0.state.lock();
        state.subscribers.insert(binding.id.clone(), binding);
        if !std::mem::replace(&mut state.is_running, true) {
            tokio::spawn(run(self.0.clone()));
        }
        Ok(())
    }

    fn unbind(&self, trigger_id: &str) {
        self.0.state.lock().subscribers.remove(trigger_id);
    }
}

/// Notifies subscribers, from the first subscription until the hub stops.
async fn run(this: Arc<Availability>) {
    let Some(mut changed) = this.hub.upgrade().map(|hub| hub.functions.changed.subscribe()) else {
        return;
    };
    // A new subscriber gets the current list.
    changed.mark_changed();
    let mut changes = pin!(stream::unfold(changed, |mut changed| async {
        changed.changed().await.ok()?;
        Some(((), changed))
    }));
    loop {
        let Some(hub) = this.hub.upgrade().map(|inner| Hub { inner }) else { return };
        tokio::select! {
            change = changes.next() => if change.is_none() { return },
            () = hub.inner.stop.cancelled() => return,
        }
        if DEBOUNCE.collect(&mut changes, drop).await.is_none() {
            return;
        }
        let subscribers = this.state.lock().subscribers.clone();
        if subscribers.is_empty() {
            continue;
        }
        let payload = Json::from(&builtins::functions(&hub, &serde_json::Value::Null));
        for TriggerBinding { function_id, subscriber, .. } in subscribers.values() {
            if !hub.may_deliver(function_id, subscriber.as_deref()) {
                continue;
            }
            let sent =
                tokio::time::timeout(SEND_TIMEOUT, hub.notify(function_id, payload.clone(), None))
                    .await;
            if !matches!(sent, Ok(Ok(()))) {
                tracing::debug!(function = function_id, "functions-available not delivered");
            }
        }
    }
}
