//! Limits of live clients and their callers: memory, visible headers, and the lifetime of keys.

use serde_json::{Value, json};
use skills_testkit::{
    DEADLINE, ProcessMemory, Request, Response,
    mdp::{self, registration, skill},
    program, run,
};
use tokio::{task::JoinSet, time::timeout};
use tokio_tungstenite::tungstenite::Message;

use crate::support::{
    BINARY, TestServer,
    mcp_clients::{self, Client, EventStream, Session, Stateless, stateless_request},
    wait::eventually,
};

const VERSION: &str = "2025-06-18";
/// Memory above idle that clients may cause.
const BUDGET: u64 = 512 << 20;

fn ws(server: &TestServer) -> String {
    server.process.http.replacen("http", "ws", 1)
}

/// Sends a request from its own thread.
async fn send(server: &TestServer, request: Request) -> Response {
    let http = server.process.http.clone();
    tokio::task::spawn_blocking(move || request.send(&http)).await.unwrap()
}

fn keyed(request: Request, key: Option<&str>) -> Request {
    match key {
        Some(key) => request.header("Authorization", &format!("Bearer {key}")),
        None => request,
    }
}

/// Client over the HTTP loop.
struct LoopClient {
    id: String,
    key: Option<String>,
}

impl LoopClient {
    async fn connect(server: &TestServer, key: Option<&str>) -> Self {
        let connect = Request::new("POST", "/mdp/http-loop/connect").body("{}");
        let answer = send(server, keyed(connect, key)).await;
        let id = answer.json()["sessionId"].as_str().unwrap().to_owned();
        Self { id, key: key.map(str::to_owned) }
    }

    async fn send(&self, server: &TestServer, message: &Value) -> Response {
        let request = Request::new("POST", "/mdp/http-loop/send");
        let request = keyed(request, self.key.as_deref()).header("x-mdp-session-id", &self.id);
        send(server, request.body(json!({ "message": message }).to_string())).await
    }

    fn poll(&self) -> Request {
        let target = format!("/mdp/http-loop/poll?sessionId={}&waitMs=20000", self.id);
        keyed(Request::get(&target), self.key.as_deref())
    }

    async fn registered(server: &TestServer, id: &str, key: Option<&str>) -> Self {
        let client = Self::connect(server, key).await;
        let message = registration(id, json!([skill("/a/skill.md")]));
        assert_eq!(client.send(server, &message).await.status, 202);
        client
    }
}

/// Runs `skills` on the data directory of a running server.
fn skills(server: &TestServer, arguments: &[&str]) -> String {
    let mut command = program(BINARY);
    command.arg("--data-dir").arg(server.data_dir()).args(arguments);
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
    ran.stdout.trim().to_owned()
}

async fn is_gone(server: &TestServer, client: &str) -> bool {
    send(server, Request::get(&format!("/skills/{client}/nothing"))).await.status == 404
        && !listed(server).await.contains(&client.to_owned())
}

