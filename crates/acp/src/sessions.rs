//! Sessions: their turns come one after the other, and can be cancelled.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agent_client_protocol::v1::schema::SessionId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::menu::Menu;

/// More sessions than this are not kept for one client.
const MAX_SESSIONS: usize = 1_000;
/// More turns than this do not wait in one session.
const MAX_TURNS: usize = 16;

/// One conversation.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// Ends the turns that were asked for up to now.
    cancel: Mutex<CancellationToken>,
    turns: Arc<Semaphore>,
    /// Whose turn it is.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// What the client was last told is on offer.
    told: Mutex<Option<Arc<Menu>>>,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self {
            id: SessionId::new(format!("sess_{}", Uuid::new_v4().simple())),
            cancel: Mutex::default(),
            turns: Arc::new(Semaphore::new(MAX_TURNS)),
            turn: tokio::sync::Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// A place in the queue of turns, and what cancels it; `None` when too many wait.
    pub(crate) fn queue(&self) -> Option<(OwnedSemaphorePermit, CancellationToken)> {
        let place = Arc::clone(&self.turns).try_acquire_owned().ok()?;
        Some((place, lock(&self.cancel).clone()))
    }

    /// Cancels all turns that were asked for, not those that will be.
    pub(crate) fn cancel(&self) {
        std::mem::take(&mut *lock(&self.cancel)).cancel();
    }

    /// Takes note of what the client is told; `false` when it knows.
    pub(crate) fn is_news(&self, menu: &Arc<Menu>) -> bool {
        let mut told = lock(&self.told);
        let is_news = told.as_ref().is_none_or(|told| !Arc::ptr_eq(told, menu) && told != menu);
        *told = Some(Arc::clone(menu));
        is_news
    }
}

/// The sessions of one client.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<SessionId, Arc<Session>>>);

impl Sessions {
    /// Whether there are as many as are kept.
    pub(crate) fn are_full(&self) -> bool {
        lock(&self.0).len() >= MAX_SESSIONS
    }

    pub(crate) fn add(&self, session: Session) {
        lock(&self.0).insert(session.id.clone(), Arc::new(session));
    }

    pub(crate) fn get(&self, id: &SessionId) -> Option<Arc<Session>> {
        lock(&self.0).get(id).cloned()
    }

    /// Ends a session and its turns; `None` when there is none.
    pub(crate) fn close(&self, id: &SessionId) -> Option<()> {
        let session = lock(&self.0).remove(id)?;
        session.cancel();
        Some(())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        lock(&self.0).values().cloned().collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::AvailableCommand;

    use super::*;

    fn opened(sessions: &Sessions) -> Arc<Session> {
        let session = Session::new();
        let id = session.id.clone();
        sessions.add(session);
        sessions.get(&id).unwrap()
    }

    #[test]
    fn cancelling_ends_what_was_asked_for_and_no_more() {
        let sessions = Sessions::default();
        let session = opened(&sessions);
        let (_first, cancelled) = session.queue().unwrap();
        session.cancel();
        let (_second, later) = session.queue().unwrap();
        assert!(cancelled.is_cancelled() && !later.is_cancelled());
        sessions.close(&session.id).unwrap();
        assert!(later.is_cancelled());
        assert!(sessions.get(&session.id).is_none() && sessions.close(&session.id).is_none());
    }

    #[test]
    fn both_are_bounded() {
        let sessions = Sessions::default();
        let session = opened(&sessions);
        let places: Vec<_> = (0..MAX_TURNS).map(|_| session.queue().unwrap()).collect();
        assert!(session.queue().is_none());
        drop(places);
        assert!(session.queue().is_some());
        for _ in 1..MAX_SESSIONS {
            assert!(!sessions.are_full());
            sessions.add(Session::new());
        }
        assert!(sessions.are_full());
    }

    #[test]
    fn nobody_is_told_the_same_twice() {
        let session = Session::new();
        let menu = Arc::new(Menu::default());
        assert!(session.is_news(&menu));
        assert!(!session.is_news(&menu) && !session.is_news(&Arc::new(Menu::default())));
        let other = AvailableCommand::new("a", "d");
        let other = Arc::new(Menu { commands: vec![other], ..Menu::default() });
        assert!(session.is_news(&other) && session.is_news(&menu));
    }
}
