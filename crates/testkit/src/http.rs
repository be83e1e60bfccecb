//! HTTP by hand: one request on a connection of its own, with exactly the headers that a test wants.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    thread,
};

use serde_json::Value;

use crate::DEADLINE;

/// What is asked. Without a `Host` of the test's own it names the address that it is sent to.
#[derive(Debug, Clone)]
pub struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// Any method and target.
    pub fn new(method: &str, target: &str) -> Self {
        Self { line: format!("{method} {target} HTTP/1.1"), headers: vec![], body: vec![] }
    }

    /// The most frequent one.
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

    /// The bytes of the request.
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

    /// Sends it to `host:port` or `http://host:port` and waits for the answer.
    ///
    /// # Panics
    /// When there is none.
    pub fn send(&self, address: &str) -> Answer {
        let address = address.strip_prefix("http://").unwrap_or(address);
        let said = exchange(address, &self.bytes(address));
        let said = said.unwrap_or_else(|| panic!("no answer to {}", self.line));
        Answer::parse(&said)
            .unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(&said)))
    }
}

/// Sends bytes and returns all that comes back until the other end closes; `None` when it cannot be
/// reached or breaks the connection before it has said anything.
///
/// # Panics
/// When it does not close in time.
pub fn exchange(address: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    let mut sending = stream.try_clone().unwrap();
    let mut said = Vec::new();
    thread::scope(|scope| {
        // Who does not want the rest may hang up; the answer tells.
        scope.spawn(move || drop(sending.write_all(bytes)));
        if let Err(error) = stream.read_to_end(&mut said) {
            let late = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
            assert!(!late.contains(&error.kind()), "{address} did not close in time");
        }
    });
    (!said.is_empty()).then_some(said)
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Such as 200.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// As it came.
    pub body: Vec<u8>,
}

impl Answer {
    /// Reads an answer; `None` when it is none.
    pub fn parse(said: &[u8]) -> Option<Self> {
        let end = said.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&said[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers = lines.map(header).collect::<Option<_>>()?;
        Some(Self { status, headers, body: said[end + 4..].to_vec() })
    }

    /// All headers in order, their names in lower case.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// All values of a header, joined.
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<_> = self
            .headers
            .iter()
            .filter(|(one, _)| one.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// Status and code of an error.
    pub fn refusal(&self) -> (u16, String) {
        (self.status, self.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    }
}
