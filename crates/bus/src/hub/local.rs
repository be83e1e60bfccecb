//! Implementation of [`Bus`] for the hub: this process on the bus.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use skills_core::CallerKind;
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use super::{
    Hub,
    activate::ObservedCall,
    builtins,
    calls::{Calls, PendingCall, ReplyTo},
    function_access::{local_target, may_call, may_call_for_subscription},
    functions::{HUB_PREFIX, Target},
    peer::Peer,
    routed_call_span::RoutedCallSpan,
};
use crate::{
    Activation, Bus, CallError, Function, FunctionCall, FunctionSpec, Json, ObserverSink,
    TriggerProvider, TriggerTypeSpec, protocol::outbound, running::call_traced,
    wire::queue::PushError,
};

/// Removes a call when its caller stops waiting, for any reason.
struct RemoveOnDrop<'a> {
    calls: &'a Calls,
    id: Uuid,
}

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        drop(self.calls.remove(self.id));
    }
}

impl Hub {
    /// Calls a function, which may be private to the subscriber it is called for.
    async fn call_untimed(
        &self,
        function_id: &str,
        data: Json,
        subscriber: Option<&str>,
    ) -> Result<Json, CallError> {
        if subscriber.is_some() {
            self.check_subscribable(function_id)?;
        }
        if function_id.starts_with(HUB_PREFIX) {
            return builtins::call(self, None, function_id, data.as_str());
        }
        let missing = || CallError::NotFound(function_id.to_owned());
        let stopped = || CallError::Stopped(function_id.to_owned());
        let (target, is_private) = self.inner.functions.lookup(function_id).ok_or_else(missing)?;
        if !may_call(&target, is_private, |owner| subscriber == Some(owner.id.as_str())) {
            return Err(CallError::Private(function_id.to_owned()));
        }
        let callee = match target {
            Target::Local(function) => {
                return call_traced(function_id, function, FunctionCall::local(data)).await;
            }
            Target::Observable(_) => return Err(CallError::not_callable(function_id)),
            Target::Worker(callee) => callee,
        };
        let calls = &self.inner.calls;
        let (sender, answer) = oneshot::channel();
        let function_json = outbound::quote(function_id);
        let pending = PendingCall {
            reply_to: ReplyTo::Local(sender),
            callee: callee.clone(),
            function_id: function_json.as_str().into(),
            observed: ObservedCall::begin(self, function_id, data.as_str(), None),
            span: RoutedCallSpan::begin(function_id, CallerKind::Local),
        };
        let id = calls.insert(pending).ok_or_else(stopped)?;
        let _guard = RemoveOnDrop { calls, id };
        let text = outbound::invoke(id, &function_json, data.as_str(), None, &Default::default());
        callee.queue.try_push_call(text).map_err(|error| match error {
            PushError::Full(_) => CallError::Congested(function_id.to_owned()),
            PushError::Gone => stopped(),
        })?;
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Returns whether a worker subscribed its own function: as this observer, or by any trigger. The hub does not know
    /// which trigger a delivery belongs to; see [`Bus::may_deliver`].
    fn has_subscribed(
        &self,
        owner: &Arc<Peer>,
        function_id: &str,
        observer_id: Option<&str>,
    ) -> bool {
        match observer_id {
            Some(id) => self.inner.observers.is_from(id, owner),
            None => self.inner.triggers.is_subscribed(owner, function_id),
        }
    }
}

#[async_trait]
impl Bus for Hub {
    fn register_function(&self, spec: FunctionSpec, function: Arc<dyn Function>) {
        let id = spec.id.clone();
        self.inner.functions.register_local(id.clone(), spec.into(), Target::Local(function));
        self.inner.observers.source_changed(self, &id);
    }

    fn register_trigger_type(&self, spec: TriggerTypeSpec, provider: Arc<dyn TriggerProvider>) {
        self.inner.triggers.register_local_type(&spec, provider);
    }

    fn register_observable(&self, spec: FunctionSpec, observers: Arc<dyn ObserverSink>) {
        let id = spec.id.clone();
        let target = Target::Observable(observers);
        self.inner.functions.register_local(id.clone(), spec.into(), target);
        self.inner.observers.source_changed(self, &id);
    }

    async fn call(
        &self,
        function_id: &str,
        data: Json,
        timeout: Duration,
    ) -> Result<Json, CallError> {
        self.call_for(None, function_id, data, timeout).await
    }

    async fn call_for(
        &self,
        subscriber: Option<&str>,
        function_id: &str,
        data: Json,
        timeout: Duration,
    ) -> Result<Json, CallError> {
        let answer = self.call_untimed(function_id, data, subscriber);
        tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| {
            Err(CallError::Timeout { function_id: function_id.to_owned(), after: timeout })
        })
    }

    /// Locks only the table of functions, so that providers may call it under locks of their own.
    fn may_deliver(&self, function_id: &str, subscriber: Option<&str>) -> bool {
        self.inner.functions.lookup(function_id).is_none_or(|(target, is_private)| {
            let is_owner = |owner: &Arc<Peer>| subscriber == Some(owner.id.as_str());
            may_call_for_subscription(&target, is_private, is_owner)
        })
    }

    fn functions_changed(&self) -> watch::Receiver<u64> {
        self.inner.functions.changed.subscribe()
    }

    async fn notify(
        &self,
        function_id: &str,
        data: Json,
        activation: Option<Activation>,
    ) -> Result<(), CallError> {
        let missing = || CallError::NotFound(function_id.to_owned());
        let (target, is_private) = self.inner.functions.lookup(function_id).ok_or_else(missing)?;
        let observer = activation.as_ref().map(|activation| activation.observer_id.as_str());
        if !may_call(&target, is_private, |owner| self.has_subscribed(owner, function_id, observer))
        {
            return Err(CallError::Private(function_id.to_owned()));
        }
        if let Some(id) = observer {
            self.inner.observers.record_fire(id)?;
        }
        let sent = match target {
            Target::Worker(callee) => {
                let id = self.inner.calls.next_id();
                let text =
                    outbound::notification(id, function_id, data.as_str(), activation.as_ref());
                let sent = callee.queue.push_call(text).await;
                sent.map_err(|()| CallError::Stopped(function_id.to_owned()))
            }
            Target::Local(_) | Target::Observable(_) => Err(local_target(function_id)),
        };
        if let Some(id) = observer {
            self.inner.observers.remove_if_exhausted(id);
        }
        sent
    }
}
