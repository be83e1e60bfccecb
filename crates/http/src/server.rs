//! Serving connections, and stopping.
//!
//! `axum::serve` would do, but it bounds neither the time that a request's head takes nor its size, nor how
//! many connections there are.

use std::{io, panic::AssertUnwindSafe};

use axum::Router;
use futures_util::FutureExt as _;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::OwnedSemaphorePermit,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{App, Limits, entrance::Entrance, linger::Lingering};

/// The least that hyper can work with.
const LEAST_BUFFER: usize = 8 << 10;

/// Serves until `shutdown`, then finishes the requests that are under way.
///
/// # Errors
/// When the listener is broken from the start; later failures to accept are survived.
pub async fn serve(listener: TcpListener, app: App, shutdown: CancellationToken) -> io::Result<()> {
    let bound = listener.local_addr()?;
    tracing::debug!(address = %bound, "http listens");
    let limits = app.limits;
    let server = Server::new(app.router(bound), limits, shutdown.clone());
    let mut entrance = Entrance::new(listener, limits.connections);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            (stream, slot) = entrance.next() => server.spawn(stream, slot),
        }
    }
    drop(entrance);
    server.connections.close();
    server.connections.wait().await;
    Ok(())
}

/// What every connection is served with.
struct Server {
    http: http1::Builder,
    router: Router,
    limits: Limits,
    shutdown: CancellationToken,
    connections: TaskTracker,
}

impl Server {
    fn new(router: Router, limits: Limits, shutdown: CancellationToken) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(limits.head_within)
            .max_header_size(limits.head_bytes)
            .max_buf_size(limits.head_bytes.max(LEAST_BUFFER));
        Self { http, router, limits, shutdown, connections: TaskTracker::new() }
    }

    fn spawn(&self, stream: TcpStream, slot: OwnedSemaphorePermit) {
        // Without it a small answer can wait 40 ms for the acknowledgement of the one before it.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let Self { limits, shutdown, .. } = self;
        // Only the kernel knows that a client takes in nothing: here it looks like one that is slow.
        #[cfg(target_os = "linux")]
        if let Err(error) =
            socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(limits.unread_within))
        {
            tracing::debug!(%error, "TCP_USER_TIMEOUT could not be set");
        }
        let stream = Lingering::new(stream, limits.linger, shutdown.clone());
        let service = TowerToHyperService::new(self.router.clone());
        let connection = self.http.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let (drain, shutdown) = (limits.drain, shutdown.clone());
        let served = async move {
            tokio::pin!(connection);
            tokio::select! {
                served = connection.as_mut() => return served,
                () = shutdown.cancelled() => {}
            }
            connection.as_mut().graceful_shutdown();
            timeout(drain, connection).await.unwrap_or(Ok(()))
        };
        self.connections.spawn(async move {
            match AssertUnwindSafe(served).catch_unwind().await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "connection ended"),
                Err(_) => tracing::error!("an answer was not sent to its end: its body panicked"),
            }
            drop(slot);
        });
    }
}
