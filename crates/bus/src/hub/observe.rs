//! Who observes which function.
//!
//! There are three kinds of sources:
//!
//! - a function that this process registered to be observed: its owner activates the observers
//!   itself, through `Bus::notify`;
//! - a worker's function whose worker asked to say itself which observers an event is for
//!   (`observe.delivery: "owner"`): it is told who they are, and reports events with their ids;
//! - any other function of a worker: each call of it activates all its observers, here.
//!
//! The hub keeps who they are, counts what they got, and ends them: by `unobserve`, with their
//! connection, when their time is up or they have fired often enough. An observer of a function
//! that nobody serves waits for it. Activations are not observed themselves, so nothing can go
//! round in circles.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::task::AbortHandle;

use super::{
    Hub,
    functions::{RESERVED, Target},
    peer::Peer,
};
use crate::{
    CallError, Deliver, ErrorBody, Json, Observer, ObserverSink,
    protocol::{frame::Observe, outbound},
};

/// Who activates an observer.
#[derive(Clone)]
pub(super) enum Source {
    /// This process, which has been told.
    Local(Arc<dyn ObserverSink>),
    /// The worker that serves the function, which has been told. Active once it has agreed.
    Owner(Arc<Peer>),
    /// The hub.
    Calls,
    /// Nobody serves the function.
    Absent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Pending,
    Active,
    Suspended,
}

pub(super) struct Watch {
    peer: Arc<Peer>,
    function_id: String,
    source: Source,
    state: State,
    pub(super) target: String,
    pub(super) deliver: Deliver,
    pub(super) metadata: Option<Json>,
    /// `success`, `error` or `complete`.
    pub(super) on: String,
    pub(super) capture: Vec<String>,
    args: Value,
    fires: u64,
    max_fires: Option<u64>,
    size: usize,
    expiry: Option<AbortHandle>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(expiry) = &self.expiry {
            expiry.abort();
        }
    }
}

impl Watch {
    pub(super) fn is_active(&self) -> bool {
        self.state == State::Active && self.max_fires.is_none_or(|max| self.fires < max)
    }

    pub(super) fn is_called_here(&self) -> bool {
        matches!(self.source, Source::Calls)
    }

    pub(super) fn is_owned_by(&self, peer: &Arc<Peer>) -> bool {
        matches!(&self.source, Source::Owner(owner) if Arc::ptr_eq(owner, peer))
    }

    pub(super) fn fire(&mut self) {
        self.fires += 1;
    }

    pub(super) fn is_spent(&self) -> bool {
        self.max_fires.is_some_and(|max| self.fires >= max)
    }

    /// The observer as this process knows it.
    fn observer(&self, id: &str) -> Observer {
        Observer {
            id: id.to_owned(),
            target: self.target.clone(),
            deliver: self.deliver,
            metadata: self.metadata.clone(),
        }
    }

    /// What an owner is told of an observer.
    fn view(&self, id: &str) -> Value {
        serde_json::json!({
            "id": id,
            "args": self.args,
            "filters": {},
            "target": self.target,
            "capture": self.capture,
            "on": self.on,
        })
    }

    fn enter(&mut self, id: &str, state: State, reason: Option<&ErrorBody>) {
        if self.state == state {
            return;
        }
        self.state = state;
        let name = match state {
            State::Pending => "pending",
            State::Active => "active",
            State::Suspended => "suspended",
        };
        self.peer.queue.push(outbound::observer_state(id, name, reason, self.fires));
    }
}

fn reason(code: &str, message: &str) -> ErrorBody {
    ErrorBody { code: code.to_owned(), message: message.to_owned() }
}

#[derive(Default)]
pub(super) struct Table {
    watches: HashMap<String, Watch>,
    /// The ids of the observers of each function that is not of this process.
    sources: HashMap<String, BTreeMap<u64, String>>,
    next: u64,
}

