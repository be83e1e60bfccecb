//! The trigger type `engine::functions-available`: tells subscribers which functions there are,
//! whenever that changes. SDKs 0.11 offer it to their users as `on_functions_available`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use super::{Hub, Inner, builtins};
use crate::{Bus as _, CallError, Json, TriggerBinding, TriggerProvider, TriggerTypeSpec};

/// Each message lists every function; a worker that registers a thousand causes one, not a thousand.
const GATHER: Duration = Duration::from_millis(50);

struct Availability {
    /// Weak, because the hub owns its providers.
    hub: Weak<Inner>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    subscribers: BTreeMap<String, String>,
    running: bool,
}

pub(super) fn provide(hub: &Hub) {
    let spec = TriggerTypeSpec {
        id: "engine::functions-available".into(),
        description: "Fires with the list of functions whenever it changes.".into(),
        ..TriggerTypeSpec::default()
    };
    let provider = Availability { hub: Arc::downgrade(&hub.inner), state: Mutex::default() };
    hub.inner.triggers.provide_local(&spec, Arc::new(Provider(Arc::new(provider))));
}

struct Provider(Arc<Availability>);

impl TriggerProvider for Provider {
    fn bind(&self, binding: TriggerBinding) -> Result<(), CallError> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.subscribers.insert(binding.id, binding.function_id);
        if !std::mem::replace(&mut state.running, true) {
            tokio::spawn(announce(self.0.clone()));
        }
        Ok(())
    }

    fn unbind(&self, trigger_id: &str) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).subscribers.remove(trigger_id);
    }
}

/// Runs from the first subscription until the hub stops.
async fn announce(this: Arc<Availability>) {
    let Some(mut changed) = this.hub.upgrade().map(|hub| hub.functions.changed.subscribe()) else {
        return;
    };
    // Who has just subscribed is told what there is.
    changed.mark_changed();
    loop {
        let Some(hub) = this.hub.upgrade().map(|inner| Hub { inner }) else { return };
        tokio::select! {
            moved = changed.changed() => if moved.is_err() { return },
            () = hub.inner.stop.cancelled() => return,
        }
        tokio::time::sleep(GATHER).await;
        let subscribers =
            this.state.lock().unwrap_or_else(PoisonError::into_inner).subscribers.clone();
        if subscribers.is_empty() {
            continue;
        }
        let payload = Json::from(&builtins::functions(&hub, &serde_json::Value::Null));
        for function_id in subscribers.values() {
            // A subscriber that does not read must not hold up the others.
            let sent =
                tokio::time::timeout(GATHER, hub.notify(function_id, payload.clone(), None)).await;
            if !matches!(sent, Ok(Ok(()))) {
                tracing::debug!(function = function_id, "functions-available was not delivered");
            }
        }
    }
}
