//! HTTP/1 on single connections.
//!
//! `axum::serve` bounds neither the size of a request's head nor the time it takes to arrive.

use std::{
    panic::AssertUnwindSafe,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, body::Body};
use bytes::Bytes;
use futures_util::FutureExt as _;
use hyper::{
    Request,
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    AcceptedConnection,
    connection_limiter::{BodyPhase, RequestPhase},
};

/// Smallest buffer that hyper accepts.
const MIN_BUFFER_BYTES: usize = 8 << 10;

/// Limits for the head of a request.
#[derive(Debug, Clone, Copy)]
pub struct HeadLimits {
    /// Maximum bytes.
    pub bytes: usize,
    /// Deadline for its arrival; also the maximum time for which a connection may be idle.
    pub timeout: Duration,
}

/// HTTP/1 server for accepted connections. Responses may upgrade the connection.
#[derive(Debug, Clone)]
pub struct HttpServer {
    http: http1::Builder,
    router: Router,
    drain: Duration,
    closing: CancellationToken,
}

impl HttpServer {
    /// Creates a server for a router. After `closing`, requests in progress have `drain` to finish.
    #[must_use]
    pub fn new(
        router: Router,
        head: HeadLimits,
        drain: Duration,
        closing: CancellationToken,
    ) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(head.timeout)
            .max_header_size(head.bytes)
            .max_buf_size(head.bytes.max(MIN_BUFFER_BYTES));
        Self { http, router, drain, closing }
    }

    /// Serves one connection until it ends, is upgraded, is evicted from the connection limit, or the server closes.
    /// Every request has its [`ConnectionAddresses`](crate::ConnectionAddresses) as an extension.
    ///
    /// Requests do not hold the slot, which a handler may outlive; a [`Handshake`](crate::websocket::Handshake) takes it.
    pub fn serve<S>(
        &self,
        stream: S,
        connection: AcceptedConnection,
    ) -> impl Future<Output = ()> + Send + 'static
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { http, router, drain, closing } = self;
        // A token of its own: all connections would wait for the lock of a shared one, each time they are polled.
        let (drain, closing) = (*drain, closing.child_token());
        let AcceptedConnection { addresses, slot } = connection;
        let weak_slot = slot.downgrade();
        let router = TowerToHyperService::new(router.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let has_body = !request.body().is_end_stream();
            let slot = weak_slot.upgrade();
            let phase = slot.and_then(|slot| slot.begin_request(has_body));
            let responding = phase.map(|phase| {
                let body = |body| if has_body { received(body, &phase) } else { Body::empty() };
                let mut request = request.map(body);
                request.extensions_mut().insert(addresses);
                request.extensions_mut().insert(weak_slot.clone());
                (router.call(request), phase)
            });
            async move {
                let (responding, phase) = responding.ok_or(Evicted)?;
                let response = match responding.await {
                    Ok(response) => response,
                    Err(never) => match never {},
                };
                Ok::<_, Evicted>(response.map(|body| SentBody { body, _phase: phase }))
            }
        });
        let serving = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let serving = async move {
            tokio::pin!(serving);
            tokio::select! {
                served = serving.as_mut() => return served,
                () = slot.evicted() => return Ok(()),
                () = closing.cancelled() => {}
            }
            serving.as_mut().graceful_shutdown();
            timeout(drain, serving).await.unwrap_or(Ok(()))
        };
        AssertUnwindSafe(serving).catch_unwind().map(|served| match served {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "connection ended"),
            Err(_) => tracing::error!("response incomplete: its body panicked"),
        })
    }
}

/// The connection made room for another one before its request arrived.
#[derive(Debug, thiserror::Error)]
#[error("the connection is evicted")]
struct Evicted;

/// Body of a request; the connection may be evicted until it has arrived.
struct ReceivedBody {
    body: Incoming,
    phase: Option<BodyPhase>,
}

fn received(body: Incoming, phase: &RequestPhase) -> Body {
    Body::new(ReceivedBody { body, phase: Some(phase.body()) })
}

impl HttpBody for ReceivedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.phase = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Body of a response; the request is in progress until it is sent.
struct SentBody {
    body: Body,
    _phase: RequestPhase,
}

impl HttpBody for SentBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::{extract, routing::get};
    use parking_lot::Mutex;
    use tokio::{
        io::AsyncWriteExt as _,
        net::{TcpListener, TcpStream},
        sync::Notify,
    };

    use super::*;
    use crate::{ConnectionAddresses, ConnectionLimits, Listener, Overflow};

    const TIMEOUT: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_request_that_outlives_its_connection_does_not_hold_the_slot() {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let limits = ConnectionLimits {
            total: 1,
            per_address: 1,
            per_loopback_address: 1,
            handshakes: None,
        };
        let listener = Listener::new(tcp, "test", limits, Overflow::Wait);
        let (requests, arrived) = (Arc::new(Mutex::new(vec![])), Arc::new(Notify::new()));
        let (kept, signal) = (Arc::clone(&requests), Arc::clone(&arrived));
        let handler = async move |request: extract::Request| {
            kept.lock().push(request);
            signal.notify_one();
            std::future::pending::<()>().await;
        };
        let head = HeadLimits { bytes: 8 << 10, timeout: TIMEOUT };
        let router = Router::new().route("/", get(handler));
        let server = HttpServer::new(router, head, Duration::ZERO, CancellationToken::new());

        let mut client = TcpStream::connect(address).await.unwrap();
        let (stream, connection) = listener.accept().await;
        let serving = tokio::spawn(server.serve(stream, connection));
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        timeout(TIMEOUT, arrived.notified()).await.unwrap();
        drop(client);
        timeout(TIMEOUT, serving).await.unwrap().unwrap();

        let request = requests.lock().pop().unwrap();
        assert!(request.extensions().get::<ConnectionAddresses>().is_some());
        let _second = TcpStream::connect(address).await.unwrap();
        timeout(TIMEOUT, listener.accept()).await.expect("the slot is free");
    }
}
