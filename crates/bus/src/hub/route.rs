//! Routing of the frames of a worker. The frames of a connection are handled one after the other, so calls reach a callee
//! in the order in which they were made.

use std::{
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
};

use serde_json::value::RawValue;
use skills_core::{CallerKind, Code};
use uuid::Uuid;

use super::{
    Hub,
    activate::{self, ObservedCall},
    builtins,
    calls::{PendingCall, ReplyTo},
    deliveries::{Delivery, DeliveryOutcome},
    function_access::may_call,
    functions::{FunctionInfo, HUB_PREFIX, Registration, Target},
    peer::Peer,
    routed_call_span::RoutedCallSpan,
    triggers::{Binding, TriggerTypeInfo},
};
use crate::{
    CallError, Function, FunctionCall, FunctionCaller, Json,
    protocol::{
        frame::{Action, CallResult, Frame, Invoke, MalformedFrame, RegisterFunction},
        inbound::{self, error_body, truncate_name},
        outbound,
    },
    running::call_traced,
    wire::queue::PushError,
};

/// Handles one frame.
pub(super) fn frame(hub: &Hub, peer: &Arc<Peer>, text: &str) {
    let frame = match inbound::parse(text) {
        Ok(frame) => frame,
        Err(malformed) => return reject_malformed(peer, malformed),
    };
    if text.len() > hub.inner.config.max_message {
        return reject_oversized(hub, peer, frame, text.len());
    }
    match frame {
        Frame::Invoke(call) => handle_call(hub, peer, &call),
        Frame::Result(result) => handle_result(hub, peer, &result),
        Frame::RegisterFunction(function) => register_function(hub, peer, function),
        Frame::UnregisterFunction(id) => {
            hub.inner.functions.unregister(peer, &id);
            hub.inner.observers.source_changed(hub, &id);
        }
        Frame::RegisterTriggerType(spec) => {
            let info = TriggerTypeInfo {
                description: spec.description.unwrap_or_default().into_owned(),
                trigger_request_format: spec.trigger_request_format.map(json),
                call_request_format: spec.call_request_format.map(json),
            };
            report(peer, hub.inner.triggers.register_type(peer, &spec.id, info));
        }
        Frame::UnregisterTriggerType(id) => hub.inner.triggers.unregister_type(peer, &id),
        Frame::RegisterTrigger(trigger) => {
            if let Err(error) = hub.check_subscribable(&trigger.function_id) {
                let failed = outbound::trigger_failed(
                    &trigger.id,
                    &trigger.trigger_type,
                    &trigger.function_id,
                    &error.body(),
                );
                return peer.queue.push_control(failed);
            }
            let binding = Binding {
                id: trigger.id.into_owned(),
                trigger_type: trigger.trigger_type.into_owned(),
                function_id: trigger.function_id.into_owned(),
                config: trigger.config.map_or_else(Json::null, json),
                metadata: trigger.metadata.map(json),
                subscriber: peer.clone(),
                is_bound: false,
            };
            report(peer, hub.inner.triggers.bind(binding));
        }
        Frame::UnregisterTrigger(id) => hub.inner.triggers.unbind(peer, &id),
        Frame::TriggerResult { id, error } => {
            if let Some(error) = error {
                hub.inner.triggers.reject(
                    peer,
                    &id,
                    &error_body(error, Code::TriggerRegistrationFailed),
                );
            }
        }
        Frame::Reattach { previous_worker_id, token } => {
            hub.reattach(peer, &previous_worker_id, &token)
        }
        Frame::Observe(frame) => hub.inner.observers.observe(hub, peer, &frame),
        Frame::Unobserve(id) => hub.inner.observers.unobserve(peer, &id),
        Frame::ObserverAck { id, error } => {
            let error = error.map(|error| error_body(error, Code::ObserveRejected));
            hub.inner.observers.acknowledge(peer, &id, error.as_ref());
        }
        Frame::InvocationsObserved(items) => activate::activate_reported(hub, peer, &items),
        Frame::Ping => peer.queue.push_control(outbound::pong()),
        Frame::Other(kind) => {
            tracing::debug!(worker = peer.id, kind = %truncate_name(&kind), "frame ignored")
        }
    }
}

