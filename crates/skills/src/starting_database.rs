//! Start of a server whose database cannot be reached: it waits, and its ports say so. Health is served, everything else on
//! HTTP and on the bus is refused.

use std::{cell::Cell, os::fd::AsFd as _, sync::Arc};

use skills_bus::{Hub, HubConfig};
use skills_http::{App, Guard, Readiness};
use skills_store::Store;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{Failure, database::Database};

/// Database of a server that starts, with what its ports need while it cannot be reached.
pub(crate) struct StartingDatabase<'a> {
    database: &'a Database,
    http: Option<&'a TcpListener>,
    bus: Option<&'a TcpListener>,
    /// Access rules of health.
    guard: Guard,
    token: Option<String>,
    /// Set when the user was told that the server waits.
    has_notified: Cell<bool>,
}

impl<'a> StartingDatabase<'a> {
    /// Creates it with the ports that are open already, the access rules of health, and the token of workers.
    pub(crate) const fn new(
        database: &'a Database,
        http: Option<&'a TcpListener>,
        bus: Option<&'a TcpListener>,
        guard: Guard,
        token: Option<String>,
    ) -> Self {
        Self { database, http, bus, guard, token, has_notified: Cell::new(false) }
    }

    /// Opens the store when it can be reached. Meanwhile health is served, and everything else is refused.
    ///
    /// # Errors
    /// Those of [`Database::open_when_reachable`].
    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        let mut starting = None;
        let opened = self.database.open_when_reachable(|reason| starting = self.wait(reason)).await;
        Self::end_wait(starting).await;
        opened
    }

    /// Opens the store again, as [`Database::reopen`] does.
    ///
    /// # Errors
    /// Those of [`Database::reopen`].
    pub(crate) async fn reopen(&self, failure: Failure) -> Result<Arc<dyn Store>, Failure> {
        let mut starting = None;
        let opened = self.database.reopen(failure, |reason| starting = self.wait(reason)).await;
        Self::end_wait(starting).await;
        opened
    }

    fn wait(&self, reason: &str) -> Option<StartingPorts> {
        let ports = StartingPorts::serve(self);
        let ports = ports.inspect_err(|error| tracing::warn!(%error, "health is not served")).ok();
        let address = ports.as_ref().and_then(|_| self.http?.local_addr().ok());
        let health = address.map(|at| format!("; health: http://{at}/readyz"));
        if !self.has_notified.replace(true) {
            self.database.notify_waiting(reason, &health.unwrap_or_default());
        }
        ports
    }

    async fn end_wait(ports: Option<StartingPorts>) {
        if let Some(ports) = ports {
            ports.stop().await;
        }
    }
}

/// Ports of a server that waits for its database.
struct StartingPorts {
    stop: CancellationToken,
    servers: JoinSet<std::io::Result<()>>,
}

impl StartingPorts {
    fn serve(start: &StartingDatabase<'_>) -> std::io::Result<Self> {
        let (http, bus) = (start.http.map(copy).transpose()?, start.bus.map(copy).transpose()?);
        let (stop, mut servers) = (CancellationToken::new(), JoinSet::new());
        if let Some(http) = http {
            let readiness = Readiness::default();
            readiness.set_waiting("the database cannot be reached");
            let app = App::new(axum::Router::new(), start.guard.clone(), readiness);
            servers.spawn(skills_http::serve(http, app, stop.clone()));
        }
        if let Some(bus) = bus {
            let hub = Hub::new(HubConfig {
                token: start.token.clone(),
                unavailable: Some("the server is starting and waits for its database"),
                ..HubConfig::default()
            });
            let stop_hub = stop.clone();
            servers.spawn(async move { hub.serve(bus, stop_hub).await });
        }
        Ok(Self { stop, servers })
    }

    /// Frees the ports.
    async fn stop(self) {
        self.stop.cancel();
        self.servers.join_all().await;
    }
}

/// Returns another handle of a listener, which accepts instead of it for a while.
fn copy(listener: &TcpListener) -> std::io::Result<TcpListener> {
    TcpListener::from_std(listener.as_fd().try_clone_to_owned()?.into())
}
