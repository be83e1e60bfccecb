//! Writes on a store that carries out batches concurrently: each is finished when it is stored, without waiting for
//! others. Writes to the same entry run one after the other, in the order of their requests.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use skills_core::{EntryKey, Timestamp};
use skills_store::{Batch, ConcurrentStore, FinishBatch, Mutation};

use crate::{
    publisher::Publisher,
    recovery,
    request_inbox::RequestInbox,
    writer::{MAX_GROUP_BATCHES, MAX_GROUP_BYTES, QueuedWrite, Request, Unanswered, WriteReply},
};

/// Number of a write; later writes have higher ones.
type Ticket = u64;

/// Report that the outcome of a write is known.
pub(crate) struct StoredWrite {
    ticket: Ticket,
    /// Absent if the store gave up on the write.
    finish: Option<FinishBatch>,
}

/// Reports the outcome of a write to the writer when it is dropped.
struct Completion {
    ticket: Ticket,
    finish: Option<FinishBatch>,
    inbox: Weak<RequestInbox>,
}

impl Completion {
    fn complete(mut self, finish: FinishBatch) {
        self.finish = Some(finish);
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        let stored = StoredWrite { ticket: self.ticket, finish: self.finish.take() };
        if let Some(inbox) = self.inbox.upgrade() {
            let _ = inbox.push(Request::Stored(stored));
        }
    }
}

/// A write that was admitted and is not finished.
struct OpenWrite {
    /// Absent once the store has it.
    batch: Option<Batch>,
    entries: Vec<EntryKey>,
    bytes: usize,
    reply: WriteReply,
}

/// Writes in progress.
pub(crate) struct ConcurrentWrites {
    store: Arc<dyn ConcurrentStore>,
    /// Inbox of the writer, for completions.
    inbox: Weak<RequestInbox>,
    open: HashMap<Ticket, OpenWrite>,
    /// Open writes by entry. The first of an entry may run.
    by_entry: HashMap<EntryKey, VecDeque<Ticket>>,
    /// Writes that may run and are not started.
    ready: VecDeque<Ticket>,
    stored: Vec<StoredWrite>,
    next_ticket: Ticket,
    bytes: usize,
}

impl ConcurrentWrites {
    pub(crate) fn new(store: Arc<dyn ConcurrentStore>, inbox: Weak<RequestInbox>) -> Self {
        Self {
            store,
            inbox,
            open: HashMap::new(),
            by_entry: HashMap::new(),
            ready: VecDeque::new(),
            stored: Vec::new(),
            next_ticket: 0,
            bytes: 0,
        }
    }

    /// Returns whether no write is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns whether [`advance`](Self::advance) has something to do other than admitting writes.
    pub(crate) fn has_work(&self) -> bool {
        !self.stored.is_empty() || !self.ready.is_empty()
    }

    /// Returns whether another write can be admitted.
    pub(crate) fn has_room(&self) -> bool {
        self.open.len() < MAX_GROUP_BATCHES && self.bytes < MAX_GROUP_BYTES
    }

    pub(crate) fn push_stored(&mut self, stored: StoredWrite) {
        self.stored.push(stored);
    }

    /// Finishes the stored writes, starts those that may run, publishes and replies.
    pub(crate) fn advance(
        &mut self,
        queued: &mut VecDeque<QueuedWrite>,
        publisher: &Publisher,
        queued_bytes: &AtomicUsize,
    ) -> Result<(), Unanswered> {
        let (mut replies, mut steps) = (Vec::new(), Vec::new());
        for StoredWrite { ticket, finish } in std::mem::take(&mut self.stored) {
            let Some(write) = self.close(ticket) else { continue };
            queued_bytes.fetch_sub(write.bytes, Ordering::Relaxed);
            // Dropping the reply tells the client that the outcome is unknown.
            if let Some(finish) = finish {
                replies.push(write.reply);
                steps.push(finish);
            }
        }
        while self.has_room()
            && let Some(write) = queued.pop_front()
        {
            self.admit(write);
        }
        let results = recovery::catch_panic(|| {
            let now = Timestamp::now();
            let results: Vec<_> = steps.into_iter().map(|finish| finish(now)).collect();
            // After the second steps: a write starts from the versions before it.
            self.start_ready(now);
            publisher.publish(results.iter().flatten().flatten().cloned().collect());
            results
        });
        let Ok(results) = results else { return Err(Unanswered(replies)) };
        for (reply, result) in replies.into_iter().zip(results) {
            let _ = reply.send(Ok(result));
        }
        Ok(())
    }

    fn admit(&mut self, QueuedWrite { batch, bytes, reply, .. }: QueuedWrite) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let entries = entries_of(&batch);
        for entry in &entries {
            self.by_entry.entry(entry.clone()).or_default().push_back(ticket);
        }
        self.bytes += bytes;
        self.open.insert(ticket, OpenWrite { batch: Some(batch), entries, bytes, reply });
        self.mark_if_ready(ticket);
    }

    /// Removes a write; the next writes of its entries may become ready.
    fn close(&mut self, ticket: Ticket) -> Option<OpenWrite> {
        let write = self.open.remove(&ticket)?;
        self.bytes -= write.bytes;
        for entry in &write.entries {
            let Some(queue) = self.by_entry.get_mut(entry) else { continue };
            queue.pop_front();
            match queue.front().copied() {
                Some(next) => self.mark_if_ready(next),
                None => drop(self.by_entry.remove(entry)),
            }
        }
        Some(write)
    }

    fn mark_if_ready(&mut self, ticket: Ticket) {
        let is_first =
            |entry: &EntryKey| self.by_entry.get(entry).and_then(VecDeque::front) == Some(&ticket);
        if self.open.get(&ticket).is_some_and(|write| write.entries.iter().all(is_first)) {
            self.ready.push_back(ticket);
        }
    }

    fn start_ready(&mut self, now: Timestamp) {
        while let Some(ticket) = self.ready.pop_front() {
            let write = self.open.get_mut(&ticket);
            let Some(batch) = write.and_then(|write| write.batch.take()) else { continue };
            let completion = Completion { ticket, finish: None, inbox: Weak::clone(&self.inbox) };
            let done = Box::new(move |finish| completion.complete(finish));
            Arc::clone(&self.store).start(batch, now, done);
        }
    }
}

/// Returns the entries that a batch writes to, each once.
fn entries_of(batch: &Batch) -> Vec<EntryKey> {
    let entry = |mutation: &Mutation| match mutation {
        Mutation::Put { layer, id, content, .. } => {
            Some(EntryKey { kind: content.kind(), layer: layer.clone(), id: id.clone() })
        }
        Mutation::Remove(key) | Mutation::Version { key, .. } => Some(key.clone()),
        Mutation::StateSet { .. } | Mutation::StateDelete { .. } => None,
    };
    let mut entries: Vec<_> = batch.mutations.iter().filter_map(entry).collect();
    entries.sort();
    entries.dedup();
    entries
}
