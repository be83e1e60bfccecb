//! An engine bus against a hub, a proxy that can cut, and an engine played by hand.

#![allow(
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use skills_bus::{
    Bus as _, CallError, Connection, EngineBus, EngineConfig, Json, Observer, ObserverSink,
    TriggerBinding, TriggerProvider, TriggerTypeSpec,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};
use tokio_util::sync::CancellationToken;

use super::common::{DEADLINE, until};

pub fn config(url: &str, name: &str) -> EngineConfig {
    EngineConfig { url: url.to_owned(), name: name.to_owned(), ..EngineConfig::default() }
}

pub async fn attach(url: &str, name: &str) -> EngineBus {
    let bus = EngineBus::connect(config(url, name)).unwrap();
    connected(&bus).await;
    bus
}

/// Waits for a connection and returns its number.
pub async fn connected(bus: &EngineBus) -> u64 {
    epoch_from(bus, 1).await
}

/// Waits for the connection of that number, or a later one.
pub async fn epoch_from(bus: &EngineBus, epoch: u64) -> u64 {
    let state = state(bus, |state| state.epoch().is_some_and(|now| now >= epoch)).await;
    state.epoch().unwrap()
}

pub async fn state(bus: &EngineBus, wanted: impl FnMut(&Connection) -> bool) -> Connection {
    let mut states: watch::Receiver<Connection> = bus.connection();
    let state = tokio::time::timeout(DEADLINE, states.wait_for(wanted)).await;
    let state = state.unwrap_or_else(|_| panic!("not in time: {:?}", bus.connection().borrow()));
    state.unwrap().clone()
}

pub const SOON: Duration = Duration::from_secs(10);

/// Calls until the function is there.
pub async fn call(bus: &EngineBus, function_id: &str, data: Value) -> Value {
    let start = std::time::Instant::now();
    loop {
        match bus.call(function_id, Json::from(&data), SOON).await {
            Ok(json) => return json.parse().unwrap(),
            Err(CallError::NotFound(_) | CallError::Disconnected(_))
                if start.elapsed() < DEADLINE =>
            {
                tokio::task::yield_now().await;
            }
            Err(error) => panic!("{function_id}: {error}"),
        }
    }
}

/// What a provider was told, and what subscribers received.
#[derive(Default)]
pub struct Log(Mutex<Vec<String>>);

impl Log {
    pub fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub async fn has(&self, line: &str) {
        until(line, || self.lines().iter().any(|known| known == line)).await;
    }

    pub async fn len(&self, wanted: usize) {
        until(&format!("{wanted} lines"), || self.lines().len() >= wanted).await;
    }
}

impl TriggerProvider for Log {
    fn bind(&self, binding: TriggerBinding) -> Result<(), CallError> {
        if binding.config.as_str() == "\"bad\"" {
            return Err(CallError::remote("BAD_CONFIG", "no"));
        }
        self.add(format!("+{} {}", binding.id, binding.function_id));
        Ok(())
    }

    fn unbind(&self, trigger_id: &str) {
        self.add(format!("-{trigger_id}"));
    }
}

impl ObserverSink for Log {
    fn observe(&self, observer: Observer) {
        self.add(format!("o+{} {} {:?}", observer.id, observer.target, observer.deliver));
    }

    fn unobserve(&self, observer_id: &str) {
        self.add(format!("o-{observer_id}"));
    }
}

pub fn provide(bus: &EngineBus, id: &str) -> Arc<Log> {
    let log = Arc::new(Log::default());
    let spec = TriggerTypeSpec { id: id.into(), description: "x".into(), ..Default::default() };
    bus.register_trigger_type(spec, log.clone());
    log
}

/// A function that notes what it is called with.
pub fn listen(bus: &EngineBus, id: &str) -> Arc<Log> {
    let log = Arc::new(Log::default());
    let heard = log.clone();
    let function = move |call: skills_bus::Call| {
        heard.add(call.data.as_str());
        async { Ok::<_, CallError>(Json::null()) }
    };
    bus.register_function(super::common::spec(id), Arc::new(function));
    log
}

/// A way to a hub that can be cut.
pub struct Proxy {
    pub address: SocketAddr,
    cut: Mutex<CancellationToken>,
    open: watch::Sender<bool>,
}

impl Proxy {
    pub async fn to(target: SocketAddr) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            cut: Mutex::new(CancellationToken::new()),
            open: watch::Sender::new(true),
        });
        let this = proxy.clone();
        tokio::spawn(async move {
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                if !*this.open.borrow() {
                    continue;
                }
                let Ok(mut far) = TcpStream::connect(target).await else { continue };
                near.set_nodelay(true).unwrap();
                far.set_nodelay(true).unwrap();
                let cut = this.cut.lock().unwrap().clone();
                tokio::spawn(async move {
                    tokio::select! {
                        () = cut.cancelled() => {}
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                    }
                });
            }
        });
        proxy
    }

    pub fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// Ends all connections; new ones are refused until [`Self::mend`].
    pub fn cut(&self) {
        self.open.send_replace(false);
        std::mem::take(&mut *self.cut.lock().unwrap()).cancel();
    }

    pub fn mend(&self) {
        self.open.send_replace(true);
    }
}

/// An engine played by hand, for what the hub does not do.
pub struct Engine {
    listener: TcpListener,
    pub address: SocketAddr,
}

impl Engine {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    pub fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    pub async fn accept(&self) -> Link {
        let (stream, _) = self.listener.accept().await.unwrap();
        Link(tokio_tungstenite::accept_async(stream).await.unwrap())
    }

    /// Accepts and greets, as engines before 0.25 do.
    pub async fn greet(&self) -> Link {
        let mut link = self.accept().await;
        link.send(json!({"type": "workerregistered", "worker_id": "w", "reattach_token": "t"}))
            .await;
        link
    }
}

pub struct Link(pub WebSocketStream<TcpStream>);

impl Link {
    pub async fn send(&mut self, frame: Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// The next frame of that type.
    pub async fn next(&mut self, kind: &str) -> Value {
        let next = async {
            loop {
                let message = self.0.next().await.expect("the connection is open").unwrap();
                if let Message::Text(text) = message {
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    if frame["type"] == kind {
                        return frame;
                    }
                }
            }
        };
        tokio::time::timeout(DEADLINE, next).await.unwrap_or_else(|_| panic!("no {kind}"))
    }
}
