//! Skills and prompts in the state of an iii engine, under an index of our own.
//!
//! - `record`: the stored shape, which is that of the worker this one replaces
//! - `remote`: the `state::*` calls, page by page where the state worker can
//! - `index`: what is known of each record, so that nothing has to be listed twice
//! - `ahead`: what is known before the event that tells of it has come
//! - `heard`: events and looks that wait
//! - `compare`: everything with the state, in steps
//! - [`sync`]: following what others write to the same scopes
//!
//! The state is the truth and has no versions, no transactions and no compare-and-swap. So all that
//! changes the index happens on the registry's writer thread: our own writes, and looking at what
//! others wrote. A listing costs no call and no body; a body is fetched when it is read.

mod ahead;
mod compare;
mod heard;
mod index;
mod record;
mod remote;
pub mod sync;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use skills_bus::{Bus, CallError};
use skills_core::{Digest, EntryKey, Kind, Layer, Timestamp};
use skills_store::{
    Batch, BatchError, Change, Effect, Entry, GroupOutcome, Mutation, StateEntry, Store, StoreError,
};
use tokio::runtime::Handle;

pub use crate::writer::Foreign;

use heard::{Heard, Queue};
use index::Index;
use record::Record;
pub use remote::Place;
use remote::{Cursor, Remote, Unlisted};

/// How often the whole of a scope is asked for in vain before it is not asked for any more: one answer
/// may be lost with a connection that broke for another reason.
const LISTINGS_IN_VAIN: usize = 2;

/// Which scopes of the state hold the content.
#[derive(Debug, Clone)]
pub struct Scopes {
    /// Skills by id.
    pub skills: String,
    /// Prompts by name.
    pub prompts: String,
}

impl Scopes {
    fn of(&self, kind: Kind) -> &str {
        match kind {
            Kind::Skill => &self.skills,
            Kind::Prompt => &self.prompts,
        }
    }

    fn kind(&self, scope: &str) -> Option<Kind> {
        [Kind::Skill, Kind::Prompt].into_iter().find(|kind| self.of(*kind) == scope)
    }
}

/// How many events are taken in at once: writes wait that long.
const EVENTS_AT_ONCE: usize = 256;

/// What became of an event.
enum Taken {
    Known,
    New(Change),
    /// The state has to be asked.
    Unclear,
}

/// How far a scope has been read.
enum Scanned {
    /// There is another page.
    More(Cursor),
    All,
    /// It cannot be listed at all.
    Unlistable,
}

/// The store. Its calls block; they belong on a thread that may wait.
pub struct StateStore {
    remote: Remote,
    scopes: Scopes,
    runtime: Handle,
    index: Mutex<Index>,
    /// How often the whole of a scope was asked for in vain.
    in_vain: Mutex<HashMap<Kind, usize>>,
}

impl std::fmt::Debug for StateStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateStore").field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

fn key(kind: Kind, id: &str) -> EntryKey {
    EntryKey { kind, layer: Layer::Official, id: id.into() }
}

fn unavailable(error: &CallError) -> StoreError {
    StoreError::Unavailable { code: error.code().to_owned(), message: error.to_string() }
}

impl StateStore {
    /// A store over the `state::*` functions of a bus, which are called on `runtime`.
    #[must_use]
    pub fn new(
        bus: Arc<dyn Bus>,
        place: Place,
        scopes: Scopes,
        timeout: Duration,
        runtime: Handle,
    ) -> Self {
        let remote = Remote::new(bus, place, timeout);
        Self { remote, scopes, runtime, index: Mutex::default(), in_vain: Mutex::default() }
    }

    /// Where the state functions of a bus are, if it has any.
    ///
    /// # Errors
    /// When there are some that do not answer.
    pub async fn find(bus: &Arc<dyn Bus>, timeout: Duration) -> Result<Option<Place>, CallError> {
        Remote::find(bus, timeout).await
    }

