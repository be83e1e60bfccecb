//! Where connections come in, as long as there is room for them.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::sleep,
};

/// How long to wait when no connection can be accepted; there may be room again in a moment.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Between two warnings of the same thing.
const COMPLAIN_AGAIN: Duration = Duration::from_secs(60);

/// A listener with a number of slots.
pub(crate) struct Entrance {
    listener: TcpListener,
    slots: Arc<Semaphore>,
    full: Complaint,
    failing: Complaint,
}

impl Entrance {
    pub(crate) fn new(listener: TcpListener, connections: usize) -> Self {
        let slots = Arc::new(Semaphore::new(connections));
        Self { listener, slots, full: Complaint::default(), failing: Complaint::default() }
    }

    /// The next connection, and its slot. More than there are slots wait in the system's backlog.
    pub(crate) async fn next(&mut self) -> (TcpStream, OwnedSemaphorePermit) {
        loop {
            let slot = self.slot().await;
            match self.listener.accept().await {
                Ok((stream, _)) => return (stream, slot),
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    if self.failing.is_due() {
                        tracing::warn!("cannot accept connections: {error}; trying on");
                    }
                    sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }

    async fn slot(&mut self) -> OwnedSemaphorePermit {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return slot;
        }
        if self.full.is_due() {
            tracing::warn!("too many HTTP connections are open; others wait until one closes");
        }
        match Arc::clone(&self.slots).acquire_owned().await {
            Ok(slot) => slot,
            // Only slots that were closed give an error, and nobody closes these.
            Err(_) => std::future::pending().await,
        }
    }
}

fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Something to be said, but not over and over again.
#[derive(Default)]
struct Complaint(Option<Instant>);

impl Complaint {
    fn is_due(&mut self) -> bool {
        let due = self.0.is_none_or(|said| said.elapsed() >= COMPLAIN_AGAIN);
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}
