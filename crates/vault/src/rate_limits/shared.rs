//! Uses that several servers count together.
//!
//! One thread per server sends what waits, of all keys, as one atomic statement, so that a use costs one round trip at
//! most and a busy server sends few of them. Nothing is leased ahead: exactly the limit passes, whichever servers are
//! asked. A key whose limit is known to be reached is refused without asking. While the database is away, uses are counted
//! here, on top of the last count that is known, and added to the shared counters afterwards. A statement whose connection
//! breaks may have counted; its uses are counted again, so that no limit is exceeded.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Weak,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use skills_core::{Digest, Timestamp};
use tokio::sync::oneshot;

use super::{Counters, RateDecision, decision, minute_of};
use crate::{
    VaultError,
    backend::{RateGrant, RateRequest, SharedCounters},
};

/// Most uses that are counted with one statement.
const MAX_GROUP: usize = 1024;

/// A use that waits to be counted.
struct Waiting {
    hash: Digest,
    limit: u32,
    now: Timestamp,
    reply: oneshot::Sender<RateDecision>,
}

/// Queue of uses; its thread ends when it is dropped.
#[derive(Debug)]
pub(super) struct SharedQueue(Sender<Waiting>);

impl SharedQueue {
    /// Starts the thread that counts.
    pub(super) fn start(
        shared: Arc<dyn SharedCounters>,
        local: &Arc<Counters>,
    ) -> Result<Self, VaultError> {
        let (queue, waiting) = channel();
        let local = Arc::downgrade(local);
        let counter = Counter { shared, local, carried: HashMap::new(), minute: 0 };
        thread::Builder::new()
            .name("rate-limits".to_owned())
            .spawn(move || counter.run(&waiting))
            .map_err(|error| VaultError::internal(&format!("no thread for limits: {error}")))?;
        Ok(Self(queue))
    }

    /// Counts a use. Returns `None` if the thread has ended.
    pub(super) async fn take(
        &self,
        hash: Digest,
        limit: u32,
        now: Timestamp,
    ) -> Option<RateDecision> {
        let (reply, decision) = oneshot::channel();
        self.0.send(Waiting { hash, limit, now, reply }).ok()?;
        decision.await.ok()
    }
}

/// State of the thread.
struct Counter {
    shared: Arc<dyn SharedCounters>,
    /// Last known counts, which decisions without the database start from.
    local: Weak<Counters>,
    /// Uses of this minute that only this server has counted.
    carried: HashMap<Digest, u32>,
    minute: u64,
}

/// Uses of one key in a group.
struct KeyUses {
    request: RateRequest,
    waiting: Vec<Waiting>,
}

impl Counter {
    fn run(mut self, queue: &Receiver<Waiting>) {
        while let Ok(first) = queue.recv() {
            let Some(local) = self.local.upgrade() else { return };
            let mut group = HashMap::new();
            let more = std::iter::from_fn(|| queue.try_recv().ok());
            for use_ in std::iter::once(first).chain(more).take(MAX_GROUP) {
                self.add(&mut group, use_);
            }
            self.count(&local, group.into_values().collect());
        }
    }

    fn add(&mut self, group: &mut HashMap<(Digest, u64), KeyUses>, use_: Waiting) {
        let (hash, minute) = (use_.hash, minute_of(use_.now));
        if minute > self.minute {
            self.begin_minute(minute);
        }
        // A use that arrives late, from the previous minute, counts in the current one.
        let minute = if minute + 1 == self.minute { self.minute } else { minute };
        let uses = match group.entry((hash, minute)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let carried = self.carried.get(&hash).copied().unwrap_or_default();
                let request = RateRequest { hash, minute, asked: 0, allowed: use_.limit, carried };
                entry.insert(KeyUses { request, waiting: vec![] })
            }
        };
        uses.request.asked += 1;
        // If the plan changed meanwhile, its last limit counts.
        uses.request.allowed = use_.limit;
        uses.waiting.push(use_);
    }

    fn begin_minute(&mut self, minute: u64) {
        self.minute = minute;
        self.carried.clear();
        // Those of the last minute stay for servers whose clock is behind.
        if let Err(error) = self.shared.forget_before(minute.saturating_sub(1)) {
            tracing::debug!(%error, "old rate counters not removed");
        }
    }

    fn count(&mut self, local: &Counters, uses: Vec<KeyUses>) {
        let requests: Vec<RateRequest> = uses.iter().map(|uses| uses.request).collect();
        match self.shared.take(&requests) {
            Ok(grants) => {
                for (uses, grant) in uses.into_iter().zip(grants) {
                    self.carried.remove(&uses.request.hash);
                    local.set(&uses.request.hash, uses.request.minute, grant.used);
                    uses.reply(grant);
                }
            }
            Err(error) => {
                tracing::debug!(%error, "uses are counted by this server alone");
                for uses in uses {
                    let grant = local.take(&uses.request);
                    *self.carried.entry(uses.request.hash).or_default() += grant.granted;
                    uses.reply(grant);
                }
            }
        }
    }
}

impl KeyUses {
    /// Answers: the first uses are allowed, as far as the grant goes.
    fn reply(self, RateGrant { granted, used }: RateGrant) {
        let minute = self.request.minute;
        let mut left = granted;
        for waiting in self.waiting {
            let allowed = left > 0;
            left = left.saturating_sub(1);
            // A caller that has gone away has used what it asked for.
            let used = used.saturating_sub(left);
            let _ = waiting.reply.send(decision(waiting.limit, minute, used, allowed, waiting.now));
        }
    }
}
