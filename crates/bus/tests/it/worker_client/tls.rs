//! `wss://` with a self-signed certificate.

use std::sync::{Arc, Mutex};

use serde_json::json;
use skills_bus::{
    BusClient, ClientError, Json,
    client::{Endpoint, WorkerOptions},
};
use skills_testkit::SelfSignedTls;
use tokio::{net::TcpStream, task::JoinSet};
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use super::{FakeServer, ServerLink, Worker, greeting, options};
use crate::test_hub::DEADLINE;

/// Server with a certificate for `localhost`.
struct TlsServer {
    server: FakeServer,
    tls: SelfSignedTls,
    /// `Authorization` headers of the handshakes.
    authorizations: Mutex<Vec<String>>,
}

impl TlsServer {
    async fn start() -> Self {
        Self {
            server: FakeServer::start().await,
            tls: SelfSignedTls::new("localhost"),
            authorizations: Mutex::default(),
        }
    }

    fn url(&self) -> String {
        format!("wss://localhost:{}", self.server.address.port())
    }

    async fn greet(&self) -> ServerLink<TlsStream<TcpStream>> {
        let stream = self.tls.acceptor.accept(self.server.accept_tcp().await).await.unwrap();
        #[allow(clippy::result_large_err, reason = "the library defines the signature")]
        let record = |request: &Request, response: Response| {
            let header =
                request.headers().get("authorization").map(|value| value.to_str().unwrap());
            self.authorizations.lock().unwrap().push(header.unwrap_or_default().to_owned());
            Ok(response)
        };
        let socket = tokio_tungstenite::accept_hdr_async(stream, record).await.unwrap();
        let mut link = ServerLink(socket);
        link.send(&greeting()).await;
        link
    }
}

#[tokio::test]
async fn a_trusted_server_is_called_over_tls() {
    let tls = TlsServer::start().await;
    let endpoint = Endpoint::new(&tls.url()).unwrap().with_roots(vec![tls.tls.certificate.clone()]);
    let endpoint = endpoint.with_token(Some("s3cret")).unwrap();
    let worker = Worker::start(WorkerOptions { endpoint, ..options("ws://unused") });
    for epoch in 1..=2 {
        let mut link = tls.greet().await;
        worker.connected(epoch).await;
        let data = json!("x".repeat(2 << 20));
        let call = worker.call("x::y", Json::from(&data), DEADLINE);
        let invoke = link.next_call().await;
        link.answer(&invoke, invoke["data"].clone()).await;
        assert_eq!(call.await.unwrap().unwrap().as_str(), data.to_string());
    }
    assert_eq!(*tls.authorizations.lock().unwrap(), ["Bearer s3cret", "Bearer s3cret"]);
    worker.client.shutdown().await;
}

#[tokio::test]
async fn an_untrusted_server_is_sent_nothing() {
    let tls = Arc::new(TlsServer::start().await);
    let mut serving = JoinSet::new();
    serving.spawn({
        let tls = Arc::clone(&tls);
        async move {
            loop {
                let stream = tls.server.accept_tcp().await;
                assert!(tls.tls.acceptor.accept(stream).await.is_err(), "the client trusts it");
            }
        }
    });
    let worker = Worker::start(options(&tls.url()));
    let reason = worker.lost().await;
    assert!(reason.contains("certificate"), "{reason}");
    let error = BusClient::connect(&tls.url(), Some("s3cret"), DEADLINE).await.unwrap_err();
    assert!(
        matches!(&error, ClientError::Unreachable { reason, .. } if reason.contains("certificate")),
        "{error}"
    );
    worker.client.shutdown().await;
}
