//! Load generator: HTTP/1.1 with keep-alive, one thread beside the server processes.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::LocalSet,
};

use crate::support::Samples;

/// Slices of a series, so that noise hits all endpoints alike.
const SLICES: u32 = 9;
/// Stride through the requests, so that consecutive requests are not adjacent in the data.
const STRIDE: usize = 7919;

/// An address and its requests.
pub(crate) struct Endpoint {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) requests: Vec<Vec<u8>>,
}

/// Result of a series.
#[derive(Default)]
pub(crate) struct Outcome {
    slices: Vec<f64>,
    pub(crate) latency: Samples,
}

impl Outcome {
    /// Returns the requests per second: the median of the slices.
    pub(crate) fn rate(&self) -> f64 {
        median(self.slices.iter().copied())
    }

    /// Returns the rate relative to another endpoint loaded in turn. It compares adjacent slices, so that changes of
    /// the machine's speed cancel out.
    pub(crate) fn beside(&self, other: &Self) -> f64 {
        median(self.slices.iter().zip(&other.slices).map(|(one, other)| one / other))
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<_> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Keep-alive connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// Head and body of a response.
pub(crate) struct Answer<'a> {
    pub(crate) head: &'a str,
    pub(crate) body: &'a [u8],
}

impl Answer<'_> {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::with_capacity(1 << 16) }
    }

    pub(crate) async fn send(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.unwrap();
    }

    /// Reads more bytes; panics at the end of the stream.
    pub(crate) async fn more(&mut self) -> &[u8] {
        let read = self.stream.read_buf(&mut self.buffer).await.unwrap();
        assert!(read > 0, "the server closed the connection");
        &self.buffer
    }

    /// Sends a request and reads its whole response.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Answer<'_> {
        self.buffer.clear();
        self.send(request).await;
        let head = loop {
            if let Some(end) = find(self.more().await, b"\r\n\r\n") {
                break end + 4;
            }
        };
        let length = content_length(&self.buffer[..head]);
        while match length {
            Some(length) => self.buffer.len() < head + length,
            // JSON text contains no carriage return, so this is the last chunk.
            None => !self.buffer.ends_with(b"0\r\n\r\n"),
        } {
            self.more().await;
        }
        if length.is_none() {
            let body = unchunked(&self.buffer[head..]);
            self.buffer.truncate(head);
            self.buffer.extend(body);
        }
        let (head, body) = self.buffer.split_at(head);
        let head = std::str::from_utf8(head).unwrap();
        assert!(
            head.starts_with("HTTP/1.1 2"),
            "{head}{}",
            String::from_utf8_lossy(&body[..body.len().min(500)])
        );
        Answer { head, body }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn content_length(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head).unwrap();
    if head.starts_with("HTTP/1.1 202") || head.starts_with("HTTP/1.1 204") {
        return Some(0);
    }
    Answer { head, body: &[] }.header("content-length").map(|value| value.parse().unwrap())
}

fn unchunked(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = find(chunks, b"\r\n").unwrap();
        let size =
            usize::from_str_radix(std::str::from_utf8(&chunks[..line]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        let start = line + 2;
        body.extend_from_slice(&chunks[start..start + size]);
        chunks = &chunks[start + size + 2..];
    }
}

/// Loads each endpoint with a number of connections, slice by slice in turn.
pub(crate) async fn compare(
    endpoints: &[Endpoint],
    connections: usize,
    seconds: f64,
) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = endpoints.iter().map(|_| Outcome::default()).collect();
    let slice = Duration::from_secs_f64(seconds / f64::from(SLICES));
    // Warm-up: one-time work of first requests is not measured.
    for endpoint in endpoints {
        run(endpoint, connections, slice / 2, &mut Outcome::default()).await;
    }
    for _ in 0..SLICES {
        for (endpoint, outcome) in endpoints.iter().zip(&mut outcomes) {
            run(endpoint, connections, slice, outcome).await;
        }
    }
    outcomes
}

async fn run(endpoint: &Endpoint, connections: usize, time: Duration, outcome: &mut Outcome) {
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(&endpoint.address).await);
    }
    let next = Rc::new(Cell::new(0_usize));
    let requests = Rc::new(endpoint.requests.clone());
    let local = LocalSet::new();
    let started = Instant::now();
    let tasks: Vec<_> = open
        .into_iter()
        .map(|mut connection| {
            let (next, requests) = (Rc::clone(&next), Rc::clone(&requests));
            local.spawn_local(async move {
                let mut latencies = Vec::new();
                while started.elapsed() < time {
                    next.set(next.get().wrapping_add(STRIDE));
                    let request = &requests[next.get() % requests.len()];
                    let sent = Instant::now();
                    connection.exchange(request).await;
                    latencies.push(sent.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut answered = 0;
    local
        .run_until(async {
            for task in tasks {
                for latency in task.await.unwrap() {
                    outcome.latency.push(latency);
                    answered += 1;
                }
            }
        })
        .await;
    // Includes the answers in flight: a slow server is not credited for unfinished work.
    outcome.slices.push(f64::from(answered) / started.elapsed().as_secs_f64());
}
