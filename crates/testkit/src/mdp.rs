//! Client of the Model Drive Protocol, written by hand.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{net::TcpStream, task::JoinHandle, time::timeout};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use crate::{DEADLINE, Peer};

/// Event on a client's connection.
#[derive(Debug, PartialEq)]
pub enum ClientEvent {
    /// Message.
    Message(Value),
    /// Close frame with code and reason.
    Close(u16, String),
    /// Connection lost without a close frame.
    Gone,
}

/// Connection of a live client.
pub struct Client(WebSocketStream<TcpStream>);

impl Client {
    /// Connects to `ws://…`.
    ///
    /// # Panics
    /// If the server refuses.
    pub async fn connect(url: &str) -> Self {
        Self::connect_with(url, &[]).await.unwrap_or_else(|status| panic!("{url}: HTTP {status}"))
    }

    /// Connects with additional headers.
    ///
    /// # Errors
    /// The HTTP status with which the server refused.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn connect_with(url: &str, headers: &[(&'static str, &str)]) -> Result<Self, u16> {
        Ok(Self(Peer::connect_with(url, headers).await?.into_socket()))
    }

    /// Connects and registers.
    pub async fn connect_registered(url: &str, id: &str, paths: Value) -> Self {
        let mut client = Self::connect(url).await;
        client.send(&registration(id, paths)).await;
        client.wait_until_processed().await;
        client
    }

    /// Waits until the server has handled all messages sent so far.
    ///
    /// # Panics
    /// If the server ends the connection instead.
    pub async fn wait_until_processed(&mut self) {
        self.send(&json!({"type": "ping", "timestamp": 1})).await;
        loop {
            match self.next().await {
                ClientEvent::Message(message) if message["type"] == "pong" => return,
                ClientEvent::Message(_) => {}
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
    /// If the connection is lost.
    pub async fn send_raw(&mut self, message: Message) {
        self.0.send(message).await.unwrap();
    }

    /// Returns the next event.
    ///
    /// # Panics
    /// If none arrives in time.
    pub async fn next(&mut self) -> ClientEvent {
        loop {
            match timeout(DEADLINE, self.0.next()).await.expect("nothing came in time") {
                Some(Ok(Message::Text(text))) => {
                    return ClientEvent::Message(serde_json::from_str(&text).unwrap());
                }
                Some(Ok(Message::Close(Some(close)))) => {
                    return ClientEvent::Close(close.code.into(), close.reason.to_string());
                }
                Some(Ok(Message::Close(None)) | Err(_)) | None => return ClientEvent::Gone,
                Some(Ok(_)) => {}
            }
        }
    }

    /// Returns the next call.
    ///
    /// # Panics
    /// If the connection ends instead.
    pub async fn next_call(&mut self) -> Value {
        loop {
            match self.next().await {
                ClientEvent::Message(message) if message["type"] == "callClient" => return message,
                ClientEvent::Message(_) => {}
                other => panic!("no call but {other:?}"),
            }
        }
    }

    /// Waits for the close frame and returns its code and reason.
    ///
    /// # Panics
    /// If the connection is lost without one.
    pub async fn wait_for_close(&mut self) -> (u16, String) {
        loop {
            match self.next().await {
                ClientEvent::Close(code, reason) => return (code, reason),
                ClientEvent::Message(_) => {}
                ClientEvent::Gone => panic!("the connection ended without a close frame"),
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
    pub fn serve_calls(
        mut self,
        result: impl Fn(&Value) -> Value + Send + 'static,
    ) -> JoinHandle<()> {
        tokio::spawn(async move {
            loop {
                match self.next().await {
                    ClientEvent::Message(call) if call["type"] == "callClient" => {
                        let result = result(&call);
                        self.answer(&call, result).await;
                    }
                    ClientEvent::Message(_) => {}
                    _ => return,
                }
            }
        })
    }

    /// Drops the connection without a close frame.
    pub fn kill(self) {
        drop(self);
    }
}

/// Builds a successful result.
pub fn ok(data: impl Into<Value>) -> Value {
    json!({"ok": true, "data": data.into()})
}

/// Builds the descriptor of a skill.
pub fn skill(path: &str) -> Value {
    json!({"type": "skill", "path": path})
}

/// Builds the message that registers a client.
pub fn registration(id: &str, paths: Value) -> Value {
    let client = json!({"id": id, "name": format!("Name of {id}"), "paths": paths});
    json!({"type": "registerClient", "client": client})
}
