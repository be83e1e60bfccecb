//! A connection to an address that was checked, and one exchange over it.
//!
//! Nothing here looks up a name, reads a proxy from the environment, or keeps a connection.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::OnceCell,
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName},
    },
};
use url::Host;

use crate::{ExecuteError, guard::Target, outgoing::Outgoing};

/// Most bytes of the head of an answer.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// What a connection is to the rest.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Opens connections.
pub(crate) struct Connector {
    /// Certificates (DER) that are trusted besides the system's.
    extra_roots: Vec<Vec<u8>>,
    /// Made when it is first needed: reading what the system trusts takes a while.
    tls: OnceCell<TlsConnector>,
}

/// An answer of which the head has been read. The connection lasts as long as this does.
pub(crate) struct Answer {
    pub(crate) response: Response<Incoming>,
    _connection: JoinSet<()>,
}

impl Connector {
    pub(crate) const fn new(extra_roots: Vec<Vec<u8>>) -> Self {
        Self { extra_roots, tls: OnceCell::const_new() }
    }

    /// Sends a request to where it has been found to go, and waits for the head of the answer.
    pub(crate) async fn send(
        &self,
        outgoing: &Outgoing,
        target: &Target,
        deadline: Instant,
    ) -> Result<Answer, ExecuteError> {
        let host = || target.origin.host.to_string();
        let broken =
            |error: hyper::Error| ExecuteError::Broken { host: host(), reason: error.to_string() };
        let request = request(outgoing, target)?;
        let stream = tcp(target, deadline).await?;
        let stream: Box<dyn Stream> = match target.origin.is_https {
            true => Box::new(self.secured(stream, target).await?),
            false => Box::new(stream),
        };
        let handshake = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .handshake::<_, Full<Bytes>>(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(broken)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection to an upstream ended");
            }
        });
        let response = sender.send_request(request).await.map_err(broken)?;
        Ok(Answer { response, _connection: driver })
    }

    async fn secured(
        &self,
        stream: TcpStream,
        target: &Target,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, ExecuteError> {
        let failed =
            |reason: String| ExecuteError::Tls { host: target.origin.host.to_string(), reason };
        let name = match &target.origin.host {
            Host::Domain(name) => ServerName::try_from(name.clone())
                .map_err(|_| failed("its name cannot have a certificate".to_owned()))?,
            Host::Ipv4(address) => ServerName::from(std::net::IpAddr::V4(*address)),
            Host::Ipv6(address) => ServerName::from(std::net::IpAddr::V6(*address)),
        };
        let extra = &self.extra_roots;
        let connector = self.tls.get_or_try_init(|| async {
            let extra = extra.clone();
            let made = tokio::task::spawn_blocking(move || tls(extra)).await;
            made.map_err(|error| error.to_string())?
        });
        let connector = connector.await.map_err(failed)?;
        connector.connect(name, stream).await.map_err(|error| failed(error.to_string()))
    }
}

/// The client of TLS: what the system trusts, or Mozilla's list where the system has none.
fn tls(extra_roots: Vec<Vec<u8>>) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "some certificates of the system cannot be read");
    }
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    for root in extra_roots {
        roots.add(CertificateDer::from(root)).map_err(|error| error.to_string())?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Tries the addresses one after the other, each for its share of the time that is left. The last one has all
/// of it: that it does not answer is what a timeout is.
async fn tcp(target: &Target, deadline: Instant) -> Result<TcpStream, ExecuteError> {
    let mut reason = String::new();
    let count = u32::try_from(target.addresses.len()).unwrap_or(u32::MAX);
    for (address, sharers) in target.addresses.iter().zip((1..=count).rev()) {
        let left = deadline.saturating_duration_since(Instant::now());
        let connected = match sharers {
            1 => connected(*address).await,
            _ => timeout(left / sharers, connected(*address))
                .await
                .unwrap_or_else(|late| Err(late.into())),
        };
        match connected {
            Ok(stream) => return Ok(stream),
            // The address is not told: it may be that of an inner network.
            Err(error) => reason = error.kind().to_string(),
        }
    }
    Err(ExecuteError::Connect { host: target.origin.host.to_string(), reason })
}

async fn connected(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The request as it goes over the wire.
fn request(outgoing: &Outgoing, target: &Target) -> Result<Request<Full<Bytes>>, ExecuteError> {
    let url = &outgoing.url;
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let body = outgoing.body.as_ref().map(|body| body.bytes.clone()).unwrap_or_default();
    let mut request = Request::builder()
        .method(&outgoing.method)
        .uri(path)
        .header(header::HOST, target.origin.authority())
        .body(Full::new(body))
        .map_err(|_| ExecuteError::invalid("the URL cannot be sent: it is too long"))?;
    request.headers_mut().extend(outgoing.headers.clone());
    Ok(request)
}
