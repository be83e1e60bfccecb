//! MDP client that answers every call with minimal work: frames by hand, all calls of one read answered in one
//! write, so that the server dominates the measurement.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::json;

/// Answer to every call as JSON text.
const ANSWERED: &[u8] = b"\",\"ok\":true,\"data\":";
const ASKED: &[u8] = b"\"requestId\":\"";
const ID_BYTES: usize = 36;

/// Registered client.
pub(crate) struct Echo {
    stream: TcpStream,
    /// Bytes read and not yet answered.
    unread: Vec<u8>,
    output: Vec<u8>,
}

impl Echo {
    /// Connects and registers skills `/p/0` and so on.
    pub(crate) fn registered(address: &str, id: &str, paths: usize) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let head = format!(
            "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut client = Self { stream, unread: Vec::new(), output: Vec::new() };
        let end = loop {
            client.read();
            let found = client.unread.windows(4).position(|bytes| bytes == b"\r\n\r\n");
            if let Some(end) = found {
                break end + 4;
            }
        };
        assert!(client.unread.starts_with(b"HTTP/1.1 101"), "no WebSocket");
        client.unread.drain(..end);
        let skill = |number| json!({"type": "skill", "path": format!("/p/{number}/skill.md")});
        let paths: Vec<_> = (0..paths).map(skill).collect();
        let described = json!({"id": id, "name": id, "paths": paths});
        client.say(json!({"type": "registerClient", "client": described}).to_string().as_bytes());
        // The answer proves that the registration was handled.
        client.say(br#"{"type":"ping","timestamp":1}"#);
        client.flush();
        while client.next().is_none() {
            client.read();
        }
        client
    }

    /// Answers every call with a text until the server ends.
    pub(crate) fn serve(mut self, text: &str) {
        let text = serde_json::to_string(text).unwrap();
        let mut answer = Vec::new();
        loop {
            while let Some(frame) = self.next() {
                let asked = frame.windows(ASKED.len()).position(|bytes| bytes == ASKED);
                let Some(at) = asked.map(|at| at + ASKED.len()) else { continue };
                answer.clear();
                answer.extend(br#"{"type":"callClientResult","requestId":""#);
                answer.extend(&frame[at..at + ID_BYTES]);
                answer.extend(ANSWERED);
                answer.extend(text.as_bytes());
                answer.push(b'}');
                self.say(&answer);
            }
            self.flush();
            if !self.read() {
                return;
            }
        }
    }

    fn read(&mut self) -> bool {
        let mut bytes = [0; 64 << 10];
        let count = self.stream.read(&mut bytes).unwrap_or(0);
        self.unread.extend(&bytes[..count]);
        count > 0
    }

    /// Returns the payload of the next complete frame.
    fn next(&mut self) -> Option<Vec<u8>> {
        let (start, length) = match *self.unread.get(1)? {
            126 => (4, usize::from(u16::from_be_bytes(self.unread.get(2..4)?.try_into().ok()?))),
            127 => (10, u64::from_be_bytes(self.unread.get(2..10)?.try_into().ok()?) as usize),
            short => (2, usize::from(short)),
        };
        let payload = self.unread.get(start..start + length)?.to_vec();
        self.unread.drain(..start + length);
        Some(payload)
    }

    /// Sends a text frame with a zero mask.
    fn say(&mut self, payload: &[u8]) {
        self.output.push(0x81);
        match payload.len() {
            short @ 0..126 => self.output.push(0x80 | short as u8),
            medium @ 126..=0xffff => {
                self.output.push(0x80 | 126);
                self.output.extend((medium as u16).to_be_bytes());
            }
            long => {
                self.output.push(0x80 | 127);
                self.output.extend((long as u64).to_be_bytes());
            }
        }
        self.output.extend([0; 4]);
        self.output.extend(payload);
    }

    fn flush(&mut self) {
        self.stream.write_all(&self.output).unwrap();
        self.output.clear();
    }
}
