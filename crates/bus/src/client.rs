//! A client that only calls: for the command line, against a hub or an iii engine.
//!
//! It registers nothing, so it is never called. It does not reconnect: whoever needs a bus for
//! longer than a few calls runs a worker.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest as _,
        http::{HeaderValue, StatusCode, header},
        protocol::WebSocketConfig,
    },
};
use uuid::Uuid;

use crate::{
    CallError, Json,
    address::without_query,
    protocol::{
        IDENTIFY, LARGE_MESSAGES,
        frame::Frame,
        inbound::{self, error_body},
        outbound,
    },
};

const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is not one of a bus.
    #[error("{url} is not the address of a bus: {reason}; it looks like ws://127.0.0.1:49134")]
    BadUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody answers there, or not in the way a bus does.
    #[error("no bus at {url}: {reason}")]
    Unreachable {
        /// Where it was looked for.
        url: String,
        /// What happened.
        reason: String,
    },
    /// The bus wants a token, or another one.
    #[error("the bus at {url} refused the token, or wants one")]
    Unauthorized {
        /// Which bus.
        url: String,
    },
}

type Answers = HashMap<Uuid, oneshot::Sender<Result<Json, CallError>>>;

/// What the two halves of the connection share; `None` once it is lost.
#[derive(Debug, Clone)]
struct Waiting(Arc<Mutex<Option<Answers>>>);

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Option<Answers>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection to a bus. Clones share it; calls may run side by side.
#[derive(Debug, Clone)]
pub struct BusClient {
    frames: mpsc::UnboundedSender<String>,
    waiting: Waiting,
}

impl BusClient {
    /// Connects and waits for the bus to greet.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn connect(
        url: &str,
        token: Option<&str>,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let unreachable = |reason: String| ClientError::Unreachable {
            url: without_query(url).to_owned(),
            reason,
        };
        match tokio::time::timeout(timeout, greet(url, token)).await {
            Ok(Ok(socket)) => Ok(Self::start(socket)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(unreachable(format!("no answer within {} ms", timeout.as_millis()))),
        }
    }

    fn start(socket: WebSocketStream<TcpStream>) -> Self {
        let (frames, mut queue) = mpsc::unbounded_channel::<String>();
        let waiting = Waiting(Arc::new(Mutex::new(Some(HashMap::new()))));
        let (mut sink, mut stream) = socket.split();
        tokio::spawn(async move {
            while let Some(text) = queue.recv().await {
                if sink.send(Message::text(text)).await.is_err() {
                    return;
                }
            }
            let _ = sink.close().await;
        });
        let answers = waiting.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = stream.next().await {
                if let Message::Text(text) = message {
                    receive(&answers, &text);
                }
            }
            // Whoever still waits sees its sender dropped.
            answers.lock().take();
        });
        let client = Self { frames, waiting };
        client.identify();
        client
    }

    /// Says what this is, as every SDK does; the bus then knows which messages it can send.
    fn identify(&self) {
        let about = serde_json::json!({
            "runtime": "rust",
            "version": env!("CARGO_PKG_VERSION"),
            "name": "skills-cli",
            "os": std::env::consts::OS,
            "pid": std::process::id(),
            "features": [LARGE_MESSAGES],
        });
        let id = outbound::quote(IDENTIFY);
        let text =
            outbound::invoke(Uuid::new_v4(), &id, &about.to_string(), None, &Default::default());
        // A lost connection shows at the first call.
        let _ = self.frames.send(text);
    }

    /// Calls a function and waits for its result.
    ///
    /// # Errors
    /// [`CallError::Remote`] with the code of the bus or the callee, `connection_lost` when the bus
    /// goes, [`CallError::Timeout`] when there is no answer in time.
    pub async fn call(
        &self,
        function_id: &str,
        data: Json,
        timeout: Duration,
    ) -> Result<Json, CallError> {
        let lost = || CallError::remote("connection_lost", "the connection to the bus was lost");
        let id = Uuid::new_v4();
        let name = outbound::quote(function_id);
        let text = outbound::invoke(id, &name, data.as_str(), None, &Default::default());
        if text.len() > MAX_MESSAGE {
            let size = text.len();
            return Err(CallError::PayloadTooLarge(format!(
                "a message of {size} bytes is larger than the {MAX_MESSAGE} allowed"
            )));
        }
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().as_mut().ok_or_else(lost)?.insert(id, sender);
        self.frames.send(text).map_err(|_| lost())?;
        let result = tokio::time::timeout(timeout, answer).await;
        if let Some(answers) = self.waiting.lock().as_mut() {
            answers.remove(&id);
        }
        match result {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(lost()),
            Err(_) => {
                Err(CallError::Timeout { function_id: function_id.to_owned(), after: timeout })
            }
        }
    }
}

/// The handshake, and the first frame.
async fn greet(url: &str, token: Option<&str>) -> Result<WebSocketStream<TcpStream>, ClientError> {
    let bad = |reason: &str| ClientError::BadUrl {
        url: without_query(url).to_owned(),
        reason: reason.to_owned(),
    };
    let unreachable =
        |reason: String| ClientError::Unreachable { url: without_query(url).to_owned(), reason };
    let mut request = url.into_client_request().map_err(|error| bad(&error.to_string()))?;
    match request.uri().scheme_str() {
        Some("ws") => {}
        Some("wss") => return Err(bad("wss:// is not supported, only ws://")),
        _ => return Err(bad("it must start with ws://")),
    }
    let host = request.uri().host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = request.uri().port_u16().unwrap_or(80);
    if let Some(token) = token {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| bad("the token contains characters that a header cannot carry"))?;
        value.set_sensitive(true);
        request.headers_mut().insert(header::AUTHORIZATION, value);
    }
    let stream = TcpStream::connect((host.as_str(), port))
        .await
        .map_err(|error| unreachable(error.to_string()))?;
    let _ = stream.set_nodelay(true);
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE));
    let (mut socket, _) =
        tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await.map_err(
            |error| match error {
                Error::Http(response) if response.status() == StatusCode::UNAUTHORIZED => {
                    ClientError::Unauthorized { url: without_query(url).to_owned() }
                }
                other => unreachable(other.to_string()),
            },
        )?;
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(_))) => return Ok(socket),
            Some(Ok(Message::Close(_))) | None => {
                return Err(unreachable("it closed the connection".into()));
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(unreachable(error.to_string())),
        }
    }
}

fn receive(waiting: &Waiting, text: &str) {
    let Ok(Frame::Result(result)) = inbound::parse(text) else { return };
    let Ok(id) = Uuid::try_parse(&result.invocation_id) else { return };
    let answer = waiting.lock().as_mut().and_then(|answers| answers.remove(&id));
    let Some(answer) = answer else { return };
    let outcome = match result.error {
        Some(error) => {
            let error = error_body(error, "invocation_failed");
            Err(CallError::Remote { code: error.code, message: error.message })
        }
        None => Ok(result.result.map_or_else(Json::null, |raw| Json::from(raw.to_owned()))),
    };
    drop(answer.send(outcome));
}
