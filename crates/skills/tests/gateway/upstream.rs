//! A server that tools call. It says what it was asked, but for headers, and remembers all of it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::json;

/// What it was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) target: String,
    /// With names in lower case, a line each.
    pub(crate) headers: String,
}

/// A server that ends with the test.
pub(crate) struct Upstream {
    pub(crate) origin: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(vec![]));
        let notes = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let notes = Arc::clone(&notes);
                thread::spawn(move || answer(stream, &notes));
            }
        });
        Self { origin, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(stream: TcpStream, notes: &Mutex<Vec<Asked>>) -> Option<()> {
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
    notes.lock().unwrap().push(Asked { target: target.clone(), headers });
    let status = if target.starts_with("/broken") { "500 Oh" } else { "200 OK" };
    let said = json!({"method": method, "target": target, "body": body}).to_string();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length:");
    let stream = reader.get_mut();
    stream
        .write_all(format!("{head} {}\r\nConnection: close\r\n\r\n{said}", said.len()).as_bytes())
        .ok()
}
