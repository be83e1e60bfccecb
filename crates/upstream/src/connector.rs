//! Connections to checked addresses, one for each request.
//!
//! Connections are not pooled, names are not resolved, and proxies of the environment are ignored.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use skills_net::tls;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::OnceCell,
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};
use url::Host;

use crate::{UpstreamError, address_guard::Target, request::UpstreamRequest};

/// Maximum bytes of the head of a response.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Byte stream of a connection, plain or TLS.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Opens connections.
pub(crate) struct Connector {
    /// Root certificates (DER) that are trusted besides those of the system.
    extra_roots: Vec<Vec<u8>>,
    /// Created on first use: reading the certificates of the system is slow.
    tls: OnceCell<TlsConnector>,
}

/// Response whose body is not read yet. Dropping it closes the connection.
pub(crate) struct OpenResponse {
    pub(crate) response: Response<Incoming>,
    _connection: JoinSet<()>,
}

impl Connector {
    pub(crate) const fn new(extra_roots: Vec<Vec<u8>>) -> Self {
        Self { extra_roots, tls: OnceCell::const_new() }
    }

    /// Sends a request to a checked destination, and waits for the head of the response.
    pub(crate) async fn send(
        &self,
        request: &UpstreamRequest,
        target: &Target,
        deadline: Instant,
    ) -> Result<OpenResponse, UpstreamError> {
        let host = || target.origin.host.to_string();
        let broken =
            |error: hyper::Error| UpstreamError::Broken { host: host(), reason: error.to_string() };
        let request = http_request(request, target)?;
        let stream = connect_tcp(target, deadline).await?;
        let stream: Box<dyn Stream> = if target.origin.is_https {
            Box::new(self.connect_tls(stream, target).await?)
        } else {
            Box::new(stream)
        };
        let handshake = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .handshake::<_, Full<Bytes>>(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(broken)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "upstream connection failed");
            }
        });
        let response = sender.send_request(request).await.map_err(broken)?;
        Ok(OpenResponse { response, _connection: driver })
    }

    async fn connect_tls(
        &self,
        stream: TcpStream,
        target: &Target,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, UpstreamError> {
        let failed =
            |reason: String| UpstreamError::Tls { host: target.origin.host.to_string(), reason };
        let name = match &target.origin.host {
            Host::Domain(name) => ServerName::try_from(name.clone())
                .map_err(|_| failed("a certificate cannot have its name".to_owned()))?,
            Host::Ipv4(address) => ServerName::from(std::net::IpAddr::V4(*address)),
            Host::Ipv6(address) => ServerName::from(std::net::IpAddr::V6(*address)),
        };
        let extra = &self.extra_roots;
        let connector = self.tls.get_or_try_init(|| async {
            let extra = extra.clone();
            let mut config = tls::load_client_config(extra).await?;
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Ok(TlsConnector::from(Arc::new(config)))
        });
        let connector =
            connector.await.map_err(|error: tls::TlsError| failed(error.to_string()))?;
        connector.connect(name, stream).await.map_err(|error| failed(error.to_string()))
    }
}

/// Tries the addresses in order, each for an equal share of the remaining time. The last one has all of it, so that its
/// silence is reported as a timeout.
async fn connect_tcp(target: &Target, deadline: Instant) -> Result<TcpStream, UpstreamError> {
    let mut reason = String::new();
    let count = u32::try_from(target.addresses.len()).unwrap_or(u32::MAX);
    for (address, remaining) in target.addresses.iter().zip((1..=count).rev()) {
        let left = deadline.saturating_duration_since(Instant::now());
        let connected = match remaining {
            1 => connect(*address).await,
            _ => timeout(left / remaining, connect(*address))
                .await
                .unwrap_or_else(|late| Err(late.into())),
        };
        match connected {
            Ok(stream) => return Ok(stream),
            // Without the address, which may belong to an internal network.
            Err(error) => reason = error.kind().to_string(),
        }
    }
    Err(UpstreamError::Connect { host: target.origin.host.to_string(), reason })
}

async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Converts a request for hyper.
fn http_request(
    request: &UpstreamRequest,
    target: &Target,
) -> Result<Request<Full<Bytes>>, UpstreamError> {
    let url = &request.url;
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let body = request.body.as_ref().map(|body| body.bytes.clone()).unwrap_or_default();
    let mut converted = Request::builder()
        .method(&request.method)
        .uri(path)
        .header(header::HOST, target.origin.authority())
        .body(Full::new(body))
        .map_err(|_| UpstreamError::invalid("the URL cannot be sent: it is too long"))?;
    converted.headers_mut().extend(request.headers.clone());
    Ok(converted)
}
