//! Command lists for sessions: when they open, and after every change.
//!
//! An update is the whole list, so changes are debounced, and a slow client skips the lists that are outdated when it
//! has read the one before.

use std::{collections::HashMap, sync::Arc, time::Duration};

use agent_client_protocol::{
    Client, Error,
    v1::{
        ConnectionTo,
        schema::{SessionNotification, SessionUpdate},
    },
};
use futures_util::StreamExt as _;
use skills_registry::{NOTIFY_DEBOUNCE, available::ExcludedSkill};
use tokio::time::Instant;

use crate::{agent::Shared, commands::CommandList, proposal, sessions::Session};

/// Shortest time between two lists after changes.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Advertises commands to all sessions until the connection is closed.
pub(crate) async fn run(
    shared: Arc<Shared>,
    connection: ConnectionTo<Client>,
) -> Result<(), Error> {
    // Subscribed before the first snapshot, so that no change is lost in between.
    let mut changes = shared.skills.changes().fuse();
    let mut warnings = OmissionWarnings::default();
    let mut next_at = Instant::now();
    loop {
        let changed = async {
            tokio::time::sleep_until(next_at).await;
            changes.next().await?;
            // Should the changes end meanwhile, the next wait for one ends.
            let _ = NOTIFY_DEBOUNCE.collect(&mut changes, drop).await;
            Some(())
        };
        tokio::select! {
            () = shared.opened.notified() => {}
            Some(()) = changed => next_at = Instant::now() + MIN_INTERVAL,
        }
        let snapshot = match shared.snapshot().await {
            Ok(snapshot) => snapshot,
            Err(error) => {
                // The registry reports a change when it is available again.
                tracing::warn!(%error, "registry unavailable; commands not advertised");
                continue;
            }
        };
        warnings.log(&snapshot.commands.left_out);
        for session in shared.sessions.all() {
            if session.update_advertised(&snapshot.commands) {
                advertise(&shared, &connection, &session, &snapshot.commands).await?;
            }
        }
    }
}

async fn advertise(
    shared: &Shared,
    connection: &ConnectionTo<Client>,
    session: &Session,
    commands: &CommandList,
) -> Result<(), Error> {
    let update = SessionUpdate::AvailableCommandsUpdate(commands.update());
    let update = SessionNotification::new(session.id.clone(), update);
    shared.send_queue.send(connection, update).await?;
    if shared.wants_skills() {
        let skills = proposal::notification(&session.id, &commands.skills)?;
        shared.send_queue.send(connection, skills).await?;
    }
    Ok(())
}

/// Reasons that were logged for omitted skills, by id.
#[derive(Debug, Default)]
struct OmissionWarnings(HashMap<String, String>);

impl OmissionWarnings {
    /// Logs each omitted skill once, and again only for another reason or after it was listed meanwhile.
    fn log(&mut self, left_out: &[ExcludedSkill]) {
        for ExcludedSkill { id, reason } in self.new_omissions(left_out) {
            tracing::warn!(skill = %id, %reason, "skill omitted from the lists of ACP clients");
        }
        self.0 = left_out.iter().map(|left| (left.id.clone(), left.reason.clone())).collect();
    }

    fn new_omissions<'a>(
        &self,
        left_out: &'a [ExcludedSkill],
    ) -> impl Iterator<Item = &'a ExcludedSkill> {
        left_out.iter().filter(|left| self.0.get(&left.id) != Some(&left.reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_logged_once() {
        let left =
            |id: &str, reason: &str| ExcludedSkill { id: id.to_owned(), reason: reason.to_owned() };
        let mut warnings = OmissionWarnings::default();
        let mut logged = |left_out: &[ExcludedSkill]| {
            let new = warnings.new_omissions(left_out).map(|left| left.id.clone());
            let ids = new.collect::<Vec<_>>().join(" ");
            warnings.log(left_out);
            ids
        };
        assert_eq!(logged(&[left("a", "x"), left("b", "x")]), "a b");
        assert_eq!(logged(&[left("a", "x"), left("b", "y")]), "b");
        assert_eq!(logged(&[left("b", "y")]), "");
        assert_eq!(logged(&[left("a", "x"), left("b", "y")]), "a");
    }
}
