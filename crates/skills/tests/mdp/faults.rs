//! Clients that do not do as they should, and many of them.

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

use crate::{ask, client, get, paths, post, support::Home, text, ws};

#[tokio::test]
async fn one_that_never_answers_is_waited_for_as_long_as_is_set() {
    let home = Home::configured("mdp:\n  timeouts:\n    answer_ms: 200\n");
    let _silent = client(&home, "silent", paths()).await;
    let answer = get(&home, "/skills/silent/a").await;
    assert_eq!(answer.refusal(), (504, "timeout".to_owned()));
}

#[tokio::test]
async fn one_that_fails_or_goes_is_a_bad_gateway() {
    let home = Home::new();
    let mut tab = client(&home, "tab", paths()).await;
    let waiting = ask(&home, Request::get("/skills/tab/a"));
    let call = tab.asked().await;
    let error = json!({"code": "handler_error", "message": "no"});
    tab.answer(&call, json!({"ok": false, "error": error})).await;
    assert_eq!(waiting.await.unwrap().refusal(), (502, "handler_error".to_owned()));
    let waiting = ask(&home, Request::get("/skills/tab/a"));
    tab.asked().await;
    tab.kill();
    assert_eq!(waiting.await.unwrap().refusal(), (502, "transport_error".to_owned()));
}

#[tokio::test]
async fn nobody_answers_for_another_and_nobody_answers_twice() {
    let home = Home::new();
    let mut honest = client(&home, "honest", paths()).await;
    let mut liar = client(&home, "liar", paths()).await;
    for truth in ["the truth", "the next"] {
        let waiting = ask(&home, Request::get("/skills/honest/a"));
        let call = honest.asked().await;
        liar.answer(&call, ok("a lie")).await;
        liar.is_heard().await;
        honest.answer(&call, ok(truth)).await;
        honest.answer(&call, ok("again")).await;
        assert_eq!(text(&waiting.await.unwrap()), truth);
    }
}

#[tokio::test]
async fn a_newer_session_replaces_the_older_one() {
    let home = Home::new();
    let mut old = client(&home, "tab", paths()).await;
    let waiting = ask(&home, Request::get("/skills/tab/a"));
    old.asked().await;
    let new = client(&home, "tab", paths()).await.serving(|_| ok("new"));
    assert_eq!(waiting.await.unwrap().status, 502);
    assert_eq!(old.closed().await, (4000, "Replaced by newer client session".to_owned()));
    assert_eq!(text(&get(&home, "/skills/tab/a").await), "new");
    new.abort();
}

#[tokio::test]
async fn half_a_frame_harms_nobody() {
    let home = Home::new();
    let serving = client(&home, "fine", paths()).await.serving(|_| ok("fine"));
    let address = home.server.http.trim_start_matches("http://").to_owned();
    let half = move || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
        let head = format!(
            "GET /any HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{key}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut said = [0; 12];
        stream.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"HTTP/1.1 101");
        // A text frame of 100 bytes, of which ten come.
        stream.write_all(&[0x81, 0x80 | 100, 1, 2, 3, 4]).unwrap();
        stream.write_all(&[b'x'; 10]).unwrap();
        stream
    };
    let stream = spawn_blocking(half).await.unwrap();
    assert_eq!(text(&get(&home, "/skills/fine/a").await), "fine");
    drop(stream);
    assert_eq!(text(&get(&home, "/skills/fine/a").await), "fine");
    serving.abort();
}

/// Each client is a file that is open, and a shell may allow fewer.
fn allow_many_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_clients_at_once_are_killed_and_come_back_under_load() {
    const CLIENTS: usize = 1000;
    allow_many_files();
    let home = Home::new();
    let steady = client(&home, "steady", paths()).await.serving(|_| ok("steady"));
    let url = ws(&home);
    // The load: somebody reads all the time, from all of them.
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<JoinHandle<usize>> = (0..2)
        .map(|first| {
            let (address, is_over) = (home.server.http.clone(), Arc::clone(&is_over));
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
                client.is_heard().await;
            }
            clients.push(client.serving(move |_| ok(id.as_str())));
        }
        let worker = home.worker().await;
        let here = async {
            loop {
                let listed = worker.ok("mdp::list-paths", json!({ "search": "/a/skill.md" })).await;
                // As many as one answer has: the one that is always there, and all but one of these.
                if listed["paths"].as_array().unwrap().len() == CLIENTS
                    && listed["nextCursor"].is_string()
                {
                    return;
                }
            }
        };
        timeout(DEADLINE, here).await.expect("a thousand at once");
        for number in (0..CLIENTS).step_by(100) {
            let answer = get(&home, &format!("/skills/c{number}/a")).await;
            assert_eq!((answer.status, text(&answer)), (200, &*format!("c{number}")));
        }
        assert_eq!(text(&get(&home, "/skills/steady/a").await), "steady");
        clients.iter().for_each(JoinHandle::abort);
    }
    is_over.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 0, "the load has read something");
    }
    let gone = async {
        for number in 0..CLIENTS {
            // Who was killed while asked is gone, too late or not there; in the end not there.
            while get(&home, &format!("/skills/c{number}/a")).await.status != 404 {}
        }
    };
    timeout(DEADLINE, gone).await.expect("some are still there");
    assert_eq!(text(&get(&home, "/skills/steady/a").await), "steady");
    steady.abort();
}

#[tokio::test]
async fn when_the_server_stops_clients_and_polls_are_told() {
    let home = Home::new();
    let mut tab = client(&home, "tab", paths()).await;
    let connected = post(&home, "/mdp/http-loop/connect", "").await;
    let session = connected.json()["sessionId"].as_str().unwrap().to_owned();
    let send = format!("/mdp/http-loop/send?sessionId={session}");
    let message = json!({ "message": registration("loop", paths()) }).to_string();
    assert_eq!(post(&home, &send, message).await.status, 202);
    let poll = ask(&home, Request::get(&format!("/mdp/http-loop/poll?sessionId={session}")));
    let asking = ask(&home, Request::get("/skills/tab/a"));
    tab.asked().await;
    home.server.signal("TERM");
    assert_eq!(tab.closed().await.0, 1001);
    assert_eq!(asking.await.unwrap().status, 502);
    assert_eq!(poll.await.unwrap().status, 404);
    home.restart_when_stopped();
}
