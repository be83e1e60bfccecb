//! Telling sessions what is on offer: when they open, and after every change.
//!
//! An update is the whole list, so changes are told together, and a client that is slow is told only what is
//! true when it has taken in what came before.

use std::{collections::HashMap, sync::Arc, time::Duration};

use agent_client_protocol::{
    Client, Error,
    v1::{
        ConnectionTo,
        schema::{SessionNotification, SessionUpdate},
    },
};
use futures_util::StreamExt as _;
use skills_registry::available::LeftOut;
use tokio::time::Instant;

use crate::{agent::Shared, gather::gather, menu::Menu, proposal, sessions::Session};

/// While much is written, lists are not sent more often than this.
const PAUSE: Duration = Duration::from_millis(100);

/// Tells all sessions until the connection is gone.
pub(crate) async fn tell(
    shared: Arc<Shared>,
    connection: ConnectionTo<Client>,
) -> Result<(), Error> {
    // Before the first look, so that nothing happens in between.
    let mut changes = shared.skills.changes().fuse();
    let mut warned = Warned::default();
    let mut rested = Instant::now();
    loop {
        let changed = async {
            tokio::time::sleep_until(rested).await;
            gather(&mut changes, drop).await
        };
        tokio::select! {
            () = shared.opened.notified() => {}
            Some(()) = changed => rested = Instant::now() + PAUSE,
        }
        let kept = match shared.look().await {
            Ok(kept) => kept,
            Err(error) => {
                // Another look follows when the registry is within reach again: that is news.
                tracing::warn!(%error, "the registry cannot be read");
                continue;
            }
        };
        warned.tell(&kept.menu.left_out);
        for session in shared.sessions.all() {
            if session.is_news(&kept.menu) {
                advertise(&shared, &connection, &session, &kept.menu).await?;
            }
        }
    }
}

async fn advertise(
    shared: &Shared,
    connection: &ConnectionTo<Client>,
    session: &Session,
    menu: &Menu,
) -> Result<(), Error> {
    let update = SessionUpdate::AvailableCommandsUpdate(menu.update());
    let commands = SessionNotification::new(session.id.clone(), update);
    shared.pace.send(connection, commands).await?;
    if shared.wants_skills() {
        let skills = proposal::notification(&session.id, &menu.skills)?;
        shared.pace.send(connection, skills).await?;
    }
    Ok(())
}

/// Which skills have been warned of, and why.
#[derive(Debug, Default)]
struct Warned(HashMap<String, String>);

impl Warned {
    /// Warns of each skill once, and again only when it is left out for another reason or came back.
    fn tell(&mut self, left_out: &[LeftOut]) {
        for LeftOut { id, reason } in self.news(left_out) {
            tracing::warn!(skill = %id, %reason, "left out of the lists for ACP clients");
        }
        self.0 = left_out.iter().map(|left| (left.id.clone(), left.reason.clone())).collect();
    }

    fn news<'a>(&self, left_out: &'a [LeftOut]) -> impl Iterator<Item = &'a LeftOut> {
        left_out.iter().filter(|left| self.0.get(&left.id) != Some(&left.reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_told_once() {
        let left =
            |id: &str, reason: &str| LeftOut { id: id.to_owned(), reason: reason.to_owned() };
        let mut warned = Warned::default();
        let told = |warned: &mut Warned, left_out: &[LeftOut]| {
            let news: Vec<String> = warned.news(left_out).map(|left| left.id.clone()).collect();
            warned.tell(left_out);
            news.join(" ")
        };
        assert_eq!(told(&mut warned, &[left("a", "x"), left("b", "x")]), "a b");
        assert_eq!(told(&mut warned, &[left("a", "x"), left("b", "y")]), "b");
        assert_eq!(told(&mut warned, &[left("b", "y")]), "");
        assert_eq!(told(&mut warned, &[left("a", "x"), left("b", "y")]), "a");
    }
}
