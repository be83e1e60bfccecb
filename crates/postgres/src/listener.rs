//! Notifications of a channel, across reconnects.

use std::{sync::Arc, time::Duration};

use tokio::{runtime::Handle, sync::oneshot, task::AbortHandle, time::sleep};
use tokio_postgres::AsyncMessage;

use crate::{backends::OwnBackends, connect::Connector};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Message of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// The listener is connected. Notifications before may have been missed.
    Connected,
    /// Payload that a session outside the pool sent.
    Payload(String),
}

/// Subscription to a channel; dropping it ends it.
#[derive(Debug)]
pub struct PgListener(AbortHandle);

impl Drop for PgListener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Ends a connection with the task that waits for it.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl PgListener {
    pub(crate) fn start(
        runtime: &Handle,
        connector: Connector,
        own: OwnBackends,
        channel: &str,
        notify: impl Fn(Notification) + Send + Sync + 'static,
    ) -> Self {
        let sql = format!("LISTEN \"{}\"", channel.replace('"', "\"\""));
        let task = follow(runtime.clone(), connector, own, sql, Arc::new(notify));
        Self(runtime.spawn(task).abort_handle())
    }
}

async fn follow(
    runtime: Handle,
    connector: Connector,
    own: OwnBackends,
    sql: String,
    notify: Arc<dyn Fn(Notification) + Send + Sync>,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let (alive, ended) = oneshot::channel::<()>();
        let (messages, own) = (Arc::clone(&notify), own.clone());
        let on_message = move |message| {
            // Dropped with this closure, when the connection ends.
            let _ = &alive;
            if let AsyncMessage::Notification(notification) = message
                && !own.contains(notification.process_id())
            {
                messages(Notification::Payload(notification.payload().to_owned()));
            }
        };
        match connector.connect(&runtime, on_message).await {
            Ok(connected) => {
                let _connection = AbortOnDrop(connected.task);
                match connected.client.batch_execute(&sql).await {
                    Ok(()) => {
                        pause = FIRST_PAUSE;
                        notify(Notification::Connected);
                        let _ = ended.await;
                    }
                    Err(error) => tracing::debug!(%error, "LISTEN failed"),
                }
            }
            Err(error) => tracing::debug!(%error, "listener not connected"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