impl Table {
    pub(super) fn of<'a>(&'a self, function_id: &str) -> impl Iterator<Item = &'a String> {
        self.sources.get(function_id).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn watch(&mut self, id: &str) -> Option<&mut Watch> {
        self.watches.get_mut(id)
    }

    fn remove(&mut self, id: &str) -> Option<Watch> {
        let watch = self.watches.remove(id)?;
        if let Some(ids) = self.sources.get_mut(&watch.function_id) {
            ids.retain(|_, known| known != id);
            if ids.is_empty() {
                self.sources.remove(&watch.function_id);
            }
        }
        Some(watch)
    }

    fn insert(&mut self, id: &str, watch: Watch) {
        if !matches!(watch.source, Source::Local(_)) {
            let ids = self.sources.entry(watch.function_id.clone()).or_default();
            ids.insert(self.next, id.to_owned());
            self.next += 1;
        }
        self.watches.insert(id.to_owned(), watch);
    }
}

#[derive(Default)]
pub(super) struct Observers {
    table: Mutex<Table>,
    /// How many functions of workers are observed, so that a call need not look.
    sources: AtomicUsize,
    revision: AtomicU64,
}

/// Which kind of source a function is now.
fn source_of(hub: &Hub, function_id: &str) -> Result<Source, CallError> {
    let refuse = |message: String| Err(CallError::remote("NOT_OBSERVABLE", message));
    match hub.inner.functions.source(function_id) {
        Some((Target::Observable(sink), _)) => Ok(Source::Local(sink)),
        Some((Target::Worker(_), about)) if about.unobservable || about.private => {
            refuse(format!("{function_id} does not want to be observed"))
        }
        Some((Target::Worker(owner), about)) if about.owner_delivered => Ok(Source::Owner(owner)),
        Some((Target::Worker(_), _)) => Ok(Source::Calls),
        Some((Target::Local(_), _)) => {
            refuse(format!("{function_id} cannot be observed on this hub"))
        }
        None if function_id.starts_with(RESERVED) => {
            refuse(format!("{function_id} cannot be observed on this hub"))
        }
        None => Ok(Source::Absent),
    }
}

impl Observers {
    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counted(&self, table: &Table) {
        self.sources.store(table.sources.len(), Ordering::SeqCst);
    }

    /// Whether any function of a worker is observed.
    pub(super) fn any(&self) -> bool {
        self.sources.load(Ordering::SeqCst) > 0
    }

