//! `skills::on-change` and `prompts::on-change`.
//!
//! Each is a trigger type and an observable function of the same id. Every target function has one
//! task that follows the change feed at the target's own pace: a slow one reads what it missed from the
//! log, holds up nobody, and a write never waits for any of them. A target that subscribed more than
//! once, or in both ways, still hears of each change once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use skills_bus::{
    Activation, Bus, CallError, Deliver, FunctionSpec, Json, Observer, ObserverSink,
    TriggerBinding, TriggerProvider, TriggerTypeSpec,
};
use skills_core::{Kind, Tier};
use skills_registry::{ChangeFeed, Delivery, Registry, Subscription, live::LiveChange};
use skills_store::Change;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

/// How long to wait before the log is read again after it could not be.
const RETRY: Duration = Duration::from_secs(1);

/// What is told when the tools are to be listed again.
const REFRESH: &str = "refresh-tools";

/// Offers both trigger types.
pub(crate) fn register(bus: &Arc<dyn Bus>, registry: &Arc<Registry>) {
    for (kind, id, what) in [
        (Kind::Skill, "skills::on-change", "skills"),
        (Kind::Prompt, "prompts::on-change", "prompts"),
    ] {
        let description =
            format!("Fires after any mutation of the {what} registry (register / unregister).");
        let announcer = Announcer::new(kind, id, bus, registry);
        bus.register_trigger_type(
            TriggerTypeSpec {
                id: id.to_owned(),
                description: description.clone(),
                ..TriggerTypeSpec::default()
            },
            announcer.clone(),
        );
        let spec = FunctionSpec { id: id.to_owned(), description, ..FunctionSpec::default() };
        bus.register_observable(spec, announcer);
    }
}

/// Tells everyone who asked about changes of one kind.
struct Announcer {
    kind: Kind,
    id: &'static str,
    /// Weak, because the bus holds this announcer.
    bus: Weak<dyn Bus>,
    registry: Arc<Registry>,
    targets: Mutex<HashMap<String, Target>>,
    myself: Weak<Self>,
}

/// One function that wants to hear of changes, and on which grounds.
struct Target {
    triggers: BTreeSet<String>,
    observers: BTreeMap<String, Watch>,
    _task: AbortOnDropHandle<()>,
}

struct Watch {
    deliver: Deliver,
    metadata: Option<Json>,
}

impl Announcer {
    fn new(
        kind: Kind,
        id: &'static str,
        bus: &Arc<dyn Bus>,
        registry: &Arc<Registry>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|myself| Self {
            kind,
            id,
            bus: Arc::downgrade(bus),
            registry: Arc::clone(registry),
            targets: Mutex::default(),
            myself: myself.clone(),
        })
    }

    fn targets(&self) -> MutexGuard<'_, HashMap<String, Target>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a ground to a target, which starts to follow the feed with the first one.
    fn add(&self, function_id: &str, ground: impl FnOnce(&mut Target)) {
        let mut targets = self.targets();
        let target = targets.entry(function_id.to_owned()).or_insert_with(|| {
            // Subscribed here and now: what the subscriber does next is already announced to it.
            let follow = follow(
                self.myself.clone(),
                function_id.to_owned(),
                self.registry.changes(),
                self.registry.live_changes(),
                self.registry.refreshed(),
            );
            Target {
                triggers: BTreeSet::new(),
                observers: BTreeMap::new(),
                _task: AbortOnDropHandle::new(tokio::spawn(follow)),
            }
        });
        ground(target);
    }

    /// Takes a ground from whichever target has it; a target without any is forgotten.
    fn take(&self, ground: impl Fn(&mut Target) -> bool) {
        self.take_where(|_| true, ground);
    }

    fn take_from_others(&self, function_id: &str, ground: impl Fn(&mut Target) -> bool) {
        self.take_where(|other| other != function_id, ground);
    }

    fn take_where(&self, which: impl Fn(&str) -> bool, ground: impl Fn(&mut Target) -> bool) {
        self.targets().retain(|function_id, target| {
            let taken = which(function_id) && ground(target);
            !(taken && target.triggers.is_empty() && target.observers.is_empty())
        });
    }

    /// What to send a target about a change, if it still wants to hear of it.
    fn delivery(&self, function_id: &str, payload: Value) -> Option<(Json, Option<Activation>)> {
        let targets = self.targets();
        let target = targets.get(function_id)?;
        if !target.triggers.is_empty() {
            return Some((Json::from(&payload), None));
        }
        let (observer_id, watch) = target.observers.first_key_value()?;
        let activation = Activation {
            observer_id: observer_id.clone(),
            activation_id: Uuid::now_v7().to_string(),
            metadata: watch.metadata.clone(),
        };
        let data = match watch.deliver {
            Deliver::Input => payload,
            Deliver::Output => Value::Null,
            Deliver::Envelope => envelope(self.id, &activation, payload),
        };
        Some((Json::from(&data), Some(activation)))
    }

    /// What is told of a change, if anything is.
    fn told(&self, change: &Change) -> Option<Value> {
        // A bus is open to all who are on it: what is private is not announced there.
        let is_told = change.key.kind == self.kind && change.key.layer.tier() != Tier::Private;
        is_told.then(|| payload(change.key.kind, &change.key.id, change.content.is_some()))
    }

    /// The same of what is not stored.
    fn told_live(&self, delivery: Delivery<LiveChange>) -> Option<Value> {
        match delivery {
            Delivery::Item(LiveChange { kind, id, is_here, .. }) => {
                (kind == self.kind).then(|| payload(kind, &id, is_here))
            }
            // Nobody keeps a log of it: who hears this lists anew.
            Delivery::Missed(_) => Some(json!({ "op": "reset" })),
        }
    }

    async fn deliver(&self, function_id: &str, payload: Option<Value>) {
        let (Some((data, activation)), Some(bus)) =
            (payload.and_then(|payload| self.delivery(function_id, payload)), self.bus.upgrade())
        else {
            return;
        };
        if let Err(error) = bus.notify(function_id, data, activation).await {
            tracing::debug!(function_id, %error, "a change was not delivered");
        }
    }
}

