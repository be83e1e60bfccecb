//! All expensive requests at once stay within the memory budget.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};
use skills_testkit::{
    ProcessMemory, Random, Request,
    mdp::{self, registration},
};
use tokio::time::sleep;
use tokio_tungstenite::tungstenite::Message;

use crate::support::{
    TestServer,
    mcp_clients::{Stateless, stateless_request},
};

const MB: u64 = 1_000_000;
/// Peak memory above idle that clients without special rights may cause.
const BUDGET: u64 = 512 * MB;
/// Memory above idle that may remain after the peak.
const REMAINDER: u64 = 128 * MB;
/// Deadline for slow machines and debug builds.
const DEADLINE: Duration = Duration::from_secs(120);
/// Address of a client that takes no part in the attack.
const BYSTANDER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const LOOP_CLIENTS: usize = 32;
const BODY_BYTES: usize = 4 << 20;
const FILE_BYTES: usize = 8 << 20;
/// Document of 60 KiB.
const MEDIUM: &str = "/.well-known/agent-skills/medium/SKILL.md";

/// Status and `Retry-After` of a response.
type Outcome = Option<(u16, bool)>;

/// Sends a request from its own thread and reads the response to its end.
fn attack(http: &str, request: &Request) -> JoinHandle<Outcome> {
    let address = http.trim_start_matches("http://").to_owned();
    let bytes = request.bytes(&address);
    thread::spawn(move || {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        // A refusal may close the connection before all is sent.
        let _ = stream.write_all(&bytes);
        let (mut head, mut rest) = ([0; 2048], [0; 65536]);
        let length = stream.read(&mut head).ok()?;
        while stream.read(&mut rest).is_ok_and(|length| length > 0) {}
        let head = String::from_utf8_lossy(&head[..length]).to_lowercase();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, head.contains("\r\nretry-after: ")))
    })
}

/// Sends a request whose response nobody reads.
fn leave_unread(http: &str, request: &Request) -> Option<TcpStream> {
    let address = http.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(&request.bytes(address)).ok()?;
    Some(stream)
}

fn tool(name: &str, arguments: Value) -> Request {
    let params = json!({ "name": name, "arguments": arguments });
    Stateless::post(&stateless_request(1, "tools/call", &params))
}

fn raw_post(body: String) -> Request {
    Request::new("POST", "/mcp")
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .body(body)
}

fn nested_bodies() -> Vec<Request> {
    let arrays = format!("[{}[0]]", "[0],".repeat(BODY_BYTES / 4 - 2));
    let objects = format!("[{}0]", "{\"a\":0},".repeat(BODY_BYTES / 8 - 2));
    let mut call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "list_skills", "arguments": "HERE" } })
    .to_string();
    call = call.replace("\"HERE\"", &format!("{{\"x\":[{}0]}}", "[0],".repeat(900_000)));
    [arrays, objects, call].map(raw_post).into()
}

/// Registers live clients over the HTTP loop that never poll, and returns their ids.
fn loop_clients(http: &str) -> Vec<String> {
    let json =
        |target: &str| Request::new("POST", target).header("Content-Type", "application/json");
    let paths = json!([{ "type": "endpoint", "path": "/sink", "method": "POST" }]);
    (0..LOOP_CLIENTS)
        .map(|number| {
            let id = format!("loop-{number}");
            let session = json("/mdp/http-loop/connect").body("{}").send(http).json();
            let message = json!({ "message": registration(&id, paths.clone()) });
            let request = json("/mdp/http-loop/send")
                .header("X-Mdp-Session-Id", session["sessionId"].as_str().unwrap());
            assert_eq!(request.body(message.to_string()).send(http).status, 202);
            id
        })
        .collect()
}

/// Connects a live client that answers every call with 8 MB of numbers inside 120 arrays.
async fn nested_client(ws: &str) {
    let paths = json!([{ "type": "endpoint", "path": "/nest", "method": "POST" }]);
    let mut client = mdp::Client::connect_registered(ws, "nest", paths).await;
    let numbers = "0,".repeat(FILE_BYTES / 2 - 1000);
    let data = format!("{}{numbers}0{}", "[".repeat(120), "]".repeat(120));
    tokio::spawn(async move {
        loop {
            let mdp::ClientEvent::Message(call) = client.next().await else { return };
            if call["type"] == "callClient" {
                let id = &call["requestId"];
                let text = format!(
                    r#"{{"type":"callClientResult","requestId":{id},"ok":true,"data":{data}}}"#
                );
                client.send_raw(Message::text(text)).await;
            }
        }
    });
}

/// Connects live clients whose metadata is nested deeply; the server may refuse some.
async fn deep_clients(ws: &str) -> Vec<mdp::Client> {
    let metadata = format!("{}{}0{}", "[".repeat(100), "0,".repeat(300_000), "]".repeat(100));
    let mut clients = Vec::new();
    for number in 0..4 {
        let mut message = registration(&format!("deep-{number}"), json!([]));
        message["client"]["metadata"] = json!({ "x": "HERE" });
        let text = message.to_string().replace("\"HERE\"", &metadata);
        let mut client = mdp::Client::connect(ws).await;
        client.send_raw(Message::text(text)).await;
        clients.push(client);
    }
    clients
}

fn listen(number: usize) -> Request {
    let uri = |index: usize| format!("iii://{}{number}-{index}", "u".repeat(1900));
    let uris: Vec<String> = (0..1000).map(uri).collect();
    let params = json!({ "notifications": { "resourceSubscriptions": uris } });
    Stateless::post(&stateless_request(1, "subscriptions/listen", &params))
}

