//! Functions of this process, as the SDK calls them.
//!
//! The SDK runs everything on one thread of its own, in the order in which calls came in. A
//! function is started there, so that what it does before it first waits keeps that order, and goes
//! on in the runtime of this process.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use iii_sdk::{Error, iii::IntoAsyncHandler, types::RemoteFunctionHandlerWithMetadata};
use serde_json::Value;

use super::Inner;
use crate::{
    Call, CallError, Function, Json,
    running::{Gauge, guarded},
};

/// What an engine adds to every payload that is an object.
const CALLER: &str = "_caller_worker_id";

pub(super) struct Handler {
    pub(super) function: Arc<dyn Function>,
    pub(super) inner: Arc<Inner>,
}

/// Names this crate's way to make a handler, which asks for no schemas of types.
pub(super) struct Untyped;

impl IntoAsyncHandler<Untyped> for Handler {
    fn into_handler(self) -> RemoteFunctionHandlerWithMetadata {
        Arc::new(move |data, _metadata| self.start(data))
    }
}

/// One call under way.
struct Running(Arc<Inner>);

impl Running {
    fn begin(inner: &Arc<Inner>) -> Self {
        gauge(inner).enter();
        Self(inner.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        gauge(&self.0).leave();
    }
}

fn gauge(inner: &Inner) -> &Gauge {
    &inner.running
}

impl Handler {
    fn start(&self, mut data: Value) -> BoxFuture<'static, Result<Value, Error>> {
        if self.inner.is_closing() {
            let error = CallError::remote(
                "shutting_down",
                "this worker is shutting down and takes no new calls",
            );
            return futures_util::future::ready(Err(remote(&error))).boxed();
        }
        // Counted until the SDK has taken the answer.
        let running = Running::begin(&self.inner);
        let caller = data.as_object_mut().and_then(|object| object.remove(CALLER));
        let call = Call {
            data: Json::from(&data),
            caller: caller.as_ref().and_then(Value::as_str).map(str::to_owned),
        };
        let function = self.function.clone();
        let mut run = Box::pin(async move { answer(guarded(function, call).await) });
        let first = {
            // What the function spawns belongs to this process, not to the SDK.
            let _here = self.inner.runtime.enter();
            run.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        };
        match first {
            Poll::Ready(result) => async move {
                let _running = running;
                result
            }
            .boxed(),
            Poll::Pending => {
                let task = self.inner.runtime.spawn(run);
                async move {
                    let _running = running;
                    task.await.unwrap_or_else(|_| {
                        let stopped =
                            CallError::remote("invocation_stopped", "the worker is shutting down");
                        Err(remote(&stopped))
                    })
                }
                .boxed()
            }
        }
    }
}

fn answer(result: Result<Json, CallError>) -> Result<Value, Error> {
    let json = result.map_err(|error| remote(&error))?;
    json.into_tree().map_err(|error| {
        remote(&CallError::remote("serialization_error", format!("the result: {error}")))
    })
}

/// An error with its code, and without a stack trace: it would name paths of this machine.
pub(super) fn remote(error: &CallError) -> Error {
    Error::Remote { code: error.code().to_owned(), message: error.to_string(), stacktrace: None }
}
