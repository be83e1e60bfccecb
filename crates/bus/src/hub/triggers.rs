//! Trigger types and the bindings of their subscribers.
//!
//! The hub fires no triggers itself: it sends bindings to the provider of their type. A binding whose type has no
//! provider is parked until one registers, oldest first. The last provider to register a type is active; when it
//! disconnects, the one before it gets the bindings, or they are parked. No worker can take over a type of this process.
//!
//! Providers are called while the table is locked, so that they see all changes in one order; none of that blocks.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use skills_core::Code;

use super::{functions::HUB_PREFIX, peer::Peer};
use crate::{
    CallError, ErrorBody, Json, TriggerBinding, TriggerProvider, TriggerTypeSpec,
    protocol::outbound,
};

/// Description of a trigger type.
#[derive(Debug, Clone, Default)]
pub(super) struct TriggerTypeInfo {
    pub(super) description: String,
    pub(super) trigger_request_format: Option<Json>,
    pub(super) call_request_format: Option<Json>,
}

impl TriggerTypeInfo {
    fn size(&self) -> usize {
        let text = |json: &Option<Json>| json.as_ref().map_or(0, |json| json.as_str().len());
        self.description.len()
            + text(&self.trigger_request_format)
            + text(&self.call_request_format)
    }
}

impl From<&TriggerTypeSpec> for TriggerTypeInfo {
    fn from(spec: &TriggerTypeSpec) -> Self {
        Self {
            description: spec.description.clone(),
            trigger_request_format: spec.trigger_request_format.as_ref().map(Json::from),
            call_request_format: spec.call_request_format.as_ref().map(Json::from),
        }
    }
}

#[derive(Clone)]
enum Provider {
    Worker(Arc<Peer>),
    Local(Arc<dyn TriggerProvider>),
}

impl Provider {
    fn is_peer(&self, peer: &Arc<Peer>) -> bool {
        matches!(self, Self::Worker(owner) if Arc::ptr_eq(owner, peer))
    }