    fn revision(&self) -> u64 {
        self.revision.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Answers an `observe` frame; there is exactly one answer, and it comes before any other
    /// news of the observer.
    pub(super) fn observe(&self, hub: &Hub, peer: &Arc<Peer>, frame: &Observe<'_>) {
        let outcome = self.add(hub, peer, frame);
        if let Err(error) = &outcome {
            peer.queue.push(outbound::observe_refused(&frame.id, &error.body()));
        }
    }

    fn add(&self, hub: &Hub, peer: &Arc<Peer>, frame: &Observe<'_>) -> Result<(), CallError> {
        let function_id = &frame.source.function_id;
        let refuse = |code: &str, message: String| Err(CallError::remote(code, message));
        if frame.target == *function_id {
            return refuse("SELF_TARGET", format!("{function_id} cannot observe itself"));
        }
        if !is_empty(&frame.source.filters) {
            return refuse(
                "INVALID_FILTER",
                "this hub does not filter; observe without filters".into(),
            );
        }
        let id = frame.id.as_ref();
        let metadata = frame.metadata.map(|raw| Json::from(raw.to_owned()));
        let size =
            id.len() + frame.target.len() + metadata.as_ref().map_or(0, |json| json.as_str().len());

        let mut table = self.lock();
        let source = source_of(hub, function_id)?;
        if !is_empty(&frame.source.args) && !matches!(source, Source::Owner(_)) {
            return refuse(
                "INVALID_ARGS",
                format!("{function_id} takes no arguments from observers"),
            );
        }
        if peer.is_gone() {
            return Ok(());
        }
        if table.watches.get(id).is_some_and(|known| !Arc::ptr_eq(&known.peer, peer)) {
            return refuse(
                "OBSERVER_ID_CONFLICT",
                format!("another worker observes under the id {id}"),
            );
        }
        // Sent again, it goes on counting where it was.
        let known = table.remove(id);
        let fires = known.as_ref().map_or(0, |known| known.fires);
        if let Some(known) = known {
            peer.release(known.size);
            if known.function_id != *function_id {
                self.tell_source(&known, id);
            }
        }
        if let Err(error) = peer.reserve(size) {
            if let Source::Local(sink) = &source {
                sink.unobserve(id);
            }
            self.counted(&table);
            return Err(error);
        }
        let expiry = frame.expires_in_ms.map(|after| {
            let (hub, id) = (hub.clone(), id.to_owned());
            let expire = async move {
                tokio::time::sleep(Duration::from_millis(after)).await;
                hub.inner.observers.end(&id, "EXPIRED", "the observer's time is up");
            };
            tokio::spawn(expire).abort_handle()
        });
        let capture = frame.source.capture.clone();
        let watch = Watch {
            peer: peer.clone(),
            function_id: function_id.clone(),
            state: match source {
                Source::Local(_) | Source::Calls => State::Active,
                Source::Owner(_) | Source::Absent => State::Pending,
            },
            source,
            target: frame.target.clone(),
            deliver: match frame.source.deliver.as_deref() {
                Some("input") => Deliver::Input,
                Some("output") => Deliver::Output,
                _ => Deliver::Envelope,
            },
            metadata,
            on: frame.source.on.clone().unwrap_or_else(|| "success".to_owned()),
            capture: capture
                .unwrap_or_else(|| ["input", "output", "caller"].map(str::to_owned).to_vec()),
            args: match &frame.source.args {
                Value::Null => serde_json::json!({}),
                args => args.clone(),
            },
            fires,
            max_fires: frame.max_fires,
            size,
            expiry,
        };
        let state = if watch.state == State::Active { "active" } else { "pending" };
        peer.queue.push(outbound::observe_result(id, state));
        match &watch.source {
            Source::Local(sink) => sink.observe(watch.observer(id)),
            Source::Owner(owner) => {
                let view = watch.view(id).to_string();
                owner.queue.push(outbound::observer_added(function_id, self.revision(), &view));
            }
            Source::Calls | Source::Absent => {}
        }
        table.insert(id, watch);
        self.counted(&table);
        Ok(())
    }

    /// Tells whoever activates an observer that it has gone.
    fn tell_source(&self, watch: &Watch, id: &str) {
        match &watch.source {
            Source::Local(sink) => sink.unobserve(id),
            Source::Owner(owner) => {
                let frame = outbound::observer_removed(&watch.function_id, self.revision(), id);
                owner.queue.push(frame);
            }
            Source::Calls | Source::Absent => {}
        }
    }

    /// Tells both ends that an observer is done.
    fn dispose(&self, watch: &Watch, id: &str, code: &str, message: &str) {
        self.tell_source(watch, id);
        watch.peer.release(watch.size);
        let reason = reason(code, message);
        let frame = outbound::observer_state(id, "disposed", Some(&reason), watch.fires);
        watch.peer.queue.push(frame);
    }

    fn end(&self, id: &str, code: &str, message: &str) {
        let mut table = self.lock();
        if let Some(watch) = table.remove(id) {
            self.counted(&table);
            self.dispose(&watch, id, code, message);
        }
    }

    /// Ends an observer at its own wish. The answer comes for an unknown id too: SDKs wait for it.
    pub(super) fn unobserve(&self, peer: &Arc<Peer>, id: &str) {
        const DONE: (&str, &str) = ("UNOBSERVED", "the observer was removed");
        let mut table = self.lock();
        let own = table.watches.get(id).is_some_and(|watch| Arc::ptr_eq(&watch.peer, peer));
        match own.then(|| table.remove(id)).flatten() {
            Some(watch) => {
                self.counted(&table);
                self.dispose(&watch, id, DONE.0, DONE.1);
            }
            None => {
                let reason = reason(DONE.0, DONE.1);
                peer.queue.push(outbound::observer_state(id, "disposed", Some(&reason), 0));
            }
        }
    }

    /// Someone else serves a function now, or nobody does, or it presents itself anew.
    pub(super) fn source_changed(&self, hub: &Hub, function_id: &str) {
        let mut table = self.lock();
        let source = source_of(hub, function_id);
        let ids: Vec<String> = table.of(function_id).cloned().collect();
        if let Ok(Source::Owner(owner)) = &source {
            let observers: Vec<Value> =
                ids.iter().filter_map(|id| Some(table.watches.get(id)?.view(id))).collect();
            let observers = Value::from(observers).to_string();
            let revision = self.revision();
            owner.queue.push(outbound::function_registered(function_id, revision, &observers));
        }
        for id in ids {
            match &source {
                Ok(source) => {
                    let Some(watch) = table.watches.get_mut(&id) else { continue };
                    watch.source = source.clone();
                    match source {
                        Source::Calls => watch.enter(&id, State::Active, None),
                        // It says itself whether it agrees.
                        Source::Owner(_) => watch.enter(&id, State::Pending, None),
                        Source::Local(sink) => {
                            sink.observe(watch.observer(&id));
                            watch.enter(&id, State::Active, None);
                        }
                        Source::Absent => {
                            let why = reason("SOURCE_UNAVAILABLE", "nobody serves the function");
                            watch.enter(&id, State::Suspended, Some(&why));
                        }
                    }
                }
                Err(error) => {
                    if let Some(watch) = table.remove(&id) {
                        watch.peer.release(watch.size);
                        let body = error.body();
                        let frame =
                            outbound::observer_state(&id, "error", Some(&body), watch.fires);
                        watch.peer.queue.push(frame);
                    }
                }
            }
        }
        self.counted(&table);
    }

    /// The owner of a function has taken an observer, or has not.
    pub(super) fn acknowledged(&self, owner: &Arc<Peer>, id: &str, error: Option<&ErrorBody>) {
        let mut table = self.lock();
        let Some(watch) = table.watches.get_mut(id).filter(|watch| watch.is_owned_by(owner)) else {
            return;
        };
        match error {
            None => watch.enter(id, State::Active, None),
            Some(error) => {
                if let Some(watch) = table.remove(id) {
                    self.counted(&table);
                    watch.peer.release(watch.size);
                    let frame = outbound::observer_state(id, "error", Some(error), watch.fires);
                    watch.peer.queue.push(frame);
                }
            }
        }
    }

    /// Notes that an observer of this process is about to be activated. What follows from it comes
    /// after the activation; see [`Self::fired`].
    ///
    /// # Errors
    /// When the observer has gone.
    pub(super) fn firing(&self, id: &str) -> Result<(), CallError> {
        let mut table = self.lock();
        let Some(watch) = table.watches.get_mut(id).filter(|watch| watch.is_active()) else {
            return Err(CallError::remote(
                "OBSERVER_NOT_ACTIVE",
                format!("the observer {id} has gone"),
            ));
        };
        watch.fire();
        Ok(())
    }

    /// Ends an observer that has fired as often as it wanted.
    pub(super) fn fired(&self, id: &str) {
        let spent = self.lock().watches.get(id).is_some_and(Watch::is_spent);
        if spent {
            self.end(id, "MAX_FIRES", "the observer has fired as often as it asked to");
        }
    }

    /// Removes the observers of a worker that has gone.
    pub(super) fn forget(&self, peer: &Arc<Peer>) {
        let mut table = self.lock();
        let own =
            |(id, watch): (&String, &Watch)| Arc::ptr_eq(&watch.peer, peer).then(|| id.clone());
        let gone: Vec<String> = table.watches.iter().filter_map(own).collect();
        for id in gone {
            if let Some(watch) = table.remove(&id) {
                self.tell_source(&watch, &id);
            }
        }
        self.counted(&table);
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
