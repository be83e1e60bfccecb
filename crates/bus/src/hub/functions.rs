//! Who serves which function.
//!
//! Each id has a stack of owners; the last one is active, and when it goes the one before it
//! serves again. Who may take over an id:
//!
//! - nobody, when it begins with `engine::` or this process serves it;
//! - a worker whose SDK is older than 0.23: the last to register wins;
//! - no worker whose SDK is 0.23 or newer: it is told that the id is taken.
//!
//! A worker that has not said yet what it is waits for the decision, a second at most.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::peer::Peer;
use crate::{CallError, Function, FunctionSpec, Json, ObserverSink, protocol::outbound};

/// The namespace of the hub's own functions.
pub(super) const RESERVED: &str = "engine::";

/// Where a call goes.
#[derive(Clone)]
pub(super) enum Target {
    Worker(Arc<Peer>),
    Local(Arc<dyn Function>),
    Observable(Arc<dyn ObserverSink>),
}

impl Target {
    fn is(&self, peer: &Arc<Peer>) -> bool {
        matches!(self, Self::Worker(owner) if Arc::ptr_eq(owner, peer))
    }
}

/// How a function presents itself.
#[derive(Debug, Default)]
pub(super) struct About {
    pub(super) description: Option<String>,
    pub(super) request_format: Option<Json>,
    pub(super) response_format: Option<Json>,
    pub(super) metadata: Option<Json>,
    /// Only the worker that registered it may call it.
    pub(super) private: bool,
    /// Nobody may observe it.
    pub(super) unobservable: bool,
    /// Its owner says which observers an event is for.
    pub(super) owner_delivered: bool,
}

impl About {
    fn size(&self) -> usize {
        let formats = [&self.request_format, &self.response_format, &self.metadata];
        let text = |json: &&Option<Json>| json.as_ref().map_or(0, |json| json.as_str().len());
        self.description.as_deref().map_or(0, str::len) + formats.iter().map(text).sum::<usize>()
    }
}

impl From<FunctionSpec> for About {
    fn from(spec: FunctionSpec) -> Self {
        Self {
            description: Some(spec.description).filter(|text| !text.is_empty()),
            request_format: spec.request_format.as_ref().map(Json::from),
            response_format: spec.response_format.as_ref().map(Json::from),
            metadata: spec.metadata.as_ref().map(Json::from),
            private: false,
            unobservable: false,
            owner_delivered: false,
        }
    }
}

struct Entry {
    target: Target,
    about: Arc<About>,
}

/// One row of a listing.
pub(super) struct Row {
    pub(super) id: String,
    pub(super) about: Arc<About>,
    /// `None` for this process.
    pub(super) owner: Option<Arc<Peer>>,
}

#[derive(Default)]
struct Table {
    stacks: HashMap<Box<str>, Vec<Entry>>,
    /// Contested registrations of workers that have not said yet what they are, by worker.
    held: HashMap<String, Vec<(String, About)>>,
}

/// What became of a registration.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// It waits, and is the first of its worker to do so: see [`Functions::decide`].
    FirstHeld,
    Held,
}

pub(super) struct Functions {
    table: Mutex<Table>,
    /// The id by which this process is named as an owner.
    own_id: String,
    /// Counts the changes.
    pub(super) changed: watch::Sender<u64>,
}

