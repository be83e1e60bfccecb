//! Observers of a worker's functions.
//!
//! The server lists the observers of a function when it confirms the function, and reports each change with a revision.
//! The worker acknowledges an observer before its first event: the server drops events of observers that it does not
//! consider active. After a reconnect a function emits again once the server has confirmed it.

use std::collections::HashMap;

use serde_json::value::RawValue;
use skills_core::Code;

use super::WorkerEvents;
use crate::{
    ErrorBody,
    protocol::{server_frame::ObserverView, worker_outbound::observer_ack},
    wire::queue::Queue,
};

/// Observers of one function.
#[derive(Default)]
struct ObservedFunction {
    revision: u64,
    namespace: Option<String>,
    /// Connection on which the server confirmed the function.
    epoch: u64,
    /// Observers as the server described them.
    members: HashMap<String, Box<RawValue>>,
}

/// Observers by function.
#[derive(Default)]
pub(super) struct ObservedFunctions(HashMap<String, ObservedFunction>);

/// Connection on which a frame about observers arrived.
pub(super) struct Source<'a> {
    pub(super) epoch: u64,
    pub(super) queue: &'a Queue,
    pub(super) events: &'a dyn WorkerEvents,
}

impl ObservedFunctions {
    /// Handles the confirmation of a function with the list of its observers.
    pub(super) fn confirm(
        &mut self,
        source: &Source<'_>,
        function_id: &str,
        namespace: Option<&str>,
        revision: u64,
        observers: Vec<ObserverView>,
    ) {
        let function = self.0.entry(function_id.to_owned()).or_default();
        function.namespace = namespace.map(str::to_owned);
        function.revision = revision;
        function.members.retain(|id, _| {
            let is_listed = observers.iter().any(|observer| observer.id == *id);
            if !is_listed {
                source.events.observer_removed(function_id, id);
            }
            is_listed
        });
        for observer in observers {
            function.add(source, function_id, observer);
        }
        function.epoch = source.epoch;
    }

    pub(super) fn add(
        &mut self,
        source: &Source<'_>,
        function_id: &str,
        namespace: Option<&str>,
        revision: u64,
        observer: ObserverView,
    ) {
        let function = self.0.entry(function_id.to_owned()).or_default();
        if revision <= function.revision {
            return;
        }
        function.namespace = namespace.map(str::to_owned);
        function.revision = revision;
        function.add(source, function_id, observer);
    }

    pub(super) fn remove(
        &mut self,
        events: &dyn WorkerEvents,
        function_id: &str,
        revision: u64,
        id: &str,
    ) {
        let Some(function) = self.0.get_mut(function_id) else { return };
        if revision <= function.revision {
            return;
        }
        function.revision = revision;
        if function.members.remove(id).is_some() {
            events.observer_removed(function_id, id);
        }
    }

    /// Removes all observers of a function that another worker has.
    pub(super) fn release(&mut self, events: &dyn WorkerEvents, function_id: &str) {
        if let Some(function) = self.0.remove(function_id) {
            for id in function.members.keys() {
                events.observer_removed(function_id, id);
            }
        }
    }

    /// Removes all observers, on a server without observers.
    pub(super) fn release_all(&mut self, events: &dyn WorkerEvents) {
        let functions: Vec<String> = self.0.keys().cloned().collect();
        for function_id in functions {
            self.release(events, &function_id);
        }
    }

    /// Returns the namespace of a function if the server has confirmed it on this connection.
    pub(super) fn confirmed(&self, function_id: &str, epoch: u64) -> Option<Option<&str>> {
        let function = self.0.get(function_id).filter(|function| function.epoch == epoch)?;
        Some(function.namespace.as_deref())
    }

    pub(super) fn is_member(&self, function_id: &str, observer_id: &str) -> bool {
        self.0.get(function_id).is_some_and(|function| function.members.contains_key(observer_id))
    }
}

impl ObservedFunction {
    /// Acknowledges an observer and adds it, unless it is known already.
    fn add(&mut self, source: &Source<'_>, function_id: &str, observer: ObserverView) {
        let ObserverView { id, target, has_args, has_filters, text } = observer;
        let ack = |error: Option<&ErrorBody>| {
            let namespace = self.namespace.as_deref();
            let frame = observer_ack(function_id, namespace, &id, self.revision, error);
            source.queue.push_control(frame);
        };
        let refusal = match (has_filters, has_args) {
            (true, _) => Some((Code::InvalidFilter, "filters are not supported")),
            (_, true) => Some((Code::InvalidArgs, "the function takes no arguments")),
            _ => None,
        };
        if let Some((code, message)) = refusal {
            ack(Some(&ErrorBody {
                code: code.into(),
                message: message.to_owned(),
                ..ErrorBody::default()
            }));
            if self.members.remove(&id).is_some() {
                source.events.observer_removed(function_id, &id);
            }
            return;
        }
        ack(None);
        let previous = self.members.insert(id.clone(), text);
        let is_known = previous.as_ref().is_some_and(|previous| {
            self.members.get(&id).is_some_and(|text| text.get() == previous.get())
        });
        if is_known {
            return;
        }
        if previous.is_some() {
            source.events.observer_removed(function_id, &id);
        }
        source.events.observer_added(function_id, &id, &target);
    }
}
