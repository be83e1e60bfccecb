//! Sending no faster than the client reads.
//!
//! The SDK's queue has no bound. Who sends through this waits until what was sent is written, so that little
//! is in the queue, and a turn that is cancelled has not been sent to its end already.

use std::sync::{Mutex, PoisonError};

use agent_client_protocol::{Client, Error, JsonRpcNotification, v1::ConnectionTo};
use tokio::sync::watch;

/// Counts the updates of a connection.
#[derive(Debug)]
pub(crate) struct Pace {
    sent: Mutex<u64>,
    written: watch::Sender<u64>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { sent: Mutex::default(), written: watch::Sender::new(0) }
    }
}

impl Pace {
    /// Sends an update and waits until it is written.
    pub(crate) async fn send(
        &self,
        connection: &ConnectionTo<Client>,
        update: impl JsonRpcNotification,
    ) -> Result<(), Error> {
        let update = update.to_untyped_message()?;
        let number = {
            // Held while sending, so that the order of numbers is that of the queue.
            let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
            connection.send_notification(update)?;
            *sent += 1;
            *sent
        };
        let written =
            self.written.subscribe().wait_for(|written| *written >= number).await.map(drop);
        written.map_err(|_| Error::internal_error())
    }

    /// The transport has written an update.
    pub(crate) fn wrote(&self) {
        self.written.send_modify(|written| *written += 1);
    }
}
