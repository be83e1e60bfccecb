//! Table of observers.
//!
//! | observed function | activation |
//! |---|---|
//! | observable function of this process | by its owner, through `Bus::notify` |
//! | worker's function with `observe.delivery: "owner"` | by the worker, which gets the list of observers and reports events with their ids |
//! | any other function of a worker | by the hub, for each call |
//!
//! An observer ends by `unobserve`, with its connection, when it expires, or when it has fired `max_fires` times. An
//! observer of a function that no worker serves waits for it. Activations are not observed themselves, so there are no
//! cycles.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use skills_core::Code;

use super::{
    Hub,
    functions::{HUB_PREFIX, Target},
    observation::{DeliverySource, Observation, State},
    peer::Peer,
};
use crate::{
    CallError, DeliveryMode, ErrorBody, Json,
    protocol::{frame::Observe, outbound},
};

fn reason(code: Code, message: &str) -> ErrorBody {
    ErrorBody { code: code.into(), message: message.to_owned(), ..ErrorBody::default() }
}

#[derive(Default)]
pub(super) struct Table {
    observations: HashMap<String, Observation>,
    /// Ids of the observers of each function of a worker, by age.
    by_function: HashMap<String, BTreeMap<u64, String>>,
    next: u64,
}

impl Table {
    pub(super) fn ids_of<'a>(&'a self, function_id: &str) -> impl Iterator<Item = &'a String> {
        self.by_function.get(function_id).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut Observation> {
        self.observations.get_mut(id)
    }

    fn remove(&mut self, id: &str) -> Option<Observation> {
        let observation = self.observations.remove(id)?;
        if let Some(ids) = self.by_function.get_mut(&observation.function_id) {
            ids.retain(|_, other| other != id);
            if ids.is_empty() {
                self.by_function.remove(&observation.function_id);
            }
        }
        Some(observation)
    }

    fn insert(&mut self, id: &str, observation: Observation) {
        if !matches!(observation.source, DeliverySource::Local(_)) {
            let ids = self.by_function.entry(observation.function_id.clone()).or_default();
            ids.insert(self.next, id.to_owned());
            self.next += 1;
        }
        self.observations.insert(id.to_owned(), observation);
    }
}

#[derive(Default)]
pub(super) struct Observers {
    table: Mutex<Table>,
    /// Number of observed functions of workers, so that calls without observers need no lock.
    observed_functions: AtomicUsize,
    revision: AtomicU64,
}

/// Returns the current delivery source of a function.
fn source_of(hub: &Hub, function_id: &str) -> Result<DeliverySource, CallError> {
    let not_observable = |message: String| Err(CallError::remote(Code::NotObservable, message));
    match hub.inner.functions.lookup_info(function_id) {
        Some((Target::Observable(sink), _)) => Ok(DeliverySource::Local(sink)),
        Some((Target::Worker(_), info)) if info.unobservable || info.private => {
            not_observable(format!("{function_id} cannot be observed"))
        }
        Some((Target::Worker(owner), info)) if info.owner_delivered => {
            Ok(DeliverySource::Owner(owner))
        }
        Some((Target::Worker(_), _)) => Ok(DeliverySource::Hub),
        Some((Target::Local(_), _)) => {
            not_observable(format!("{function_id} cannot be observed on this hub"))
        }
        None if function_id.starts_with(HUB_PREFIX) => {
            not_observable(format!("{function_id} cannot be observed on this hub"))
        }
        None => Ok(DeliverySource::Unavailable),
    }
}

impl Observers {
    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    fn update_count(&self, table: &Table) {
        self.observed_functions.store(table.by_function.len(), Ordering::SeqCst);
    }

    /// Returns whether any function of a worker is observed.
    pub(super) fn has_any(&self) -> bool {
        self.observed_functions.load(Ordering::SeqCst) > 0
    }

