//! The server: accepts connections, serves the app, and shuts down gracefully.

use std::io;

use skills_net::{ConnectionLimits, HeadLimits, HttpServer, Listener, Overflow};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    App, HttpLimits,
    client_shares::{ClientShares, address_share},
    linger::LingeringStream,
    min_rate::MinRate,
};

/// Serves until `shutdown`, then finishes the requests in progress.
///
/// # Errors
/// When the listener has no local address. Later errors of `accept` are retried.
pub async fn serve(listener: TcpListener, app: App, shutdown: CancellationToken) -> io::Result<()> {
    let bound = listener.local_addr()?;
    tracing::debug!(address = %bound, "HTTP server listening");
    let limits = app.limits;
    let shares = ClientShares::new(&app.budget);
    let router = app.router(bound, &shares);
    let head = HeadLimits { bytes: limits.head_bytes, timeout: limits.head_timeout };
    let server = HttpServer::new(router, head, limits.drain, shutdown.clone());
    let share = address_share(limits.connections);
    let connection_limits = ConnectionLimits {
        total: limits.connections,
        per_address: share,
        // Several users may share this machine.
        per_loopback_address: share,
        handshakes: None,
    };
    let listener = Listener::new(listener, "http", connection_limits, Overflow::Wait);
    let connections = TaskTracker::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            (stream, connection) = listener.accept() => {
                let stream = prepare(stream, &limits, &shutdown);
                connections.spawn(server.serve(stream, connection));
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
    Ok(())
}

/// Applies the limits for clients that read slowly or not at all.
fn prepare(
    stream: TcpStream,
    limits: &HttpLimits,
    shutdown: &CancellationToken,
) -> LingeringStream {
    // Only the kernel can tell a client that reads nothing from one that is slow.
    #[cfg(target_os = "linux")]
    if let Err(error) =
        socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(limits.unread_timeout))
    {
        tracing::debug!(%error, "cannot set TCP_USER_TIMEOUT");
    }
    let rate = MinRate::new(limits.unread_timeout, limits.unread_rate);
    LingeringStream::new(stream, rate, limits.linger, shutdown.clone())
}
