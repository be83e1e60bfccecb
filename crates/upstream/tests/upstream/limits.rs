//! Time and bytes.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use serde_json::{Value, json};
use skills_upstream::{ExecuteError, Resolve, Settings};
use tokio::{
    io::{AsyncWriteExt as _, sink},
    net::TcpListener,
    task::JoinSet,
};

use crate::{
    allowing, execute,
    server::{Server, ok, read},
};

const SHORT: Duration = Duration::from_millis(150);

/// What a server does after it was asked.
enum Then {
    /// Says something, and nothing more, without going away.
    Stalls(&'static str),
    /// Says something, and then something else for ever.
    Repeats(&'static str, &'static str),
    /// Says something and goes away.
    Leaves(&'static str),
}

async fn against(then: Then, settings: Settings) -> Result<Value, ExecuteError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read(&mut stream).await;
        match then {
            Then::Stalls(said) => {
                let _ = stream.write_all(said.as_bytes()).await;
                // Until the other end is gone.
                let _ = tokio::io::copy(&mut stream, &mut sink()).await;
            }
            Then::Repeats(first, then) => {
                let _ = stream.write_all(first.as_bytes()).await;
                while stream.write_all(then.as_bytes()).await.is_ok() {}
            }
            Then::Leaves(said) => {
                let _ = stream.write_all(said.as_bytes()).await;
            }
        }
    });
    let settings = Settings { allow: vec![origin.parse().unwrap()], ..settings };
    let implementation = json!({"endpoint": origin, "method": "GET"});
    let done = execute(settings, implementation, json!({})).await;
    // The connection is closed, so that the server comes to its end.
    serving.join_next().await.unwrap().unwrap();
    done
}

#[tokio::test]
async fn time_is_bounded_wherever_it_is_spent() {
    for then in [
        Then::Stalls(""),
        Then::Stalls("HTTP/1.1 200 OK\r\nContent-Le"),
        Then::Stalls("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345"),
        Then::Stalls("HTTP/1.1 500 Oh\r\nContent-Length: 10\r\n\r\n12345"),
        Then::Stalls("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n"),
    ] {
        let settings = Settings { timeout: SHORT, ..allowing(&[]) };
        assert_eq!(against(then, settings).await, Err(ExecuteError::TimedOut { after: SHORT }));
    }
}

#[tokio::test]
async fn time_is_for_all_redirects_together() {
    let circle = Server::redirecting(307, |_| "/".to_owned()).await;
    let settings =
        Settings { timeout: SHORT, max_redirects: usize::MAX, ..allowing(&[&circle.origin()]) };
    let error = execute(settings, json!({"endpoint": circle.origin()}), json!({})).await;
    assert_eq!(error, Err(ExecuteError::TimedOut { after: SHORT }));
}

#[tokio::test]
async fn time_is_bounded_while_a_name_is_looked_up() {
    struct Never;
    #[async_trait::async_trait]
    impl Resolve for Never {
        async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            std::future::pending().await
        }
    }
    let settings = Settings { timeout: SHORT, resolver: Arc::new(Never), ..Settings::default() };
    let error = execute(settings, json!({"endpoint": "https://a.test"}), json!({})).await;
    assert_eq!(error, Err(ExecuteError::TimedOut { after: SHORT }));
}

#[tokio::test]
async fn bytes_are_bounded() {
    const MAX: usize = 64 << 10;
    for then in [
        Then::Repeats("HTTP/1.1 200 OK\r\n\r\n", "xxxxxxxxxxxxxxxx"),
        Then::Repeats("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "8\r\nxxxxxxxx\r\n"),
        Then::Stalls("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"),
    ] {
        let settings = Settings { max_response: MAX, ..allowing(&[]) };
        assert_eq!(against(then, settings).await, Err(ExecuteError::TooLarge { max: MAX }));
    }
    // A failure is a failure, however long it is.
    let endless = Then::Repeats("HTTP/1.1 500 Oh\r\n\r\n", "x");
    assert_eq!(against(endless, allowing(&[])).await.unwrap_err().code(), "upstream_status");
    let head = Then::Repeats("HTTP/1.1 200 OK\r\nX: ", "xxxxxxxxxxxxxxxx");
    assert_eq!(against(head, allowing(&[])).await.unwrap_err().code(), "broken");
}

#[tokio::test]
async fn the_last_byte_that_fits_is_read() {
    const MAX: usize = 1000;
    for (length, fits) in [(MAX, true), (MAX + 1, false)] {
        let server = Server::start(move |_| ok("text/plain", &"x".repeat(length))).await;
        let settings = Settings { max_response: MAX, ..allowing(&[&server.origin()]) };
        let done = execute(settings, json!({"endpoint": server.origin()}), json!({})).await;
        assert_eq!(done.is_ok(), fits, "{length}");
    }
}

#[tokio::test]
async fn what_breaks_is_no_answer() {
    for (said, code) in [
        ("", "broken"),
        ("SSH-2.0-OpenSSH\r\n", "broken"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345", "unreadable"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "unreadable"),
        ("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", "unreadable"),
    ] {
        let error = against(Then::Leaves(said), allowing(&[])).await.unwrap_err();
        assert_eq!(error.code(), code, "{said}");
    }
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = execute(allowing(&[&origin]), json!({"endpoint": origin}), json!({})).await;
    assert_eq!(error.unwrap_err().code(), "connect");
}
