//! TLS servers with a self-signed certificate.

use std::sync::Arc;

use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer},
};

/// TLS of a server whose certificate no system trusts.
pub struct SelfSignedTls {
    /// Accepts connections.
    pub acceptor: TlsAcceptor,
    /// The certificate (DER), for clients that trust it.
    pub certificate: Vec<u8>,
}

impl SelfSignedTls {
    /// Generates a certificate for a host name.
    ///
    /// # Panics
    /// If the name is not a host name.
    #[must_use]
    pub fn new(host: &str) -> Self {
        let generated = rcgen::generate_simple_self_signed(vec![host.to_owned()]).unwrap();
        let certificate = generated.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(generated.signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.into())
            .unwrap();
        Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificate: certificate.to_vec() }
    }
}
