//! What each frame of a worker does. Frames are handled one after the other, in the order in
//! which the connection brought them, so calls reach a callee in the order in which they were made.

use std::{
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
};

use serde_json::value::RawValue;
use uuid::Uuid;

use super::{
    Hub,
    activate::{self, Observation},
    builtins,
    calls::{Caller, Pending},
    deliveries::{Brought, Delivery},
    functions::{About, Outcome, RESERVED, Target},
    peer::Peer,
    queue::Refused,
    triggers::{AboutType, Binding},
};
use crate::{
    Call, CallError, Function, Json,
    protocol::{
        frame::{Action, CallResult, Frame, Invoke, Malformed, RegisterFunction},
        inbound::{self, brief, error_body},
        outbound,
    },
    running::guarded,
};

/// Handles one frame.
pub(super) fn frame(hub: &Hub, peer: &Arc<Peer>, text: &str) {
    let frame = match inbound::parse(text) {
        Ok(frame) => frame,
        Err(malformed) => return refuse(peer, malformed),
    };
    if text.len() > hub.inner.config.max_message {
        return refuse_large(hub, peer, frame, text.len());
    }
    match frame {
        Frame::Invoke(call) => invoke(hub, peer, &call),
        Frame::Result(result) => finish(hub, peer, &result),
        Frame::RegisterFunction(function) => register_function(hub, peer, function),
        Frame::UnregisterFunction(id) => {
            hub.inner.functions.unregister(peer, &id);
            hub.inner.observers.source_changed(hub, &id);
        }
        Frame::RegisterTriggerType(spec) => {
            let about = AboutType {
                description: spec.description.unwrap_or_default().into_owned(),
                trigger_request_format: spec.trigger_request_format.map(json),
                call_request_format: spec.call_request_format.map(json),
            };
            complain_of(peer, hub.inner.triggers.provide(peer, &spec.id, about));
        }
        Frame::UnregisterTriggerType(id) => hub.inner.triggers.withdraw(peer, &id),
        Frame::RegisterTrigger(trigger) => {
            let binding = Binding {
                id: trigger.id.into_owned(),
                trigger_type: trigger.trigger_type.into_owned(),
                function_id: trigger.function_id.into_owned(),
                config: trigger.config.map_or_else(Json::null, json),
                metadata: trigger.metadata.map(json),
                subscriber: peer.clone(),
                bound: false,
            };
            complain_of(peer, hub.inner.triggers.bind(binding));
        }
        Frame::UnregisterTrigger(id) => hub.inner.triggers.unbind(peer, &id),
        Frame::TriggerResult { id, error } => {
            if let Some(error) = error {
                hub.inner.triggers.refused(
                    peer,
                    &id,
                    &error_body(error, "trigger_registration_failed"),
                );
            }
        }
        Frame::Reattach { previous_worker_id, token } => {
            hub.reattach(peer, &previous_worker_id, &token)
        }
        Frame::Observe(frame) => hub.inner.observers.observe(hub, peer, &frame),
        Frame::Unobserve(id) => hub.inner.observers.unobserve(peer, &id),
        Frame::ObserverAck { id, error } => {
            let error = error.map(|error| error_body(error, "OBSERVE_REJECTED"));
            hub.inner.observers.acknowledged(peer, &id, error.as_ref());
        }
        Frame::InvocationsObserved(items) => activate::reported(hub, peer, &items),
        Frame::Ping => peer.queue.push(outbound::pong()),
        Frame::Other(kind) => {
            tracing::debug!(worker = peer.id, kind = %brief(&kind), "frame ignored")
        }
    }
}

fn json(raw: &RawValue) -> Json {
    Json::from(raw.to_owned())
}

fn complain_of(peer: &Peer, outcome: Result<(), CallError>) {
    if let Err(error) = outcome {
        peer.complain(&error);
    }
}

/// Answers a frame that could not be read: as a call, if it is one that can be answered.
pub(super) fn refuse(peer: &Peer, malformed: Malformed) {
    tracing::debug!(worker = peer.id, "malformed frame: {}", malformed.message);
    let error = CallError::remote("malformed_frame", malformed.message);
    match malformed.call {
        Some((invocation_id, function_id)) => {
            peer.answer(&invocation_id, &function_id, Err(&error.body()))
        }
        None => peer.complain(&error),
    }
}

/// Refuses a message above the limit. A caller gets its answer; so does whoever waits for a
/// result that is too large.
fn refuse_large(hub: &Hub, peer: &Arc<Peer>, frame: Frame<'_>, size: usize) {
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
            peer.answer(id, function_id.json, Err(&error.body()));
        }
        Frame::Result(result) => {
            if let Some(pending) = answered(hub, peer, &result) {
                pending.fail(&error);
            }
        }
        _ => peer.complain(&error),
    }
}

