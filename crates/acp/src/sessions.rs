//! Sessions: their turns run one after the other, and can be cancelled.

use std::{collections::HashMap, sync::Arc};

use agent_client_protocol::v1::schema::SessionId;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::commands::CommandList;

/// Most sessions of one client.
const MAX_SESSIONS: usize = 1_000;
/// Most queued turns of one session.
const MAX_TURNS: usize = 16;

/// One conversation.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// Cancels the turns that were queued so far.
    cancel: Mutex<CancellationToken>,
    turns: Arc<Semaphore>,
    /// Held by the running turn.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// The list that was last sent to the client.
    advertised: Mutex<Option<Arc<CommandList>>>,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self {
            id: SessionId::new(format!("sess_{}", Uuid::new_v4().simple())),
            cancel: Mutex::default(),
            turns: Arc::new(Semaphore::new(MAX_TURNS)),
            turn: tokio::sync::Mutex::default(),
            advertised: Mutex::default(),
        }
    }

    /// Queues a turn, and returns its permit and its cancellation; `None` when too many are queued.
    pub(crate) fn queue_turn(&self) -> Option<(OwnedSemaphorePermit, CancellationToken)> {
        let permit = Arc::clone(&self.turns).try_acquire_owned().ok()?;
        Some((permit, self.cancel.lock().clone()))
    }

    /// Cancels all queued turns, but none that are queued later.
    pub(crate) fn cancel(&self) {
        std::mem::take(&mut *self.cancel.lock()).cancel();
    }

    /// Remembers a list as sent to the client, and returns whether it differs from the one before.
    pub(crate) fn update_advertised(&self, commands: &Arc<CommandList>) -> bool {
        let before = self.advertised.lock().replace(Arc::clone(commands));
        before.is_none_or(|before| !Arc::ptr_eq(&before, commands) && before != *commands)
    }
}

/// Sessions of one client.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<SessionId, Arc<Session>>>);

impl Sessions {
    pub(crate) fn is_full(&self) -> bool {
        self.0.lock().len() >= MAX_SESSIONS
    }

    pub(crate) fn add(&self, session: Session) {
        self.0.lock().insert(session.id.clone(), Arc::new(session));
    }

    pub(crate) fn get(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.0.lock().get(id).cloned()
    }

    /// Closes a session and cancels its turns; `None` for an unknown id.
    pub(crate) fn close(&self, id: &SessionId) -> Option<()> {
        let session = self.0.lock().remove(id)?;
        session.cancel();
        Some(())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.0.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::AvailableCommand;

    use super::*;

    fn open(sessions: &Sessions) -> Arc<Session> {
        let session = Session::new();
        let id = session.id.clone();
        sessions.add(session);
        sessions.get(&id).unwrap()
    }

    #[test]
    fn cancelling_ends_queued_turns_and_no_later_ones() {
        let sessions = Sessions::default();
        let session = open(&sessions);
        let (_first, cancelled) = session.queue_turn().unwrap();
        session.cancel();
        let (_second, later) = session.queue_turn().unwrap();
        assert!(cancelled.is_cancelled() && !later.is_cancelled());
        sessions.close(&session.id).unwrap();
        assert!(later.is_cancelled());
        assert!(sessions.get(&session.id).is_none() && sessions.close(&session.id).is_none());
    }

    #[test]
    fn sessions_and_turns_are_bounded() {
        let sessions = Sessions::default();
        let session = open(&sessions);
        let permits: Vec<_> = (0..MAX_TURNS).map(|_| session.queue_turn().unwrap()).collect();
        assert!(session.queue_turn().is_none());
        drop(permits);
        assert!(session.queue_turn().is_some());
        for _ in 1..MAX_SESSIONS {
            assert!(!sessions.is_full());
            sessions.add(Session::new());
        }
        assert!(sessions.is_full());
    }

    #[test]
    fn equal_lists_are_advertised_once() {
        let session = Session::new();
        let list = Arc::new(CommandList::default());
        assert!(session.update_advertised(&list));
        assert!(!session.update_advertised(&list));
        assert!(!session.update_advertised(&Arc::new(CommandList::default())));
        let other = AvailableCommand::new("a", "d");
        let other = Arc::new(CommandList { commands: vec![other], ..CommandList::default() });
        assert!(session.update_advertised(&other) && session.update_advertised(&list));
    }
}
