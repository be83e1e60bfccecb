//! Bus worker that calls functions, serves functions, and records other frames.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};
use uuid::Uuid;

use crate::{DEADLINE, Peer};

/// Error of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFailure {
    /// Error code.
    pub code: String,
    /// Error message.
    pub message: String,
}

/// Handler of a function; `None` never answers.
pub type Handler = Arc<dyn Fn(Value) -> Option<Result<Value, CallFailure>> + Send + Sync>;

type CallResult = Result<Value, CallFailure>;

#[derive(Default)]
struct Shared {
    handlers: Mutex<HashMap<String, Handler>>,
    pending: Mutex<HashMap<String, oneshot::Sender<CallResult>>>,
}

/// Connected worker. Dropping it drops the connection without a close frame.
pub struct Worker {
    outgoing: mpsc::UnboundedSender<Message>,
    /// Frames that are neither calls of served functions nor answers to own calls.
    pub frames: mpsc::UnboundedReceiver<Value>,
    shared: Arc<Shared>,
    connection: JoinHandle<()>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Worker {
    /// Connects to a bus.
    ///
    /// # Panics
    /// If the bus refuses.
    pub async fn connect(url: &str) -> Self {
        Self::from_peer(Peer::connect(url).await)
    }

    /// Turns a raw connection into a worker.
    pub fn from_peer(peer: Peer) -> Self {
        let (outgoing, to_send) = mpsc::unbounded_channel();
        let (other, frames) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::default());
        let connection = tokio::spawn(run(
            peer.into_socket(),
            to_send,
            outgoing.clone(),
            other,
            Arc::clone(&shared),
        ));
        Self { outgoing, frames, shared, connection }
    }

    /// Announces support for large messages, as SDKs since 0.25 do.
    pub async fn identify(&self) {
        let features = ["observe.v1", "large-messages.v1"];
        let data = json!({ "runtime": "rust", "version": "0.25.0", "features": features });
        self.ok("engine::workers::register", data).await;
    }

    /// Returns whether the connection is open.
    pub fn is_connected(&self) -> bool {
        !self.connection.is_finished()
    }

    /// Sends a frame.
    pub fn send(&self, frame: &Value) {
        self.send_raw(Message::text(frame.to_string()));
    }

    /// Sends any WebSocket message.
    pub fn send_raw(&self, message: Message) {
        let _ = self.outgoing.send(message);
    }

    /// Sends a call now and returns a future of its result.
    pub fn start(
        &self,
        function_id: &str,
        data: &Value,
    ) -> impl Future<Output = CallResult> + use<> {
        let id = Uuid::new_v4().to_string();
        let (answer, result) = oneshot::channel();
        self.shared.pending.lock().unwrap().insert(id.clone(), answer);
        let frame = json!({
            "type": "invokefunction", "invocation_id": id, "function_id": function_id, "data": data,
        });
        if self.outgoing.send(Message::text(frame.to_string())).is_err() {
            // The connection has failed its pending calls already.
            self.shared.pending.lock().unwrap().remove(&id);
        }
        let function_id = function_id.to_owned();
        async move {
            let gone = |_| Err(CallFailure { code: "gone".into(), message: function_id.clone() });
            match timeout(DEADLINE, result).await {
                Ok(answer) => answer.unwrap_or_else(gone),
                Err(_) => panic!("{function_id} did not answer in time"),
            }
        }
    }

    /// Calls a function and waits for its answer.
    pub async fn call(&self, function_id: &str, data: Value) -> CallResult {
        self.start(function_id, &data).await
    }

    /// Calls a function that must succeed.
    pub async fn ok(&self, function_id: &str, data: Value) -> Value {
        match self.call(function_id, data).await {
            Ok(result) => result,
            Err(failure) => panic!("{function_id}: {failure:?}"),
        }
    }

    /// Calls a function that must fail.
    pub async fn fails(&self, function_id: &str, data: Value) -> CallFailure {
        match self.call(function_id, data).await {
            Err(failure) => failure,
            Ok(result) => panic!("{function_id} should fail, but answered {result}"),
        }
    }

    /// Registers a function and waits until the bus has it.
    pub async fn serve(
        &self,
        function_id: &str,
        handler: impl Fn(Value) -> Option<CallResult> + Send + Sync + 'static,
    ) {
        self.shared.handlers.lock().unwrap().insert(function_id.to_owned(), Arc::new(handler));
        self.send(&json!({ "type": "registerfunction", "id": function_id }));
        self.flush().await;
    }