fn register_function(hub: &Hub, peer: &Arc<Peer>, function: RegisterFunction<'_>) {
    let about = About {
        description: function.description.map(|text| text.into_owned()),
        request_format: function.request_format.map(json),
        response_format: function.response_format.map(json),
        metadata: function.metadata.map(json),
        private: function.private,
        unobservable: !function.observable,
        owner_delivered: function.owner_delivered,
    };
    let id = function.id.into_owned();
    match hub.inner.functions.register(peer, id.clone(), about) {
        Outcome::Done => hub.inner.observers.source_changed(hub, &id),
        Outcome::Held => {}
        Outcome::FirstHeld => {
            let (hub, peer) = (hub.clone(), peer.clone());
            tokio::spawn(async move {
                peer.identified().await;
                for id in hub.inner.functions.decide(&peer) {
                    hub.inner.observers.source_changed(&hub, &id);
                }
            });
        }
    }
}

fn invoke(hub: &Hub, peer: &Arc<Peer>, call: &Invoke<'_>) {
    let answer_to = call.invocation_id.filter(|_| call.action != Action::Void);
    if let Err(error) = dispatch(hub, peer, call, answer_to) {
        match answer_to {
            Some(invocation_id) => {
                peer.answer(invocation_id, call.function_id.json, Err(&error.body()))
            }
            None => tracing::debug!(worker = peer.id, "void call failed: {error}"),
        }
    }
}

/// Brings a call to whoever serves it. An error is the answer.
fn dispatch(
    hub: &Hub,
    peer: &Arc<Peer>,
    call: &Invoke<'_>,
    answer_to: Option<&str>,
) -> Result<(), CallError> {
    let id = call.function_id.value.as_ref();
    if call.action == Action::Enqueue {
        return Err(CallError::remote(
            "enqueue_error",
            "No queue provider is installed: this hub does not queue calls; call the function directly",
        ));
    }
    if hub.inner.is_draining() {
        return Err(CallError::remote(
            "shutting_down",
            "the hub is shutting down and takes no new calls",
        ));
    }
    let data = call.data.map_or("null", RawValue::get);
    if id.starts_with(RESERVED) {
        let result = builtins::call(hub, Some(peer), id, data)?;
        if let Some(invocation_id) = answer_to {
            peer.answer(invocation_id, call.function_id.json, Ok(result.as_str()));
        }
        return Ok(());
    }
    if answer_to.is_some()
        && peer.open_calls.load(Ordering::Relaxed) >= hub.inner.config.max_open_calls
    {
        return Err(CallError::remote(
            "too_many_calls",
            "this connection has too many unanswered calls; wait for some of them",
        ));
    }
    let bring = || bring(hub, peer, call, data, answer_to);
    let Some(delivery) = Delivery::of(call.sidecar.metadata) else { return bring() };
    if hub.inner.deliveries.once(delivery, bring)? == Brought::Before
        && let Some(invocation_id) = answer_to
    {
        peer.answer(invocation_id, call.function_id.json, Ok("null"));
    }
    Ok(())
}

/// Gives a call to its function.
fn bring(
    hub: &Hub,
    peer: &Arc<Peer>,
    call: &Invoke<'_>,
    data: &str,
    answer_to: Option<&str>,
) -> Result<(), CallError> {
    let id = call.function_id.value.as_ref();
    match hub.inner.functions.find(id) {
        None => Err(CallError::NotFound(brief(id).into_owned())),
        Some((Target::Observable(_), _)) => Err(CallError::remote(
            "not_callable",
            format!("{id} cannot be called: it announces what happened, observe it instead"),
        )),
        Some((Target::Worker(owner), true)) if !Arc::ptr_eq(&owner, peer) => {
            Err(CallError::remote(
                "FORBIDDEN",
                format!("{id} is private to the worker that registered it"),
            ))
        }
        Some((Target::Worker(callee), _)) => to_worker(hub, peer, call, data, answer_to, callee),
        Some((Target::Local(function), _)) => {
            to_local(hub, peer, call, answer_to, function);
            Ok(())
        }
    }
}

