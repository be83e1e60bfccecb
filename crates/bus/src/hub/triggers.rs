//! Trigger types, and the bindings that subscribers have made to them.
//!
//! The hub fires nothing: it brings bindings to the provider of their type and takes them back.
//! A binding whose type has no provider is parked and brought when one comes, oldest first. The
//! last provider to register a type has it; when it goes, the one before it gets the bindings,
//! or they are parked. A type of this process cannot be taken.
//!
//! Providers are told while the table is locked, so that they see bindings come and go in one
//! order; nothing on that way blocks.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{functions::RESERVED, peer::Peer};
use crate::{
    CallError, ErrorBody, Json, TriggerBinding, TriggerProvider, TriggerTypeSpec,
    protocol::outbound,
};

/// How a trigger type presents itself.
#[derive(Debug, Clone, Default)]
pub(super) struct AboutType {
    pub(super) description: String,
    pub(super) trigger_request_format: Option<Json>,
    pub(super) call_request_format: Option<Json>,
}

impl AboutType {
    fn size(&self) -> usize {
        let text = |json: &Option<Json>| json.as_ref().map_or(0, |json| json.as_str().len());
        self.description.len()
            + text(&self.trigger_request_format)
            + text(&self.call_request_format)
    }
}

impl From<&TriggerTypeSpec> for AboutType {
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
    fn is(&self, peer: &Arc<Peer>) -> bool {
        matches!(self, Self::Worker(owner) if Arc::ptr_eq(owner, peer))
    }