/// What is stored, what is not and what is asked for are followed side by side: each is told in its own order.
async fn follow(
    announcer: Weak<Announcer>,
    function_id: String,
    changes: ChangeFeed,
    live: Subscription<LiveChange>,
    refreshed: watch::Receiver<u64>,
) {
    let stored = follow_stored(announcer.clone(), &function_id, changes);
    let live = follow_live(announcer.clone(), &function_id, live);
    tokio::join!(stored, live, follow_refreshed(announcer, &function_id, refreshed));
}

/// What an administrator has asked for: that the tools are listed again, also if none of them changed.
async fn follow_refreshed(
    announcer: Weak<Announcer>,
    function_id: &str,
    mut refreshed: watch::Receiver<u64>,
) {
    while refreshed.changed().await.is_ok() {
        let Some(announcer) = announcer.upgrade() else { return };
        // Skills are what tools are made of.
        let told = (announcer.kind == Kind::Skill).then(|| json!({ "op": REFRESH }));
        announcer.deliver(function_id, told).await;
    }
}

async fn follow_live(
    announcer: Weak<Announcer>,
    function_id: &str,
    mut live: Subscription<LiveChange>,
) {
    while let Some(delivery) = live.next().await {
        let Some(announcer) = announcer.upgrade() else { return };
        announcer.deliver(function_id, announcer.told_live(delivery)).await;
    }
}

async fn follow_stored(announcer: Weak<Announcer>, function_id: &str, mut changes: ChangeFeed) {
    loop {
        let next = changes.next().await;
        let Some(announcer) = announcer.upgrade() else { return };
        match next {
            Ok(Some(change)) => announcer.deliver(function_id, announcer.told(&change)).await,
            Ok(None) => return,
            Err(error) => {
                tracing::error!(function_id, %error, "the log of changes cannot be read; trying again");
                drop(announcer);
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

fn payload(kind: Kind, id: &str, is_here: bool) -> Value {
    let op = if is_here { "register" } else { "unregister" };
    match kind {
        Kind::Skill => json!({ "op": op, "id": id }),
        Kind::Prompt => json!({ "op": op, "name": id }),
    }
}

/// What an observer receives unless it asked for less.
fn envelope(function_id: &str, activation: &Activation, input: Value) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    json!({
        "observer_id": activation.observer_id,
        "activation_id": activation.activation_id,
        "function_id": function_id,
        "invocation_id": Uuid::now_v7().to_string(),
        "status": "success",
        "input": input,
        "output": null,
        "started_at_ms": u64::try_from(now).unwrap_or(u64::MAX),
        "duration_ms": 0,
    })
}

impl TriggerProvider for Announcer {
    fn bind(&self, binding: TriggerBinding) -> Result<(), CallError> {
        // Added first: a target that is bound again goes on where it is, with what it has yet to hear.
        self.add(&binding.function_id, |target| {
            target.triggers.insert(binding.id.clone());
        });
        // The same id with another function moves the subscription.
        self.take_from_others(&binding.function_id, |target| target.triggers.remove(&binding.id));
        Ok(())
    }

    fn unbind(&self, trigger_id: &str) {
        self.take(|target| target.triggers.remove(trigger_id));
    }
}

impl ObserverSink for Announcer {
    fn observe(&self, observer: Observer) {
        let watch = Watch { deliver: observer.deliver, metadata: observer.metadata };
        self.add(&observer.target, |target| {
            target.observers.insert(observer.id.clone(), watch);
        });
        self.take_from_others(&observer.target, |target| {
            target.observers.remove(&observer.id).is_some()
        });
    }

    fn unobserve(&self, observer_id: &str) {
        self.take(|target| target.observers.remove(observer_id).is_some());
    }
}
