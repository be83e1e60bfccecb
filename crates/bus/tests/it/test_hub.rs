//! Fixtures: a hub on a free port and raw peers of the protocol. Nothing sleeps: every wait is for a frame or a
//! condition, with a deadline.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use skills_bus::{CallError, Hub, HubConfig, Json};
use skills_testkit::ReservedPort;
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, client::IntoClientRequest as _, protocol::WebSocketConfig},
};
use tokio_util::sync::CancellationToken;

pub(crate) const MIB: usize = 1024 * 1024;
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct TestHub {
    pub(crate) hub: Hub,
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    pub(crate) served: tokio::task::JoinHandle<std::io::Result<()>>,
    port: ReservedPort,
}

impl TestHub {
    pub(crate) async fn start() -> Self {
        Self::with(HubConfig::default()).await
    }

    pub(crate) async fn with(config: HubConfig) -> Self {
        Self::at(ReservedPort::new(), config).await
    }

    /// Starts a hub on the port of one that has stopped.
    pub(crate) async fn at(port: ReservedPort, config: HubConfig) -> Self {
        let (listener, address) = (port.listen(), port.address());
        let hub = Hub::new(config);
        let shutdown = CancellationToken::new();
        let served = tokio::spawn({
            let (hub, shutdown) = (hub.clone(), shutdown.clone());
            async move { hub.serve(listener, shutdown).await }
        });
        Self { hub, address, shutdown, served, port }
    }

    /// Stops the hub and returns its port, on which connections are refused.
    pub(crate) async fn stop(self) -> ReservedPort {
        self.shutdown.cancel();
        self.served.await.unwrap().unwrap();
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    pub(crate) async fn peer(&self) -> Peer {
        Peer::connect(&self.url()).await
    }

    /// Connects a peer that identifies itself as an SDK.
    pub(crate) async fn sdk(&self, runtime: &str, version: &str) -> Peer {
        let mut peer = self.peer().await;
        peer.identify(json!({"runtime": runtime, "version": version, "name": "test"})).await;
        peer
    }

    /// Connects a peer that serves `functions`.
    pub(crate) async fn worker(&self, functions: &[&str]) -> Peer {
        let mut peer = self.peer().await;
        for id in functions {
            peer.send(json!({"type": "registerfunction", "id": id})).await;
        }
        peer.barrier().await;
        peer
    }
}

pub(crate) struct Peer {
    pub(crate) ws: WebSocketStream<TcpStream>,
    pub(crate) id: String,
    pub(crate) token: String,
}

impl Peer {
    pub(crate) async fn connect(url: &str) -> Self {
        let mut ws = dial(url).await.expect("handshake");
        let first = next_json(&mut ws).await.expect("workerregistered");
        assert_eq!(first["type"], "workerregistered");
        Self {
            ws,
            id: first["worker_id"].as_str().unwrap().to_owned(),
            token: first["reattach_token"].as_str().unwrap().to_owned(),
        }
    }

