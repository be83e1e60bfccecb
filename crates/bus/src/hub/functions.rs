//! Table of functions and their owners.
//!
//! Each id has a stack of owners; the last one is active, and when it disconnects the one before it serves again.
//! Conflicts over an id:
//!
//! | id or worker | result |
//! |---|---|
//! | `engine::…`, or a function of this process | rejected |
//! | worker with an SDK older than 0.23 | the last to register wins |
//! | worker with SDK 0.23 or newer | rejected |
//! | worker that has not identified itself | deferred until it has, one second at most |

use std::{collections::HashMap, sync::Arc, time::Instant};

use parking_lot::Mutex;
use skills_core::{Code, LogLimiter};
use tokio::sync::watch;

use super::peer::Peer;
use crate::{CallError, Function, FunctionSpec, Json, ObserverSink, protocol::outbound};

/// Prefix of the hub's own functions.
pub(super) const HUB_PREFIX: &str = "engine::";

/// Callee of a function.
#[derive(Clone)]
pub(super) enum Target {
    Worker(Arc<Peer>),
    Local(Arc<dyn Function>),
    Observable(Arc<dyn ObserverSink>),
}

impl Target {
    fn is_peer(&self, peer: &Arc<Peer>) -> bool {
        matches!(self, Self::Worker(owner) if Arc::ptr_eq(owner, peer))
    }
}

/// Description and properties of a function.
#[derive(Debug, Default)]
pub(super) struct FunctionInfo {
    pub(super) description: Option<String>,
    pub(super) request_format: Option<Json>,
    pub(super) response_format: Option<Json>,
    pub(super) metadata: Option<Json>,
    /// Only the worker that registered the function may call it.
    pub(super) private: bool,
    /// The function cannot be observed.
    pub(super) unobservable: bool,
    /// The owner selects the observers of an event.
    pub(super) owner_delivered: bool,
}

impl FunctionInfo {
    fn size(&self) -> usize {
        let formats = [&self.request_format, &self.response_format, &self.metadata];
        let text = |json: &&Option<Json>| json.as_ref().map_or(0, |json| json.as_str().len());
        self.description.as_deref().map_or(0, str::len) + formats.iter().map(text).sum::<usize>()
    }
}

impl From<FunctionSpec> for FunctionInfo {
    fn from(spec: FunctionSpec) -> Self {
        Self {
            description: Some(spec.description).filter(|text| !text.is_empty()),
            request_format: spec.request_format.as_ref().map(Json::from),
            response_format: spec.response_format.as_ref().map(Json::from),
            metadata: spec.metadata.as_ref().map(Json::from),
            ..Self::default()
        }
    }
}

struct Entry {
    target: Target,
    info: Arc<FunctionInfo>,
}

impl Entry {
    fn row(&self, id: &str) -> Row {
        let owner = match &self.target {
            Target::Worker(peer) => Some(peer.clone()),
            Target::Local(_) | Target::Observable(_) => None,
        };
        Row { id: id.to_owned(), info: self.info.clone(), owner }
    }
}

/// Row of a listing.
pub(super) struct Row {
    pub(super) id: String,
    pub(super) info: Arc<FunctionInfo>,
    /// Worker that serves the function; `None` for this process.
    pub(super) owner: Option<Arc<Peer>>,
}

#[derive(Default)]
struct Table {
    stacks: HashMap<Box<str>, Vec<Entry>>,
    /// Contested registrations of workers that have not identified themselves, by worker.
    deferred: HashMap<String, Vec<(String, FunctionInfo)>>,
}

/// Result of a registration.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Registration {
    /// The registration was accepted or rejected.
    Decided,
    /// The registration is the first deferred one of its worker: see [`Functions::decide_deferred`].
    FirstDeferred,
    Deferred,
}

pub(super) struct Functions {
    table: Mutex<Table>,
    /// Id of this process as an owner.
    own_id: String,
    /// Limits warnings about rejected registrations.
    rejections: LogLimiter,
    /// Counter of changes.
    pub(super) changed: watch::Sender<u64>,
}

impl Functions {
    pub(super) fn new(own_id: String) -> Self {
        let (table, rejections) = (Mutex::default(), LogLimiter::default());
        Self { table, own_id, rejections, changed: watch::Sender::new(0) }
    }