    /// Serves a function and returns a channel of its payloads.
    pub async fn collect(&self, function_id: &str) -> mpsc::UnboundedReceiver<Value> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.serve(function_id, move |data| {
            let _ = sender.send(data);
            Some(Ok(Value::Null))
        })
        .await;
        receiver
    }

    /// Subscribes a function to a trigger type and returns the subscription's id.
    pub async fn subscribe(&self, trigger_type: &str, function_id: &str, config: Value) -> String {
        let id = Uuid::new_v4().to_string();
        self.subscribe_as(&id, trigger_type, function_id, config).await;
        id
    }

    /// Subscribes a function under a chosen subscription id.
    pub async fn subscribe_as(
        &self,
        id: &str,
        trigger_type: &str,
        function_id: &str,
        config: Value,
    ) {
        self.send(&json!({
            "type": "registertrigger", "id": id, "trigger_type": trigger_type,
            "function_id": function_id, "config": config,
        }));
        self.flush().await;
    }

    /// Waits for the next frame of a type that is neither a call nor an answer.
    ///
    /// # Panics
    /// If none arrives.
    pub async fn frame(&mut self, kind: &str) -> Value {
        loop {
            let frame = next(&mut self.frames).await;
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// Waits until the bus has handled every frame sent so far, in order.
    pub async fn flush(&self) {
        self.ok("engine::workers::list", json!({})).await;
    }
}

/// Returns the next item of a channel.
///
/// # Panics
/// If none arrives in time.
pub async fn next(channel: &mut mpsc::UnboundedReceiver<Value>) -> Value {
    timeout(DEADLINE, channel.recv()).await.expect("nothing came in time").expect("the end")
}

async fn run(
    socket: WebSocketStream<TcpStream>,
    mut to_send: mpsc::UnboundedReceiver<Message>,
    outgoing: mpsc::UnboundedSender<Message>,
    other: mpsc::UnboundedSender<Value>,
    shared: Arc<Shared>,
) {
    let (mut sink, mut stream) = socket.split();
    let send = async {
        while let Some(message) = to_send.recv().await {
            let mut sent = sink.feed(message).await;
            while let Ok(message) = to_send.try_recv() {
                sent = sink.feed(message).await;
            }
            if sent.and(sink.flush().await).is_err() {
                break;
            }
        }
    };
    let receive = async {
        while let Some(Ok(message)) = stream.next().await {
            let Message::Text(text) = message else { continue };
            let frame: Value = serde_json::from_str(&text).expect("the bus sends JSON");
            handle(frame, &shared, &outgoing, &other);
        }
    };
    tokio::select! { () = send => {}, () = receive => {} }
    // Dropping the senders fails all pending calls; later ones cannot be sent.
    to_send.close();
    shared.pending.lock().unwrap().clear();
}

fn handle(
    mut frame: Value,
    shared: &Shared,
    outgoing: &mpsc::UnboundedSender<Message>,
    other: &mpsc::UnboundedSender<Value>,
) {
    let text = |frame: &Value, key: &str| frame[key].as_str().unwrap_or_default().to_owned();
    match frame["type"].as_str() {
        Some("invokefunction") => {
            let function_id = text(&frame, "function_id");
            let handler = shared.handlers.lock().unwrap().get(&function_id).cloned();
            let Some(handler) = handler else { return drop(other.send(frame)) };
            let Some(result) = handler(frame["data"].take()) else { return };
            let mut answer = json!({
                "type": "invocationresult",
                "invocation_id": frame["invocation_id"], "function_id": function_id,
            });
            match result {
                Ok(value) => answer["result"] = value,
                Err(CallFailure { code, message }) => {
                    answer["error"] = json!({ "code": code, "message": message });
                }
            }
            let _ = outgoing.send(Message::text(answer.to_string()));
        }
        Some("invocationresult") => {
            let pending = shared.pending.lock().unwrap().remove(&text(&frame, "invocation_id"));
            let Some(pending) = pending else { return drop(other.send(frame)) };
            let error = frame["error"].take();
            let answer = if error.is_null() {
                Ok(frame["result"].take())
            } else {
                Err(CallFailure { code: text(&error, "code"), message: text(&error, "message") })
            };
            let _ = pending.send(answer);
        }
        _ => drop(other.send(frame)),
    }
}