    fn unbind(&self, id: &str, trigger_type: &str) {
        match self {
            Self::Worker(peer) => peer.queue.push(outbound::unregister_trigger(id, trigger_type)),
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
    /// Whether the provider has it; else it is parked.
    pub(super) bound: bool,
}

impl Binding {
    fn size(&self) -> usize {
        let metadata = self.metadata.as_ref().map_or(0, |json| json.as_str().len());
        let ids = self.id.len() + self.trigger_type.len() + self.function_id.len();
        ids + self.config.as_str().len() + metadata
    }

    /// Brings the binding to its provider.
    fn bring(&mut self, provider: &Provider) {
        self.bound = true;
        match provider {
            Provider::Worker(peer) => peer.queue.push(outbound::register_trigger(
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
                };
                if let Err(error) = provider.bind(binding) {
                    self.refused(&error.body());
                }
            }
        }
    }

    /// Parks the binding because its provider does not want it, and tells the subscriber.
    fn refused(&mut self, error: &ErrorBody) {
        self.bound = false;
        let failed =
            outbound::trigger_failed(&self.id, &self.trigger_type, &self.function_id, error);
        self.subscriber.queue.push(failed);
    }
}

struct Offer {
    provider: Provider,
    about: AboutType,
}

#[derive(Default)]
struct Table {
    types: HashMap<String, Vec<Offer>>,
    /// By age.
    bindings: BTreeMap<u64, Binding>,
    by_id: HashMap<String, u64>,
    next: u64,
}

impl Table {
    fn provider(&self, trigger_type: &str) -> Option<Provider> {
        Some(self.types.get(trigger_type)?.last()?.provider.clone())
    }

    /// Gives every binding of a type to whoever has the type now. `taken_from` still lives and
    /// must stop firing them.
    fn hand_over(&mut self, trigger_type: &str, taken_from: Option<&Provider>) {
        let provider = self.provider(trigger_type);
        for binding in
            self.bindings.values_mut().filter(|binding| binding.trigger_type == trigger_type)
        {
            if let Some(former) = taken_from.filter(|_| binding.bound) {
                former.unbind(&binding.id, trigger_type);
            }
            match &provider {
                Some(provider) => binding.bring(provider),
                None => binding.bound = false,
            }
        }
    }

    fn add(&mut self, id: &str, offer: Offer) {
        let former = self.provider(id);
        let stack = self.types.entry(id.to_owned()).or_default();
        let renewed = match (&offer.provider, &former) {
            (Provider::Worker(peer), Some(former)) => former.is(peer),
            _ => false,
        };
        if let Provider::Worker(peer) = &offer.provider {
            stack.retain(|other| !other.provider.is(peer));
        }
        stack.push(offer);
        // SDK 0.11 sends what it registered before it was connected twice.
        if !renewed {
            self.hand_over(id, former.as_ref());
        }
    }

    fn remove_provider(&mut self, peer: &Arc<Peer>, id: &str) {
        let active = self.provider(id).is_some_and(|provider| provider.is(peer));
        if let Some(stack) = self.types.get_mut(id) {
            stack.retain(|offer| {
                let own = offer.provider.is(peer);
                if own {
                    peer.release(id.len() + offer.about.size());
                }
                !own
            });
            if stack.is_empty() {
                self.types.remove(id);
            }
        }
        if active {
            self.hand_over(id, None);
        }
    }

    fn remove_binding(&mut self, id: &str) -> Option<Binding> {
        let binding = self.bindings.remove(&self.by_id.remove(id)?)?;
        binding.subscriber.release(binding.size());
        if let Some(provider) = self.provider(&binding.trigger_type).filter(|_| binding.bound) {
            provider.unbind(&binding.id, &binding.trigger_type);
        }
        Some(binding)
    }
}

#[derive(Default)]
pub(super) struct Triggers(Mutex<Table>);

impl Triggers {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A trigger type of this process.
    pub(super) fn provide_local(&self, spec: &TriggerTypeSpec, provider: Arc<dyn TriggerProvider>) {
        let offer = Offer { provider: Provider::Local(provider), about: spec.into() };
        self.lock().add(&spec.id, offer);
    }

    /// A trigger type of a worker.
    ///
    /// # Errors
    /// When the type cannot be taken, or the worker has registered too much.
    pub(super) fn provide(
        &self,
        peer: &Arc<Peer>,
        id: &str,
        about: AboutType,
    ) -> Result<(), CallError> {
        let mut table = self.lock();
        if peer.is_gone() {
            return Ok(());
        }
        if id.starts_with(RESERVED) || matches!(table.provider(id), Some(Provider::Local(_))) {
            return Err(CallError::remote(
                "trigger_type_conflict",
                format!(
                    "the trigger type {id} is provided by this hub itself and cannot be registered"
                ),
            ));
        }
        let stack = table.types.get(id);
        if let Some(own) =
            stack.and_then(|stack| stack.iter().find(|offer| offer.provider.is(peer)))
        {
            peer.release(id.len() + own.about.size());
        }
        if let Err(error) = peer.reserve(id.len() + about.size()) {
            table.remove_provider(peer, id);
            return Err(error);
        }
        table.add(id, Offer { provider: Provider::Worker(peer.clone()), about });
        Ok(())
    }

    /// A worker no longer provides a type.
    pub(super) fn withdraw(&self, peer: &Arc<Peer>, id: &str) {
        self.lock().remove_provider(peer, id);
    }

    /// A subscription. The same id again is the same binding, perhaps of a worker that has
    /// reconnected; its provider is told again.
    ///
    /// # Errors
    /// When the worker has registered too much.
    pub(super) fn bind(&self, mut binding: Binding) -> Result<(), CallError> {
        let mut table = self.lock();
        if binding.subscriber.is_gone() {
            return Ok(());
        }
        let known = table.by_id.get(&binding.id).copied();
        if let Some(known) = known.and_then(|age| table.bindings.get(&age)) {
            if known.trigger_type == binding.trigger_type {
                known.subscriber.release(known.size());
            } else {
                table.remove_binding(&binding.id.clone());
            }
        }
        if let Err(error) = binding.subscriber.reserve(binding.size()) {
            // Accounted for above; what is left of it must not be released a second time.
            if let Some(age) = table.by_id.remove(&binding.id) {
                table.bindings.remove(&age);
                if let Some(provider) = table.provider(&binding.trigger_type) {
                    provider.unbind(&binding.id, &binding.trigger_type);
                }
            }
            return Err(error);
        }
        if let Some(provider) = table.provider(&binding.trigger_type) {
            binding.bring(&provider);
        }
        let age = table.by_id.get(&binding.id).copied().unwrap_or(table.next);
        table.next += 1;
        table.by_id.insert(binding.id.clone(), age);
        table.bindings.insert(age, binding);
        Ok(())
    }

    /// The subscriber has had enough.
    pub(super) fn unbind(&self, peer: &Arc<Peer>, id: &str) {
        let mut table = self.lock();
        let own = table.by_id.get(id).and_then(|age| table.bindings.get(age));
        if own.is_some_and(|binding| Arc::ptr_eq(&binding.subscriber, peer)) {
            table.remove_binding(id);
        }
    }

    /// A provider does not accept a binding it was brought.
    pub(super) fn refused(&self, provider: &Arc<Peer>, id: &str, error: &ErrorBody) {
        let mut table = self.lock();
        let Some(age) = table.by_id.get(id).copied() else { return };
        let Some(trigger_type) =
            table.bindings.get(&age).map(|binding| binding.trigger_type.clone())
        else {
            return;
        };
        if table.provider(&trigger_type).is_some_and(|active| active.is(provider))
            && let Some(binding) = table.bindings.get_mut(&age)
        {
            binding.refused(error);
        }
    }

    /// Removes everything of a worker that has gone: its bindings first, then what it provided.
    pub(super) fn forget(&self, peer: &Arc<Peer>) {
        let mut table = self.lock();
        let own = |binding: &&Binding| Arc::ptr_eq(&binding.subscriber, peer);
        let bindings: Vec<String> =
            table.bindings.values().filter(own).map(|binding| binding.id.clone()).collect();
        for id in bindings {
            table.remove_binding(&id);
        }
        let provides = |stack: &[Offer]| stack.iter().any(|offer| offer.provider.is(peer));
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

    /// All types that have a provider, sorted, with the worker that provides them (`None`: this process).
    pub(super) fn types(&self) -> Vec<(String, AboutType, Option<Arc<Peer>>)> {
        let table = self.lock();
        let mut types: Vec<_> = table
            .types
            .iter()
            .filter_map(|(id, stack)| {
                let offer = stack.last()?;
                let owner = match &offer.provider {
                    Provider::Worker(peer) => Some(peer.clone()),
                    Provider::Local(_) => None,
                };
                Some((id.clone(), offer.about.clone(), owner))
            })
            .collect();
        drop(table);
        types.sort_by(|a, b| a.0.cmp(&b.0));
        types
    }

    /// All bindings, oldest first.
    pub(super) fn bindings(&self) -> Vec<Binding> {
        self.lock().bindings.values().cloned().collect()
    }
}