/// Sends a request from an address that takes no part in the attack.
async fn ask_as_bystander(http: &str, target: &str) -> u16 {
    Request::get(target).send_from(BYSTANDER, http).await.status
}

/// Connections of one kind; all tests that run at the same time share one limit of open files.
fn many_connections() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let files = line.split_whitespace().next().unwrap().parse().unwrap_or(usize::MAX);
    (files / 16).min(1500)
}

/// Opens connections that send some bytes and read nothing.
fn open(http: &str, connections: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let address = http.trim_start_matches("http://");
    let connect = |_| {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(bytes).ok()?;
        Some(stream)
    };
    (0..connections).filter_map(connect).collect()
}

/// Opens connections with unread answers of 60 KiB, with unfinished bodies and with unfinished heads.
fn open_idle_connections(http: &str) -> Vec<TcpStream> {
    let address = http.trim_start_matches("http://");
    let long = "x".repeat(31 << 10);
    let document = format!("GET {MEDIUM} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let body = raw_post(String::new()).header("X-Long", &long).bytes(address);
    let body = String::from_utf8(body).unwrap().replace("Content-Length: 0", "Content-Length: 99");
    let head = format!("GET / HTTP/1.1\r\nX-Long: {long}");
    let many = many_connections();
    let mut connections = open(http, 100, document.repeat(100).as_bytes());
    connections.extend(open(http, many, body.as_bytes()));
    connections.extend(open(http, many, head.as_bytes()));
    connections
}

/// Requests a page and the health check repeatedly until told to stop, and counts the answers.
async fn bystander(http: String, is_over: Arc<AtomicBool>, served: Arc<AtomicUsize>) {
    while !is_over.load(Ordering::Relaxed) {
        for target in ["/healthz", "/v1/skills/plain"] {
            assert_eq!(ask_as_bystander(&http, target).await, 200, "{target}");
            served.fetch_add(1, Ordering::Relaxed);
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Stores the skills that the attack reads.
async fn seed(server: &TestServer) {
    let worker = server.worker().await;
    let document = |name: &str| format!("---\nname: {name}\ndescription: Text.\n---\n\n# A\n");
    // Random content does not compress.
    let mut random = Random::new();
    let noise: Vec<u8> = (0..12 << 20).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
    let large = &BASE64.encode(&noise)[..FILE_BYTES];
    let files = json!({ "large.md": large });
    let skill = json!({ "id": "large", "skill": document("large"), "files": files });
    worker.ok("skills::register", skill).await;
    let files = json!({ "random.bin": { "base64": BASE64.encode(&noise) } });
    let skill = json!({ "id": "archive", "skill": document("archive"), "files": files });
    worker.ok("skills::register", skill).await;
    let medium = format!("{}{}", document("medium"), "text ".repeat(12_000));
    worker.ok("skills::register", json!({ "id": "medium", "skill": medium })).await;
    worker.ok("skills::register", json!({ "id": "plain", "skill": document("plain") })).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_expensive_requests_at_once_stay_within_the_memory_budget() {
    let server = TestServer::with_config("mdp:\n  timeouts:\n    answer_ms: 3000\n");
    let http = server.process.http.clone();
    let ws = http.replace("http://", "ws://");
    seed(&server).await;
    let ids = loop_clients(&http);
    nested_client(&ws).await;
    let deep = deep_clients(&ws).await;
    assert_eq!(ask_as_bystander(&http, MEDIUM).await, 200);
    // The set-up is done when the server answers.
    assert_eq!(ask_as_bystander(&http, "/v1/skills/plain").await, 200);
    let memory = ProcessMemory::measure(server.process.pid());

    let sink = json!({ "method": "POST", "path": "/sink", "body": vec![json!([0]); 60_000],
        "clientIds": ids });
    let nest = json!({ "clientId": "nest", "method": "POST", "path": "/nest" });
    let fifty = json!({ "uris": vec!["iii://large/large.md"; 50] });
    let mut requests: Vec<Request> = nested_bodies().into_iter().cycle().take(32).collect();
    for _ in 0..6 {
        requests.push(tool("callPaths", sink.clone()));
        requests.push(tool("callPath", nest.clone()));
        requests.push(tool("listClients", json!({})));
        requests.push(tool("read_skill", fifty.clone()));
    }
    let (is_over, served) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let bystander = tokio::spawn(bystander(http.clone(), is_over.clone(), served.clone()));
    let attacks: Vec<_> = requests.iter().map(|request| attack(&http, request)).collect();
    let archive = Request::get("/.well-known/agent-skills/archive.tar.gz");
    let unread: Vec<_> = (0..20)
        .map(listen)
        .chain(std::iter::repeat_n(archive, 60))
        .map(|request| leave_unread(&http, &request))
        .collect();
    let connections = tokio::task::spawn_blocking({
        let http = http.clone();
        move || open_idle_connections(&http)
    });
    let connections = connections.await.unwrap();
    let outcomes = tokio::task::spawn_blocking(move || {
        attacks.into_iter().map(|attack| attack.join().unwrap()).collect::<Vec<Outcome>>()
    });
    let outcomes = outcomes.await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    bystander.await.unwrap();

    memory.assert_peak_below(BUDGET);
    assert!(served.load(Ordering::Relaxed) > 0);
    for (status, has_retry_after) in outcomes.into_iter().flatten() {
        assert!([200, 400, 413, 503].contains(&status), "{status}");
        assert!(status != 503 || has_retry_after, "503 without Retry-After");
    }
    drop((unread, deep, connections));
    let end = Instant::now() + DEADLINE;
    while memory.resident() >= REMAINDER {
        let left = memory.resident() / MB;
        assert!(Instant::now() < end, "{left} MB above idle are not given back");
        sleep(Duration::from_millis(100)).await;
    }
}
