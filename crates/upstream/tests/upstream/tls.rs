//! Who is trusted.

use std::sync::Arc;

use serde_json::{Value, json};
use skills_upstream::{ExecuteError, Resolve, Settings};
use tokio::{io::AsyncWriteExt as _, net::TcpListener, task::JoinSet};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer},
};

use crate::{
    Names, allowing, execute,
    server::{ok, read},
};

/// A server with a certificate that it signed itself, for `named.test`.
struct Secured {
    port: u16,
    certificate: Vec<u8>,
    _serving: JoinSet<()>,
}

impl Secured {
    async fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["named.test".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.into())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
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
        Self { port, certificate: certificate.to_vec(), _serving: serving }
    }

    async fn ask(&self, host: &str, extra_roots: Vec<Vec<u8>>) -> Result<Value, ExecuteError> {
        let origin = format!("https://{host}:{}", self.port);
        let local: &[&[&str]] = &[&["127.0.0.1"]];
        let resolver: Arc<dyn Resolve> =
            Names::new(&[("named.test", local), ("other.test", local)]);
        let settings = Settings { resolver, extra_roots, ..allowing(&[&origin]) };
        execute(settings, json!({"endpoint": origin}), json!({})).await
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_signed_is_refused() {
    let server = Secured::start().await;
    let error = server.ask("named.test", vec![]).await.unwrap_err();
    assert_eq!(error.code(), "tls", "{error}");
}

#[tokio::test]
async fn a_certificate_is_good_for_its_name_only() {
    let server = Secured::start().await;
    let trusted = || vec![server.certificate.clone()];
    assert_eq!(server.ask("named.test", trusted()).await, Ok(json!("secured")));
    for host in ["other.test", "127.0.0.1"] {
        assert_eq!(server.ask(host, trusted()).await.unwrap_err().code(), "tls", "{host}");
    }
}
