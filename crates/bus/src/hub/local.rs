//! This process on the bus.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use super::{
    Hub,
    activate::Observation,
    builtins,
    calls::{Caller, Calls, Pending},
    functions::{RESERVED, Target},
    queue::Refused,
};
use crate::{
    Activation, Bus, Call, CallError, Function, FunctionSpec, Json, ObserverSink, TriggerProvider,
    TriggerTypeSpec, protocol::outbound, running::guarded,
};

/// Forgets the call when its caller stops waiting, for whatever reason.
struct Waiting<'a> {
    calls: &'a Calls,
    id: Uuid,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        drop(self.calls.close(self.id));
    }
}

impl Hub {
    async fn call_any(&self, function_id: &str, data: Json) -> Result<Json, CallError> {
        if function_id.starts_with(RESERVED) {
            return builtins::call(self, None, function_id, data.as_str());
        }
        let missing = || CallError::NotFound(function_id.to_owned());
        let stopped = || CallError::Stopped(function_id.to_owned());
        let callee = match self.inner.functions.find(function_id).ok_or_else(missing)? {
            (Target::Local(function), _) => {
                return guarded(function, Call { data, caller: None }).await;
            }
            (Target::Observable(_), _) => {
                return Err(CallError::remote(
                    "not_callable",
                    format!("{function_id} cannot be called"),
                ));
            }
            (Target::Worker(callee), _) => callee,
        };
        let calls = &self.inner.calls;
        let (sender, answer) = oneshot::channel();
        let function_json = outbound::quote(function_id);
        let pending = Pending {
            caller: Caller::Local(sender),
            callee: callee.clone(),
            function_id: function_json.as_str().into(),
            observation: Observation::begin(self, function_id, data.as_str(), None),
        };
        let id = calls.open(pending).map_err(|_| stopped())?;
        let _waiting = Waiting { calls, id };
        let text = outbound::invoke(id, &function_json, data.as_str(), None, &Default::default());
        callee.queue.offer(text).map_err(|refused| match refused {
            Refused::Full(_) => CallError::Congested(function_id.to_owned()),
            Refused::Gone => stopped(),
        })?;
        answer.await.unwrap_or_else(|_| Err(stopped()))
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
        self.inner.triggers.provide_local(&spec, provider);
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
        tokio::time::timeout(timeout, self.call_any(function_id, data)).await.unwrap_or_else(|_| {
            Err(CallError::Timeout { function_id: function_id.to_owned(), after: timeout })
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
        let target = self.inner.functions.find(function_id).ok_or_else(missing)?.0;
        let observer = activation.as_ref().map(|activation| activation.observer_id.as_str());
        if let Some(id) = observer {
            self.inner.observers.firing(id)?;
        }
        let sent = match target {
            Target::Worker(callee) => {
                let id = self.inner.calls.next_id();
                let text =
                    outbound::notification(id, function_id, data.as_str(), activation.as_ref());
                let sent = callee.queue.wait_and_offer(text).await;
                sent.map_err(|()| CallError::Stopped(function_id.to_owned()))
            }
            Target::Local(function) => {
                tokio::spawn(guarded(function, Call { data, caller: None }));
                Ok(())
            }
            Target::Observable(_) => Err(missing()),
        };
        if let Some(id) = observer {
            self.inner.observers.fired(id);
        }
        sent
    }
}
