//! `WorkerClient` against a fake server: a server that does what the hub never does.

mod greetings;
mod hostile_server;
mod keepalive;
mod message_sizes;
mod reconnect;
mod tls;

use std::{
    net::SocketAddr,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use skills_bus::{
    CallError, Json,
    client::{
        Backoff, ConnectionState, Endpoint, TriggerRequest, WorkerCall, WorkerClient, WorkerEvents,
        WorkerIdentity, WorkerOptions,
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use crate::test_hub::DEADLINE;

/// Accepts all subscriptions and ignores observers.
struct AcceptAll;

impl WorkerEvents for AcceptAll {
    fn trigger_added(&self, _: TriggerRequest<'_>) -> Result<(), CallError> {
        Ok(())
    }
    fn trigger_removed(&self, _: &str, _: &str) {}
    fn observer_added(&self, _: &str, _: &str, _: &str) {}
    fn observer_removed(&self, _: &str, _: &str) {}
}

/// Settings of a client that reconnects quickly.
fn options(url: &str) -> WorkerOptions {
    let identity = WorkerIdentity {
        name: "w".to_owned(),
        version: "1.2.3".to_owned(),
        ..WorkerIdentity::default()
    };
    let backoff = Backoff { initial: Duration::from_millis(2), max: Duration::from_millis(20) };
    WorkerOptions { backoff, ..WorkerOptions::new(Endpoint::new(url).unwrap(), identity) }
}

/// A client and the receiver of its events, which it holds weakly.
struct Worker {
    client: Arc<WorkerClient>,
    _events: Arc<dyn WorkerEvents>,
}

impl Worker {
    fn start(options: WorkerOptions) -> Self {
        let events: Arc<dyn WorkerEvents> = Arc::new(AcceptAll);
        let weak: Weak<dyn WorkerEvents> = Arc::downgrade(&events);
        Self { client: Arc::new(WorkerClient::start(options, weak)), _events: events }
    }

    async fn state(&self, wanted: impl FnMut(&ConnectionState) -> bool) -> ConnectionState {
        let mut states = self.client.connection();
        let state = tokio::time::timeout(DEADLINE, states.wait_for(wanted)).await;
        state.unwrap_or_else(|_| panic!("not in time: {:?}", self.client)).unwrap().clone()
    }

    async fn connected(&self, epoch: u64) {
        self.state(|state| state.epoch() == Some(epoch)).await;
    }

    /// Waits until there is no connection and returns the reason.
    async fn lost(&self) -> String {
        match self.state(|state| matches!(state, ConnectionState::Lost { .. })).await {
            ConnectionState::Lost { reason } => reason,
            other => panic!("{other:?}"),
        }
    }

    /// Starts a call in a task.
    fn call(
        &self,
        function_id: &'static str,
        data: Json,
        timeout: Duration,
    ) -> tokio::task::JoinHandle<Result<Json, CallError>> {
        let client = Arc::clone(&self.client);
        tokio::spawn(async move {
            let call = WorkerCall {
                function_id,
                data: &data,
                namespace: None,
                metadata: None,
                epoch: None,
            };
            client.call(&call, timeout).await
        })
    }
}

/// First frame of an engine of 0.23.
fn greeting() -> Value {
    json!({"type": "workerregistered", "worker_id": "id-1", "reattach_token": "token-1"})
}

/// Listener of a fake server.
struct FakeServer {
    listener: TcpListener,
    address: SocketAddr,
}

impl FakeServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    async fn accept_tcp(&self) -> TcpStream {
        let accepted = tokio::time::timeout(DEADLINE, self.listener.accept()).await;
        accepted.expect("a connection in time").unwrap().0
    }

    /// Accepts a connection without a greeting.
    async fn accept(&self) -> ServerLink<TcpStream> {
        let stream = self.accept_tcp().await;
        ServerLink(tokio_tungstenite::accept_async(stream).await.unwrap())
    }

    async fn greet(&self) -> ServerLink<TcpStream> {
        let mut link = self.accept().await;
        link.send(&greeting()).await;
        link
    }
}

/// Connection of a fake server.
struct ServerLink<S>(WebSocketStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> ServerLink<S> {
    async fn send(&mut self, frame: &Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// Returns the next frame.
    async fn recv(&mut self) -> Value {
        let next = async {
            loop {
                if let Message::Text(text) = self.0.next().await.expect("open").unwrap() {
                    return serde_json::from_str(&text).unwrap();
                }
            }
        };
        tokio::time::timeout(DEADLINE, next).await.expect("a frame in time")
    }

    /// Returns the next frame of a type.
    async fn next(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.recv().await;
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// Returns the next call besides that by which the worker identifies itself.
    async fn next_call(&mut self) -> Value {
        loop {
            let call = self.next("invokefunction").await;
            if call["function_id"] != "engine::workers::register" {
                return call;
            }
        }
    }

    async fn answer(&mut self, call: &Value, result: Value) {
        self.send(&json!({"type": "invocationresult", "invocation_id": call["invocation_id"],
            "function_id": call["function_id"], "result": result}))
            .await;
    }
}
