//! Uploads that wait for their confirmation, in bounded memory.

use std::{
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use bytes::Bytes;
use lru::LruCache;
use parking_lot::Mutex;
use skills_agent_skills::Bundle;
use skills_core::{Digest, MemoryBudget, Reservation, SkillId, Tier};
use skills_registry::RegistryError;

use crate::session::{SessionId, random_name};

/// Most drafts of all people; the oldest gives way.
const MAX_DRAFTS: NonZeroUsize = NonZeroUsize::new(64).unwrap();
/// Time in which a draft has to be confirmed.
const LIFETIME: Duration = Duration::from_secs(30 * 60);

/// Bundle that was uploaded and not registered yet.
pub(crate) struct Draft {
    pub(crate) id: SkillId,
    pub(crate) tier: Tier,
    bundle: Bundle<Bytes>,
    /// Digest of the version that the review showed; the draft replaces no other.
    pub(crate) replaces: Option<Digest>,
}

impl Draft {
    pub(crate) const fn new(
        id: SkillId,
        tier: Tier,
        bundle: Bundle<Bytes>,
        replaces: Option<Digest>,
    ) -> Self {
        Self { id, tier, bundle, replaces }
    }

    /// Returns the bundle.
    pub(crate) fn into_bundle(self) -> Bundle<Bytes> {
        self.bundle
    }
}

struct Waiting {
    draft: Draft,
    session: SessionId,
    at: Instant,
    _memory: Reservation,
}

/// Table of drafts.
pub(crate) struct Drafts {
    budget: MemoryBudget,
    table: Mutex<LruCache<String, Waiting>>,
}

impl Drafts {
    pub(crate) fn new(budget: MemoryBudget) -> Self {
        Self { budget, table: Mutex::new(LruCache::new(MAX_DRAFTS)) }
    }

    /// Stores a draft of a session, and returns its id.
    ///
    /// # Errors
    /// When there is no memory left.
    pub(crate) fn put(&self, session: &SessionId, draft: Draft) -> Result<String, RegistryError> {
        let bytes: u64 = draft.bundle.meta().files.iter().map(|file| file.size).sum();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut table = self.table.lock();
        while table.peek_lru().is_some_and(|(_, waiting)| waiting.at.elapsed() > LIFETIME) {
            table.pop_lru();
        }
        let memory = self.budget.try_reserve(bytes).map_err(|_| RegistryError::Overloaded)?;
        let id = random_name().map_err(|_| RegistryError::Overloaded)?;
        let (session, at) = (session.clone(), Instant::now());
        table.put(id.clone(), Waiting { draft, session, at, _memory: memory });
        Ok(id)
    }

    /// Takes a draft of a session.
    pub(crate) fn take(&self, session: &SessionId, id: &str) -> Option<Draft> {
        let mut table = self.table.lock();
        let is_usable = |it: &Waiting| it.session == *session && it.at.elapsed() <= LIFETIME;
        table.peek(id).filter(|it| is_usable(it))?;
        table.pop(id).map(|waiting| waiting.draft)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(text: &str) -> Draft {
        let bundle = Bundle::new(text.to_owned(), vec![]).unwrap();
        Draft::new("a".parse().unwrap(), Tier::Official, bundle, None)
    }

    #[test]
    fn a_draft_belongs_to_its_session_and_is_taken_once() {
        let drafts = Drafts::new(MemoryBudget::default());
        let (one, other) = (SessionId::random().unwrap(), SessionId::random().unwrap());
        let id = drafts.put(&one, draft("# A")).unwrap();
        assert!(drafts.take(&other, &id).is_none());
        assert!(drafts.take(&one, "unknown").is_none());
        assert!(drafts.take(&one, &id).is_some());
        assert!(drafts.take(&one, &id).is_none());
    }

    #[test]
    fn drafts_are_bounded_in_number_and_bytes() {
        let budget = MemoryBudget::new(1000);
        let drafts = Drafts::new(budget.clone());
        let session = SessionId::random().unwrap();
        assert!(drafts.put(&session, draft(&"x".repeat(600))).is_ok());
        assert!(drafts.put(&session, draft(&"x".repeat(600))).is_err());
        let drafts = Drafts::new(MemoryBudget::default());
        for _ in 0..100 {
            drafts.put(&session, draft("# A")).unwrap();
        }
        assert_eq!(drafts.table.lock().len(), MAX_DRAFTS.get());
    }
}
