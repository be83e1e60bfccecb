//! Bus of the test engine's state worker, with the deviations of other state workers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use skills_bus::{
    Activation, Bus, CallError, Function, FunctionCall, FunctionSpec, Hub, Json, ObserverSink,
    TriggerProvider, TriggerTypeSpec,
};

/// Passes everything to a hub, except for the deviations.
pub(crate) struct StateWorkerBus {
    pub(crate) hub: Hub,
    /// Offers `state::list_entries` if true.
    pub(crate) has_pages: bool,
    /// Loses the answer of one write in this many; the write is carried out.
    pub(crate) lost_answers: Option<usize>,
}

#[async_trait]
impl Bus for StateWorkerBus {
    fn register_function(&self, spec: FunctionSpec, function: Arc<dyn Function>) {
        if spec.id == "state::list_entries" && !self.has_pages {
            return;
        }
        let is_write = ["state::set", "state::delete"].contains(&spec.id.as_str());
        let function = match self.lost_answers.filter(|_| is_write) {
            Some(interval) => losing_answers(function, interval),
            None => function,
        };
        self.hub.register_function(spec, function);
    }

    fn register_trigger_type(&self, spec: TriggerTypeSpec, provider: Arc<dyn TriggerProvider>) {
        self.hub.register_trigger_type(spec, provider);
    }

    fn register_observable(&self, spec: FunctionSpec, observers: Arc<dyn ObserverSink>) {
        self.hub.register_observable(spec, observers);
    }

    fn may_deliver(&self, function_id: &str, subscriber: Option<&str>) -> bool {
        self.hub.may_deliver(function_id, subscriber)
    }

    async fn call(
        &self,
        function_id: &str,
        data: Json,
        timeout: Duration,
    ) -> Result<Json, CallError> {
        self.hub.call(function_id, data, timeout).await
    }

    async fn notify(
        &self,
        function_id: &str,
        data: Json,
        activation: Option<Activation>,
    ) -> Result<(), CallError> {
        self.hub.notify(function_id, data, activation).await
    }
}

fn losing_answers(function: Arc<dyn Function>, interval: usize) -> Arc<dyn Function> {
    let calls = AtomicUsize::new(0);
    Arc::new(move |call: FunctionCall| {
        let is_lost = calls.fetch_add(1, Ordering::Relaxed) % interval == interval - 1;
        let answer = function.call(call);
        async move {
            let answer = answer.await;
            if is_lost {
                std::future::pending::<()>().await;
            }
            answer
        }
    })
}
