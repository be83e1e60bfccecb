//! Inbox of the writer, and the thread on which the writer runs.
//!
//! A commit may block, so the writer has a thread of its own. On a store that carries out batches concurrently no write
//! blocks: there, the thread that queues a write, or reports that one is stored, runs the writer itself, unless another
//! thread is at it, which then does this one's work too. That saves the four wake-ups of threads that a write would take.
//! The lock of `queues` is held by whoever is the writer, so writes, catalog and feed still have one order. Everything
//! that may take long (external checks, updates of live clients, recovery) stays on the writer thread.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, atomic::AtomicUsize},
};

use parking_lot::{Condvar, Mutex};
use skills_store::Store;

use crate::{
    concurrent_writes::ConcurrentWrites,
    publisher::Publisher,
    recovery,
    writer::{Request, RequestQueues},
};

#[derive(Default)]
struct Inbox {
    requests: VecDeque<Request>,
    /// The writer thread has something to do.
    is_due: bool,
    is_closed: bool,
}

/// Requests of the writer, and everything that it works on.
pub(crate) struct RequestInbox {
    store: Arc<dyn Store>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) queued_bytes: AtomicUsize,
    inbox: Mutex<Inbox>,
    /// Signals that the writer thread has something to do.
    due: Condvar,
    /// Locked by the writer.
    queues: Mutex<RequestQueues>,
    /// Writes run on the threads that request them.
    is_concurrent: bool,
}

impl fmt::Debug for RequestInbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestInbox").field("store", &self.store).finish_non_exhaustive()
    }
}

/// The inbox takes no more requests.
#[derive(Debug)]
pub(crate) struct InboxClosed;

impl RequestInbox {
    pub(crate) fn new(store: Arc<dyn Store>, publisher: Arc<Publisher>) -> Arc<Self> {
        let concurrent = Arc::clone(&store).as_concurrent();
        Arc::new_cyclic(|inbox| Self {
            is_concurrent: concurrent.is_some(),
            queues: Mutex::new(RequestQueues::new(
                concurrent.map(|store| ConcurrentWrites::new(store, inbox.clone())),
            )),
            store,
            publisher,
            queued_bytes: AtomicUsize::new(0),
            inbox: Mutex::default(),
            due: Condvar::new(),
        })
    }

    /// Queues a request. A write may be carried out before this returns.
    pub(crate) fn push(&self, request: Request) -> Result<(), InboxClosed> {
        let is_write =
            matches!(request, Request::Write(_) | Request::WriteTogether(_) | Request::Stored(_));
        let runs_here = self.is_concurrent && is_write;
        let mut inbox = self.inbox.lock();
        if inbox.is_closed {
            // Dropping the request may report another write.
            drop(inbox);
            return Err(InboxClosed);
        }
        inbox.requests.push_back(request);
        inbox.is_due |= !runs_here;
        drop(inbox);
        if runs_here {
            self.run_writes();
        } else {
            self.due.notify_one();
        }
        Ok(())
    }

    fn receive_all(&self, queues: &mut RequestQueues) {
        let requests = std::mem::take(&mut self.inbox.lock().requests);
        requests.into_iter().for_each(|request| queues.push(request));
    }

    fn wake_thread(&self) {
        self.inbox.lock().is_due = true;
        self.due.notify_one();
    }

    /// Runs the writer for writes on this thread. If another thread is the writer, that looks into the inbox once more
    /// after it has released the lock.
    fn run_writes(&self) {
        while !self.inbox.lock().requests.is_empty()
            && let Some(mut queues) = self.queues.try_lock()
        {
            self.receive_all(&mut queues);
            while queues.interrupted.is_none() && queues.has_writes() {
                let outcome = queues.run_writes(&*self.store, &self.publisher, &self.queued_bytes);
                queues.interrupted = outcome.err();
                self.receive_all(&mut queues);
            }
            if queues.is_closing || queues.interrupted.is_some() {
                self.wake_thread();
            }
        }
    }

    /// Runs the writer thread until the registry closes or the catalog cannot be brought up to the store.
    pub(crate) fn run_thread(&self) {
        let _closing = CloseOnDrop(self);
        while self.run_all() {
            // Writes that were queued while this thread was the writer.
            if self.is_concurrent {
                self.run_writes();
            }
            let mut inbox = self.inbox.lock();
            while !std::mem::take(&mut inbox.is_due) {
                self.due.wait(&mut inbox);
            }
        }
    }

    /// Carries out everything that is queued. Returns whether the thread goes on.
    fn run_all(&self) -> bool {
        let mut queues = self.queues.lock();
        self.receive_all(&mut queues);
        loop {
            let interrupted = match queues.interrupted.take() {
                Some(unanswered) => Some(unanswered),
                None if queues.has_work() => {
                    queues.run_next(&*self.store, &self.publisher, &self.queued_bytes).err()
                }
                None => return !queues.is_finished(),
            };
            if let Some(unanswered) = interrupted {
                let is_recovered = recovery::recover(&*self.store, &self.publisher);
                // After the recovery, so that a client that gets `OutcomeUnknown` can read what was stored.
                drop(unanswered);
                if !is_recovered {
                    return false;
                }
            }
            self.receive_all(&mut queues);
        }
    }
}

/// Closes the inbox when the writer thread ends. Requests without a reply get an error.
struct CloseOnDrop<'a>(&'a RequestInbox);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        let mut inbox = self.0.inbox.lock();
        inbox.is_closed = true;
        let requests = std::mem::take(&mut inbox.requests);
        drop(inbox);
        let queues = std::mem::take(&mut *self.0.queues.lock());
        // Dropped without a lock: what is dropped may report a write.
        drop((requests, queues));
    }
}
