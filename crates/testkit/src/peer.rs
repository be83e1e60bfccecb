//! Raw bus connection that reads only when the test asks for a frame.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        client::IntoClientRequest as _,
        http::{HeaderName, HeaderValue},
        protocol::WebSocketConfig,
    },
};

use crate::DEADLINE;

/// WebSocket connection to a bus.
pub struct Peer {
    socket: WebSocketStream<TcpStream>,
}

impl Peer {
    /// Connects to a bus.
    ///
    /// # Panics
    /// If the bus refuses.
    pub async fn connect(url: &str) -> Self {
        Self::connect_with(url, &[]).await.unwrap_or_else(|status| panic!("{url}: HTTP {status}"))
    }

    /// Connects with additional headers.
    ///
    /// # Errors
    /// The HTTP status with which the handshake was refused.
    pub async fn connect_with(url: &str, headers: &[(&'static str, &str)]) -> Result<Self, u16> {
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).unwrap();
            request.headers_mut().insert(HeaderName::from_static(name), value);
        }
        let stream = TcpStream::connect(request.uri().authority().unwrap().as_str()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let connected = tokio_tungstenite::client_async_with_config(request, stream, Some(config));
        match timeout(DEADLINE, connected).await.expect("no answer to the handshake") {
            Ok((socket, _)) => Ok(Self { socket }),
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => {
                Err(response.status().as_u16())
            }
            Err(error) => panic!("{url}: {error}"),
        }
    }

    pub(crate) fn into_socket(self) -> WebSocketStream<TcpStream> {
        self.socket
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: &Value) {
        self.send_raw(Message::text(frame.to_string())).await;
    }

    /// Sends any WebSocket message.
    pub async fn send_raw(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    /// Reads the next frame; `None` when the connection has ended.
    ///
    /// # Panics
    /// If none arrives in time.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            let message =
                timeout(DEADLINE, self.socket.next()).await.expect("nothing came in time");
            match message {
                Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// Reads frames until one has this type.
    ///
    /// # Panics
    /// If none arrives.
    pub async fn next_of_type(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.next().await.unwrap_or_else(|| panic!("the end before {kind}"));
            if frame["type"] == kind {
                return frame;
            }
        }
    }
}