    fn unbind(&self, id: &str, trigger_type: &str) {
        match self {
            Self::Worker(peer) => {
                peer.queue.push_control(outbound::unregister_trigger(id, trigger_type))
            }
            Self::Local(provider) => provider.unbind(id),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Binding {
    pub(super) id: String,
    pub(super) trigger_type: String,
    pub(super) function_id: String,
    pub(super) config: Json,
    pub(super) metadata: Option<Json>,
    pub(super) subscriber: Arc<Peer>,
    /// True if the provider has the binding; otherwise it is parked.
    pub(super) is_bound: bool,
}

impl Binding {
    fn size(&self) -> usize {
        let metadata = self.metadata.as_ref().map_or(0, |json| json.as_str().len());
        let ids = self.id.len() + self.trigger_type.len() + self.function_id.len();
        ids + self.config.as_str().len() + metadata
    }

    /// Sends the binding to its provider.
    fn bind_to(&mut self, provider: &Provider) {
        self.is_bound = true;
        match provider {
            Provider::Worker(peer) => peer.queue.push_control(outbound::register_trigger(
                &self.id,
                &self.trigger_type,
                &self.function_id,
                self.config.as_str(),
                self.metadata.as_ref().map(Json::as_str),
            )),
            Provider::Local(provider) => {
                let binding = TriggerBinding {
                    id: self.id.clone(),
                    function_id: self.function_id.clone(),
                    config: self.config.clone(),
                    subscriber: Some(self.subscriber.id.clone()),
                };
                if let Err(error) = provider.bind(binding) {
                    self.reject(&error.body());
                }
            }
        }
    }

    /// Parks the binding that its provider has rejected, and notifies the subscriber.
    fn reject(&mut self, error: &ErrorBody) {
        self.is_bound = false;
        let failed =
            outbound::trigger_failed(&self.id, &self.trigger_type, &self.function_id, error);
        self.subscriber.queue.push_control(failed);
    }
}

/// Registration of a trigger type by a provider.
struct Registration {
    provider: Provider,
    info: TriggerTypeInfo,
}

#[derive(Default)]
struct Table {
    types: HashMap<String, Vec<Registration>>,
    /// Bindings by age.
    bindings: BTreeMap<u64, Binding>,
    by_id: HashMap<String, u64>,
    next: u64,
}

impl Table {
    fn provider(&self, trigger_type: &str) -> Option<Provider> {
        Some(self.types.get(trigger_type)?.last()?.provider.clone())
    }

    /// Sends all bindings of a type to its active provider. `previous` is still connected and must stop firing them.
    fn rebind_all(&mut self, trigger_type: &str, previous: Option<&Provider>) {
        let provider = self.provider(trigger_type);
        for binding in
            self.bindings.values_mut().filter(|binding| binding.trigger_type == trigger_type)
        {
            if let Some(previous) = previous.filter(|_| binding.is_bound) {
                previous.unbind(&binding.id, trigger_type);
            }
            match &provider {
                Some(provider) => binding.bind_to(provider),
                None => binding.is_bound = false,
            }
        }
    }

    fn add(&mut self, id: &str, registration: Registration) {
        let previous = self.provider(id);
        let stack = self.types.entry(id.to_owned()).or_default();
        let is_repeated = match (&registration.provider, &previous) {
            (Provider::Worker(peer), Some(previous)) => previous.is_peer(peer),
            _ => false,
        };
        if let Provider::Worker(peer) = &registration.provider {
            stack.retain(|other| !other.provider.is_peer(peer));
        }
        stack.push(registration);
        // SDK 0.11 sends early registrations twice.
        if !is_repeated {
            self.rebind_all(id, previous.as_ref());
        }
    }

    fn remove_provider(&mut self, peer: &Arc<Peer>, id: &str) {
        let was_active = self.provider(id).is_some_and(|provider| provider.is_peer(peer));
        if let Some(stack) = self.types.get_mut(id) {
            stack.retain(|registration| {
                let is_own = registration.provider.is_peer(peer);
                if is_own {
                    peer.release(id.len() + registration.info.size());
                }
                !is_own
            });
            if stack.is_empty() {
                self.types.remove(id);
            }
        }
        if was_active {
            self.rebind_all(id, None);
        }
    }

    fn remove_binding(&mut self, id: &str) -> Option<Binding> {
        let binding = self.bindings.remove(&self.by_id.remove(id)?)?;
        binding.subscriber.release(binding.size());
        if let Some(provider) = self.provider(&binding.trigger_type).filter(|_| binding.is_bound) {
            provider.unbind(&binding.id, &binding.trigger_type);
        }
        Some(binding)
    }
}

#[derive(Default)]
pub(super) struct Triggers(Mutex<Table>);

impl Triggers {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock()
    }

    /// Registers a trigger type of this process.
    pub(super) fn register_local_type(
        &self,
        spec: &TriggerTypeSpec,
        provider: Arc<dyn TriggerProvider>,
    ) {
        let registration = Registration { provider: Provider::Local(provider), info: spec.into() };
        self.lock().add(&spec.id, registration);
    }

    /// Registers a trigger type of a worker.
    ///
    /// # Errors
    /// When the type belongs to this process, or the worker's quota is used up.
    pub(super) fn register_type(
        &self,
        peer: &Arc<Peer>,
        id: &str,
        info: TriggerTypeInfo,
    ) -> Result<(), CallError> {
        let mut table = self.lock();
        if peer.is_gone() {
            return Ok(());
        }
        if id.starts_with(HUB_PREFIX) || matches!(table.provider(id), Some(Provider::Local(_))) {
            return Err(CallError::remote(
                Code::TriggerTypeConflict,
                format!(
                    "the trigger type {id} is provided by this hub itself and cannot be registered"
                ),
            ));
        }
        let stack = table.types.get(id);
        if let Some(own) =
            stack.and_then(|stack| stack.iter().find(|other| other.provider.is_peer(peer)))
        {
            peer.release(id.len() + own.info.size());
        }
        if let Err(error) = peer.reserve(id.len() + info.size()) {
            table.remove_provider(peer, id);
            return Err(error);
        }
        table.add(id, Registration { provider: Provider::Worker(peer.clone()), info });
        Ok(())
    }

    /// Unregisters a trigger type of a worker.
    pub(super) fn unregister_type(&self, peer: &Arc<Peer>, id: &str) {
        self.lock().remove_provider(peer, id);
    }

    /// Adds a binding. A repeated id replaces its binding, perhaps of a worker that has reconnected; the provider gets it
    /// again.
    ///
    /// # Errors
    /// When the worker's quota is used up.
    pub(super) fn bind(&self, mut binding: Binding) -> Result<(), CallError> {
        let mut table = self.lock();
        if binding.subscriber.is_gone() {
            return Ok(());
        }
        let previous = table.by_id.get(&binding.id).copied();
        if let Some(previous) = previous.and_then(|age| table.bindings.get(&age)) {
            if previous.trigger_type == binding.trigger_type {
                previous.subscriber.release(previous.size());
            } else {
                table.remove_binding(&binding.id.clone());
            }
        }
        if let Err(error) = binding.subscriber.reserve(binding.size()) {
            // The quota of the previous binding was released above, and must not be released twice.
            if let Some(age) = table.by_id.remove(&binding.id) {
                table.bindings.remove(&age);
                if let Some(provider) = table.provider(&binding.trigger_type) {
                    provider.unbind(&binding.id, &binding.trigger_type);
                }
            }
            return Err(error);
        }
        if let Some(provider) = table.provider(&binding.trigger_type) {
            binding.bind_to(&provider);
        }
        let age = table.by_id.get(&binding.id).copied().unwrap_or(table.next);
        table.next += 1;
        table.by_id.insert(binding.id.clone(), age);
        table.bindings.insert(age, binding);
        Ok(())
    }

    /// Removes a binding at the request of its subscriber.
    pub(super) fn unbind(&self, peer: &Arc<Peer>, id: &str) {
        let mut table = self.lock();
        let own = table.by_id.get(id).and_then(|age| table.bindings.get(age));
        if own.is_some_and(|binding| Arc::ptr_eq(&binding.subscriber, peer)) {
            table.remove_binding(id);
        }
    }

    /// Parks a binding that its provider has rejected.
    pub(super) fn reject(&self, provider: &Arc<Peer>, id: &str, error: &ErrorBody) {
        let mut table = self.lock();
        let Some(age) = table.by_id.get(id).copied() else { return };
        let Some(trigger_type) =
            table.bindings.get(&age).map(|binding| binding.trigger_type.clone())
        else {
            return;
        };
        if table.provider(&trigger_type).is_some_and(|active| active.is_peer(provider))
            && let Some(binding) = table.bindings.get_mut(&age)
        {
            binding.reject(error);
        }
    }

    /// Removes the bindings and then the trigger types of a disconnected worker.
    pub(super) fn remove_peer(&self, peer: &Arc<Peer>) {
        let mut table = self.lock();
        let own = |binding: &&Binding| Arc::ptr_eq(&binding.subscriber, peer);
        let bindings: Vec<String> =
            table.bindings.values().filter(own).map(|binding| binding.id.clone()).collect();
        for id in bindings {
            table.remove_binding(&id);
        }
        let provides =
            |stack: &[Registration]| stack.iter().any(|other| other.provider.is_peer(peer));
        let types: Vec<String> = table
            .types
            .iter()
            .filter(|(_, stack)| provides(stack.as_slice()))
            .map(|(id, _)| id.clone())
            .collect();
        for id in types {
            table.remove_provider(peer, &id);
        }
    }

    /// Returns all types with a provider, sorted by id, with the providing worker (`None`: this process).
    pub(super) fn types(&self) -> Vec<(String, TriggerTypeInfo, Option<Arc<Peer>>)> {
        let table = self.lock();
        let mut types: Vec<_> = table
            .types
            .iter()
            .filter_map(|(id, stack)| {
                let active = stack.last()?;
                let owner = match &active.provider {
                    Provider::Worker(peer) => Some(peer.clone()),
                    Provider::Local(_) => None,
                };
                Some((id.clone(), active.info.clone(), owner))
            })
            .collect();
        drop(table);
        types.sort_by(|a, b| a.0.cmp(&b.0));
        types
    }

    /// Returns whether a worker has subscribed a function to any trigger type.
    pub(super) fn is_subscribed(&self, peer: &Arc<Peer>, function_id: &str) -> bool {
        self.lock().bindings.values().any(|binding| {
            binding.function_id == function_id && Arc::ptr_eq(&binding.subscriber, peer)
        })
    }

    /// Returns the bindings of one function, oldest first.
    pub(super) fn bindings_of(&self, function_id: &str) -> Vec<Binding> {
        let table = self.lock();
        let of_function = |binding: &&Binding| binding.function_id == function_id;
        table.bindings.values().filter(of_function).cloned().collect()
    }

    /// Returns all bindings, oldest first.
    pub(super) fn bindings(&self) -> Vec<Binding> {
        self.lock().bindings.values().cloned().collect()
    }
}
