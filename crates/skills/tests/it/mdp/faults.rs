//! Misbehaving clients and many clients.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use skills_testkit::{
    DEADLINE, Request,
    mdp::{Client, ok, registration},
};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};

use crate::{
    mdp::{ask, client, get, paths, post, text, ws},
    support::{TestServer, child::ran_in_child},
};

#[tokio::test]
async fn a_client_that_never_answers_times_out_as_configured() {
    let server = TestServer::with_config("mdp:\n  timeouts:\n    answer_ms: 200\n");
    let _silent = client(&server, "silent", paths()).await;
    let answer = get(&server, "/skills/silent/a").await;
    assert_eq!(answer.refusal(), (504, "timeout".to_owned()));
}

#[tokio::test]
async fn a_failing_or_disconnecting_client_is_a_bad_gateway() {
    let server = TestServer::new();
    let mut tab = client(&server, "tab", paths()).await;
    let waiting = ask(&server, Request::get("/skills/tab/a"));
    let call = tab.next_call().await;
    let error = json!({"code": "handler_error", "message": "no"});
    tab.answer(&call, json!({"ok": false, "error": error})).await;
    assert_eq!(waiting.await.unwrap().refusal(), (502, "handler_error".to_owned()));
    let waiting = ask(&server, Request::get("/skills/tab/a"));
    tab.next_call().await;
    tab.kill();
    assert_eq!(waiting.await.unwrap().refusal(), (502, "transport_error".to_owned()));
}

#[tokio::test]
async fn foreign_and_duplicate_answers_are_ignored() {
    let server = TestServer::new();
    let mut honest = client(&server, "honest", paths()).await;
    let mut liar = client(&server, "liar", paths()).await;
    for truth in ["the truth", "the next"] {
        let waiting = ask(&server, Request::get("/skills/honest/a"));
        let call = honest.next_call().await;
        liar.answer(&call, ok("a lie")).await;
        liar.wait_until_processed().await;
        honest.answer(&call, ok(truth)).await;
        honest.answer(&call, ok("again")).await;
        assert_eq!(text(&waiting.await.unwrap()), truth, "{truth}");
    }
}

#[tokio::test]
async fn a_newer_session_replaces_the_older_one() {
    let server = TestServer::new();
    let mut old = client(&server, "tab", paths()).await;
    let waiting = ask(&server, Request::get("/skills/tab/a"));
    old.next_call().await;
    let new = client(&server, "tab", paths()).await.serve_calls(|_| ok("new"));
    assert_eq!(waiting.await.unwrap().status, 502);
    assert_eq!(old.wait_for_close().await, (4000, "Replaced by newer client session".to_owned()));
    assert_eq!(text(&get(&server, "/skills/tab/a").await), "new");
    new.abort();
}

#[tokio::test]
async fn a_partial_frame_affects_no_other_client() {
    let server = TestServer::new();
    let serving = client(&server, "fine", paths()).await.serve_calls(|_| ok("fine"));
    let address = server.process.http.trim_start_matches("http://").to_owned();
    let half = move || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
        let head = format!(
            "GET /any HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{key}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut output = [0; 12];
        stream.read_exact(&mut output).unwrap();
        assert_eq!(&output, b"HTTP/1.1 101");
        // A text frame of 100 bytes, of which ten arrive.
        stream.write_all(&[0x81, 0x80 | 100, 1, 2, 3, 4]).unwrap();
        stream.write_all(&[b'x'; 10]).unwrap();
        stream
    };
    let stream = spawn_blocking(half).await.unwrap();
    assert_eq!(text(&get(&server, "/skills/fine/a").await), "fine");
    drop(stream);
    assert_eq!(text(&get(&server, "/skills/fine/a").await), "fine");
    serving.abort();
}

/// Raises the limit of open files to the maximum: each client is an open file.
fn raise_open_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_clients_are_killed_and_reconnect_under_load() {
    const CLIENTS: usize = 1000;
    const NAME: &str = "mdp::faults::a_thousand_clients_are_killed_and_reconnect_under_load";
    if ran_in_child(NAME) {
        return;
    }
    raise_open_file_limit();
    let server = TestServer::new();
    let steady = client(&server, "steady", paths()).await.serve_calls(|_| ok("steady"));
    let url = ws(&server);
    // Load: two readers request skills of all clients.
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<JoinHandle<usize>> = (0..2)
        .map(|first| {
            let (address, is_over) = (server.process.http.clone(), Arc::clone(&is_over));
            spawn_blocking(move || {
                let mut right = 0;
                for number in (first..).step_by(2).map(|number| number % CLIENTS) {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let answer = Request::get(&format!("/skills/c{number}/a")).send(&address);
                    match answer.status {
                        200 => assert_eq!(text(&answer), format!("c{number}")),
                        status => assert!([404, 502, 504].contains(&status), "{status}"),
                    }
                    right += usize::from(answer.status == 200);
                }
                right
            })
        })
        .collect();
    for _ in 0..2 {
        let mut clients: Vec<JoinHandle<()>> = Vec::new();
        for number in 0..CLIENTS {
            let id = format!("c{number}");
            let mut client = Client::connect(&url).await;
            client.send(&registration(&id, paths())).await;
            if number + 1 == CLIENTS {
                client.wait_until_processed().await;
            }
            clients.push(client.serve_calls(move |_| ok(id.as_str())));
        }
        let worker = server.worker().await;
        let here = async {
            loop {
                let listed = worker.ok("mdp::list-paths", json!({ "search": "/a/skill.md" })).await;
                // As many as fit into one answer: the steady client and all but one of these.
                if listed["paths"].as_array().unwrap().len() == CLIENTS
                    && listed["nextCursor"].is_string()
                {
                    return;
                }
            }
        };
        timeout(DEADLINE, here).await.expect("a thousand at once");
        for number in (0..CLIENTS).step_by(100) {
            let answer = get(&server, &format!("/skills/c{number}/a")).await;
            assert_eq!((answer.status, text(&answer)), (200, &*format!("c{number}")));
        }
        assert_eq!(text(&get(&server, "/skills/steady/a").await), "steady");
        clients.iter().for_each(JoinHandle::abort);
    }
    is_over.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 0, "the load has read something");
    }
    let gone = async {
        for number in 0..CLIENTS {
            // A killed client first gives 502 or 504; in the end it is absent.
            while get(&server, &format!("/skills/c{number}/a")).await.status != 404 {}
        }
    };
    timeout(DEADLINE, gone).await.expect("some are still there");
    assert_eq!(text(&get(&server, "/skills/steady/a").await), "steady");
    steady.abort();
}

#[tokio::test]
async fn shutdown_closes_clients_and_polls() {
    let server = TestServer::new();
    let mut tab = client(&server, "tab", paths()).await;
    let connected = post(&server, "/mdp/http-loop/connect", "").await;
    let session = connected.json()["sessionId"].as_str().unwrap().to_owned();
    let send = format!("/mdp/http-loop/send?sessionId={session}");
    let message = json!({ "message": registration("loop", paths()) }).to_string();
    assert_eq!(post(&server, &send, message).await.status, 202);
    let poll = ask(&server, Request::get(&format!("/mdp/http-loop/poll?sessionId={session}")));
    let asking = ask(&server, Request::get("/skills/tab/a"));
    tab.next_call().await;
    server.process.signal("TERM");
    assert_eq!(tab.wait_for_close().await.0, 1001);
    assert_eq!(asking.await.unwrap().status, 502);
    assert_eq!(poll.await.unwrap().status, 404);
    server.restart_when_stopped(|| {});
}