fn json(raw: &RawValue) -> Json {
    Json::from(raw.to_owned())
}

/// Sends the error of a frame that has no answer.
fn report(peer: &Peer, outcome: Result<(), CallError>) {
    if let Err(error) = outcome {
        peer.send_error(&error);
    }
}

/// Rejects a malformed frame: with a reply, if it is a call that can be answered.
fn reject_malformed(peer: &Peer, malformed: MalformedFrame) {
    tracing::debug!(worker = peer.id, error = malformed.message, "malformed frame");
    let error = CallError::remote(Code::MalformedFrame, malformed.message);
    match malformed.call {
        Some((invocation_id, function_id)) => {
            peer.reply(&invocation_id, &function_id, Err(&error.body()))
        }
        None => peer.send_error(&error),
    }
}

/// Rejects a message above the limit. The call fails, whether the message is the call or its result.
fn reject_oversized(hub: &Hub, peer: &Arc<Peer>, frame: Frame<'_>, size: usize) {
    let limit = hub.inner.config.max_message;
    let error = CallError::PayloadTooLarge(format!(
        "a message of {size} bytes is larger than the {limit} allowed"
    ));
    match frame {
        Frame::Invoke(Invoke {
            invocation_id: Some(id),
            function_id,
            action: Action::Call,
            ..
        }) => {
            peer.reply(id, function_id.json, Err(&error.body()));
        }
        Frame::Result(result) => {
            if let Some(pending) = remove_answered(hub, peer, &result) {
                pending.fail(&error);
            }
        }
        _ => peer.send_error(&error),
    }
}

fn register_function(hub: &Hub, peer: &Arc<Peer>, function: RegisterFunction<'_>) {
    let info = FunctionInfo {
        description: function.description.map(|text| text.into_owned()),
        request_format: function.request_format.map(json),
        response_format: function.response_format.map(json),
        metadata: function.metadata.map(json),
        private: function.private,
        unobservable: !function.observable,
        owner_delivered: function.owner_delivered,
    };
    let id = function.id.into_owned();
    match hub.inner.functions.register(peer, id.clone(), info) {
        Registration::Decided => hub.inner.observers.source_changed(hub, &id),
        Registration::Deferred => {}
        Registration::FirstDeferred => {
            let (hub, peer) = (hub.clone(), peer.clone());
            tokio::spawn(async move {
                peer.wait_identity().await;
                for id in hub.inner.functions.decide_deferred(&peer) {
                    hub.inner.observers.source_changed(&hub, &id);
                }
            });
        }
    }
}

fn handle_call(hub: &Hub, peer: &Arc<Peer>, call: &Invoke<'_>) {
    let reply_to = call.invocation_id.filter(|_| call.action != Action::Void);
    let routed = route_call(hub, peer, call, reply_to);
    if let Some(counter) = &hub.inner.config.counter {
        counter.count(routed.is_err());
    }
    if let Err(error) = routed {
        match reply_to {
            Some(invocation_id) => {
                peer.reply(invocation_id, call.function_id.json, Err(&error.body()))
            }
            None => tracing::debug!(worker = peer.id, %error, "void call failed"),
        }
    }
}

