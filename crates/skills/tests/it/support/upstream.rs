//! [`TestUpstream`]: an HTTP server that tools call. It answers with the request, without headers, and records all
//! requests.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::json;

/// Recorded request.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) target: String,
    /// Headers with names in lower case, one per line.
    pub(crate) headers: String,
}

/// Server that ends with the test.
pub(crate) struct TestUpstream {
    pub(crate) origin: String,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl TestUpstream {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(vec![]));
        let notes = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let notes = Arc::clone(&notes);
                thread::spawn(move || answer(stream, &notes));
            }
        });
        Self { origin, received }
    }

    pub(crate) fn received(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }
}

fn answer(stream: TcpStream, notes: &Mutex<Vec<ReceivedRequest>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut headers, mut length) = (String::new(), 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        let name = name.to_ascii_lowercase();
        if name == "content-length" {
            length = value.trim().parse().ok()?;
        }
        headers.push_str(&format!("{name}: {}\n", value.trim()));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8_lossy(&body).into_owned();
    notes.lock().unwrap().push(ReceivedRequest { target: target.clone(), headers });
    let status = if target.starts_with("/broken") { "500 Oh" } else { "200 OK" };
    let output = json!({"method": method, "target": target, "body": body}).to_string();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length:");
    let stream = reader.get_mut();
    stream
        .write_all(
            format!("{head} {}\r\nConnection: close\r\n\r\n{output}", output.len()).as_bytes(),
        )
        .ok()
}