    fn next_revision(&self) -> u64 {
        self.revision.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Handles an `observe` frame. It has exactly one answer, before any other frame about the observer.
    pub(super) fn observe(&self, hub: &Hub, peer: &Arc<Peer>, frame: &Observe<'_>) {
        if let Err(error) = self.add(hub, peer, frame) {
            peer.queue.push_control(outbound::observe_rejected(&frame.id, &error.body()));
        }
    }

    fn add(&self, hub: &Hub, peer: &Arc<Peer>, frame: &Observe<'_>) -> Result<(), CallError> {
        let function_id = &frame.source.function_id;
        let reject = |code: Code, message: String| Err(CallError::remote(code, message));
        if frame.target == *function_id {
            return reject(Code::SelfTarget, format!("{function_id} cannot observe itself"));
        }
        hub.check_subscribable(&frame.target)?;
        if !is_empty(&frame.source.filters) {
            return reject(
                Code::InvalidFilter,
                "this hub does not support filters; observe without them".into(),
            );
        }
        let id = frame.id.as_ref();
        let metadata = frame.metadata.map(|raw| Json::from(raw.to_owned()));
        let size =
            id.len() + frame.target.len() + metadata.as_ref().map_or(0, |json| json.as_str().len());

        let mut table = self.lock();
        let source = source_of(hub, function_id)?;
        if !is_empty(&frame.source.args) && !matches!(source, DeliverySource::Owner(_)) {
            return reject(
                Code::InvalidArgs,
                format!("{function_id} takes no arguments from observers"),
            );
        }
        if peer.is_gone() {
            return Ok(());
        }
        if table.observations.get(id).is_some_and(|other| !Arc::ptr_eq(&other.peer, peer)) {
            return reject(
                Code::ObserverIdConflict,
                format!("another worker observes under the id {id}"),
            );
        }
        // A repeated observer continues its count.
        let previous = table.remove(id);
        let fires = previous.as_ref().map_or(0, |previous| previous.fires);
        if let Some(previous) = previous {
            peer.release(previous.size);
            if previous.function_id != *function_id {
                self.notify_removed(&previous, id);
            }
        }
        if let Err(error) = peer.reserve(size) {
            if let DeliverySource::Local(sink) = &source {
                sink.unobserve(id);
            }
            self.update_count(&table);
            return Err(error);
        }
        let expiry = frame.expires_in_ms.map(|after| {
            let (hub, id) = (hub.clone(), id.to_owned());
            let expire = async move {
                tokio::time::sleep(Duration::from_millis(after)).await;
                hub.inner.observers.end(&id, Code::Expired, "the observer has expired");
            };
            tokio::spawn(expire).abort_handle()
        });
        let capture = frame.source.capture.clone();
        let observation = Observation {
            peer: peer.clone(),
            function_id: function_id.clone(),
            state: match source {
                DeliverySource::Local(_) | DeliverySource::Hub => State::Active,
                DeliverySource::Owner(_) | DeliverySource::Unavailable => State::Pending,
            },
            source,
            target: frame.target.clone(),
            deliver: match frame.source.deliver.as_deref() {
                Some("input") => DeliveryMode::Input,
                Some("output") => DeliveryMode::Output,
                _ => DeliveryMode::Envelope,
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
        let state = if observation.state == State::Active { "active" } else { "pending" };
        peer.queue.push_control(outbound::observe_result(id, state));
        match &observation.source {
            DeliverySource::Local(sink) => sink.observe(observation.to_observer(id)),
            DeliverySource::Owner(owner) => {
                let view = observation.to_json(id).to_string();
                owner.queue.push_control(outbound::observer_added(
                    function_id,
                    self.next_revision(),
                    &view,
                ));
            }
            DeliverySource::Hub | DeliverySource::Unavailable => {}
        }
        table.insert(id, observation);
        self.update_count(&table);
        Ok(())
    }

    /// Notifies the delivery source of a removed observer.
    fn notify_removed(&self, observation: &Observation, id: &str) {
        match &observation.source {
            DeliverySource::Local(sink) => sink.unobserve(id),
            DeliverySource::Owner(owner) => {
                let frame =
                    outbound::observer_removed(&observation.function_id, self.next_revision(), id);
                owner.queue.push_control(frame);
            }
            DeliverySource::Hub | DeliverySource::Unavailable => {}
        }
    }

    /// Notifies the delivery source and the observer of the end.
    fn dispose(&self, observation: &Observation, id: &str, code: Code, message: &str) {
        self.notify_removed(observation, id);
        observation.peer.release(observation.size);
        let reason = reason(code, message);
        let frame = outbound::observer_state(id, "disposed", Some(&reason), observation.fires);
        observation.peer.queue.push_control(frame);
    }

    fn end(&self, id: &str, code: Code, message: &str) {
        let mut table = self.lock();
        if let Some(observation) = table.remove(id) {
            self.update_count(&table);
            self.dispose(&observation, id, code, message);
        }
    }

    /// Handles an `unobserve` frame. An unknown id is answered too: SDKs wait for it.
    pub(super) fn unobserve(&self, peer: &Arc<Peer>, id: &str) {
        const DONE: (Code, &str) = (Code::Unobserved, "the observer was removed");
        let mut table = self.lock();
        let is_own = table
            .observations
            .get(id)
            .is_some_and(|observation| Arc::ptr_eq(&observation.peer, peer));
        match is_own.then(|| table.remove(id)).flatten() {
            Some(observation) => {
                self.update_count(&table);
                self.dispose(&observation, id, DONE.0, DONE.1);
            }
            None => {
                let reason = reason(DONE.0, DONE.1);
                peer.queue.push_control(outbound::observer_state(id, "disposed", Some(&reason), 0));
            }
        }
    }

    /// Updates the observers of a function whose owner or properties have changed.
    pub(super) fn source_changed(&self, hub: &Hub, function_id: &str) {
        let mut table = self.lock();
        let source = source_of(hub, function_id);
        let ids: Vec<String> = table.ids_of(function_id).cloned().collect();
        if let Ok(DeliverySource::Owner(owner)) = &source {
            let observers: Vec<Value> =
                ids.iter().filter_map(|id| Some(table.observations.get(id)?.to_json(id))).collect();
            let observers = Value::from(observers).to_string();
            let revision = self.next_revision();
            owner.queue.push_control(outbound::function_registered(
                function_id,
                revision,
                &observers,
            ));
        }
        for id in ids {
            match &source {
                Ok(source) => {
                    let Some(observation) = table.observations.get_mut(&id) else { continue };
                    observation.source = source.clone();
                    match source {
                        DeliverySource::Hub => observation.set_state(&id, State::Active, None),
                        // Active once the worker acknowledges it.
                        DeliverySource::Owner(_) => {
                            observation.set_state(&id, State::Pending, None)
                        }
                        DeliverySource::Local(sink) => {
                            sink.observe(observation.to_observer(&id));
                            observation.set_state(&id, State::Active, None);
                        }
                        DeliverySource::Unavailable => {
                            let why =
                                reason(Code::SourceUnavailable, "no worker serves the function");
                            observation.set_state(&id, State::Suspended, Some(&why));
                        }
                    }
                }
                Err(error) => {
                    if let Some(observation) = table.remove(&id) {
                        observation.peer.release(observation.size);
                        let body = error.body();
                        let frame =
                            outbound::observer_state(&id, "error", Some(&body), observation.fires);
                        observation.peer.queue.push_control(frame);
                    }
                }
            }
        }
        self.update_count(&table);
    }

    /// Handles the acceptance or rejection of an observer by its delivery source.
    pub(super) fn acknowledge(&self, owner: &Arc<Peer>, id: &str, error: Option<&ErrorBody>) {
        let mut table = self.lock();
        let Some(observation) =
            table.observations.get_mut(id).filter(|observation| observation.is_delivered_by(owner))
        else {
            return;
        };
        match error {
            None => observation.set_state(id, State::Active, None),
            Some(error) => {
                if let Some(observation) = table.remove(id) {
                    self.update_count(&table);
                    observation.peer.release(observation.size);
                    let frame =
                        outbound::observer_state(id, "error", Some(error), observation.fires);
                    observation.peer.queue.push_control(frame);
                }
            }
        }
    }

    /// Returns whether an observer belongs to this worker.
    pub(super) fn is_from(&self, id: &str, peer: &Arc<Peer>) -> bool {
        self.lock().observations.get(id).is_some_and(|observation| observation.is_from(peer))
    }

    /// Counts an activation by this process, before it is sent. [`Self::remove_if_exhausted`] follows it.
    ///
    /// # Errors
    /// When the observer is not active.
    pub(super) fn record_fire(&self, id: &str) -> Result<(), CallError> {
        let mut table = self.lock();
        let Some(observation) =
            table.observations.get_mut(id).filter(|observation| observation.is_active())
        else {
            return Err(CallError::remote(
                Code::ObserverNotActive,
                format!("the observer {id} is not active"),
            ));
        };
        observation.fires += 1;
        Ok(())
    }

    /// Ends an observer that has fired `max_fires` times.
    pub(super) fn remove_if_exhausted(&self, id: &str) {
        let is_exhausted = self.lock().observations.get(id).is_some_and(Observation::is_exhausted);
        if is_exhausted {
            self.end(id, Code::MaxFires, "the observer has fired max_fires times");
        }
    }

    /// Removes the observers of a disconnected worker.
    pub(super) fn remove_peer(&self, peer: &Arc<Peer>) {
        let mut table = self.lock();
        let own = |(id, observation): (&String, &Observation)| {
            Arc::ptr_eq(&observation.peer, peer).then(|| id.clone())
        };
        let own_ids: Vec<String> = table.observations.iter().filter_map(own).collect();
        for id in own_ids {
            if let Some(observation) = table.remove(&id) {
                self.notify_removed(&observation, &id);
            }
        }
        self.update_count(&table);
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
