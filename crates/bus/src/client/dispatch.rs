//! Frames of the server, as a worker handles them.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use serde_json::value::RawValue;
use skills_core::Code;

use super::{
    TriggerRequest,
    observed::Source,
    shared::{Link, Shared, check_size},
};
use crate::{
    CallError, ErrorBody, FunctionCall, FunctionCaller, Json,
    protocol::{
        frame::CallContext,
        outbound,
        payload::split_caller,
        server_frame::{self, Rejection, ServerCall, ServerFrame, TriggerAdded},
        worker_outbound,
    },
    running::call_isolated,
    wire::queue::CloseReason,
};

/// Calls of the server that may run concurrently.
const MAX_RUNNING_CALLS: usize = 65_536;

/// Handles one frame. A malformed one is ignored.
pub(super) fn frame(shared: &Arc<Shared>, link: &Arc<Link>, text: &str) {
    let frame = match server_frame::parse(text) {
        Ok(frame) => frame,
        Err(error) => {
            tracing::debug!(error, "malformed frame of the server ignored");
            return;
        }
    };
    link.mark_used();
    match frame {
        ServerFrame::Answer(answer) => shared.pending.complete(answer),
        ServerFrame::Call(call) => start_call(shared, link, &call),
        ServerFrame::TriggerAdded(trigger) => add_trigger(shared, link, trigger),
        ServerFrame::TriggerRemoved { id, trigger_type } => {
            if let Some(events) = shared.events.upgrade() {
                events.trigger_removed(&trigger_type, &id);
            }
        }
        ServerFrame::SubscriptionFailed { id, error } => {
            tracing::warn!(%id, code = error.code, error = error.message, "subscription rejected");
        }
        ServerFrame::FunctionRegistered { id, namespace, revision, observers } => {
            with_observers(shared, link, |observed, source| {
                observed.confirm(source, &id, namespace.as_deref(), revision, observers);
            });
        }
        ServerFrame::ObserverAdded { function_id, namespace, revision, observer } => {
            with_observers(shared, link, |observed, source| {
                observed.add(source, &function_id, namespace.as_deref(), revision, observer);
            });
        }
        ServerFrame::ObserverRemoved { function_id, revision, id } => {
            with_observers(shared, link, |observed, source| {
                observed.remove(source.events, &function_id, revision, &id);
            });
        }
        ServerFrame::Rejected(rejection) => reject(shared, link, rejection),
        ServerFrame::Error(error) => {
            tracing::debug!(code = error.code, error = error.message, "error of the server");
        }
        ServerFrame::Ping => link.queue.push_control(outbound::pong()),
        ServerFrame::Greeting(_) | ServerFrame::Other => {}
    }
}

fn with_observers(
    shared: &Shared,
    link: &Link,
    handle: impl FnOnce(&mut super::observed::ObservedFunctions, &Source<'_>),
) {
    let Some(events) = shared.events.upgrade() else { return };
    let source = Source { epoch: link.epoch, queue: &link.queue, events: &*events };
    handle(&mut shared.observed.lock(), &source);
    shared.observed_changed.notify_waiters();
}

/// Handles a rejection: of one function, or of this worker for good.
fn reject(shared: &Arc<Shared>, link: &Link, rejection: Rejection) {
    if Code::from_remote(&rejection.code) == Code::FunctionNamespaceConflict {
        let function = rejection.function_id.as_deref().unwrap_or_default();
        let owner = rejection.owner_worker_id.as_deref().unwrap_or_default();
        tracing::warn!(function, owner, "function not registered: another worker has it");
        with_observers(shared, link, |observed, source| {
            observed.release(source.events, function);
        });
        return;
    }
    *link.rejection.lock() = Some(rejection);
    link.queue.close(CloseReason { code: 1000, reason: "the server has rejected this worker" });
}

fn add_trigger(shared: &Shared, link: &Link, trigger: TriggerAdded<'_>) {
    let TriggerAdded { id, trigger_type, function_id, config, namespace } = trigger;
    let is_provided = shared.registrations.lock().has_trigger_type(&trigger_type);
    let outcome = match shared.events.upgrade() {
        Some(events) if is_provided => events.trigger_added(TriggerRequest {
            id: &id,
            trigger_type: &trigger_type,
            function_id: &function_id,
            namespace: namespace.as_deref(),
            config: config.map_or_else(Json::null, |raw| Json::from(raw.to_owned())),
            epoch: link.epoch,
        }),
        _ => Err(CallError::remote(
            Code::TriggerRegistrationFailed,
            format!("this worker does not provide {trigger_type}"),
        )),
    };
    // Some engines pass on the message alone, so it has the code too.
    let error = outcome.err().map(|error| {
        let error = error.body();
        ErrorBody { message: format!("{}: {}", error.code, error.message), ..error }
    });
    let frame = worker_outbound::trigger_result(&id, &trigger_type, &function_id, error.as_ref());
    link.queue.push_control(frame);
}

/// Counts a running call until it is dropped.
struct RunningCall(Arc<Shared>);

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.running.decrement();
    }
}

/// Recipient of the result of a call.
struct ReplyTo {
    link: Arc<Link>,
    /// Ids as JSON strings; `None` if no answer is wanted.
    ids: Option<(String, String)>,
}

impl ReplyTo {
    fn send(&self, outcome: Result<Json, CallError>) {
        let Some((invocation_id, function_id)) = &self.ids else { return };
        let result = outcome.and_then(|json| {
            let context = CallContext::default();
            let text = outbound::result(invocation_id, function_id, json.as_str(), &context);
            check_size(&text).map(|()| text)
        });
        let failure =
            |error: &CallError| outbound::failure(invocation_id, function_id, &error.body());
        match result {
            Ok(text) => {
                if !self.link.queue.push_reply(text) {
                    let error = CallError::Congested(function_id.clone());
                    self.link.queue.push_control(failure(&error));
                }
            }
            Err(error) => self.link.queue.push_control(failure(&error)),
        }
    }
}

/// Calls a function of this worker. Its future is polled once here, so that its synchronous part keeps the order of the
/// server's frames.
fn start_call(shared: &Arc<Shared>, link: &Arc<Link>, call: &ServerCall<'_>) {
    let ids = call.invocation_id.map(|id| (id.to_owned(), call.function_id_json.to_owned()));
    let reply_to = ReplyTo { link: Arc::clone(link), ids };
    let function = shared.registrations.lock().function(&call.function_id);
    let Some(function) = function else {
        return reply_to.send(Err(CallError::NotFound(call.function_id.clone().into_owned())));
    };
    if shared.is_closing() {
        let message = "this worker is shutting down and takes no new calls";
        return reply_to.send(Err(CallError::remote(Code::ShuttingDown, message)));
    }
    if shared.running.count() >= MAX_RUNNING_CALLS {
        return reply_to.send(Err(CallError::Congested(call.function_id.clone().into_owned())));
    }
    shared.running.increment();
    let running = RunningCall(Arc::clone(shared));
    let (data, caller) = split_caller(call.data.unwrap_or(RawValue::NULL));
    // An engine names the connection of a caller, not its worker.
    let caller =
        caller.map_or(FunctionCaller::Unnamed, |id| FunctionCaller::Worker { id, name: None });
    let mut run = Box::pin(call_isolated(function, FunctionCall { data, caller }));
    match run.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => reply_to.send(outcome),
        Poll::Pending => {
            tokio::spawn(async move {
                let _running = running;
                reply_to.send(run.await);
            });
        }
    }
}