    /// The scopes it keeps its content in.
    #[must_use]
    pub const fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a page of a scope and hands each record to `each`.
    fn scan(
        &self,
        kind: Kind,
        cursor: Option<&Cursor>,
        each: &mut dyn FnMut(Record),
    ) -> Result<Scanned, StoreError> {
        let scope = self.scopes.of(kind);
        let mut take = |key: Option<&str>, value: &str| match Record::decode(kind, key, value) {
            Ok(record) => each(record),
            Err(reason) => {
                tracing::warn!(
                    scope,
                    key,
                    reason,
                    "a record of the state is not ours; it is left alone"
                );
            }
        };
        let in_vain = || self.in_vain.lock().unwrap_or_else(PoisonError::into_inner);
        let attempts = in_vain().get(&kind).copied().unwrap_or(0);
        let may_be_whole = attempts < LISTINGS_IN_VAIN;
        let page = self.remote.page(scope, cursor, may_be_whole, &mut take);
        let error = match self.runtime.block_on(page) {
            Ok(next) => {
                in_vain().remove(&kind);
                return Ok(next.map_or(Scanned::All, Scanned::More));
            }
            Err(Unlisted::Failed(error)) => return Err(unavailable(&error)),
            Err(Unlisted::Unanswered(error)) if attempts + 1 < LISTINGS_IN_VAIN => {
                in_vain().insert(kind, attempts + 1);
                return Err(unavailable(&error));
            }
            Err(Unlisted::TooLarge(error) | Unlisted::Unanswered(error)) => error,
        };
        // Asking again would only break the connection again.
        in_vain().insert(kind, LISTINGS_IN_VAIN);
        if may_be_whole {
            tracing::warn!(
                scope,
                %error,
                "the scope is too large to be listed by this state worker; its entries appear as they are used"
            );
        }
        Ok(Scanned::Unlistable)
    }

    /// Notes whether all of a scope could be listed; else its records are found one by one, as they are
    /// asked for.
    fn listed(&self, kind: Kind, is_complete: bool) {
        let mut index = self.index();
        if is_complete {
            index.incomplete.remove(&kind);
        } else {
            index.incomplete.insert(kind);
        }
    }

