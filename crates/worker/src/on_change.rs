//! `skills::on-change` and `prompts::on-change`.
//!
//! Each is a trigger type and an observable function of the same id. Every target function has one task that follows
//! the change feed at the target's own pace: a slow one reads the changes that it missed from the change log, delays no
//! other target, and a write never waits for any of them. A target with several subscriptions is notified of each change
//! once.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use skills_bus::{
    Activation, Bus, CallError, DeliveryMode, FunctionSpec, Json, Observer, ObserverSink,
    TriggerBinding, TriggerProvider, TriggerTypeSpec,
};
use skills_core::{EntryKind, Tier, Timestamp};
use skills_registry::{Change, ChangeFeed, FeedItem, FeedSubscription, Registry, live::LiveChange};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

/// Delay before the change log is read again after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Operation that asks subscribers to list the tools again.
pub const REFRESH_OP: &str = "refresh-tools";

/// Trigger type and observable function of changed skills.
pub const SKILLS_ON_CHANGE: &str = "skills::on-change";
/// Trigger type and observable function of changed prompts.
pub const PROMPTS_ON_CHANGE: &str = "prompts::on-change";

/// Registers both trigger types and both observable functions.
pub(crate) fn register(bus: &Arc<dyn Bus>, registry: &Arc<Registry>) {
    for (kind, id, what) in [
        (EntryKind::Skill, SKILLS_ON_CHANGE, "skills"),
        (EntryKind::Prompt, PROMPTS_ON_CHANGE, "prompts"),
    ] {
        let description =
            format!("Fires after any mutation of the {what} registry (register / unregister).");
        let notifier = ChangeNotifier::new(kind, id, bus, registry);
        let spec = FunctionSpec {
            id: id.to_owned(),
            description: description.clone(),
            ..FunctionSpec::default()
        };
        bus.register_observable(spec, notifier.clone());
        let spec = TriggerTypeSpec { id: id.to_owned(), description, ..TriggerTypeSpec::default() };
        bus.register_trigger_type(spec, notifier);
    }
}

/// Notifies subscribers of changes of one kind.
struct ChangeNotifier {
    kind: EntryKind,
    id: &'static str,
    /// Weak, because the bus owns this notifier.
    bus: Weak<dyn Bus>,
    registry: Arc<Registry>,
    targets: Mutex<HashMap<String, Target>>,
    weak_self: Weak<Self>,
}

/// Function that is notified of changes, and its subscriptions.
struct Target {
    /// Subscribers by trigger id.
    triggers: BTreeMap<String, Option<String>>,
    /// Observers by their ids.
    observers: BTreeMap<String, ObserverSubscription>,
    _task: AbortOnDropHandle<()>,
}

struct ObserverSubscription {
    deliver: DeliveryMode,
    metadata: Option<Json>,
    subscriber: Option<String>,
}

impl ChangeNotifier {
    fn new(
        kind: EntryKind,
        id: &'static str,
        bus: &Arc<dyn Bus>,
        registry: &Arc<Registry>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|weak_self| Self {
            kind,
            id,
            bus: Arc::downgrade(bus),
            registry: Arc::clone(registry),
            targets: Mutex::default(),
            weak_self: weak_self.clone(),
        })
    }

    /// Adds a subscription to a target. The first one starts the target's task.
    fn subscribe(&self, function_id: &str, subscription: impl FnOnce(&mut Target)) {
        let mut targets = self.targets.lock();
        let target = targets.entry(function_id.to_owned()).or_insert_with(|| {
            // Subscribed before this returns, so that the subscriber is notified of its own next change.
            let follow = follow(
                self.weak_self.clone(),
                function_id.to_owned(),
                self.registry.changes(),
                self.registry.live_changes(),
                self.registry.tools_refreshes(),
            );
            Target {
                triggers: BTreeMap::new(),
                observers: BTreeMap::new(),
                _task: AbortOnDropHandle::new(tokio::spawn(follow)),
            }
        });
        subscription(target);
    }

    /// Removes a subscription from the selected targets, and a target with its last one. `remove` returns whether the
    /// target had it.
    fn unsubscribe_where(
        &self,
        is_selected: impl Fn(&str) -> bool,
        remove: impl Fn(&mut Target) -> bool,
    ) {
        self.targets.lock().retain(|function_id, target| {
            let is_removed = is_selected(function_id) && remove(target);
            !(is_removed && target.triggers.is_empty() && target.observers.is_empty())
        });
    }

    /// Returns the data for a target, if one of its subscriptions may be delivered to it.
    fn delivery(
        &self,
        bus: &dyn Bus,
        function_id: &str,
        payload: Value,
    ) -> Option<(Json, Option<Activation>)> {
        let targets = self.targets.lock();
        let target = targets.get(function_id)?;
        let may_deliver =
            |subscriber: &Option<String>| bus.may_deliver(function_id, subscriber.as_deref());
        if target.triggers.values().any(may_deliver) {
            return Some((Json::from(&payload), None));
        }
        let mut observers = target.observers.iter();
        let (observer_id, subscription) =
            observers.find(|(_, subscription)| may_deliver(&subscription.subscriber))?;
        let activation = Activation {
            observer_id: observer_id.clone(),
            activation_id: Uuid::now_v7().to_string(),
            metadata: subscription.metadata.clone(),
        };
        let data = match subscription.deliver {
            DeliveryMode::Input => payload,
            DeliveryMode::Output => Value::Null,
            DeliveryMode::Envelope => envelope(self.id, &activation, payload),
        };
        Some((Json::from(&data), Some(activation)))
    }

    /// Returns the payload for a change, if subscribers are notified of it.
    fn payload_for(&self, change: &Change) -> Option<Value> {
        // Every worker on a bus can subscribe, so private entries are left out.
        let is_public = change.key.kind == self.kind && change.key.layer.tier() != Tier::Private;
        (is_public && change.affects_served)
            .then(|| payload(change.key.kind, &change.key.id, change.is_served()))
    }

    /// Returns the payload for a change of a live entry, if subscribers are notified of it.
    fn payload_for_live(&self, delivery: FeedItem<LiveChange>) -> Option<Value> {
        match delivery {
            FeedItem::Item(LiveChange { kind, id, is_present, .. }) => {
                (kind == self.kind).then(|| payload(kind, &id, is_present))
            }
            // Live changes are not logged: subscribers have to list again.
            FeedItem::Missed(_) => Some(json!({ "op": "reset" })),
        }
    }

    async fn deliver(&self, function_id: &str, payload: Option<Value>) {
        let (Some(payload), Some(bus)) = (payload, self.bus.upgrade()) else { return };
        let Some((data, activation)) = self.delivery(&*bus, function_id, payload) else { return };
        if let Err(error) = bus.notify(function_id, data, activation).await {
            tracing::debug!(function_id, %error, "change not delivered");
        }
    }
}

