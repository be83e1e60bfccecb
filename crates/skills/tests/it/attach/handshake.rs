//! The handshake: address, headers and namespace.

use std::{net::TcpListener as StdListener, sync::Arc, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use crate::support::{
    attached::{AttachedWorker, wait_until_serving},
    engine::{EngineOptions, TestEngine, record},
    proxy::Proxy,
};

async fn handshakes_of(
    engine: &TestEngine,
    config: &str,
    arguments: &[&str],
) -> (Arc<Proxy>, AttachedWorker) {
    let proxy = Proxy::start(engine.address).await;
    let url = proxy.url();
    let attached = AttachedWorker::spawn_with(config, |command| {
        command.args(["--url", &url]).args(arguments).env("III_TOKEN", "of the environment");
    });
    wait_until_serving(&engine.worker().await).await;
    (proxy, attached)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_and_token_are_sent() {
    let engine = TestEngine::with_options(EngineOptions {
        token: Some("secret".to_owned()),
        ..EngineOptions::default()
    })
    .await;
    let arguments = ["--token", "secret", "--header", "x-team=blue", "--header", "x-site = a=b"];
    let (proxy, attached) = handshakes_of(&engine, "", &arguments).await;
    let handshakes = proxy.handshakes();
    assert_eq!(handshakes.len(), 1, "one connection: {handshakes:?}");
    let wanted = ["get / http/1.1", "authorization: bearer secret", "x-team: blue", "x-site: a=b"];
    for words in wanted {
        assert!(handshakes[0].contains(words), "{words}: {}", handshakes[0]);
    }
    let (_, output) = attached.stop().await;
    assert!(!output.contains("secret"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_engine_port_is_tried() {
    // Another program may use the port; skip the test then.
    let Ok(listener) = StdListener::bind("127.0.0.1:49134") else {
        eprintln!("port 49134 is in use; nothing was checked");
        return;
    };
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let _attached = AttachedWorker::spawn_with("", |_| {});
    let (mut stream, _) =
        timeout(Duration::from_secs(30), listener.accept()).await.unwrap().unwrap();
    let mut request = [0; 14];
    stream.read_exact(&mut request).await.unwrap();
    assert_eq!(&request, b"GET / HTTP/1.1");
}

/// Fake engine with namespaces: the state is in `default` alone, or also in the worker's own.
struct NamespacedEngine {
    socket: WebSocketStream<TcpStream>,
    has_own_state: bool,
    /// Calls as pairs of namespace and function.
    called: Vec<(String, String)>,
}

impl NamespacedEngine {
    async fn accept(listener: &TcpListener, has_own_state: bool) -> Self {
        let (stream, _) = listener.accept().await.unwrap();
        let socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        let mut spaces = Self { socket, has_own_state, called: Vec::new() };
        spaces.send(&json!({ "type": "workerregistered", "worker_id": "w" })).await;
        spaces
    }

    async fn send(&mut self, frame: &Value) {
        self.socket.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// Answers calls until a wanted frame arrives.
    async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let found = async {
            loop {
                let Message::Text(text) = self.socket.next().await.unwrap().unwrap() else {
                    continue;
                };
                let frame: Value = serde_json::from_str(&text).unwrap();
                if frame["type"] == "invokefunction" {
                    self.serve(&frame).await;
                }
                if wanted(&frame) {
                    return frame;
                }
            }
        };
        timeout(Duration::from_secs(30), found).await.expect("in time")
    }

    async fn serve(&mut self, call: &Value) {
        let text = |name: &str| call[name].as_str().unwrap_or_default().to_owned();
        let (function, namespace) = (text("function_id"), text("namespace"));
        self.called.push((function.clone(), namespace.clone()));
        if call["invocation_id"].is_null() {
            return;
        }
        let place = if namespace == "team" { "own" } else { "default" };
        let has_state = namespace == "default" || (namespace == "team" && self.has_own_state);
        let mut answer = json!({ "type": "invocationresult", "function_id": function,
            "invocation_id": call["invocation_id"] });
        match function.as_str() {
            "state::list_entries" if has_state => {
                let entries = json!([[place, record(place, "x")]]);
                answer["result"] = json!({ "entries": entries, "done": true });
            }
            "state::get" if has_state => {}
            _ => answer["error"] = json!({ "code": "function_not_found", "message": "no" }),
        }
        self.send(&answer).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_is_looked_up_in_the_namespace_and_then_in_the_default_one() {
    for has_own_state in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let _attached = AttachedWorker::spawn_with("", |command| {
            command.args(["--url", &url]).env("III_NAMESPACE", "team");
        });
        let mut spaces = NamespacedEngine::accept(&listener, has_own_state).await;
        spaces
            .until(|frame| frame["type"] == "registerfunction" && frame["id"] == "skills::list")
            .await;
        spaces
            .send(&json!({ "type": "invokefunction", "function_id": "skills::list", "data": {},
                "invocation_id": "7d444840-9dc0-11d1-b245-5ffdce74fad2" }))
            .await;
        let answer = spaces
            .until(|frame| {
                frame["type"] == "invocationresult" && frame["function_id"] == "skills::list"
            })
            .await;
        let expected = if has_own_state { "own" } else { "default" };
        assert_eq!(answer["result"]["skills"][0]["id"], expected, "{answer}");
        let state = |(function, _): &&(String, String)| function.starts_with("state::");
        let first = spaces.called.iter().find(state).unwrap();
        assert_eq!(first.1, "team", "its own namespace comes first: {:?}", spaces.called);
    }
}
