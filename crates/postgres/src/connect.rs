//! Opening of connections on the pool's runtime.

use std::{future::poll_fn, time::Duration};

use tokio::{runtime::Handle, task::AbortHandle, time::timeout};
use tokio_postgres::{AsyncMessage, Client};

use crate::{DatabaseUrl, PgError, PoolConfig, tls::MakeTls};

/// Time that TLS, authentication and the first statement may take beside connecting.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time without acknowledgement after which either side gives a connection up.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings of the planner. Rows are looked up by keys. A plan that was cached while a table was small must not read the
/// whole table when it has grown, so plans without an index are chosen only where there is no other. They have a cost that
/// would make the database compile them.
const PLANNER: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; \
     SET enable_mergejoin = off; SET jit = off";

/// Opener of connections to one database.
#[derive(Clone)]
pub(crate) struct Connector {
    url: DatabaseUrl,
    tls: MakeTls,
    set_up: String,
}

/// Open connection. Its socket is served by a task of the pool's runtime.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) task: AbortHandle,
}

impl Connector {
    pub(crate) fn new(url: &DatabaseUrl, config: &PoolConfig) -> Result<Self, PgError> {
        let mut url = url.clone();
        if url.config.get_tcp_user_timeout().is_none() {
            url.config.tcp_user_timeout(TCP_USER_TIMEOUT);
        }
        url.config.keepalives_idle(Duration::from_secs(15));
        url.config.keepalives_interval(Duration::from_secs(3));
        url.config.keepalives_retries(3);
        let set_up = format!(
            "SET search_path TO \"{}\"; SET client_min_messages = warning; \
             SET statement_timeout = {}; SET lock_timeout = {}; \
             SET idle_in_transaction_session_timeout = {}; SET tcp_user_timeout = {}; {PLANNER}",
            url.schema(),
            config.statement_timeout.as_millis(),
            config.lock_timeout.as_millis(),
            config.idle_timeout.as_millis(),
            TCP_USER_TIMEOUT.as_millis(),
        );
        Ok(Self { tls: MakeTls::new(&url.tls)?, url, set_up })
    }

    /// Returns the time limit of [`connect`](Self::connect).
    pub(crate) fn time_limit(&self) -> Duration {
        let hosts = self.url.config.get_hosts().len().max(1);
        let connect = self.url.config.get_connect_timeout().copied().unwrap_or_default();
        (connect + HANDSHAKE_TIMEOUT) * u32::try_from(hosts).unwrap_or(1)
    }

    /// Connects and prepares the session. `on_message` gets notifications.
    pub(crate) async fn connect(
        &self,
        runtime: &Handle,
        on_message: impl Fn(AsyncMessage) + Send + 'static,
    ) -> Result<Connected, PgError> {
        let limit = self.time_limit();
        let late = || PgError::Unavailable(format!("no connection within {} s", limit.as_secs()));
        timeout(limit, self.connect_unlimited(runtime, on_message)).await.map_err(|_| late())?
    }

    async fn connect_unlimited(
        &self,
        runtime: &Handle,
        on_message: impl Fn(AsyncMessage) + Send + 'static,
    ) -> Result<Connected, PgError> {
        let connecting = self.url.config.connect(self.tls.clone());
        let (client, mut connection) =
            connecting.await.map_err(|error| PgError::from_connect(&error))?;
        let serve = async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                on_message(message);
            }
        };
        let task = runtime.spawn(serve).abort_handle();
        match client.batch_execute(&self.set_up).await {
            Ok(()) => Ok(Connected { client, task }),
            Err(error) => {
                task.abort();
                Err(PgError::from_connect(&error))
            }
        }
    }
}