/// Routes a call to the hub itself or its callee. An error is the reply.
fn route_call(
    hub: &Hub,
    peer: &Arc<Peer>,
    call: &Invoke<'_>,
    reply_to: Option<&str>,
) -> Result<(), CallError> {
    let id = call.function_id.value.as_ref();
    if call.action == Action::Enqueue {
        return Err(CallError::remote(
            Code::EnqueueError,
            "No queue provider is installed: this hub does not queue calls; call the function directly",
        ));
    }
    if hub.inner.is_draining() {
        return Err(CallError::remote(
            Code::ShuttingDown,
            "the hub is shutting down and takes no new calls",
        ));
    }
    let data = call.data.map_or("null", RawValue::get);
    if id.starts_with(HUB_PREFIX) {
        let result = builtins::call(hub, Some(peer), id, data)?;
        if let Some(invocation_id) = reply_to {
            peer.reply(invocation_id, call.function_id.json, Ok(result.as_str()));
        }
        return Ok(());
    }
    if reply_to.is_some()
        && peer.open_calls.load(Ordering::Relaxed) >= hub.inner.config.max_open_calls
    {
        return Err(CallError::remote(
            Code::TooManyCalls,
            "this connection has too many unanswered calls; wait for some of them",
        ));
    }
    let dispatch = || dispatch(hub, peer, call, data, reply_to);
    let Some(delivery) = Delivery::from_metadata(call.context.metadata) else {
        return dispatch();
    };
    if hub.inner.deliveries.deliver_once(delivery, dispatch)? == DeliveryOutcome::Duplicate
        && let Some(invocation_id) = reply_to
    {
        peer.reply(invocation_id, call.function_id.json, Ok("null"));
    }
    Ok(())
}

/// Dispatches a call to its callee.
fn dispatch(
    hub: &Hub,
    peer: &Arc<Peer>,
    call: &Invoke<'_>,
    data: &str,
    reply_to: Option<&str>,
) -> Result<(), CallError> {
    let id = call.function_id.value.as_ref();
    let Some((target, is_private)) = hub.inner.functions.lookup(id) else {
        return Err(CallError::NotFound(truncate_name(id).into_owned()));
    };
    if !may_call(&target, is_private, |owner| Arc::ptr_eq(owner, peer)) {
        return Err(CallError::Private(id.to_owned()));
    }
    match target {
        Target::Observable(_) => Err(CallError::not_callable(id)),
        Target::Worker(callee) => call_worker(hub, peer, call, data, reply_to, callee),
        Target::Local(function) => {
            call_local(hub, peer, call, reply_to, function);
            Ok(())
        }
    }
}

fn call_worker(
    hub: &Hub,
    peer: &Arc<Peer>,
    call: &Invoke<'_>,
    data: &str,
    reply_to: Option<&str>,
    callee: Arc<Peer>,
) -> Result<(), CallError> {
    let name = || truncate_name(&call.function_id.value).into_owned();
    let observed = ObservedCall::begin(hub, &call.function_id.value, data, Some(peer));
    let id = if reply_to.is_none() && observed.is_none() {
        hub.inner.calls.next_id()
    } else {
        let reply_to = match reply_to {
            Some(id) => ReplyTo::Worker { peer: peer.clone(), invocation_id: id.into() },
            None => ReplyTo::Discard,
        };
        let function_id = call.function_id.json.into();
        let span = RoutedCallSpan::begin(&call.function_id.value, CallerKind::Worker);
        let callee = callee.clone();
        let pending = PendingCall { reply_to, callee, function_id, observed, span };
        hub.inner.calls.insert(pending).ok_or_else(|| CallError::Stopped(name()))?
    };
    let caller_id = hub.inner.config.inject_caller_id.then_some(peer.id.as_str());
    let text = outbound::invoke(id, call.function_id.json, data, caller_id, &call.context);
    callee.queue.try_push_call(text).map_err(|error| {
        // The error is the reply, so the removed call needs none.
        let _ = hub.inner.calls.remove(id);
        match error {
            PushError::Full(_) => CallError::Congested(name()),
            PushError::Gone => CallError::Stopped(name()),
        }
    })
}

