//! Observers of the functions that this process registered to be observed.
//!
//! The owner of such a function activates its observers itself; the hub keeps who they are,
//! counts what they got, and ends them: by `unobserve`, with their connection, when their time
//! is up or they have fired often enough. Functions of workers cannot be observed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::task::AbortHandle;

use super::{Hub, functions::Target, peer::Peer};
use crate::{
    CallError, Deliver, ErrorBody, Json, Observer, ObserverSink,
    protocol::{frame::Observe, outbound},
};

struct Watch {
    peer: Arc<Peer>,
    sink: Arc<dyn ObserverSink>,
    fires: u64,
    max_fires: Option<u64>,
    size: usize,
    expiry: Option<AbortHandle>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(expiry) = &self.expiry {
            expiry.abort();
        }
    }
}

impl Watch {
    /// Tells both ends that the observer is done.
    fn dispose(self, id: &str, code: &str, message: &str) {
        self.sink.unobserve(id);
        self.peer.release(self.size);
        let reason = ErrorBody { code: code.to_owned(), message: message.to_owned() };
        self.peer.queue.push(outbound::observer_disposed(id, &reason, self.fires));
    }
}

#[derive(Default)]
pub(super) struct Observers(Mutex<HashMap<String, Watch>>);

impl Observers {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers an `observe` frame; there is exactly one answer, and it comes before any other
    /// news of the observer.
    pub(super) fn observe(&self, hub: &Hub, peer: &Arc<Peer>, frame: &Observe<'_>) {
        let outcome = self.add(hub, peer, frame);
        if let Err(error) = &outcome {
            peer.queue.push(outbound::observe_result(&frame.id, Some(&error.body())));
        }
    }

    fn add(&self, hub: &Hub, peer: &Arc<Peer>, frame: &Observe<'_>) -> Result<(), CallError> {
        let source = &frame.source.function_id;
        let refuse = |code: &str, message: String| Err(CallError::remote(code, message));
        let Some((Target::Observable(sink), _)) = hub.inner.functions.find(source) else {
            return refuse("NOT_OBSERVABLE", format!("{source} cannot be observed on this hub"));
        };
        if frame.target == *source {
            return refuse("SELF_TARGET", format!("{source} cannot observe itself"));
        }
        if !is_empty(&frame.source.args) {
            return refuse("INVALID_ARGS", format!("{source} takes no arguments from observers"));
        }
        if !is_empty(&frame.source.filters) {
            return refuse(
                "INVALID_FILTER",
                "this hub does not filter; observe without filters".into(),
            );
        }
        let id = frame.id.as_ref();
        let metadata = frame.metadata.map(|raw| Json::from(raw.to_owned()));
        let size =
            id.len() + frame.target.len() + metadata.as_ref().map_or(0, |json| json.as_str().len());

        let mut table = self.lock();
        if peer.is_gone() {
            return Ok(());
        }
        if table.get(id).is_some_and(|known| !Arc::ptr_eq(&known.peer, peer)) {
            return refuse(
                "OBSERVER_ID_CONFLICT",
                format!("another worker observes under the id {id}"),
            );
        }
        // Sent again, it goes on counting where it was.
        let fires = table.remove(id).map_or(0, |known| {
            peer.release(known.size);
            known.fires
        });
        if let Err(error) = peer.reserve(size) {
            sink.unobserve(id);
            return Err(error);
        }
        sink.observe(Observer {
            id: id.to_owned(),
            target: frame.target.clone(),
            deliver: match frame.source.deliver.as_deref() {
                Some("input") => Deliver::Input,
                Some("output") => Deliver::Output,
                _ => Deliver::Envelope,
            },
            metadata,
        });
        let expiry = frame.expires_in_ms.map(|after| {
            let (hub, id) = (hub.clone(), id.to_owned());
            let expire = async move {
                tokio::time::sleep(Duration::from_millis(after)).await;
                hub.inner.observers.end(&id, "EXPIRED", "the observer's time is up");
            };
            tokio::spawn(expire).abort_handle()
        });
        let watch =
            Watch { peer: peer.clone(), sink, fires, max_fires: frame.max_fires, size, expiry };
        table.insert(id.to_owned(), watch);
        peer.queue.push(outbound::observe_result(id, None));
        Ok(())
    }

    fn end(&self, id: &str, code: &str, message: &str) {
        let watch = self.lock().remove(id);
        if let Some(watch) = watch {
            watch.dispose(id, code, message);
        }
    }

    /// Ends an observer at its own wish. The answer comes for an unknown id too: SDKs wait for it.
    pub(super) fn unobserve(&self, peer: &Arc<Peer>, id: &str) {
        const DONE: (&str, &str) = ("UNOBSERVED", "the observer was removed");
        let mut table = self.lock();
        let own = table.get(id).is_some_and(|watch| Arc::ptr_eq(&watch.peer, peer));
        let watch = own.then(|| table.remove(id)).flatten();
        drop(table);
        match watch {
            Some(watch) => watch.dispose(id, DONE.0, DONE.1),
            None => {
                let reason = ErrorBody { code: DONE.0.to_owned(), message: DONE.1.to_owned() };
                peer.queue.push(outbound::observer_disposed(id, &reason, 0));
            }
        }
    }

    /// Notes that an observer is about to be activated. What follows from it comes after the
    /// activation; see [`Self::fired`].
    ///
    /// # Errors
    /// When the observer has gone.
    pub(super) fn firing(&self, id: &str) -> Result<(), CallError> {
        let mut table = self.lock();
        let Some(watch) =
            table.get_mut(id).filter(|watch| watch.max_fires.is_none_or(|max| watch.fires < max))
        else {
            return Err(CallError::remote(
                "OBSERVER_NOT_ACTIVE",
                format!("the observer {id} has gone"),
            ));
        };
        watch.fires += 1;
        Ok(())
    }

    /// Ends an observer that has fired as often as it wanted.
    pub(super) fn fired(&self, id: &str) {
        let spent = self
            .lock()
            .get(id)
            .is_some_and(|watch| watch.max_fires.is_some_and(|max| watch.fires >= max));
        if spent {
            self.end(id, "MAX_FIRES", "the observer has fired as often as it asked to");
        }
    }

    /// Removes the observers of a worker that has gone.
    pub(super) fn forget(&self, peer: &Arc<Peer>) {
        let gone: Vec<(String, Watch)> =
            self.lock().extract_if(|_, watch| Arc::ptr_eq(&watch.peer, peer)).collect();
        for (id, watch) in gone {
            watch.sink.unobserve(&id);
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
