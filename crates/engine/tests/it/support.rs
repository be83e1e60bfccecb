//! Fixtures for `EngineBus`: a proxy that can cut connections, and a fake engine.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use skills_bus::{
    Bus as _, CallError, Json, Observer, ObserverSink, TriggerBinding, TriggerProvider,
    TriggerTypeSpec,
};
use skills_engine::{ConnectionState, EngineBus, EngineConfig};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};
use tokio_util::sync::CancellationToken;

use crate::test_hub::{DEADLINE, spec, until};

pub(crate) fn config(url: &str, name: &str) -> EngineConfig {
    EngineConfig { url: url.to_owned(), name: name.to_owned(), ..EngineConfig::default() }
}

pub(crate) async fn attach(url: &str, name: &str) -> EngineBus {
    let bus = EngineBus::connect(config(url, name)).unwrap();
    connected(&bus).await;
    bus
}

/// Waits until a hub has the identity and the registrations of a bus, and returns the epoch of the connection.
pub(crate) async fn connected(bus: &EngineBus) -> u64 {
    epoch_from(bus, 1).await
}

/// Waits until a hub has the identity and the registrations of a bus on this connection or a later one.
pub(crate) async fn epoch_from(bus: &EngineBus, epoch: u64) -> u64 {
    let epoch = greeted(bus, epoch).await;
    handled(bus).await;
    epoch
}

/// Waits for the greeting on this connection or a later one. The other end may not have read anything yet, and a
/// [`FakeEngine`] reads only what its test asks for.
pub(crate) async fn greeted(bus: &EngineBus, epoch: u64) -> u64 {
    let state = state(bus, |state| state.epoch().is_some_and(|now| now >= epoch)).await;
    state.epoch().unwrap()
}

/// Waits until a hub has handled everything that a bus has sent so far: it handles the frames of a connection in order.
pub(crate) async fn handled(bus: &EngineBus) {
    call(bus, "engine::trigger-types::list", json!({})).await;
}

pub(crate) async fn state(
    bus: &EngineBus,
    wanted: impl FnMut(&ConnectionState) -> bool,
) -> ConnectionState {
    let mut states: watch::Receiver<ConnectionState> = bus.connection();
    let state = tokio::time::timeout(DEADLINE, states.wait_for(wanted)).await;
    let state = state.unwrap_or_else(|_| panic!("not in time: {:?}", bus.connection().borrow()));
    state.unwrap().clone()
}

/// Calls a function, retrying until it is registered.
pub(crate) async fn call(bus: &EngineBus, function_id: &str, data: Value) -> Value {
    let start = std::time::Instant::now();
    loop {
        match bus.call(function_id, Json::from(&data), DEADLINE).await {
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

/// Records bindings, observers and notifications as lines.
#[derive(Default)]
pub(crate) struct EventLog(Mutex<Vec<String>>);

impl EventLog {
    pub(crate) fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) async fn has(&self, line: &str) {
        until(line, || self.lines().iter().any(|known| known == line)).await;
    }

    pub(crate) async fn len(&self, wanted: usize) {
        until(&format!("{wanted} lines"), || self.lines().len() >= wanted).await;
    }
}

impl TriggerProvider for EventLog {
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

impl ObserverSink for EventLog {
    fn observe(&self, observer: Observer) {
        self.add(format!("o+{} {} {:?}", observer.id, observer.target, observer.deliver));
    }

    fn unobserve(&self, observer_id: &str) {
        self.add(format!("o-{observer_id}"));
    }
}

pub(crate) fn provide(bus: &EngineBus, id: &str) -> Arc<EventLog> {
    let log = Arc::new(EventLog::default());
    let spec = TriggerTypeSpec { id: id.into(), description: "x".into(), ..Default::default() };
    bus.register_trigger_type(spec, log.clone());
    log
}

/// Registers a function that records its payloads.
pub(crate) fn listen(bus: &EngineBus, id: &str) -> Arc<EventLog> {
    let log = Arc::new(EventLog::default());
    let received = log.clone();
    let function = move |call: skills_bus::FunctionCall| {
        received.add(call.data.as_str());
        async { Ok::<_, CallError>(Json::null()) }
    };
    bus.register_function(spec(id), Arc::new(function));
    log
}

/// Proxy to a hub whose connections can be cut.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    cut: Mutex<CancellationToken>,
    open: watch::Sender<bool>,
}

impl Proxy {
    pub(crate) async fn to(target: SocketAddr) -> Arc<Self> {
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

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// Ends all connections and refuses new ones until [`Self::mend`].
    pub(crate) fn cut(&self) {
        self.open.send_replace(false);
        std::mem::take(&mut *self.cut.lock().unwrap()).cancel();
    }

    pub(crate) fn mend(&self) {
        self.open.send_replace(true);
    }
}

/// Fake engine for behaviour that the hub does not have.
pub(crate) struct FakeEngine {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl FakeEngine {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    pub(crate) async fn accept(&self) -> EngineLink {
        let (stream, _) = self.listener.accept().await.unwrap();
        EngineLink(tokio_tungstenite::accept_async(stream).await.unwrap())
    }

    /// Accepts a worker and sends the first frame of engines before 0.25.
    pub(crate) async fn greet(&self) -> EngineLink {
        let mut link = self.accept().await;
        link.send(json!({"type": "workerregistered", "worker_id": "w", "reattach_token": "t"}))
            .await;
        link
    }
}

pub(crate) struct EngineLink(pub(crate) WebSocketStream<TcpStream>);

impl EngineLink {
    pub(crate) async fn send(&mut self, frame: Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// Returns the next frame of a type.
    pub(crate) async fn next(&mut self, kind: &str) -> Value {
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
