//! Uploads that wait for their confirmation, in the memory of the person who sent them.

use std::time::Duration;

use bytes::Bytes;
use skills_agent_skills::Bundle;
use skills_core::{
    Digest, MemoryBudget, OwnedTable, Reservation, SkillId, TableLimits, Tier, WorkAccount,
};

use crate::{
    error::ConsoleError,
    session::{Person, SessionId, random_name},
};

/// Time in which a draft has to be confirmed.
const LIFETIME: Duration = Duration::from_secs(30 * 60);
/// Limits of the drafts. One more of a person replaces their oldest; a draft that is read is gone.
const DRAFTS: TableLimits =
    TableLimits { per_owner: 16, total: 512, idle: LIFETIME, lifetime: LIFETIME };
/// Memory of a file besides its bytes and its path.
const FILE_OVERHEAD: usize = 512;

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

    /// Returns the memory that the draft takes.
    fn memory(&self) -> usize {
        let file = |path: &str, bytes: usize| 2 * path.len() + bytes + FILE_OVERHEAD;
        let root = file("", self.bundle.root().len());
        let files = self.bundle.files().map(|(meta, bytes)| file(&meta.path, bytes.len()));
        files.fold(root, usize::saturating_add)
    }
}

struct Waiting {
    draft: Draft,
    session: SessionId,
    memory: Reservation,
}

/// Table of drafts. A draft counts for its person and is confirmed in the session that made it.
pub(crate) struct Drafts(OwnedTable<String, Waiting, Person>);

impl Drafts {
    pub(crate) fn new() -> Self {
        Self(OwnedTable::new(DRAFTS))
    }

    /// Stores a draft of a session of a person, and returns its id. Older drafts of the person make room for it.
    ///
    /// # Errors
    /// When the person's memory cannot hold it.
    pub(crate) fn put(
        &self,
        person: Person,
        session: &SessionId,
        draft: Draft,
    ) -> Result<String, ConsoleError> {
        self.put_into(WorkAccount::current().held_memory(), person, session, draft)
    }

    fn put_into(
        &self,
        memory: &MemoryBudget,
        person: Person,
        session: &SessionId,
        draft: Draft,
    ) -> Result<String, ConsoleError> {
        let id = random_name().map_err(|_| ConsoleError::Internal)?;
        let memory = self.0.reserve(&person, memory, draft.memory())?;
        let waiting = Waiting { draft, session: session.clone(), memory };
        self.0.insert(person, id.clone(), waiting)?;
        Ok(id)
    }

    /// Takes a draft of a session, with its memory.
    pub(crate) fn take(&self, session: &SessionId, id: &str) -> Option<(Draft, Reservation)> {
        let waiting = self.0.remove_if(id, |_, waiting| waiting.session == *session)?;
        Some((waiting.draft, waiting.memory))
    }
}

#[cfg(test)]
mod tests {
    use skills_core::WorkAccounts;

    use super::*;

    const MIB: usize = 1 << 20;

    fn draft(bytes: usize) -> Draft {
        let files = vec![("a.bin".parse().unwrap(), Bytes::from(vec![b'x'; bytes]))];
        let bundle = Bundle::new("# A".to_owned(), files).unwrap();
        Draft::new("a".parse().unwrap(), Tier::Official, bundle, None)
    }

    fn user(name: &str) -> Person {
        Person::User(name.parse().unwrap())
    }

    #[test]
    fn the_documentation_has_the_limits() {
        let TableLimits { per_owner, total, .. } = DRAFTS;
        let accounts = WorkAccounts::new(MemoryBudget::default());
        let memory = accounts.open().held_memory().capacity() / MIB;
        let row =
            format!("| drafts | {per_owner} of a person, {total} in all; {memory} MiB of memory |");
        assert!(crate::DOCUMENTATION.contains(&row), "{row}");
    }

    #[test]
    fn a_draft_belongs_to_its_session_and_is_taken_once() {
        let drafts = Drafts::new();
        let (one, other) = (SessionId::random().unwrap(), SessionId::random().unwrap());
        let id = drafts.put(user("ann"), &one, draft(1)).unwrap();
        assert!(drafts.take(&other, &id).is_none());
        assert!(drafts.take(&one, "unknown").is_none());
        assert!(drafts.take(&one, &id).is_some());
        assert!(drafts.take(&one, &id).is_none());
    }

    #[test]
    fn one_more_draft_replaces_the_oldest_of_the_same_person() {
        let drafts = Drafts::new();
        let session = SessionId::random().unwrap();
        let first_of_bob = drafts.put(user("bob"), &session, draft(1)).unwrap();
        let first = drafts.put(user("ann"), &session, draft(1)).unwrap();
        for _ in 0..100 {
            drafts.put(user("ann"), &session, draft(1)).unwrap();
        }
        assert!(drafts.take(&session, &first).is_none());
        assert!(drafts.take(&session, &first_of_bob).is_some());
        assert_eq!(drafts.0.len(), DRAFTS.per_owner);
    }

    #[test]
    fn drafts_of_one_person_leave_memory_to_the_drafts_and_requests_of_others() {
        let accounts = WorkAccounts::new(MemoryBudget::default());
        let (ann, bob) = (accounts.open(), accounts.open());
        let (drafts, session) = (Drafts::new(), SessionId::random().unwrap());
        let put = |account: &WorkAccount, name: &str, bytes| {
            drafts.put_into(account.held_memory(), user(name), &session, draft(bytes))
        };
        for bytes in [12 * MIB, 12 * MIB, 12 * MIB, 6 * MIB, 3 * MIB, MIB, MIB, MIB / 2] {
            put(&ann, "ann", bytes).unwrap();
        }
        let held = accounts.memory().reserved();
        assert!(held <= 48 * MIB, "{held}");
        // The largest bundle, and a request as large as one client may send.
        put(&bob, "bob", 32 * MIB - 3).unwrap();
        assert!(bob.memory().try_reserve(71 * MIB).is_ok());
        assert!(ann.memory().try_reserve(71 * MIB).is_ok(), "also a request of the same person");
        put(&ann, "ann", 32 * MIB - 3).unwrap();
    }
}
