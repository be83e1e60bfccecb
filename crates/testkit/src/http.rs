//! HTTP requests on their own connection, with exactly the headers that a test sets.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    thread,
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
    time::timeout,
};

use crate::DEADLINE;

/// HTTP request. Unless the test sets `Host`, it is the address of the server.
#[derive(Debug, Clone)]
pub struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// Creates a request with any method and target.
    pub fn new(method: &str, target: &str) -> Self {
        Self { line: format!("{method} {target} HTTP/1.1"), headers: vec![], body: vec![] }
    }

    /// Creates a GET request.
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a body with its length.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        let length = self.body.len().to_string();
        self.header("Content-Length", &length)
    }

    /// Returns the bytes of the request.
    pub fn bytes(&self, address: &str) -> Vec<u8> {
        let mut text = format!("{}\r\nConnection: close\r\n", self.line);
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text.push_str(&format!("Host: {address}\r\n"));
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        [text.as_bytes(), b"\r\n", &self.body].concat()
    }

    /// Sends the request to `host:port` or `http://host:port` and waits for the response.
    ///
    /// # Panics
    /// If there is no response.
    pub fn send(&self, address: &str) -> Response {
        let address = address.strip_prefix("http://").unwrap_or(address);
        let output = exchange(address, &self.bytes(address));
        let output = output.unwrap_or_else(|| panic!("no answer to {}", self.line));
        Response::parse(&output)
            .unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(&output)))
    }

    /// Sends the request from an address of this machine, such as `127.0.0.2`, which makes it another client.
    ///
    /// # Panics
    /// If there is no response in time.
    pub async fn send_from(&self, source: Ipv4Addr, address: &str) -> Response {
        let address = address.strip_prefix("http://").unwrap_or(address);
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((source, 0).into()).unwrap();
        let exchange = async {
            let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
            stream.write_all(&self.bytes(address)).await.unwrap();
            let mut output = Vec::new();
            stream.read_to_end(&mut output).await.unwrap();
            output
        };
        let output = timeout(2 * DEADLINE, exchange).await;
        let output = output.unwrap_or_else(|_| panic!("no answer in time to {}", self.line));
        Response::parse(&output).unwrap_or_else(|| panic!("no answer to {}", self.line))
    }
}

/// Sends bytes and returns everything received until the server closes; `None` if it cannot be reached or closes
/// without an answer.
///
/// # Panics
/// If the server does not close in time.
pub fn exchange(address: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    let mut sending = stream.try_clone().unwrap();
    let mut output = Vec::new();
    thread::scope(|scope| {
        // The server may close before it has read everything; the response tells.
        scope.spawn(move || drop(sending.write_all(bytes)));
        if let Err(error) = stream.read_to_end(&mut output) {
            let late = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
            assert!(!late.contains(&error.kind()), "{address} did not close in time");
        }
    });
    (!output.is_empty()).then_some(output)
}

/// HTTP response.
#[derive(Debug, Clone)]
pub struct Response {
    /// Status code.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// Body as received.
    pub body: Vec<u8>,
}

impl Response {
    /// Parses a response; `None` if it is malformed.
    pub fn parse(output: &[u8]) -> Option<Self> {
        let end = output.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&output[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers = lines.map(header).collect::<Option<_>>()?;
        Some(Self { status, headers, body: output[end + 4..].to_vec() })
    }

    /// Returns all headers in order, with names in lower case.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// Returns all values of a header, joined.
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<_> = self
            .headers
            .iter()
            .filter(|(one, _)| one.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// Returns the body of a response without a length, which is sent in chunks.
    ///
    /// # Panics
    /// If the last chunk is missing: the server has ended the response before its end.
    pub fn unchunked(&self) -> Vec<u8> {
        let (mut body, mut rest) = (Vec::new(), &self.body[..]);
        loop {
            let end = rest.windows(2).position(|window| window == b"\r\n");
            let end = end.expect("a chunk begins with its length");
            let length = std::str::from_utf8(&rest[..end]).unwrap();
            let length = usize::from_str_radix(length, 16).unwrap();
            if length == 0 {
                return body;
            }
            body.extend_from_slice(&rest[end + 2..][..length]);
            rest = &rest[end + 2 + length + 2..];
        }
    }

    /// Returns the body as JSON.
    ///
    /// # Panics
    /// If the body is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// Returns status and error code.
    pub fn refusal(&self) -> (u16, String) {
        (self.status, self.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    }
}
