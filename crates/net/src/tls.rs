//! TLS configuration of clients.

use std::sync::Arc;

use skills_core::work::{WorkError, run_own};
use tokio_rustls::rustls::{
    self, ClientConfig, RootCertStore, crypto::ring, pki_types::CertificateDer,
};

/// Unusable TLS configuration.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A root certificate, or the protocol versions, are unusable.
    #[error(transparent)]
    Config(#[from] rustls::Error),
    /// The task that reads the certificates of the system failed.
    #[error("system certificates: {0}")]
    Task(#[from] WorkError),
}

/// Loads a configuration that trusts the certificates of the system, or Mozilla's list if the system has none, and
/// `extra_roots` (DER). Reading the certificates of the system is slow, so callers keep the result.
///
/// # Errors
/// When an extra root is not a certificate.
pub async fn load_client_config(extra_roots: Vec<Vec<u8>>) -> Result<ClientConfig, TlsError> {
    run_own("system certificates", move || client_config(extra_roots)).await?
}

fn client_config(extra_roots: Vec<Vec<u8>>) -> Result<ClientConfig, TlsError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "system certificates unreadable");
    }
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    for root in extra_roots {
        roots.add(CertificateDer::from(root))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
