//! Keepalive: pings sessions, and ends those that are silent or never register a client.

use std::{sync::Weak, time::Duration};

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{Inner, MdpHost, Session};
use crate::{CloseReason, wire::outgoing};

/// Interval of the checks, and so the precision of all timeouts.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Checks all sessions for as long as the host exists, and ends every session at shutdown.
pub(super) async fn run(host: Weak<Inner>, shutdown: CancellationToken) {
    let mut tick = tokio::time::interval(CHECK_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_shutdown = tokio::select! {
            () = shutdown.cancelled() => true,
            _ = tick.tick() => false,
        };
        let Some(host) = host.upgrade().map(|inner| MdpHost(inner, None)) else { return };
        let sessions = host.0.sessions.lock().all();
        for session in sessions {
            if is_shutdown {
                host.end_session(&session, CloseReason::shutdown());
            } else {
                host.check_session(&session);
            }
        }
        if is_shutdown {
            return;
        }
    }
}

impl MdpHost {
    fn check_session(&self, session: &Session) {
        let times = &self.0.config.times;
        if session.idle_time() >= times.silence {
            tracing::debug!(mode = session.mode.as_str(), "session ended: silent for too long");
            self.end_session(session, CloseReason::new(1001, "no message for too long"));
        } else if session.is_registration_overdue(times.register_within) {
            self.end_session(session, CloseReason::new(1008, "no client registered in time"));
        } else if session.take_ping_due(times.ping_every) {
            self.send(session, outgoing::ping(self.now().as_micros() / 1000));
        }
    }
}
