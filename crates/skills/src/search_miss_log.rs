//! Log of queries without a result, in the vault. A thread of its own writes it: a search never waits for the disk.

use std::{
    sync::{
        Arc,
        mpsc::{SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use parking_lot::Mutex;
use skills_core::Caller;
use skills_registry::search::SearchMissLog;
use skills_vault::{Vault, now};

/// Most queries that wait to be written; more are dropped.
const MAX_WAITING: usize = 256;
/// Most bytes of a query that waits.
const MAX_QUERY_BYTES: usize = 512;

/// Log of queries without a result.
#[derive(Debug)]
pub(crate) struct VaultMissLog {
    queue: Mutex<Option<SyncSender<(Caller, String)>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl VaultMissLog {
    /// Starts the thread that writes the log. Without one, nothing is logged.
    pub(crate) fn start(vault: Arc<Vault>) -> Self {
        let (queue, waiting) = sync_channel::<(Caller, String)>(MAX_WAITING);
        let write = move || {
            if let Err(error) = vault.forget_search_misses(now()) {
                tracing::warn!(%error, "old queries without a result not forgotten");
            }
            for (caller, query) in waiting {
                if let Err(error) = vault.record_search_miss(&caller, &query, now()) {
                    tracing::warn!(%error, "query without a result not logged");
                }
            }
        };
        let thread = thread::Builder::new().name("search-miss-log".to_owned()).spawn(write);
        Self { queue: Mutex::new(Some(queue)), thread: Mutex::new(thread.ok()) }
    }
}

impl SearchMissLog for VaultMissLog {
    fn record(&self, caller: &Caller, query: &str) {
        let query = query[..query.floor_char_boundary(MAX_QUERY_BYTES)].to_owned();
        if let Some(queue) = &*self.queue.lock() {
            // A full queue drops the query: the log is a sample, and searches come first.
            let _ = queue.try_send((caller.clone(), query));
        }
    }
}

impl Drop for VaultMissLog {
    fn drop(&mut self) {
        drop(self.queue.lock().take());
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}