fn to_worker(
    hub: &Hub,
    peer: &Arc<Peer>,
    call: &Invoke<'_>,
    data: &str,
    answer_to: Option<&str>,
    callee: Arc<Peer>,
) -> Result<(), CallError> {
    let name = || brief(&call.function_id.value).into_owned();
    let observation = Observation::begin(hub, &call.function_id.value, data, Some(peer));
    let caller = match answer_to {
        Some(id) => Caller::Worker { peer: peer.clone(), invocation_id: id.into() },
        None => Caller::Nobody,
    };
    let id = if answer_to.is_none() && observation.is_none() {
        hub.inner.calls.next_id()
    } else {
        let function_id = call.function_id.json.into();
        let pending = Pending { caller, callee: callee.clone(), function_id, observation };
        hub.inner.calls.open(pending).map_err(|_| CallError::Stopped(name()))?
    };
    let caller_id = hub.inner.config.inject_caller_id.then_some(peer.id.as_str());
    let text = outbound::invoke(id, call.function_id.json, data, caller_id, &call.sidecar);
    callee.queue.offer(text).map_err(|refused| {
        // Whoever takes the call out of the table answers it.
        let _ = hub.inner.calls.close(id);
        match refused {
            Refused::Full(_) => CallError::Congested(name()),
            Refused::Gone => CallError::Stopped(name()),
        }
    })
}

/// Runs a function of this process. Its future is polled once here, so that what it does before
/// it first waits keeps the caller's order; most are done by then.
fn to_local(
    hub: &Hub,
    peer: &Arc<Peer>,
    call: &Invoke<'_>,
    answer_to: Option<&str>,
    function: Arc<dyn Function>,
) {
    let data = call.data.map_or_else(Json::null, json);
    let mut run = Box::pin(guarded(function, Call { data, caller: Some(peer.id.clone()) }));
    let answer =
        |peer: &Peer, to: Option<&str>, function_id: &str, result: Result<Json, CallError>| {
            let Some(invocation_id) = to else { return };
            match result {
                Ok(json) => peer.answer(invocation_id, function_id, Ok(json.as_str())),
                Err(error) => peer.answer(invocation_id, function_id, Err(&error.body())),
            }
        };
    if let Poll::Ready(result) = run.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return answer(peer, answer_to, call.function_id.json, result);
    }
    let (hub, peer) = (hub.clone(), peer.clone());
    let (answer_to, function_id) = (answer_to.map(str::to_owned), call.function_id.json.to_owned());
    peer.open_calls.fetch_add(1, Ordering::SeqCst);
    hub.inner.calls.running.enter();
    tokio::spawn(async move {
        let result = run.await;
        answer(&peer, answer_to.as_deref(), &function_id, result);
        peer.call_done();
        hub.inner.calls.running.leave();
    });
}

fn answered(hub: &Hub, callee: &Arc<Peer>, result: &CallResult<'_>) -> Option<Pending> {
    let id = Uuid::try_parse(&result.invocation_id).ok()?;
    hub.inner.calls.answered(id, callee)
}

/// Brings an answer to whoever waits for it. Answers nobody waits for are dropped: void calls
/// are answered too, and callers may have gone.
fn finish(hub: &Hub, callee: &Arc<Peer>, result: &CallResult<'_>) {
    let Some(mut pending) = answered(hub, callee, result) else { return };
    if let Some(error) = result.error {
        let error = error_body(error, "invocation_failed");
        if let Some(observation) = pending.observation.take() {
            observation.complete(Err(&error), result.matched.as_deref());
        }
        return pending.fail(&CallError::Remote { code: error.code, message: error.message });
    }
    let json = result.result.map_or("null", RawValue::get);
    if let Some(observation) = pending.observation.take() {
        observation.complete(Ok(json), result.matched.as_deref());
    }
    match pending.caller {
        Caller::Nobody => {}
        Caller::Worker { peer, invocation_id } => {
            let text =
                outbound::result(&invocation_id, &pending.function_id, json, &result.sidecar);
            peer.send_answer(&invocation_id, &pending.function_id, text);
        }
        Caller::Local(answer) => {
            let json = result.result.map_or_else(Json::null, self::json);
            drop(answer.send(Ok(json)));
        }
    }
}

/// A frame that its peer cannot take is not sent. The call it is part of fails instead.
pub(super) fn too_large_for(hub: &Hub, peer: &Peer, text: &str, capacity: usize) {
    let error = CallError::PayloadTooLarge(format!(
        "a message of {} bytes is larger than the {capacity} that the receiver's SDK can take",
        text.len()
    ));
    match inbound::parse(text) {
        Ok(Frame::Invoke(Invoke { invocation_id: Some(id), .. })) => {
            let id = Uuid::try_parse(id.trim_matches('"')).ok();
            if let Some(pending) = id.and_then(|id| hub.inner.calls.close(id)) {
                pending.fail(&error);
            }
        }
        Ok(Frame::Result(result)) => {
            let id = outbound::quote(&result.invocation_id);
            peer.answer(&id, result.function_id, Err(&error.body()));
        }
        _ => peer.complain(&error),
    }
}