/// Follows stored changes, live changes and refresh requests concurrently, each in its own order.
async fn follow(
    notifier: Weak<ChangeNotifier>,
    function_id: String,
    changes: ChangeFeed,
    live: FeedSubscription<LiveChange>,
    tools_refreshes: watch::Receiver<u64>,
) {
    let stored = follow_stored(notifier.clone(), &function_id, changes);
    let live = follow_live(notifier.clone(), &function_id, live);
    tokio::join!(stored, live, follow_refreshed(notifier, &function_id, tools_refreshes));
}

/// Follows an administrator's requests to list the tools again, even if none of them changed.
async fn follow_refreshed(
    notifier: Weak<ChangeNotifier>,
    function_id: &str,
    mut tools_refreshes: watch::Receiver<u64>,
) {
    while tools_refreshes.changed().await.is_ok() {
        let Some(notifier) = notifier.upgrade() else { return };
        // Tools are skills, so prompts are not affected.
        let payload = (notifier.kind == EntryKind::Skill).then(|| json!({ "op": REFRESH_OP }));
        notifier.deliver(function_id, payload).await;
    }
}

async fn follow_live(
    notifier: Weak<ChangeNotifier>,
    function_id: &str,
    mut live: FeedSubscription<LiveChange>,
) {
    while let Some(delivery) = live.next().await {
        let Some(notifier) = notifier.upgrade() else { return };
        notifier.deliver(function_id, notifier.payload_for_live(delivery)).await;
    }
}

async fn follow_stored(notifier: Weak<ChangeNotifier>, function_id: &str, mut changes: ChangeFeed) {
    loop {
        let next = changes.next().await;
        let Some(notifier) = notifier.upgrade() else { return };
        match next {
            Ok(Some(change)) => notifier.deliver(function_id, notifier.payload_for(&change)).await,
            Ok(None) => return,
            Err(error) => {
                tracing::error!(function_id, %error, "reading the change log failed; retrying");
                drop(notifier);
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

fn payload(kind: EntryKind, id: &str, is_present: bool) -> Value {
    let op = if is_present { "register" } else { "unregister" };
    match kind {
        EntryKind::Skill => json!({ "op": op, "id": id }),
        EntryKind::Prompt | EntryKind::Collection => json!({ "op": op, "name": id }),
    }
}

/// Returns the envelope that an observer receives by default.
fn envelope(function_id: &str, activation: &Activation, input: Value) -> Value {
    let now = Timestamp::now().as_millis();
    json!({
        "observer_id": activation.observer_id,
        "activation_id": activation.activation_id,
        "function_id": function_id,
        "invocation_id": Uuid::now_v7().to_string(),
        "status": "success",
        "input": input,
        "output": null,
        "started_at_ms": now,
        "duration_ms": 0,
    })
}

impl TriggerProvider for ChangeNotifier {
    fn bind(&self, binding: TriggerBinding) -> Result<(), CallError> {
        // Added first: a target that is bound again keeps its task and its pending changes.
        self.subscribe(&binding.function_id, |target| {
            target.triggers.insert(binding.id.clone(), binding.subscriber.clone());
        });
        // The same id with another function moves the subscription.
        self.unsubscribe_where(
            |function_id| function_id != binding.function_id,
            |target| target.triggers.remove(&binding.id).is_some(),
        );
        Ok(())
    }

    fn unbind(&self, trigger_id: &str) {
        self.unsubscribe_where(|_| true, |target| target.triggers.remove(trigger_id).is_some());
    }
}

impl ObserverSink for ChangeNotifier {
    fn observe(&self, observer: Observer) {
        let Observer { deliver, metadata, subscriber, .. } = observer;
        let subscription = ObserverSubscription { deliver, metadata, subscriber };
        self.subscribe(&observer.target, |target| {
            target.observers.insert(observer.id.clone(), subscription);
        });
        self.unsubscribe_where(
            |function_id| function_id != observer.target,
            |target| target.observers.remove(&observer.id).is_some(),
        );
    }

    fn unobserve(&self, observer_id: &str) {
        self.unsubscribe_where(|_| true, |target| target.observers.remove(observer_id).is_some());
    }
}
