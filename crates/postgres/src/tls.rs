//! TLS of connections, by rustls.

use std::{path::Path, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, ClientConfig, RootCertStore,
        client::{WebPkiServerVerifier, danger::ServerCertVerifier},
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
        version::{TLS12, TLS13},
    },
};

use crate::{
    PgError,
    channel_binding::server_end_point,
    url::{TlsSettings, TlsVersions, Verification},
    verifier::AnyNameVerifier,
};

/// TLS of connections to one database.
#[derive(Clone)]
pub(crate) struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    pub(crate) fn new(settings: &TlsSettings) -> Result<Self, PgError> {
        let installed = std::env::home_dir().map(|home| home.join(".postgresql/root.crt"));
        Self::with_installed(settings, installed.filter(|path| path.is_file()).as_deref())
    }

    /// Makes it with the path of an existing `~/.postgresql/root.crt`.
    fn with_installed(settings: &TlsSettings, installed: Option<&Path>) -> Result<Self, PgError> {
        let provider = Arc::new(ring::default_provider());
        let unusable = |error: rustls::Error| PgError::Configuration(format!("TLS: {error}"));
        let roots = match settings.verification {
            Verification::None => None,
            Verification::AuthorityIfInstalled if installed.is_none() => None,
            Verification::AuthorityIfInstalled | Verification::Authority | Verification::Full => {
                let path = settings.root_certificate.as_deref().or(installed);
                if path.is_none() && settings.verification == Verification::Authority {
                    // Any public authority would do, for any name.
                    return Err(PgError::Configuration(
                        "sslmode=verify-ca needs root certificates: name their file by sslrootcert, or use \
                         sslmode=verify-full with those of the system"
                            .to_owned(),
                    ));
                }
                let roots = Arc::new(load_roots(path)?);
                let builder =
                    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
                let verifier = builder.build().map_err(|error| {
                    PgError::Configuration(format!("TLS root certificates: {error}"))
                })?;
                Some(verifier)
            }
        };
        let verifier: Arc<dyn ServerCertVerifier> = match (settings.verification, roots) {
            (Verification::Full, Some(verifier)) => verifier,
            (_, roots) => Arc::new(AnyNameVerifier { provider: Arc::clone(&provider), roots }),
        };
        let versions: &[_] = match settings.versions {
            TlsVersions::All => rustls::DEFAULT_VERSIONS,
            TlsVersions::Tls12 => &[&TLS12],
            TlsVersions::Tls13 => &[&TLS13],
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(unusable)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &settings.client_certificate {
            Some((certificate, key)) => {
                let chain = read_certificates(certificate)?;
                let key = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| unreadable(key, &error.to_string()))?;
                builder.with_client_auth_cert(chain, key).map_err(unusable)?
            }
            None => builder.with_no_client_auth(),
        };
        config.enable_sni = settings.sends_name;
        Ok(Self(Arc::new(config)))
    }

    /// Encrypts a stream. Returns the binding of the login to the certificate of the server, too.
    pub(crate) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> Result<(TlsStream<S>, Option<Vec<u8>>), PgError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| {
            PgError::Configuration(format!("{host} cannot be in a certificate: {error}"))
        })?;
        let handshake = TlsConnector::from(Arc::clone(&self.0)).connect(name, stream).await;
        let stream = handshake.map_err(|error| PgError::from_handshake(&error))?;
        let certificates = stream.get_ref().1.peer_certificates();
        let certificate = certificates.and_then(<[_]>::first);
        let binding = certificate.and_then(|certificate| server_end_point(certificate));
        Ok((stream, binding))
    }
}

fn unreadable(path: &Path, reason: &str) -> PgError {
    PgError::Configuration(format!("cannot read {}: {reason}", path.display()))
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PgError> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable(path, &error.to_string()))?;
    if certificates.is_empty() {
        return Err(unreadable(path, "it has no certificate"));
    }
    Ok(certificates)
}

/// Loads the roots of a file, or of the system.
fn load_roots(path: Option<&Path>) -> Result<RootCertStore, PgError> {
    let mut roots = RootCertStore::empty();
    match path.filter(|path| *path != Path::new("system")) {
        Some(path) => {
            for certificate in read_certificates(path)? {
                roots.add(certificate).map_err(|error| unreadable(path, &error.to_string()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
            }
        }
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_certificates_are_those_of_the_mode() {
        let settings = |text: &str| text.parse::<crate::DatabaseUrl>().unwrap().tls;
        let missing = Path::new("/nonexistent/root.crt");
        let read = |text: &str, installed| TlsClient::with_installed(&settings(text), installed);
        for mode in ["require", "verify-ca", "verify-full"] {
            let url = format!("postgres://a/x?sslmode={mode}");
            let error = read(&url, Some(missing)).err();
            assert!(matches!(error, Some(PgError::Configuration(_))), "{mode}: {error:?}");
        }
        let error = read("postgres://a/x?sslmode=verify-ca", None).err();
        let Some(PgError::Configuration(text)) = error else { panic!("{error:?}") };
        assert!(text.contains("sslrootcert") && text.contains("verify-full"), "{text}");
        for mode in ["require", "verify-full"] {
            assert!(read(&format!("postgres://a/x?sslmode={mode}"), None).is_ok(), "{mode}");
        }
        for mode in ["disable", "allow", "prefer"] {
            assert!(read(&format!("postgres://a/x?sslmode={mode}"), Some(missing)).is_ok());
        }
        assert!(read("postgres://a/x?sslrootcert=system", Some(missing)).is_ok());
    }
}
