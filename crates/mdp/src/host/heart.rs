//! Pings, and the end of those who are silent or never say who they are.

use std::{sync::Weak, time::Duration};

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{Host, Inner, Session, lock};
use crate::{Close, wire::outgoing};

/// How often it is looked. Times are kept to within this.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Beats for as long as there is a host, and ends every session with the shutdown.
pub(super) async fn beat(host: Weak<Inner>, shutdown: CancellationToken) {
    let mut tick = tokio::time::interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_over = tokio::select! {
            () = shutdown.cancelled() => true,
            _ = tick.tick() => false,
        };
        let Some(host) = host.upgrade().map(|inner| Host(inner, None)) else { return };
        if is_over {
            return host.end_all(&Close::new(1001, "the server is shutting down"));
        }
        host.look();
    }
}

impl Host {
    fn look(&self) {
        let sessions = lock(&self.0.table).sessions();
        for session in sessions {
            self.look_at(&session);
        }
    }

    fn look_at(&self, session: &Session) {
        let times = &self.0.config.times;
        if session.silence() >= times.silence {
            tracing::debug!(mode = session.mode.as_str(), "session ended: nothing was heard");
            self.end(session, Close::new(1001, "nothing was heard for too long"));
        } else if session.is_idle(times.register_within) {
            self.end(session, Close::new(1008, "no client was registered in time"));
        } else if session.ping_is_due(times.ping_every) {
            self.tell(session, outgoing::ping(self.now().as_micros() / 1000));
        }
    }
}
