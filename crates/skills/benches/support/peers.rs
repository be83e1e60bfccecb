//! Blocking peers of the bus that parse only the needed parts of a frame.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::{Arc, Mutex},
};

use socket2::SockRef;
use tokio_tungstenite::tungstenite::{
    Message, WebSocket, client::client_with_config, protocol::WebSocketConfig,
};
use uuid::Uuid;

use super::body;

/// Stream that acknowledges at once what it reads. A hub that plays an older engine holds small messages back until the
/// one before is acknowledged, and the reference must not wait for that.
struct QuickAckStream(TcpStream);

impl Read for QuickAckStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        // The option is not permanent.
        SockRef::from(&self.0).set_tcp_quickack(true)?;
        Ok(count)
    }
}

impl Write for QuickAckStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn connect(url: &str) -> WebSocket<QuickAckStream> {
    let stream = TcpStream::connect(url.trim_start_matches("ws://")).unwrap();
    stream.set_nodelay(true).unwrap();
    let stream = QuickAckStream(stream);
    let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    let (mut socket, _) = client_with_config(url, stream, Some(config)).unwrap();
    let hello = next_text(&mut socket).unwrap();
    assert!(hello.contains("workerregistered"), "{hello}");
    let about = r#"{"type":"invokefunction","function_id":"engine::workers::register","action":{"type":"void"},"data":{"runtime":"rust","version":"0.25.0","name":"bench","features":["large-messages.v1"]}}"#;
    socket.send(Message::text(about)).unwrap();
    socket
}

fn next_text(socket: &mut WebSocket<QuickAckStream>) -> Option<String> {
    loop {
        match socket.read().ok()? {
            Message::Text(text) => return Some(text.as_str().to_owned()),
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

/// Returns the text of a string field without escapes.
fn field<'a>(frame: &'a str, name: &str) -> &'a str {
    let key = format!("\"{name}\":\"");
    let start = frame.find(&key).unwrap() + key.len();
    let end = frame[start..].find('"').unwrap() + start;
    &frame[start..end]
}

/// Calls one function at a time.
pub(crate) struct Caller(WebSocket<QuickAckStream>);

impl Caller {
    pub(crate) fn connect(url: &str) -> Self {
        Self(connect(url))
    }

    fn send(&mut self, function_id: &str, data: &str) {
        let id = Uuid::new_v4();
        let frame = format!(
            r#"{{"type":"invokefunction","invocation_id":"{id}","function_id":"{function_id}","data":{data}}}"#
        );
        self.0.send(Message::text(frame)).unwrap();
    }

    /// Returns the result of the next answer as JSON text.
    fn result(&mut self) -> String {
        let frame = next_text(&mut self.0).unwrap();
        let start = frame.find("\"result\":").unwrap_or_else(|| panic!("{frame}")) + 9;
        let mut frame = frame;
        frame.truncate(frame.len() - 1);
        frame.drain(..start);
        frame
    }

    /// Calls a function and returns the JSON text of its result.
    pub(crate) fn call(&mut self, function_id: &str, data: &str) -> String {
        self.send(function_id, data);
        self.result()
    }

    /// Calls a function and returns whether it succeeded.
    pub(crate) fn try_call(&mut self, function_id: &str, data: &str) -> bool {
        self.send(function_id, data);
        next_text(&mut self.0).unwrap().contains("\"result\":")
    }

    /// Makes many calls, a hundred at a time, and ignores their results.
    pub(crate) fn call_all<'a>(&mut self, calls: impl Iterator<Item = (&'a str, String)>) {
        let mut calls = calls.peekable();
        while calls.peek().is_some() {
            let mut sent = 0;
            for (function_id, data) in calls.by_ref().take(100) {
                self.send(function_id, &data);
                sent += 1;
            }
            for _ in 0..sent {
                self.result();
            }
        }
    }
}

/// Registers `skills` skills, many at a time.
pub(crate) fn populate(url: &str, skills: usize, bytes: usize) {
    Caller::connect(url).call_all((0..skills).map(|number| {
        let data = serde_json::json!({
            "id": format!("skill-{number}"), "skill": body(number, bytes),
        });
        ("skills::register", data.to_string())
    }));
}

/// Worker whose function `bench::echo` returns a set answer.
pub(crate) struct Echo(Arc<Mutex<String>>);

impl Echo {
    pub(crate) fn start(url: &str) -> Self {
        let result = Arc::new(Mutex::new("null".to_owned()));
        let answers = Arc::clone(&result);
        let mut socket = connect(url);
        socket.send(Message::text(r#"{"type":"registerfunction","id":"bench::echo"}"#)).unwrap();
        socket.send(Message::text(r#"{"type":"ping"}"#)).unwrap();
        while !next_text(&mut socket).unwrap().contains("pong") {}
        std::thread::spawn(move || {
            while let Some(frame) = next_text(&mut socket) {
                if !frame.contains("invokefunction") {
                    continue;
                }
                let answer = format!(
                    r#"{{"type":"invocationresult","invocation_id":"{}","function_id":"bench::echo","result":{}}}"#,
                    field(&frame, "invocation_id"),
                    answers.lock().unwrap(),
                );
                if socket.send(Message::text(answer)).is_err() {
                    return;
                }
            }
        });
        Self(result)
    }

    /// Sets the answer of the function as JSON text.
    pub(crate) fn returns(&self, result: String) {
        *self.0.lock().unwrap() = result;
    }
}
