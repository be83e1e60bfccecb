//! [`TestUpstream`]: a server with answers set by the test that records requests.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
};

/// Recorded request.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Headers by name in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl ReceivedRequest {
    fn to_json(&self) -> Value {
        let Self { method, target, headers, body } = self;
        json!({"method": method, "target": target, "headers": headers, "body": body})
    }
}

/// Server that stops when dropped.
pub(crate) struct TestUpstream {
    pub(crate) port: u16,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    _accepting: JoinSet<()>,
}

impl TestUpstream {
    /// Answers every request with the result of a function.
    pub(crate) async fn start(
        answer: impl Fn(&ReceivedRequest) -> String + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(vec![]));
        let (notes, answer) = (Arc::clone(&received), Arc::new(answer));
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let (notes, answer) = (Arc::clone(&notes), Arc::clone(&answer));
                connections.spawn(async move {
                    if let Some(asked) = read(&mut stream).await {
                        let output = answer(&asked);
                        notes.lock().unwrap().push(asked);
                        let _ = stream.write_all(output.as_bytes()).await;
                        let _ = stream.shutdown().await;
                    }
                });
            }
        });
        Self { port, received, _accepting: accepting }
    }

    /// Answers every request with its own description.
    pub(crate) async fn echo() -> Self {
        Self::start(|asked| ok("application/json", &asked.to_json().to_string())).await
    }

    /// Redirects every request to the result of a function.
    pub(crate) async fn redirecting(
        status: u16,
        to: impl Fn(&ReceivedRequest) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |asked| {
            let to = to(asked);
            format!("HTTP/1.1 {status} Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
        })
        .await
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn received(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }
}

/// Builds a response with status 200.
pub(crate) fn ok(media_type: &str, body: &str) -> String {
    answer(200, media_type, body)
}

/// Builds a response.
pub(crate) fn answer(status: u16, media_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Status\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Reads one request with its body; `None` if the client closes before.
pub(crate) async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
) -> Option<ReceivedRequest> {
    let mut bytes = vec![];
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let pair = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_ascii_lowercase(), value.to_owned()))
    };
    let headers: BTreeMap<_, _> = lines.filter_map(pair).collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < end + length {
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    }
    let body = String::from_utf8(bytes[end..].to_vec()).unwrap();
    Some(ReceivedRequest { method, target, headers, body })
}