    /// Looks at one record in the state and returns what is different. Runs on the writer thread.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn look(&self, key: &EntryKey, now: Timestamp) -> Result<Option<Change>, StoreError> {
        let found = self.fetch(key)?;
        Ok(self.index().find(key.clone(), found, now))
    }

    /// Takes in events that wait, up to the first one for which the state has to be asked, which is not
    /// done while `is_resting`. Runs on the writer thread.
    fn hear(&self, queue: &Mutex<Queue>, is_resting: bool, now: Timestamp) -> Foreign {
        let queue = || queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Foreign::default();
        for _ in 0..EVENTS_AT_ONCE {
            let Some(heard) = queue().next_event() else { break };
            match self.take(&heard, now) {
                Taken::Known => {}
                Taken::New(change) => {
                    // Events may overtake each other; a look settles what the order left open.
                    queue().look_at(heard.key);
                    found.changes.push(change);
                }
                Taken::Unclear if is_resting => queue().look_at(heard.key),
                Taken::Unclear => {
                    let others = queue().events_of(&heard.key);
                    match self.settle(&heard, &others, now) {
                        Ok(change) => found.changes.extend(change),
                        Err(error) => {
                            queue().look_at(heard.key);
                            found.error = Some(error);
                        }
                    }
                    break;
                }
            }
        }
        found
    }

    /// Takes in what an event says, if it continues what is known. Else it is only a reason to look:
    /// events overtake each other, and what we did or saw ourselves is known before its own event comes.
    fn take(&self, heard: &Heard, now: Timestamp) -> Taken {
        let Heard { key, old, new } = heard;
        let mut index = self.index();
        let was_ahead = index.ahead.came(key, new.as_ref(), now);
        if index.knows(key, new.as_ref()) {
            return Taken::Known;
        }
        if was_ahead || !old.as_ref().is_some_and(|old| index.knows(key, old.as_ref())) {
            return Taken::Unclear;
        }
        index.absorb(key.clone(), new.clone(), now).map_or(Taken::Known, Taken::New)
    }

    /// Looks at a record of which events tell what is not clear.
    fn settle(
        &self,
        heard: &Heard,
        others: &VecDeque<Heard>,
        now: Timestamp,
    ) -> Result<Option<Change>, StoreError> {
        let key = &heard.key;
        let found = self.fetch(key)?;
        let mut index = self.index();
        for other in others {
            index.ahead.came(key, other.new.as_ref(), now);
        }
        // What these events tell of is not to come any more.
        let has_come = heard.new == found || others.iter().any(|other| other.new == found);
        Ok(if has_come {
            index.absorb(key.clone(), found, now)
        } else {
            index.find(key.clone(), found, now)
        })
    }

    fn fetch(&self, key: &EntryKey) -> Result<Option<Record>, StoreError> {
        let scope = self.scopes.of(key.kind);
        let value = self
            .runtime
            .block_on(self.remote.get(scope, &key.id))
            .map_err(|error| unavailable(&error))?;
        Ok(value.and_then(|value| Record::decode(key.kind, Some(&key.id), &value).ok()))
    }

    /// Carries out the batches; writes to different records at once, writes to the same one in order.
    async fn write(
        &self,
        group: Vec<Batch>,
        now: Timestamp,
    ) -> Vec<Result<Vec<Effect>, BatchError>> {
        let mut outcome: Vec<Result<Vec<Effect>, BatchError>> =
            group.iter().map(|_| Ok(Vec::new())).collect();
        let mut by_key: HashMap<EntryKey, Vec<(usize, Arc<str>, Mutation)>> = HashMap::new();
        for (number, Batch { actor, mutations }) in group.into_iter().enumerate() {
            for mutation in mutations {
                let key = match &mutation {
                    Mutation::Put { layer, id, content, .. } => {
                        EntryKey { kind: content.kind(), layer: layer.clone(), id: id.clone() }
                    }
                    Mutation::Remove(key) => key.clone(),
                    Mutation::StateSet { .. } | Mutation::StateDelete { .. } => {
                        outcome[number] = Err(BatchError::Failed {
                            code: "not_supported".to_owned(),
                            message: "the state belongs to the engine; call state::* on it"
                                .to_owned(),
                        });
                        continue;
                    }
                };
                if key.layer != Layer::Official {
                    outcome[number] = Err(BatchError::Failed {
                        code: "unsupported".to_owned(),
                        message: "the state of an engine holds official entries alone; keep other tiers in the embedded store (store: embedded)"
                            .to_owned(),
                    });
                    continue;
                }
                by_key.entry(key).or_default().push((number, actor.clone(), mutation));
            }
        }
        let writes = by_key.into_iter().map(|(key, writes)| async move {
            let mut done = Vec::new();
            for (number, actor, mutation) in writes {
                done.push((number, self.write_one(&key, &actor, mutation, now).await));
            }
            done
        });
        for (number, effect) in futures_util::future::join_all(writes).await.into_iter().flatten() {
            match (effect, &mut outcome[number]) {
                (Ok(effect), Ok(effects)) => effects.push(effect),
                (Err(error), slot) => *slot = Err(error),
                (Ok(_), Err(_)) => {}
            }
        }
        outcome
    }

    async fn write_one(
        &self,
        key: &EntryKey,
        actor: &Arc<str>,
        mutation: Mutation,
        now: Timestamp,
    ) -> Result<Effect, BatchError> {
        let scope = self.scopes.of(key.kind);
        let failed = |error: CallError| BatchError::Failed {
            code: error.code().to_owned(),
            message: format!("the state did not take it: {error}"),
        };
        let Mutation::Put { content, blobs, .. } = mutation else {
            let mut unheard_of = None;
            if self.index().knows(key, None) {
                // Somebody may have written it a moment ago. What we cannot read is left alone.
                let value = self.remote.get(scope, &key.id).await.map_err(failed)?;
                let decode = |value: String| Record::decode(key.kind, Some(&key.id), &value).ok();
                let Some(record) = value.and_then(decode) else { return Ok(Effect::Nothing) };
                unheard_of = Some(record);
            }
            self.remote.delete(scope, &key.id).await.map_err(failed)?;
            if let Some(record) = unheard_of {
                self.index().adopt(key.clone(), record);
            }
            // Whoever removed it, the catalog is not to keep it.
            return Ok(self.done(key, None, actor, now));
        };
        if blobs.len() > 1 {
            // A record has room for one document, and other workers would not know of more.
            return Err(BatchError::Failed {
                code: "unsupported".to_owned(),
                message: "the state of an engine holds skills of one document; keep bundles in the embedded store (store: embedded)"
                    .to_owned(),
            });
        }
        let at = self.index().moment(key, now);
        let record = Record::new(key, content, at);
        let body = blobs.first().map(|(_, body)| body);
        let value = record.encode(body).map_err(|error| BatchError::Failed {
            code: "serialization_error".to_owned(),
            message: error.to_string(),
        })?;
        self.remote.set(scope, &key.id, &value).await.map_err(failed)?;
        Ok(self.done(key, Some(record), actor, now))
    }

    /// Notes a write that the state has carried out.
    fn done(
        &self,
        key: &EntryKey,
        record: Option<Record>,
        actor: &Arc<str>,
        now: Timestamp,
    ) -> Effect {
        let mut index = self.index();
        index.ahead.expect(key.clone(), record.clone(), now);
        let change = index.put(key.clone(), record, actor, now);
        change.map_or(Effect::Nothing, Effect::Changed)
    }
}

