//! TLS certificates.

use std::sync::Arc;

use serde_json::{Value, json};
use skills_core::Coded as _;
use skills_testkit::SelfSignedTls;
use skills_upstream::{DnsResolver, Settings, UpstreamError};
use tokio::{io::AsyncWriteExt as _, net::TcpListener, task::JoinSet};

use crate::{
    FakeResolver, allowing, execute,
    test_upstream::{ok, read},
};

/// Server with a self-signed certificate for `named.test`.
struct TlsServer {
    port: u16,
    certificate: Vec<u8>,
    _serving: JoinSet<()>,
}

impl TlsServer {
    async fn start() -> Self {
        let SelfSignedTls { acceptor, certificate } = SelfSignedTls::new("named.test");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    read(&mut stream).await;
                    let _ = stream.write_all(ok("text/plain", "secured").as_bytes()).await;
                    let _ = stream.shutdown().await;
                }
            }
        });
        Self { port, certificate, _serving: serving }
    }

    async fn ask(&self, host: &str, extra_roots: Vec<Vec<u8>>) -> Result<Value, UpstreamError> {
        let origin = format!("https://{host}:{}", self.port);
        let local: &[&[&str]] = &[&["127.0.0.1"]];
        let resolver: Arc<dyn DnsResolver> =
            FakeResolver::new(&[("named.test", local), ("other.test", local)]);
        let settings = Settings { resolver, extra_roots, ..allowing(&[&origin]) };
        execute(settings, json!({"endpoint": origin}), json!({})).await
    }
}

#[tokio::test]
async fn a_self_signed_certificate_is_refused() {
    let server = TlsServer::start().await;
    let error = server.ask("named.test", vec![]).await.unwrap_err();
    assert_eq!(error.code().as_str(), "upstream_tls", "{error}");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let server = TlsServer::start().await;
    let trusted = || vec![server.certificate.clone()];
    assert_eq!(server.ask("named.test", trusted()).await, Ok(json!("secured")));
    for host in ["other.test", "127.0.0.1"] {
        assert_eq!(
            server.ask(host, trusted()).await.unwrap_err().code().as_str(),
            "upstream_tls",
            "{host}"
        );
    }
}
