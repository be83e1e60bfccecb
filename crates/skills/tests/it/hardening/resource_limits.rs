//! Clients without special rights cannot exhaust memory, time or the shares of others over HTTP and MCP.

use std::{
    fs,
    io::{ErrorKind::WouldBlock, Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use serde_json::{Value, json};
use skills_testkit::{
    DEADLINE, ProcessMemory, Random, Request, Response, ServerProcess, exchange, program, run,
};
use tokio::task::spawn_blocking;

use crate::support::{
    BINARY, TestServer,
    mcp_clients::{Session, Stateless, initialize, post, send, stateless_request},
};

const MIB: usize = 1 << 20;
const ADMIN_KEY: &str = "an-administrators-secret-0123456789";

/// Address of a client that takes no part in an attack.
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn measure(server: &TestServer) -> ProcessMemory {
    ProcessMemory::measure(server.process.pid())
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn with_admin() -> TestServer {
    let dir = tempfile::tempdir().unwrap();
    let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
    command.env("ADMIN_KEY", ADMIN_KEY);
    TestServer::from_parts(ServerProcess::spawn(&mut command), dir)
}

/// Creates a key of a user.
fn key(server: &TestServer, uid: &str) -> String {
    let request = Request::new("POST", "/v1/admin/keys")
        .header("Authorization", &format!("Bearer {ADMIN_KEY}"))
        .header("Content-Type", "application/json")
        .body(json!({ "user_uid": uid }).to_string());
    let answer = request.send(&server.process.http);
    assert!(answer.status < 300, "{answer:?}");
    answer.json()["key"].as_str().unwrap().to_owned()
}

/// Stores a bundle with these files beside its root document.
fn add_bundle(server: &TestServer, name: &str, files: &[(&str, Vec<u8>)]) {
    let dir = server.dir().join(name);
    fs::create_dir_all(&dir).unwrap();
    let root = format!("---\nname: {name}\ndescription: Is large. Use when asked to.\n---\n# L\n");
    fs::write(dir.join("SKILL.md"), root).unwrap();
    for (path, bytes) in files {
        fs::write(dir.join(path), bytes).unwrap();
    }
    let added =
        run(program(BINARY).args(["add", dir.to_str().unwrap(), "--url", &server.process.url]));
    assert_eq!(added.code, Some(0), "{added:?}");
}

/// Returns incompressible bytes.
fn noise(bytes: usize) -> Vec<u8> {
    let mut random = Random::new();
    (0..bytes).map(|_| u8::try_from(random.below(256)).unwrap()).collect()
}

/// Builds a tool call of the newest revision.
fn call(name: &str, arguments: &Value) -> Request {
    let params = json!({ "name": name, "arguments": arguments });
    Stateless::post(&stateless_request(1, "tools/call", &params))
}

/// Checks that small requests of another client are served.
async fn check_others_are_served(server: &TestServer) {
    let http = &server.process.http;
    let list = Stateless::post(&stateless_request(1, "tools/list", &json!({})));
    assert_eq!(list.send_from(OTHER, http).await.status, 200);
    for path in ["/healthz", "/v1/skills", "/.well-known/agent-skills/index.json"] {
        assert_eq!(Request::get(path).send_from(OTHER, http).await.status, 200, "{path}");
    }
}

/// Sends many requests at once.
async fn all(server: &TestServer, requests: &[Request]) -> Vec<Response> {
    join_all(requests.iter().map(|request| send(&server.process.http, request))).await
}

/// Checks that every answer is as expected or an overload error.
fn check_served_or_overloaded(answers: &[Response], expected: u16) {
    for answer in answers {
        if answer.status == 503 {
            assert_eq!(answer.header("Retry-After").as_deref(), Some("1"));
            assert!(String::from_utf8_lossy(&answer.body).contains("overloaded"), "{answer:?}");
        } else {
            assert_eq!(answer.status, expected);
        }
    }
    assert!(answers.iter().any(|answer| answer.status == expected), "nobody was served");
}

fn nested(values: usize) -> String {
    format!("[{}[0]]", "[0],".repeat(values / 2 - 1))
}

fn mcp(body: String) -> Request {
    Request::new("POST", "/mcp")
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .body(body)
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_a_million_values_are_refused_before_they_are_parsed() {
    let server = TestServer::new();
    check_others_are_served(&server).await;
    let memory = measure(&server);
    let body = nested(2_000_000);
    assert!(body.len() < 4 * MIB);
    let attack = vec![mcp(body.clone()); 32];
    let (answers, ()) = tokio::join!(all(&server, &attack), check_others_are_served(&server));
    check_served_or_overloaded(&answers, 413);
    let refused = answers.iter().find(|answer| answer.status == 413).unwrap();
    assert_eq!(refused.refusal(), (413, "body_too_large".to_owned()));
    let batch = format!("[{}]", r#"{"jsonrpc":"2.0","method":"x"},"#.repeat(60_000));
    let batch = mcp(batch).header("MCP-Protocol-Version", "2025-03-26");
    assert_eq!(send(&server.process.http, &batch).await.status, 413);
    let execute = Request::new("POST", "/v1/execute/x")
        .header("Content-Type", "application/json")
        .body(body[..2 * MIB - 1].to_owned());
    let answer = send(&server.process.http, &execute).await;
    assert_eq!((answer.status, &answer.json()["code"]), (413, &json!("body_too_large")));
    memory.assert_peak_below(256 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_the_maximum_number_of_values_stay_within_the_budget() {
    let server = TestServer::new();
    check_others_are_served(&server).await;
    let memory = measure(&server);
    let arguments = serde_json::from_str::<Value>(&nested(99_000)).unwrap();
    let attack = vec![call("list_skills", &json!({ "x": arguments })); 32];
    let (answers, ()) = tokio::join!(all(&server, &attack), check_others_are_served(&server));
    check_served_or_overloaded(&answers, 200);
    memory.assert_peak_below(512 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn read_skill_returns_each_file_once_and_reports_omissions() {
    let server = TestServer::new();
    let text = |letter: u8| vec![letter; 3 * MIB];
    let files = [("a.txt", text(b'a')), ("b.txt", text(b'b')), ("c.txt", vec![b'c'; 8 * MIB])];
    add_bundle(&server, "large", &files);
    let memory = measure(&server);
    let uris: Vec<_> = (0..50).map(|n| format!("iii://large/{}.txt", ["a", "b"][n % 2])).collect();
    let attack = vec![call("read_skill", &json!({ "uris": uris })); 20];
    let (answers, ()) = tokio::join!(all(&server, &attack), check_others_are_served(&server));
    check_served_or_overloaded(&answers, 200);
    let read = answers.iter().find(|answer| answer.status == 200).unwrap().json();
    let text = read["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text.matches("# iii://large/").count(), 2, "each file once");
    let (first, second) = text.split_once("\n\n# iii://large/b.txt\n\n").unwrap();
    assert!(first.len() >= 3 * MIB && second.starts_with("omitted"), "{}", &second[..100]);
    let one = call("read_skill", &json!({ "uri": "iii://large/c.txt" }));
    let answer = send(&server.process.http, &one).await.json();
    assert_eq!(answer["result"]["isError"], true);
    memory.assert_peak_below(512 << 20);
    // The resource is readable in full.
    let read = stateless_request(1, "resources/read", &json!({ "uri": "iii://large/c.txt" }));
    let answer = send(&server.process.http, &Stateless::post(&read)).await.json();
    assert_eq!(answer["result"]["contents"][0]["text"].as_str().unwrap().len(), 8 * MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_answers_count_against_the_budget() {
    let server = TestServer::new();
    add_bundle(&server, "large", &[("c.txt", vec![b'c'; 8 * MIB])]);
    let memory = measure(&server);
    let read = stateless_request(1, "resources/read", &json!({ "uri": "iii://large/c.txt" }));
    let address = server.process.http.strip_prefix("http://").unwrap().to_owned();
    let request = Stateless::post(&read).bytes(&address);
    let begin = move || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(&request).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (stream, head)
    };
    let unread =
        spawn_blocking(move || (0..60).map(|_| begin()).collect::<Vec<_>>()).await.unwrap();
    let statuses: Vec<_> =
        unread.iter().map(|(_, head)| String::from_utf8_lossy(&head[9..])).collect();
    assert!(statuses.iter().any(|status| status == "200"), "{statuses:?}");
    check_others_are_served(&server).await;
    memory.assert_peak_below(512 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn listen_streams_with_large_filters_stay_within_the_budget() {
    let server = TestServer::new();
    check_others_are_served(&server).await;
    let memory = measure(&server);
    let uris: Vec<_> = (0..2_000).map(|number| format!("iii://{number:0>1990}")).collect();
    let filter = json!({ "notifications": { "resourceSubscriptions": uris } });
    let listen = Stateless::post(&stateless_request(1, "subscriptions/listen", &filter));
    let address = server.process.http.strip_prefix("http://").unwrap().to_owned();
    let begin = move || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(&listen.bytes(&address)).unwrap();
        let mut answer = Vec::new();
        while !contains(&answer, "acknowledged") {
            let mut part = [0; 4096];
            let read = stream.read(&mut part).unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&part[..read]);
        }
        stream
    };
    let mut open =
        spawn_blocking(move || (0..100).map(|_| begin()).collect::<Vec<_>>()).await.unwrap();
    // The oldest ones made room, and ended with a result.
    let mut newest = open.pop().unwrap();
    for ended in &mut open[..90] {
        let mut rest = Vec::new();
        ended.read_to_end(&mut rest).unwrap();
        assert!(contains(&rest, "\"resultType\":\"complete\""));
    }
    newest.set_nonblocking(true).unwrap();
    let mut rest = Vec::new();
    let is_open = newest.read_to_end(&mut rest).is_err_and(|error| error.kind() == WouldBlock);
    assert!(is_open && !contains(&rest, "complete"), "{}", String::from_utf8_lossy(&rest));
    check_others_are_served(&server).await;
    let small =
        Stateless::listen(&server.process.http, 2, &json!({ "toolsListChanged": true })).await;
    drop(small);
    memory.assert_peak_below(512 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_requests_for_an_archive_pack_it_once() {
    let server = TestServer::new();
    add_bundle(&server, "large", &[("noise.bin", noise(8 * MIB))]);
    let memory = measure(&server);
    let attack = vec![Request::get("/.well-known/agent-skills/large.tar.gz"); 60];
    let (answers, ()) = tokio::join!(all(&server, &attack), check_others_are_served(&server));
    // All share the packed bytes, so none is refused.
    assert!(answers.iter().all(|answer| answer.status == 200));
    let whole = answers.iter().filter(|answer| answer.status == 200);
    assert!(whole.clone().all(|answer| answer.body.len() > 8 * MIB));
    memory.assert_peak_below(256 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_bodies_do_not_block_other_clients() {
    let server = TestServer::new();
    let address = server.process.http.strip_prefix("http://").unwrap().to_owned();
    let begun = mcp(String::new()).bytes(&address);
    let begun =
        String::from_utf8(begun).unwrap().replace("Content-Length: 0", "Content-Length: 99");
    let begin = move || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(begun.as_bytes()).unwrap();
        stream
    };
    let unfinished = spawn_blocking(move || (0..520).map(|_| begin()).collect::<Vec<_>>());
    let unfinished = unfinished.await.unwrap();
    for _ in 0..20 {
        check_others_are_served(&server).await;
    }
    // Unfinished bodies time out with an answer.
    let mut one = unfinished.into_iter().next().unwrap();
    let output = spawn_blocking(move || {
        one.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut output = Vec::new();
        one.read_to_end(&mut output).map(|_| output).unwrap()
    });
    let answer = Response::parse(&output.await.unwrap()).unwrap();
    assert_eq!(answer.refusal(), (408, "body_timeout".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn initialize_calls_of_one_client_evict_no_session_of_another() {
    let server = with_admin();
    let http = &server.process.http;
    let ann = Session::open_as(http, "2025-06-18", Some(&key(&server, "ann"))).await;
    let used = Session::open(http, "2025-06-18").await;
    let attack = vec![post(&initialize("2025-06-18")); 16];
    // Invented credentials do not count as separate clients.
    let invented = |number: usize| {
        post(&initialize("2025-06-18")).header("Authorization", &format!("Bearer x{number}"))
    };
    for round in 0..70 {
        let attack = match round % 2 {
            0 => attack.clone(),
            _ => (0..16).map(|number| invented(16 * round + number)).collect(),
        };
        for answer in all(&server, &attack).await {
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }
    assert_eq!(ann.ping().await, 200);
    assert_eq!(used.ping().await, 200, "one that is used stays longer than those that are not");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_metadata_is_limited() {
    let server = TestServer::new();
    let mut message = initialize("2025-06-18");
    message["params"]["clientInfo"]["name"] = json!("x".repeat(MIB));
    let answer = send(&server.process.http, &post(&message)).await;
    assert_eq!(answer.json()["error"]["code"], -32602, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overlong_chunk_extension_is_400() {
    let server = TestServer::new();
    let address = server.process.http.strip_prefix("http://").unwrap().to_owned();
    for path in ["/mcp", "/v1/execute/x"] {
        let head = Request::new("POST", path)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .header("Transfer-Encoding", "chunked");
        let mut bytes = head.bytes(&address);
        bytes.extend(format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "e".repeat(20 << 10)).into_bytes());
        let address = address.clone();
        let output = spawn_blocking(move || exchange(&address, &bytes)).await.unwrap().unwrap();
        let answer = Response::parse(&output).unwrap();
        assert_eq!(answer.status, 400, "{path} {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_returned_after_a_peak() {
    let server = TestServer::new();
    check_others_are_served(&server).await;
    let memory = measure(&server);
    let arguments = serde_json::from_str::<Value>(&nested(99_000)).unwrap();
    let attack = vec![call("list_skills", &json!({ "x": arguments })); 32];
    check_served_or_overloaded(&all(&server, &attack).await, 200);
    let peak = memory.peak();
    let started = Instant::now();
    while memory.resident() > (peak / 2).max(32 << 20) {
        assert!(started.elapsed() < DEADLINE, "{} MiB", memory.resident() >> 20);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