async fn listed(server: &TestServer) -> Vec<String> {
    let mut client = Client::Stateless(Stateless::new(&server.process.http));
    let answer = client.call("listClients", json!({})).await;
    let clients = answer["structuredContent"]["clients"].as_array().unwrap().clone();
    clients.iter().map(|client| client["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_disconnects_live_clients_on_every_transport() {
    let server = TestServer::new();
    let key = skills(&server, &["key", "create", "--uid", "ann"]);
    let other = skills(&server, &["key", "create", "--uid", "bob"]);
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str())];
    let mut socket = mdp::Client::connect_with(&ws(&server), &headers).await.ok().unwrap();
    socket.send(&registration("socket", json!([skill("/a/skill.md")]))).await;
    socket.wait_until_processed().await;
    let looping = LoopClient::registered(&server, "loop", Some(&key)).await;
    let stays = LoopClient::registered(&server, "stays", Some(&other)).await;
    // Another user does not receive the messages of the session, even with its id.
    let stolen = LoopClient { id: looping.id.clone(), key: Some(other.clone()) };
    assert_eq!(send(&server, stolen.poll()).await.status, 404);
    let poll = tokio::spawn({
        let (http, poll) = (server.process.http.clone(), looping.poll());
        async move { tokio::task::spawn_blocking(move || poll.send(&http)).await.unwrap() }
    });
    skills(&server, &["key", "revoke", "--uid", "ann"]);
    let (code, reason) = timeout(DEADLINE, socket.wait_for_close()).await.expect("it goes on");
    assert!(code == 1008 && reason.contains("key"), "{code} {reason}");
    assert!([401, 404].contains(&poll.await.unwrap().status), "the poll goes on");
    eventually("its clients are gone", async || {
        is_gone(&server, "socket").await && is_gone(&server, "loop").await
    })
    .await;
    let anonymous = LoopClient { id: looping.id.clone(), key: None };
    assert_eq!(send(&server, anonymous.poll()).await.status, 404, "the session is over");
    assert!(listed(&server).await.contains(&"stays".to_owned()));
    assert_eq!(stays.send(&server, &json!({"type": "ping", "timestamp": 1})).await.status, 202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_key_disconnects_live_clients() {
    let server = TestServer::new();
    let key = skills(&server, &["key", "create", "--uid", "ann", "--ttl", "3s"]);
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str())];
    let mut socket = mdp::Client::connect_with(&ws(&server), &headers).await.ok().unwrap();
    socket.send(&registration("socket", json!([]))).await;
    let (code, reason) = timeout(DEADLINE, socket.wait_for_close()).await.expect("it goes on");
    assert!(code == 1008 && reason.contains("expired"), "{code} {reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_ends_mcp_streams_without_notifications() {
    let server = TestServer::new();
    let key = skills(&server, &["key", "create", "--uid", "ann"]);
    let session = Session::open_as(&server.process.http, "2025-11-25", Some(&key)).await;
    let mut events = session.events().await;
    let params = json!({ "notifications": { "resourcesListChanged": true } });
    let listen = Stateless::post(&stateless_request(7, "subscriptions/listen", &params));
    let listen = listen.header("Authorization", &format!("Bearer {key}"));
    let mut stream = EventStream::open(&server.process.http, &listen).await;
    stream.message().await;
    skills(&server, &["key", "revoke", "--uid", "ann"]);
    for (what, events) in [("session", &mut events), ("listen", &mut stream)] {
        let ended = async { while events.next().await.is_some() {} };
        timeout(DEADLINE, ended).await.unwrap_or_else(|_| panic!("the {what} stream goes on"));
    }
    assert_eq!(session.ping().await, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identity_headers_of_proxies_do_not_reach_live_clients() {
    let server = TestServer::with_config("mdp:\n  forward_headers: [X-Forwarded-User]\n");
    let mut client =
        mdp::Client::connect_registered(&ws(&server), "desk", json!([skill("/a/skill.md")])).await;
    let secrets = [
        "authorization",
        "api-key",
        "cf-access-jwt-assertion",
        "cookie",
        "mcp-session-id",
        "x-amzn-oidc-data",
        "x-api-key",
        "x-auth-request-email",
        "x-forwarded-access-token",
        "x-forwarded-for",
        "x-goog-iap-jwt-assertion",
        "x-mdp-session-id",
        "x-ms-client-principal",
        "x-real-ip",
        "x-vault-token",
    ];
    let passed = ["accept-language", "if-none-match", "x-forwarded-user", "x-review-scope"];
    let mut request = Request::get("/skills/desk/a");
    for name in secrets.iter().chain(&passed) {
        request = request.header(name, "v");
    }
    let http = server.process.http.clone();
    let asking = tokio::task::spawn_blocking(move || request.send(&http));
    let call = client.next_call().await;
    client.answer(&call, mdp::ok("# A")).await;
    assert_eq!(asking.await.unwrap().status, 200);
    let mut names: Vec<&String> = call["headers"].as_object().unwrap().keys().collect();
    names.sort_unstable();
    assert_eq!(names, passed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_to_clients_that_never_poll_are_limited() {
    let server = TestServer::with_config("mdp:\n  timeouts: { answer_ms: 10000 }\n");
    for number in 0..40 {
        LoopClient::registered(&server, &format!("deaf-{number}"), None).await;
    }
    let memory = ProcessMemory::measure(server.process.pid());
    let mut asking = JoinSet::new();
    for _ in 0..60 {
        let http = server.process.http.clone();
        asking.spawn(async move {
            let body = "x".repeat(180 << 10);
            let call = json!({"method": "GET", "path": "/a/skill.md", "body": body});
            let params = json!({"name": "callPaths", "arguments": call});
            let message = stateless_request(1, "tools/call", &params);
            mcp_clients::send(&http, &Stateless::post(&message)).await
        });
    }
    let mut refused = 0;
    while let Some(answer) = asking.join_next().await {
        let answer = answer.unwrap();
        let is_busy = || String::from_utf8_lossy(&answer.body).contains("busy");
        refused += usize::from(answer.status == 503 || is_busy());
    }
    assert!(refused > 0, "440 MB were taken");
    memory.assert_peak_below(BUDGET);
    // All calls have ended and released their memory.
    let mut client =
        mdp::Client::connect_registered(&ws(&server), "awake", json!([skill("/a/skill.md")])).await;
    let http = server.process.http.clone();
    let reading = tokio::task::spawn_blocking(move || Request::get("/skills/awake/a").send(&http));
    let call = client.next_call().await;
    client.answer(&call, mdp::ok("# A")).await;
    assert_eq!(reading.await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deeply_nested_answer_uses_little_memory() {
    let server = TestServer::new();
    let mut client =
        mdp::Client::connect_registered(&ws(&server), "desk", json!([skill("/a/skill.md")])).await;
    let mut asker = Client::Session(Session::open(&server.process.http, VERSION).await);
    let memory = ProcessMemory::measure(server.process.pid());
    let call = json!({"clientId": "desk", "method": "GET", "path": "/a/skill.md"});
    // As many values as fit into eight megabytes, and as many as are returned, 120 levels deep.
    for (values, is_told) in [(2_000_000, false), (20_000, true)] {
        let flat = "[0],".repeat(values);
        let data = format!("{}{flat}0{}", "[".repeat(120), "]".repeat(120));
        let call = call.clone();
        let asking = asker.call("callPath", call);
        let answering = async {
            let call = client.next_call().await;
            let id = &call["requestId"];
            let text = format!(
                r#"{{"type":"callClientResult","requestId":{id},"ok":true,"data":{data}}}"#
            );
            client.send_raw(Message::text(text)).await;
        };
        let (answer, ()) = tokio::join!(asking, answering);
        assert_eq!(answer["isError"] != json!(true), is_told, "{values} values");
        if is_told {
            let text = answer["content"][0]["text"].as_str().unwrap();
            assert!(text.len() < data.len() + 100, "{} bytes", text.len());
        }
        memory.assert_peak_below(BUDGET / 4);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listing_clients_is_limited_in_memory() {
    let server = TestServer::new();
    let memory = ProcessMemory::measure(server.process.pid());
    let schema = json!({ "enum": vec![json!([0]); 2000] });
    let mut kept = vec![];
    for number in 0..12 {
        let path = |at: usize| {
            let path = format!("/p{at}");
            json!({"type": "endpoint", "method": "GET", "path": path, "inputSchema": schema})
        };
        let id = format!("wide-{number}");
        let paths: Vec<Value> = (0..12).map(path).collect();
        kept.push(mdp::Client::connect_registered(&ws(&server), &id, json!(paths)).await);
    }
    let mut lists = JoinSet::new();
    for _ in 0..16 {
        let http = server.process.http.clone();
        lists.spawn(async move {
            let mut client = Client::Stateless(Stateless::new(&http));
            client.ask("tools/call", json!({"name": "listClients", "arguments": {}})).await
        });
    }
    while let Some(answer) = lists.join_next().await {
        let text = answer.unwrap().to_string();
        assert!(text.len() < 8 << 20, "{} bytes", text.len());
    }
    // A client too large to be listed is refused.
    let mut heavy = mdp::Client::connect(&ws(&server)).await;
    let mut message = registration("heavy", json!([]));
    message["client"]["metadata"] = json!({ "x": vec![json!([0]); 40_000] });
    heavy.send(&message).await;
    assert_eq!(heavy.wait_for_close().await.0, 1008);
    memory.assert_peak_below(BUDGET);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_many_unknown_clients_are_refused_at_once() {
    let server = TestServer::new();
    let ids: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    let mut client = Client::Stateless(Stateless::new(&server.process.http));
    let call = json!({"clientIds": ids, "method": "GET", "path": "/a"});
    let answer = client.call("callPaths", call).await;
    assert_eq!(answer["isError"], true);
    assert!(answer["content"][0]["text"].as_str().unwrap().contains("20000 clients"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_64_kib_are_read_before_the_token() {
    let server = TestServer::with_config("mdp:\n  token: a-token-of-clients\n");
    let mut large = registration("large", json!([]));
    large["client"]["description"] = "x".repeat(100 << 10).into();
    large["auth"] = json!({"token": "a-token-of-clients"});
    let mut socket = mdp::Client::connect(&ws(&server)).await;
    socket.send(&large).await;
    assert_eq!(socket.wait_for_close().await.0, 1009);
    let looping = LoopClient::connect(&server, None).await;
    assert_eq!(looping.send(&server, &large).await.status, 413);
    // With the token in the handshake, or in a small message, larger registrations are accepted.
    let headers = [("authorization", "Bearer a-token-of-clients")];
    let mut known = mdp::Client::connect_with(&ws(&server), &headers).await.ok().unwrap();
    known.send(&large).await;
    known.wait_until_processed().await;
    large["client"]["id"] = "small".into();
    large["client"]["description"] = "small".into();
    let looping = LoopClient::connect(&server, None).await;
    assert_eq!(looping.send(&server, &large).await.status, 202);
    assert_eq!(listed(&server).await, ["large", "small"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_are_limited_before_they_are_received_until_the_token() {
    let server = TestServer::with_config("mdp:\n  token: a-token-of-clients\n");
    let looping = LoopClient::connect(&server, None).await;
    let mut ping = json!({"type": "ping", "timestamp": 1});
    ping["x"] = "x".repeat(100 << 10).into();
    let refused = looping.send(&server, &ping).await;
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (413, &json!("body_too_large")));
    for (target, bytes) in [("/mdp/auth", 20 << 10), ("/mdp/http-loop/connect", 2 << 10)] {
        let body = json!({"x": "x".repeat(bytes)}).to_string();
        let refused = send(&server, Request::new("POST", target).body(body)).await;
        assert_eq!(
            (refused.status, &refused.json()["error"]["code"]),
            (413, &json!("body_too_large")),
            "{target}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_before_the_token_count_together() {
    let server = TestServer::with_config("mdp:\n  token: a-token-of-clients\n");
    let mut socket = mdp::Client::connect(&ws(&server)).await;
    let ping = json!({"type": "ping", "timestamp": 1, "x": "y".repeat(10_000)});
    for _ in 0..20 {
        socket.send(&ping).await;
    }
    let (code, reason) = socket.wait_for_close().await;
    assert_eq!((code, reason.as_str()), (1009, "at most 65536 bytes are read before the token"));
    let mut socket = mdp::Client::connect(&ws(&server)).await;
    socket.send(&json!({"type": "unregisterClient", "clientId": "x"})).await;
    assert_eq!(socket.wait_for_close().await.0, 1008, "only a registration or a ping");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_cookie_does_not_contain_the_token() {
    let server = TestServer::with_config("mdp:\n  token: a-token-of-clients\n");
    let auth = json!({"auth": {"token": "a-token-of-clients"}}).to_string();
    let answer = send(&server, Request::new("POST", "/mdp/auth").body(auth)).await;
    let cookie = answer.header("set-cookie").unwrap();
    let value = cookie.split(['=', ';']).nth(1).unwrap();
    let (until, signature) = value.split_once('.').unwrap();
    assert!(until.parse::<u64>().is_ok() && signature.len() == 43, "{cookie}");
    let pair = format!("mdp_auth={value}");
    let headers = [("cookie", pair.as_str())];
    let mut client = mdp::Client::connect_with(&ws(&server), &headers).await.ok().unwrap();
    client.send(&registration("browser", json!([]))).await;
    client.wait_until_processed().await;
    let later = format!("mdp_auth=99999999999.{signature}");
    let headers = [("cookie", later.as_str())];
    let mut forged = mdp::Client::connect_with(&ws(&server), &headers).await.ok().unwrap();
    forged.send(&registration("forged", json!([]))).await;
    assert_eq!(forged.wait_for_close().await.0, 1008);
}