    fn notify_changed(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Returns the active callee of a function and whether it is private.
    pub(super) fn lookup(&self, id: &str) -> Option<(Target, bool)> {
        let table = self.table.lock();
        let entry = table.stacks.get(id)?.last()?;
        Some((entry.target.clone(), entry.info.private))
    }

    /// Returns the active callee of a function and its properties.
    pub(super) fn lookup_info(&self, id: &str) -> Option<(Target, Arc<FunctionInfo>)> {
        let table = self.table.lock();
        let entry = table.stacks.get(id)?.last()?;
        Some((entry.target.clone(), entry.info.clone()))
    }

    /// Registers a function of this process.
    pub(super) fn register_local(&self, id: String, info: FunctionInfo, target: Target) {
        let mut table = self.table.lock();
        let stack = table.stacks.entry(id.into()).or_default();
        stack.retain(|entry| matches!(entry.target, Target::Worker(_)));
        stack.push(Entry { target, info: Arc::new(info) });
        drop(table);
        self.notify_changed();
    }

    /// Registers a function of a worker and reports a rejection to it.
    pub(super) fn register(
        &self,
        peer: &Arc<Peer>,
        id: String,
        info: FunctionInfo,
    ) -> Registration {
        let mut table = self.table.lock();
        if peer.is_gone() {
            return Registration::Decided;
        }
        table.cancel_deferred(peer, &id);
        if table.conflicting_owner(peer, &id, true).is_some() && peer.is_identity_pending() {
            if let Err(error) = peer.reserve(id.len() + info.size()) {
                peer.send_error(&error);
                return Registration::Decided;
            }
            let deferred = table.deferred.entry(peer.id.clone()).or_default();
            deferred.push((id, info));
            return if deferred.len() == 1 {
                Registration::FirstDeferred
            } else {
                Registration::Deferred
            };
        }
        self.decide(&mut table, peer, id, info);
        drop(table);
        self.notify_changed();
        Registration::Decided
    }

    /// Decides the deferred registrations of `peer` and returns their ids.
    pub(super) fn decide_deferred(&self, peer: &Arc<Peer>) -> Vec<String> {
        let mut table = self.table.lock();
        let mut decided = Vec::new();
        for (id, info) in table.deferred.remove(&peer.id).unwrap_or_default() {
            peer.release(id.len() + info.size());
            if !peer.is_gone() {
                decided.push(id.clone());
                self.decide(&mut table, peer, id, info);
            }
        }
        drop(table);
        self.notify_changed();
        decided
    }

    fn decide(&self, table: &mut Table, peer: &Arc<Peer>, id: String, info: FunctionInfo) {
        let understands_conflicts =
            peer.identity().is_some_and(|identity| identity.understands_conflicts());
        let owner =
            table.conflicting_owner(peer, &id, understands_conflicts).map(|owner| match owner {
                Some(owner) => owner.id.clone(),
                None => self.own_id.clone(),
            });
        if let Some(owner) = owner {
            if understands_conflicts {
                peer.queue.push_control(outbound::registration_rejected(&id, &owner));
            } else {
                peer.send_error(&CallError::remote(
                    Code::FunctionNamespaceConflict,
                    format!("{id} is served by this hub itself and cannot be registered"),
                ));
            }
            if let Some(suppressed) = self.rejections.check(Instant::now()) {
                tracing::warn!(
                    worker = peer.id,
                    function = id,
                    owner,
                    suppressed,
                    "function registration rejected: the id is taken"
                );
            }
            return;
        }
        let size = id.len() + info.size();
        table.remove(peer, &id);
        if let Err(error) = peer.reserve(size) {
            peer.send_error(&error);
            return;
        }
        table
            .stacks
            .entry(id.into())
            .or_default()
            .push(Entry { target: Target::Worker(peer.clone()), info: Arc::new(info) });
    }

    pub(super) fn unregister(&self, peer: &Arc<Peer>, id: &str) {
        let mut table = self.table.lock();
        table.cancel_deferred(peer, id);
        table.remove(peer, id);
        drop(table);
        self.notify_changed();
    }

    /// Removes all functions of a disconnected worker and returns those that it served.
    pub(super) fn remove_peer(&self, peer: &Arc<Peer>) -> Vec<String> {
        let mut table = self.table.lock();
        let mut served = Vec::new();
        table.deferred.remove(&peer.id);
        table.stacks.retain(|id, stack| {
            if stack.last().is_some_and(|entry| entry.target.is_peer(peer)) {
                served.push(id.to_string());
            }
            stack.retain(|entry| !entry.target.is_peer(peer));
            !stack.is_empty()
        });
        drop(table);
        self.notify_changed();
        served
    }

    /// Returns the row of one function.
    pub(super) fn row(&self, id: &str) -> Option<Row> {
        Some(self.table.lock().stacks.get(id)?.last()?.row(id))
    }

    /// Returns the ids of the functions of workers that others may call, sorted.
    pub(super) fn of_workers(&self) -> Vec<String> {
        let table = self.table.lock();
        let stacks = table.stacks.iter().filter(|(_, stack)| {
            let entry = stack.last();
            entry.is_some_and(|it| matches!(it.target, Target::Worker(_)) && !it.info.private)
        });
        let mut ids: Vec<String> = stacks.map(|(id, _)| id.to_string()).collect();
        drop(table);
        ids.sort_unstable();
        ids
    }

    /// Returns the rows of all functions, sorted by id.
    pub(super) fn rows(&self) -> Vec<Row> {
        let table = self.table.lock();
        let stacks = table.stacks.iter();
        let mut rows: Vec<Row> =
            stacks.filter_map(|(id, stack)| Some(stack.last()?.row(id))).collect();
        drop(table);
        rows.sort_by(|a, b| a.id.cmp(&b.id));
        rows
    }
}

impl Table {
    /// Removes the worker's entry from the stack of an id.
    fn remove(&mut self, peer: &Arc<Peer>, id: &str) {
        let Some(stack) = self.stacks.get_mut(id) else { return };
        stack.retain(|entry| {
            let is_own = entry.target.is_peer(peer);
            if is_own {
                peer.release(id.len() + entry.info.size());
            }
            !is_own
        });
        if stack.is_empty() {
            self.stacks.remove(id);
        }
    }

    fn cancel_deferred(&mut self, peer: &Arc<Peer>, id: &str) {
        if let Some(deferred) = self.deferred.get_mut(&peer.id) {
            deferred.retain(|(other, info)| {
                let is_same = other == id;
                if is_same {
                    peer.release(id.len() + info.size());
                }
                !is_same
            });
        }
    }

    /// Returns the owner that keeps `peer` from registering `id`: `Some(None)` is this process.
    fn conflicting_owner(
        &self,
        peer: &Arc<Peer>,
        id: &str,
        understands_conflicts: bool,
    ) -> Option<Option<Arc<Peer>>> {
        if id.starts_with(HUB_PREFIX) {
            return Some(None);
        }
        match &self.stacks.get(id)?.last()?.target {
            Target::Local(_) | Target::Observable(_) => Some(None),
            Target::Worker(owner) if understands_conflicts && !Arc::ptr_eq(owner, peer) => {
                Some(Some(owner.clone()))
            }
            Target::Worker(_) => None,
        }
    }
}
