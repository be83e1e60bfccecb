//! A client of the Model Drive Protocol that speaks it by hand.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{net::TcpStream, task::JoinHandle, time::timeout};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use crate::{DEADLINE, Peer};

/// What a client is told.
#[derive(Debug, PartialEq)]
pub enum Said {
    /// A message.
    Message(Value),
    /// Good-bye, with its code and reason.
    Close(u16, String),
    /// Nothing any more.
    Gone,
}

/// A connection of a client.
pub struct Client(WebSocketStream<TcpStream>);

impl Client {
    /// Connects to `ws://…`.
    ///
    /// # Panics
    /// When that is refused.
    pub async fn connect(url: &str) -> Self {
        Self::connect_with(url, &[]).await.unwrap_or_else(|status| panic!("{url}: HTTP {status}"))
    }

    /// Connects with more headers, or is told the status with which that was refused.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn connect_with(url: &str, headers: &[(&'static str, &str)]) -> Result<Self, u16> {
        Ok(Self(Peer::connect_with(url, headers).await?.into_socket()))
    }

    /// Connects and registers.
    pub async fn registered(url: &str, id: &str, paths: Value) -> Self {
        let mut client = Self::connect(url).await;
        client.send(&registration(id, paths)).await;
        client.is_heard().await;
        client
    }

    /// Waits until the other end has read all that was sent to it.
    ///
    /// # Panics
    /// When it ends the connection instead.
    pub async fn is_heard(&mut self) {
        self.send(&json!({"type": "ping", "timestamp": 1})).await;
        loop {
            match self.next().await {
                Said::Message(message) if message["type"] == "pong" => return,
                Said::Message(_) => {}
                other => panic!("not heard but {other:?}"),
            }
        }
    }

    /// Sends a message.
    pub async fn send(&mut self, message: &Value) {
        self.send_raw(Message::text(message.to_string())).await;
    }

    /// Sends a frame.
    ///
    /// # Panics
    /// When the connection is gone.
    pub async fn send_raw(&mut self, message: Message) {
        self.0.send(message).await.unwrap();
    }

    /// What comes next.
    ///
    /// # Panics
    /// When nothing does.
    pub async fn next(&mut self) -> Said {
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
    ///
    /// # Panics
    /// When the connection ends instead.
    pub async fn asked(&mut self) -> Value {
        loop {
            match self.next().await {
                Said::Message(message) if message["type"] == "callClient" => return message,
                Said::Message(_) => {}
                other => panic!("no call but {other:?}"),
            }
        }
    }

    /// How it ends.
    ///
    /// # Panics
    /// When it ends without a word.
    pub async fn closed(&mut self) -> (u16, String) {
        loop {
            match self.next().await {
                Said::Close(code, reason) => return (code, reason),
                Said::Message(_) => {}
                Said::Gone => panic!("gone without a word"),
            }
        }
    }

    /// Answers a call with a result.
    pub async fn answer(&mut self, call: &Value, mut result: Value) {
        result["type"] = "callClientResult".into();
        result["requestId"] = call["requestId"].clone();
        self.send(&result).await;
    }

    /// Answers every call from now on, until the connection ends.
    pub fn serving(mut self, result: impl Fn(&Value) -> Value + Send + 'static) -> JoinHandle<()> {
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
    pub fn kill(self) {
        drop(self);
    }
}

/// A good result.
pub fn ok(data: impl Into<Value>) -> Value {
    json!({"ok": true, "data": data.into()})
}

/// A skill as a client describes it.
pub fn skill(path: &str) -> Value {
    json!({"type": "skill", "path": path})
}

/// The message that registers a client.
pub fn registration(id: &str, paths: Value) -> Value {
    let client = json!({"id": id, "name": format!("Name of {id}"), "paths": paths});
    json!({"type": "registerClient", "client": client})
}
