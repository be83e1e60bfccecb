//! Stream of server-sent events in HTTP/1.1 chunks.

use std::collections::VecDeque;

use serde_json::Value;
use skills_testkit::{DEADLINE, Request, Response};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    net::TcpStream,
    time::timeout,
};

use super::http::begin;

/// Open event stream.
pub(crate) struct EventStream {
    stream: BufReader<TcpStream>,
    text: String,
    ready: VecDeque<Value>,
}

impl EventStream {
    pub(crate) async fn open(http: &str, request: &Request) -> Self {
        let mut stream = BufReader::new(begin(http, request).await);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = timeout(DEADLINE, stream.read_line(&mut head)).await;
            assert!(read.expect("no head in time").unwrap() > 0, "the end in the head: {head}");
        }
        let head = Response::parse(head.as_bytes()).unwrap();
        assert_eq!(head.status, 200, "{head:?}");
        assert_eq!(head.header("Content-Type").as_deref(), Some("text/event-stream"));
        assert_eq!(head.header("Transfer-Encoding").as_deref(), Some("chunked"));
        Self { stream, text: String::new(), ready: VecDeque::new() }
    }

    /// Returns the next message; `None` when the stream ended properly.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        while self.ready.is_empty() {
            if !timeout(DEADLINE, self.chunk()).await.expect("nothing came in time") {
                return None;
            }
        }
        self.ready.pop_front()
    }

    /// Returns the next message of a stream that must continue.
    pub(crate) async fn message(&mut self) -> Value {
        self.next().await.expect("the stream has ended")
    }

    /// Reads a chunk; `false` when it was the last.
    async fn chunk(&mut self) -> bool {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        let length = usize::from_str_radix(line.trim_end(), 16)
            .unwrap_or_else(|_| panic!("the stream broke: {line:?}"));
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).await.unwrap();
        chunk.truncate(length);
        self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        while let Some(end) = self.text.find("\n\n") {
            let event: String = self.text.drain(..end + 2).collect();
            let data: String = event
                .lines()
                .filter_map(|line| line.strip_prefix("data:"))
                .map(str::trim)
                .collect();
            // Comments and empty events keep a connection alive.
            if !data.is_empty() {
                self.ready.push_back(serde_json::from_str(&data).unwrap());
            }
        }
        length > 0
    }
}
