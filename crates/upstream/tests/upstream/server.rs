//! A server that answers with the bytes a test gives it, and remembers what it was asked.

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

/// What a server was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) target: String,
    /// By names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Asked {
    fn shown(&self) -> Value {
        let Self { method, target, headers, body } = self;
        json!({"method": method, "target": target, "headers": headers, "body": body})
    }
}

/// A server; it ends when it is dropped.
pub(crate) struct Server {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    _accepting: JoinSet<()>,
}

impl Server {
    /// Answers every request with what the function makes of it.
    pub(crate) async fn start(answer: impl Fn(&Asked) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(vec![]));
        let (notes, answer) = (Arc::clone(&asked), Arc::new(answer));
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let (notes, answer) = (Arc::clone(&notes), Arc::clone(&answer));
                connections.spawn(async move {
                    if let Some(asked) = read(&mut stream).await {
                        let said = answer(&asked);
                        notes.lock().unwrap().push(asked);
                        let _ = stream.write_all(said.as_bytes()).await;
                        let _ = stream.shutdown().await;
                    }
                });
            }
        });
        Self { port, asked, _accepting: accepting }
    }

    /// Answers with what it was asked.
    pub(crate) async fn echo() -> Self {
        Self::start(|asked| ok("application/json", &asked.shown().to_string())).await
    }

    /// Redirects to wherever the function says.
    pub(crate) async fn redirecting(
        status: u16,
        to: impl Fn(&Asked) -> String + Send + Sync + 'static,
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

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// A good answer.
pub(crate) fn ok(media_type: &str, body: &str) -> String {
    answer(200, media_type, body)
}

/// Any answer.
pub(crate) fn answer(status: u16, media_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Status\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Reads one request with its body; `None` when the other end goes away before.
pub(crate) async fn read<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Option<Asked> {
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
    Some(Asked { method, target, headers, body })
}
