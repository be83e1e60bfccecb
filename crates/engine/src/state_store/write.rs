//! Writes to the state: one call each, concurrently.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use skills_bus::CallError;
use skills_core::{Code, Coded, EntryKey, Layer, Timestamp};
use skills_store::{
    Batch, BatchCallback, BatchError, ConcurrentStore, Effect, Mutation, NO_HISTORY, PublishOptions,
};

use super::{STATE_NOT_SUPPORTED, StateStore, record::Record};

/// Write that the state has executed and the index lacks.
enum ExecutedWrite {
    /// The record to remove does not exist.
    Nothing,
    Put(Record),
    /// A removal, with the record if the index did not have it.
    Removed(Option<Record>),
}

/// Marks a record as being written until it is dropped.
struct WriteGuard {
    store: Arc<StateStore>,
    key: EntryKey,
}

impl WriteGuard {
    fn new(store: Arc<StateStore>, key: EntryKey) -> Self {
        store.index().start_write(key.clone());
        Self { store, key }
    }
}

impl Drop for WriteGuard {
    fn drop(&mut self) {
        let _ = self.store.index().end_write(&self.key);
        self.store.write_ended.notify_waiters();
    }
}

impl ConcurrentStore for StateStore {
    fn start(self: Arc<Self>, batch: Batch, now: Timestamp, done: BatchCallback) {
        let Batch { actor, mutations, .. } = batch;
        let (key, mutation) = match only_write(mutations) {
            Ok(write) => write,
            Err(error) => return done(Box::new(|_| Err(error))),
        };
        let runtime = self.runtime.clone();
        let write = WriteGuard::new(self, key);
        let mut run = Box::pin(async move {
            let executed = write.store.execute(&write.key, mutation, now).await;
            done(Box::new(move |now| {
                let WriteGuard { store, key } = &write;
                Ok(vec![store.index_write(key, executed, &actor, now)?])
            }));
        });
        // Polled here first, so that the call is sent by the connection's task if that has received the request.
        let _entered = runtime.enter();
        if run.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending {
            runtime.spawn(run);
        }
    }
}

impl StateStore {
    /// Executes a batch and indexes it.
    pub(super) fn commit_one(
        &self,
        batch: Batch,
        now: Timestamp,
    ) -> Result<Vec<Effect>, BatchError> {
        let Batch { actor, mutations, .. } = batch;
        let (key, mutation) = only_write(mutations)?;
        let executed = self.runtime.block_on(self.execute(&key, mutation, now));
        Ok(vec![self.index_write(&key, executed, &actor, now)?])
    }

    async fn execute(
        &self,
        key: &EntryKey,
        mutation: Mutation,
        now: Timestamp,
    ) -> Result<ExecutedWrite, BatchError> {
        let Mutation::Put { content, blobs, options, .. } = mutation else {
            return self.remove(key).await;
        };
        if options != PublishOptions::default() {
            return Err(batch_error(Code::Unsupported, NO_HISTORY));
        }
        if blobs.len() > 1 {
            // A record has room for one document, and other workers would not know of more.
            return Err(batch_error(
                Code::Unsupported,
                "the state of an engine holds skills of one document; keep bundles in the embedded store (store: embedded)",
            ));
        }
        let record = {
            let mut index = self.index();
            let record = Record::new(key, content, index.next_timestamp(key, now));
            index.describe_write(key, &record);
            record
        };
        let value = record.encode(blobs.first().map(|(_, body)| &**body));
        let value =
            value.map_err(|reason| batch_error(Code::SerializationError, reason.to_owned()))?;
        let scope = self.scopes.scope(key.kind);
        self.client.set(scope, &key.id, &value).await.map_err(write_error)?;
        Ok(ExecutedWrite::Put(record))
    }

    async fn remove(&self, key: &EntryKey) -> Result<ExecutedWrite, BatchError> {
        let scope = self.scopes.scope(key.kind);
        let mut unindexed = None;
        if self.index().get(key).is_none() {
            // Another process may have just written it. A value that cannot be decoded is not removed.
            let value = self.client.get(scope, &key.id).await.map_err(write_error)?;
            let decode = |value: String| Record::decode(key.kind, Some(&key.id), &value).ok();
            let Some(record) = value.and_then(decode) else { return Ok(ExecutedWrite::Nothing) };
            unindexed = Some(record);
        }
        self.client.delete(scope, &key.id).await.map_err(write_error)?;
        Ok(ExecutedWrite::Removed(unindexed))
    }

    /// Ends a write and indexes it. A write without an answer whose event has arrived was executed.
    fn index_write(
        &self,
        key: &EntryKey,
        executed: Result<ExecutedWrite, BatchError>,
        actor: &Arc<str>,
        now: Timestamp,
    ) -> Result<Effect, BatchError> {
        let mut index = self.index();
        let reported = index.end_write(key);
        let is_reported = reported.is_some();
        let executed = match (executed, reported) {
            (Err(_), Some(record)) => ExecutedWrite::Put(record),
            (executed, _) => executed?,
        };
        let record = match executed {
            ExecutedWrite::Nothing => return Ok(Effect::Nothing),
            ExecutedWrite::Put(record) => Some(record),
            ExecutedWrite::Removed(unindexed) => {
                if let Some(record) = unindexed {
                    index.load_if_absent(key, record);
                }
                None
            }
        };
        if !is_reported {
            index.pending_events.expect(key.clone(), record.clone(), now);
        }
        let change = index.apply(key.clone(), record, actor, now);
        Ok(change.map_or(Effect::Nothing, Effect::Changed))
    }
}

/// Returns the only mutation of a batch and the record that it writes, or why the state cannot hold it.
fn only_write(mutations: Vec<Mutation>) -> Result<(EntryKey, Mutation), BatchError> {
    let keys = mutations.iter().map(writable_key).collect::<Result<Vec<_>, _>>()?;
    let mut writes = keys.into_iter().zip(mutations);
    match (writes.next(), writes.next()) {
        (Some(write), None) => Ok(write),
        _ => Err(batch_error(
            Code::Unsupported,
            "the state of an engine cannot change several entries together; keep them in the embedded store (store: embedded)",
        )),
    }
}

/// Returns the key that a mutation writes, or why the state cannot hold it.
fn writable_key(mutation: &Mutation) -> Result<EntryKey, BatchError> {
    let key = match mutation {
        Mutation::Put { layer, id, content, .. } => {
            EntryKey { kind: content.kind(), layer: layer.clone(), id: id.clone() }
        }
        Mutation::Remove(key) => key.clone(),
        Mutation::Version { .. } => return Err(batch_error(Code::Unsupported, NO_HISTORY)),
        Mutation::StateSet { .. } | Mutation::StateDelete { .. } => {
            return Err(batch_error(Code::NotSupported, STATE_NOT_SUPPORTED));
        }
    };
    if key.layer != Layer::Official {
        return Err(batch_error(
            Code::Unsupported,
            "the state of an engine holds official entries only; keep other tiers in the embedded store (store: embedded)",
        ));
    }
    Ok(key)
}

fn batch_error(code: impl Into<String>, message: impl Into<String>) -> BatchError {
    BatchError::Failed { code: code.into(), message: message.into() }
}

fn write_error(error: CallError) -> BatchError {
    batch_error(error.code_text(), format!("the state rejected the write: {error}"))
}
