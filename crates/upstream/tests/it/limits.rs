//! Limits of time and size.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use serde_json::{Value, json};
use skills_core::Coded as _;
use skills_testkit::ReservedPort;
use skills_upstream::{DnsResolver, Settings, UpstreamError};
use tokio::{
    io::{AsyncWriteExt as _, sink},
    net::TcpListener,
    task::JoinSet,
};

use crate::{
    allowing, execute,
    test_upstream::{TestUpstream, ok, read},
};

/// Timeout that a test waits for; within it the server has the request, on a busy machine too.
const SHORT: Duration = Duration::from_secs(2);

/// Behaviour of a server after a request.
#[derive(Debug, Clone, Copy)]
enum ServerBehavior {
    /// Sends a text and keeps the connection open.
    Stalls(&'static str),
    /// Sends a text and then another one forever.
    Repeats(&'static str, &'static str),
    /// Sends a text and closes.
    Leaves(&'static str),
}

async fn execute_against(then: ServerBehavior, settings: Settings) -> Result<Value, UpstreamError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read(&mut stream).await;
        match then {
            ServerBehavior::Stalls(output) => {
                let _ = stream.write_all(output.as_bytes()).await;
                // Waits until the client has gone.
                let _ = tokio::io::copy(&mut stream, &mut sink()).await;
            }
            ServerBehavior::Repeats(first, then) => {
                let _ = stream.write_all(first.as_bytes()).await;
                while stream.write_all(then.as_bytes()).await.is_ok() {}
            }
            ServerBehavior::Leaves(output) => {
                let _ = stream.write_all(output.as_bytes()).await;
            }
        }
    });
    let settings = Settings { allow: vec![origin.parse().unwrap()], ..settings };
    let implementation = json!({"endpoint": origin, "method": "GET"});
    let done = execute(settings, implementation, json!({})).await;
    // The client closed the connection, so the server ends.
    serving.join_next().await.unwrap().unwrap();
    done
}

#[tokio::test]
async fn the_timeout_covers_every_phase() {
    let phases = [
        ServerBehavior::Stalls(""),
        ServerBehavior::Stalls("HTTP/1.1 200 OK\r\nContent-Le"),
        ServerBehavior::Stalls("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345"),
        ServerBehavior::Stalls("HTTP/1.1 500 Oh\r\nContent-Length: 10\r\n\r\n12345"),
        ServerBehavior::Stalls(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
        ),
    ];
    let settings = || Settings { timeout: SHORT, ..allowing(&[]) };
    let calls = phases.into_iter().map(|then| execute_against(then, settings()));
    for done in calls.collect::<JoinSet<_>>().join_all().await {
        assert_eq!(done, Err(UpstreamError::TimedOut { after: SHORT }));
    }
}

#[tokio::test]
async fn the_timeout_covers_all_redirects_together() {
    let circle = TestUpstream::redirecting(307, |_| "/".to_owned()).await;
    let settings =
        Settings { timeout: SHORT, max_redirects: usize::MAX, ..allowing(&[&circle.origin()]) };
    let error = execute(settings, json!({"endpoint": circle.origin()}), json!({})).await;
    assert_eq!(error, Err(UpstreamError::TimedOut { after: SHORT }));
}

#[tokio::test]
async fn the_timeout_covers_name_resolution() {
    struct Never;
    #[async_trait::async_trait]
    impl DnsResolver for Never {
        async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            std::future::pending().await
        }
    }
    let settings = Settings { timeout: SHORT, resolver: Arc::new(Never), ..Settings::default() };
    let error = execute(settings, json!({"endpoint": "https://a.test"}), json!({})).await;
    assert_eq!(error, Err(UpstreamError::TimedOut { after: SHORT }));
}

#[tokio::test]
async fn the_answer_size_is_limited() {
    const MAX: usize = 64 << 10;
    for then in [
        ServerBehavior::Repeats("HTTP/1.1 200 OK\r\n\r\n", "xxxxxxxxxxxxxxxx"),
        ServerBehavior::Repeats(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "8\r\nxxxxxxxx\r\n",
        ),
        ServerBehavior::Stalls("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"),
    ] {
        let settings = Settings { max_response: MAX, ..allowing(&[]) };
        assert_eq!(
            execute_against(then, settings).await,
            Err(UpstreamError::TooLarge { max: MAX }),
            "{then:?}"
        );
    }
    // An error status counts, however long the body is.
    let endless = ServerBehavior::Repeats("HTTP/1.1 500 Oh\r\n\r\n", "x");
    assert_eq!(
        execute_against(endless, allowing(&[])).await.unwrap_err().code().as_str(),
        "upstream_status"
    );
    let head = ServerBehavior::Repeats("HTTP/1.1 200 OK\r\nX: ", "xxxxxxxxxxxxxxxx");
    assert_eq!(
        execute_against(head, allowing(&[])).await.unwrap_err().code().as_str(),
        "upstream_broken"
    );
}

#[tokio::test]
async fn an_answer_of_exactly_the_limit_is_read() {
    const MAX: usize = 1000;
    for (length, fits) in [(MAX, true), (MAX + 1, false)] {
        let server = TestUpstream::start(move |_| ok("text/plain", &"x".repeat(length))).await;
        let settings = Settings { max_response: MAX, ..allowing(&[&server.origin()]) };
        let done = execute(settings, json!({"endpoint": server.origin()}), json!({})).await;
        assert_eq!(done.is_ok(), fits, "{length}");
    }
}

#[tokio::test]
async fn a_truncated_answer_is_an_error() {
    for (output, code) in [
        ("", "upstream_broken"),
        ("SSH-2.0-OpenSSH\r\n", "upstream_broken"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345", "upstream_unreadable"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "upstream_unreadable"),
        (
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
            "upstream_unreadable",
        ),
    ] {
        let error =
            execute_against(ServerBehavior::Leaves(output), allowing(&[])).await.unwrap_err();
        assert_eq!(error.code().as_str(), code, "{output}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_an_error() {
    let unused = ReservedPort::new();
    let origin = format!("http://{}", unused.address());
    let error = execute(allowing(&[&origin]), json!({"endpoint": origin}), json!({})).await;
    assert_eq!(error.unwrap_err().code().as_str(), "upstream_connect");
}
