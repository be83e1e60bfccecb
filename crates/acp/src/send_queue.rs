//! Flow control of outgoing updates.
//!
//! The SDK's queue is unbounded. A sender waits here until its update is written, so that the queue stays short, and a
//! cancelled turn stops before all of it was sent.

use agent_client_protocol::{Client, Error, JsonRpcNotification, v1::ConnectionTo};
use parking_lot::Mutex;
use tokio::sync::watch;

/// Counters of the updates of a connection.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    sent: Mutex<u64>,
    written: watch::Sender<u64>,
}

impl SendQueue {
    /// Sends an update and waits until it is written.
    pub(crate) async fn send(
        &self,
        connection: &ConnectionTo<Client>,
        update: impl JsonRpcNotification,
    ) -> Result<(), Error> {
        let update = update.to_untyped_message()?;
        let number = {
            // Locked while sending, so that numbers are in the order of the queue.
            let mut sent = self.sent.lock();
            connection.send_notification(update)?;
            *sent += 1;
            *sent
        };
        let written =
            self.written.subscribe().wait_for(|written| *written >= number).await.map(drop);
        written.map_err(|_| Error::internal_error())
    }

    /// Counts an update that the transport has written.
    pub(crate) fn confirm_written(&self) {
        self.written.send_modify(|written| *written += 1);
    }
}