impl Functions {
    pub(super) fn new(own_id: String) -> Self {
        Self { table: Mutex::default(), own_id, changed: watch::Sender::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who serves `id` now, and whether only its owner may call it.
    pub(super) fn find(&self, id: &str) -> Option<(Target, bool)> {
        let table = self.lock();
        let entry = table.stacks.get(id)?.last()?;
        Some((entry.target.clone(), entry.about.private))
    }

    /// Who serves `id` now, and how it presents itself.
    pub(super) fn source(&self, id: &str) -> Option<(Target, Arc<About>)> {
        let table = self.lock();
        let entry = table.stacks.get(id)?.last()?;
        Some((entry.target.clone(), entry.about.clone()))
    }

    /// Registers a function of this process.
    pub(super) fn register_local(&self, id: String, about: About, target: Target) {
        let mut table = self.lock();
        let stack = table.stacks.entry(id.into()).or_default();
        stack.retain(|entry| matches!(entry.target, Target::Worker(_)));
        stack.push(Entry { target, about: Arc::new(about) });
        drop(table);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Registers a function of a worker. A refusal is told to the worker here.
    pub(super) fn register(&self, peer: &Arc<Peer>, id: String, about: About) -> Outcome {
        let mut table = self.lock();
        if peer.is_gone() {
            return Outcome::Done;
        }
        table.unhold(peer, &id);
        if table.contested(peer, &id) && peer.may_identify() {
            if let Err(error) = peer.reserve(id.len() + about.size()) {
                peer.complain(&error);
                return Outcome::Done;
            }
            let held = table.held.entry(peer.id.clone()).or_default();
            held.push((id, about));
            return if held.len() == 1 { Outcome::FirstHeld } else { Outcome::Held };
        }
        self.settle(&mut table, peer, id, about);
        drop(table);
        self.changed.send_modify(|count| *count += 1);
        Outcome::Done
    }

    /// Decides what was held for `peer`, now that it has said what it is or had its time to.
    /// Returns what was decided about.
    pub(super) fn decide(&self, peer: &Arc<Peer>) -> Vec<String> {
        let mut table = self.lock();
        let mut decided = Vec::new();
        for (id, about) in table.held.remove(&peer.id).unwrap_or_default() {
            peer.release(id.len() + about.size());
            if !peer.is_gone() {
                decided.push(id.clone());
                self.settle(&mut table, peer, id, about);
            }
        }
        drop(table);
        self.changed.send_modify(|count| *count += 1);
        decided
    }

    fn settle(&self, table: &mut Table, peer: &Arc<Peer>, id: String, about: About) {
        let modern = peer.identity().is_some_and(|identity| identity.expects_conflicts());
        let owner = table.owner_against(peer, &id, modern).map(|owner| match owner {
            Some(owner) => owner.id.clone(),
            None => self.own_id.clone(),
        });
        if let Some(owner) = owner {
            if modern {
                peer.queue.push(outbound::registration_rejected(&id, &owner));
            } else {
                peer.complain(&CallError::remote(
                    "FUNCTION_NAMESPACE_CONFLICT",
                    format!("{id} is served by this hub itself and cannot be registered"),
                ));
            }
            tracing::warn!(
                worker = peer.id,
                function = id,
                owner,
                "function registration refused: the id is taken"
            );
            return;
        }
        let size = id.len() + about.size();
        table.remove(peer, &id);
        if let Err(error) = peer.reserve(size) {
            peer.complain(&error);
            return;
        }
        table
            .stacks
            .entry(id.into())
            .or_default()
            .push(Entry { target: Target::Worker(peer.clone()), about: Arc::new(about) });
    }

    pub(super) fn unregister(&self, peer: &Arc<Peer>, id: &str) {
        let mut table = self.lock();
        table.unhold(peer, id);
        table.remove(peer, id);
        drop(table);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Removes everything of a worker that has gone, and returns what it served.
    pub(super) fn forget(&self, peer: &Arc<Peer>) -> Vec<String> {
        let mut table = self.lock();
        let mut served = Vec::new();
        table.held.remove(&peer.id);
        table.stacks.retain(|id, stack| {
            if stack.last().is_some_and(|entry| entry.target.is(peer)) {
                served.push(id.to_string());
            }
            stack.retain(|entry| !entry.target.is(peer));
            !stack.is_empty()
        });
        drop(table);
        self.changed.send_modify(|count| *count += 1);
        served
    }

    /// The active owners of all functions, sorted by id.
    pub(super) fn rows(&self) -> Vec<Row> {
        let table = self.lock();
        let mut rows: Vec<Row> = table
            .stacks
            .iter()
            .filter_map(|(id, stack)| {
                let entry = stack.last()?;
                let owner = match &entry.target {
                    Target::Worker(peer) => Some(peer.clone()),
                    Target::Local(_) | Target::Observable(_) => None,
                };
                Some(Row { id: id.to_string(), about: entry.about.clone(), owner })
            })
            .collect();
        drop(table);
        rows.sort_by(|a, b| a.id.cmp(&b.id));
        rows
    }
}

impl Table {
    /// Takes the worker's entry off the stack, wherever it stands.
    fn remove(&mut self, peer: &Arc<Peer>, id: &str) {
        let Some(stack) = self.stacks.get_mut(id) else { return };
        stack.retain(|entry| {
            let own = entry.target.is(peer);
            if own {
                peer.release(id.len() + entry.about.size());
            }
            !own
        });
        if stack.is_empty() {
            self.stacks.remove(id);
        }
    }

    fn unhold(&mut self, peer: &Arc<Peer>, id: &str) {
        if let Some(held) = self.held.get_mut(&peer.id) {
            held.retain(|(held_id, about)| {
                let same = held_id == id;
                if same {
                    peer.release(id.len() + about.size());
                }
                !same
            });
        }
    }

    /// Whether the decision depends on the kind of SDK: someone else serves the id, or nobody may.
    fn contested(&self, peer: &Arc<Peer>, id: &str) -> bool {
        self.owner_against(peer, id, true).is_some()
    }

    /// The owner because of whom `peer` may not have `id`: `Some(None)` is this process.
    fn owner_against(&self, peer: &Arc<Peer>, id: &str, modern: bool) -> Option<Option<Arc<Peer>>> {
        if id.starts_with(RESERVED) {
            return Some(None);
        }
        match &self.stacks.get(id)?.last()?.target {
            Target::Local(_) | Target::Observable(_) => Some(None),
            Target::Worker(owner) if modern && !Arc::ptr_eq(owner, peer) => {
                Some(Some(owner.clone()))
            }
            Target::Worker(_) => None,
        }
    }
}