impl Store for StateStore {
    fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        // What an attempt before has read may be gone by now.
        *self.index() = Index::default();
        for kind in [Kind::Skill, Kind::Prompt] {
            let mut cursor = None;
            loop {
                let mut load = |record: Record| self.index().load(key(kind, &record.id), record);
                match self.scan(kind, cursor.as_ref(), &mut load)? {
                    Scanned::More(next) => cursor = Some(next),
                    Scanned::All => break,
                    Scanned::Unlistable => {
                        self.listed(kind, false);
                        break;
                    }
                }
            }
        }
        Ok(self.index().entries())
    }

    fn revision(&self) -> Result<u64, StoreError> {
        Ok(self.index().revision())
    }

    fn commit(&self, group: Vec<Batch>, now: Timestamp) -> Result<GroupOutcome, StoreError> {
        Ok(self.runtime.block_on(self.write(group, now)))
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        let Some(key) = self.index().with_digest(digest) else { return Ok(None) };
        let value = self
            .runtime
            .block_on(self.remote.get(self.scopes.of(key.kind), &key.id))
            .map_err(|error| unavailable(&error))?;
        let body = value.and_then(|value| record::body(&value));
        // Another body means that somebody has just replaced it: the caller looks again.
        Ok(body.filter(|body| Digest::of(body) == *digest))
    }

    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.index().log(after, limit)
    }

    fn lookup(&self, key: &EntryKey, now: Timestamp) -> Result<Option<Change>, StoreError> {
        self.look(key, now)
    }

    fn is_complete(&self) -> bool {
        self.index().incomplete.is_empty()
    }

    fn state_get(&self, _: &str, _: &str) -> Result<Option<String>, StoreError> {
        Err(not_here())
    }

    fn state_page(
        &self,
        _: &str,
        _: i64,
        _: usize,
        _: usize,
    ) -> Result<Vec<StateEntry>, StoreError> {
        Err(not_here())
    }

    fn state_size(&self, _: &str) -> Result<(u64, u64), StoreError> {
        Err(not_here())
    }

    fn state_scopes(&self) -> Result<Vec<String>, StoreError> {
        Err(not_here())
    }
}

fn not_here() -> StoreError {
    StoreError::Unavailable {
        code: "not_supported".to_owned(),
        message: "the state belongs to the engine; call state::* on it".to_owned(),
    }
}