    pub(crate) async fn send(&mut self, frame: Value) {
        self.send_text(frame.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, text: impl Into<String>) {
        self.ws.send(Message::text(text.into())).await.expect("send");
    }

    /// Returns the next frame.
    pub(crate) async fn recv(&mut self) -> Value {
        next_json(&mut self.ws).await.expect("the connection is open")
    }

    /// Returns the next frame, which must be of this type.
    pub(crate) async fn expect(&mut self, kind: &str) -> Value {
        let frame = self.recv().await;
        assert_eq!(frame["type"], kind, "{}", brief(&frame));
        frame
    }

    /// Waits until the hub has handled everything sent so far, and returns the frames it sent meanwhile.
    pub(crate) async fn barrier(&mut self) -> Vec<Value> {
        self.send(json!({"type": "ping"})).await;
        let mut frames = Vec::new();
        loop {
            let frame = self.recv().await;
            if frame["type"] == "pong" {
                return frames;
            }
            frames.push(frame);
        }
    }

    pub(crate) async fn identify(&mut self, about: Value) {
        let frame = json!({"type": "invokefunction", "function_id": "engine::workers::register",
            "data": about, "action": {"type": "void"}});
        self.send(frame).await;
        assert_eq!(self.barrier().await, Vec::<Value>::new());
    }

    pub(crate) async fn start_call(&mut self, id: &str, function: &str, data: Value) {
        self.send(json!({"type": "invokefunction", "invocation_id": id, "function_id": function, "data": data}))
            .await;
    }

    /// Calls a function and returns the answer frame.
    pub(crate) async fn call(&mut self, function: &str, data: Value) -> Value {
        let id = uuid::Uuid::new_v4().to_string();
        self.start_call(&id, function, data).await;
        let answer = self.expect("invocationresult").await;
        assert_eq!(answer["invocation_id"], id.as_str());
        assert_eq!(answer["function_id"], function);
        answer
    }

    /// Calls a function, which must fail, and returns the error code.
    pub(crate) async fn call_error(&mut self, function: &str, data: Value) -> String {
        let answer = self.call(function, data).await;
        assert!(
            answer["error"]["message"].as_str().is_some_and(|text| !text.is_empty()),
            "{answer}"
        );
        answer["error"]["code"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    pub(crate) async fn answer(&mut self, invoke: &Value, result: Value) {
        self.send(json!({"type": "invocationresult", "invocation_id": invoke["invocation_id"],
            "function_id": invoke["function_id"], "result": result}))
            .await;
    }

    /// Waits for the close frame and returns its code.
    pub(crate) async fn close_code(&mut self) -> Option<u16> {
        let closed = async {
            while let Some(Ok(message)) = self.ws.next().await {
                if let Message::Close(frame) = message {
                    return frame.map(|frame| frame.code.into());
                }
            }
            None
        };
        tokio::time::timeout(DEADLINE, closed).await.expect("the hub closes the connection in time")
    }

    /// Waits until the connection ends in any way.
    pub(crate) async fn ended(&mut self) {
        self.close_code().await;
    }
}

pub(crate) fn brief(frame: &Value) -> String {
    frame.to_string().chars().take(300).collect()
}

pub(crate) async fn dial(
    url: &str,
) -> Result<WebSocketStream<TcpStream>, Box<tokio_tungstenite::tungstenite::Error>> {
    dial_with(url, &[]).await.map(|(ws, _)| ws)
}

pub(crate) type UpgradeResult =
    (WebSocketStream<TcpStream>, tokio_tungstenite::tungstenite::handshake::client::Response);

pub(crate) async fn dial_with(
    url: &str,
    headers: &[(&'static str, &str)],
) -> Result<UpgradeResult, Box<tokio_tungstenite::tungstenite::Error>> {
    let mut request = url.into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let authority = request.uri().authority().unwrap().to_string();
    let stream = TcpStream::connect(authority).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    tokio_tungstenite::client_async_with_config(request, stream, Some(config))
        .await
        .map_err(Box::new)
}

async fn next_json(ws: &mut WebSocketStream<TcpStream>) -> Option<Value> {
    loop {
        let message = tokio::time::timeout(DEADLINE, ws.next()).await.expect("a frame in time")?;
        match message.ok()? {
            Message::Text(text) => {
                return Some(serde_json::from_str(&text).expect("the hub sends JSON"));
            }
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

/// Waits for a condition that no frame announces.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "not in time: {what}");
        tokio::task::yield_now().await;
    }
}

pub(crate) fn payload(value: &Value) -> Json {
    Json::from(value)
}

/// Function that returns its payload.
pub(crate) fn echo() -> std::sync::Arc<dyn skills_bus::Function> {
    std::sync::Arc::new(
        |call: skills_bus::FunctionCall| async move { Ok::<_, CallError>(call.data) },
    )
}

pub(crate) fn spec(id: &str) -> skills_bus::FunctionSpec {
    skills_bus::FunctionSpec {
        id: id.to_owned(),
        description: "a test".to_owned(),
        ..Default::default()
    }
}
