//! A client that speaks the protocol by hand.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use skills_testkit::DEADLINE;
use tokio::{net::TcpStream, task::JoinHandle, time::timeout};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{
        self, Message,
        client::IntoClientRequest as _,
        http::{HeaderName, HeaderValue},
    },
};

/// What a client is told.
#[derive(Debug, PartialEq)]
pub(crate) enum Said {
    Message(Value),
    Close(u16, String),
    Gone,
}

pub(crate) struct Client(WebSocketStream<TcpStream>);

impl Client {
    pub(crate) async fn connect(url: &str) -> Self {
        Self::connect_with(url, &[]).await.unwrap_or_else(|status| panic!("{url}: HTTP {status}"))
    }

    /// Connects with more headers, or is told the status with which that was refused.
    pub(crate) async fn connect_with(
        url: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, u16> {
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).unwrap();
            request.headers_mut().insert(HeaderName::from_static(name), value);
        }
        let stream = TcpStream::connect(request.uri().authority().unwrap().as_str()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        match timeout(DEADLINE, client_async(request, stream)).await.expect("no handshake") {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{url}: {error}"),
        }
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_raw(Message::text(message.to_string())).await;
    }

    pub(crate) async fn send_raw(&mut self, message: Message) {
        self.0.send(message).await.unwrap();
    }

    pub(crate) async fn next(&mut self) -> Said {
        loop {
            match timeout(DEADLINE, self.0.next()).await.expect("nothing came in time") {
                Some(Ok(Message::Text(text))) => {
                    return Said::Message(serde_json::from_str(&text).unwrap());
                }
                Some(Ok(Message::Close(Some(close)))) => {
                    return Said::Close(close.code.into(), close.reason.to_string());
                }
                Some(Ok(Message::Close(None)) | Err(_)) | None => return Said::Gone,
                Some(Ok(_)) => {}
            }
        }
    }

    /// The next call.
    pub(crate) async fn asked(&mut self) -> Value {
        loop {
            match self.next().await {
                Said::Message(message) if message["type"] == "callClient" => return message,
                Said::Message(_) => {}
                other => panic!("no call but {other:?}"),
            }
        }
    }

    /// How it ends.
    pub(crate) async fn closed(&mut self) -> (u16, String) {
        loop {
            match self.next().await {
                Said::Close(code, reason) => return (code, reason),
                Said::Message(_) => {}
                Said::Gone => panic!("gone without a word"),
            }
        }
    }

    pub(crate) async fn answer(&mut self, call: &Value, mut result: Value) {
        result["type"] = "callClientResult".into();
        result["requestId"] = call["requestId"].clone();
        self.send(&result).await;
    }

    /// Answers every call from now on, until the connection ends.
    pub(crate) fn serving(
        mut self,
        result: impl Fn(&Value) -> Value + Send + 'static,
    ) -> JoinHandle<()> {
        tokio::spawn(async move {
            loop {
                match self.next().await {
                    Said::Message(call) if call["type"] == "callClient" => {
                        let result = result(&call);
                        self.answer(&call, result).await;
                    }
                    Said::Message(_) => {}
                    _ => return,
                }
            }
        })
    }

    /// Ends without a word.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

/// A result.
pub(crate) fn ok(data: impl Into<Value>) -> Value {
    json!({"ok": true, "data": data.into()})
}