/// Calls a function of this process. Its future is polled once here, so that its synchronous part keeps the caller's
/// order; most are done by then.
fn call_local(
    hub: &Hub,
    peer: &Arc<Peer>,
    call: &Invoke<'_>,
    reply_to: Option<&str>,
    function: Arc<dyn Function>,
) {
    let data = call.data.map_or_else(Json::null, json);
    let name = peer.identity().and_then(|identity| identity.name.clone());
    let caller = FunctionCaller::Worker { id: peer.id.clone(), name };
    let local_call = FunctionCall { data, caller };
    let mut run = Box::pin(call_traced(&call.function_id.value, function, local_call));
    let reply =
        |peer: &Peer, to: Option<&str>, function_id: &str, result: Result<Json, CallError>| {
            let Some(invocation_id) = to else { return };
            match result {
                Ok(json) => peer.reply(invocation_id, function_id, Ok(json.as_str())),
                Err(error) => peer.reply(invocation_id, function_id, Err(&error.body())),
            }
        };
    if let Poll::Ready(result) = run.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return reply(peer, reply_to, call.function_id.json, result);
    }
    let (hub, peer) = (hub.clone(), peer.clone());
    let (reply_to, function_id) = (reply_to.map(str::to_owned), call.function_id.json.to_owned());
    peer.open_calls.fetch_add(1, Ordering::SeqCst);
    hub.inner.calls.running.increment();
    tokio::spawn(async move {
        let result = run.await;
        reply(&peer, reply_to.as_deref(), &function_id, result);
        peer.finish_call();
        hub.inner.calls.running.decrement();
    });
}

fn remove_answered(hub: &Hub, callee: &Arc<Peer>, result: &CallResult<'_>) -> Option<PendingCall> {
    let id = Uuid::try_parse(&result.invocation_id).ok()?;
    hub.inner.calls.remove_answered(id, callee)
}

/// Routes a result to its caller. Results without a caller are dropped: void calls have results too, and callers may have
/// disconnected.
fn handle_result(hub: &Hub, callee: &Arc<Peer>, result: &CallResult<'_>) {
    let Some(mut pending) = remove_answered(hub, callee, result) else { return };
    if let Some(error) = result.error {
        let error = error_body(error, Code::InvocationFailed);
        if let Some(observed) = pending.observed.take() {
            observed.complete(Err(&error), result.matched.as_deref());
        }
        return pending.fail(&error.into());
    }
    if let Some(span) = pending.span.take() {
        span.finish("ok");
    }
    let json = result.result.map_or("null", RawValue::get);
    if let Some(observed) = pending.observed.take() {
        observed.complete(Ok(json), result.matched.as_deref());
    }
    match pending.reply_to {
        ReplyTo::Discard => {}
        ReplyTo::Worker { peer, invocation_id } => {
            let text =
                outbound::result(&invocation_id, &pending.function_id, json, &result.context);
            peer.send_reply(&invocation_id, &pending.function_id, text);
        }
        ReplyTo::Local(answer) => {
            let json = result.result.map_or_else(Json::null, self::json);
            drop(answer.send(Ok(json)));
        }
    }
}

/// Fails the call of a frame that is too large for its receiver.
pub(super) fn fail_oversized(hub: &Hub, peer: &Peer, text: &str, limit: usize) {
    let error = CallError::PayloadTooLarge(format!(
        "a message of {} bytes is larger than the {limit} that the receiver's SDK accepts",
        text.len()
    ));
    match inbound::parse(text) {
        Ok(Frame::Invoke(Invoke { invocation_id: Some(id), .. })) => {
            let id = Uuid::try_parse(id.trim_matches('"')).ok();
            if let Some(pending) = id.and_then(|id| hub.inner.calls.remove(id)) {
                pending.fail(&error);
            }
        }
        Ok(Frame::Result(result)) => {
            let id = outbound::quote(&result.invocation_id);
            peer.reply(&id, result.function_id, Err(&error.body()));
        }
        _ => peer.send_error(&error),
    }
}
