//! [`StaticSite`]: an HTTP server for the files of a folder and the git repositories below it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

/// Server that ends with the test. Paths that end with `.git` are repositories.
pub(crate) struct StaticSite {
    pub(crate) origin: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl StaticSite {
    pub(crate) fn start(dir: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(vec![]));
        let (dir, notes) = (dir.to_owned(), Arc::clone(&requests));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (dir, notes) = (dir.clone(), Arc::clone(&notes));
                thread::spawn(move || answer(stream, &dir, &notes));
            }
        });
        Self { origin, requests }
    }

    /// Returns the paths that were requested.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn answer(stream: TcpStream, dir: &Path, notes: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let target = line.split(' ').nth(1)?.trim_start_matches('/').to_owned();
    let (mut length, mut gzip) = (0, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "content-encoding" => gzip = value.trim() == "gzip",
            _ => {}
        }
    }
    assert!(!gzip, "requests of small repositories are not compressed");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    notes.lock().unwrap().push(target.clone());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let found = match path.find(".git/") {
        Some(at) => git(&dir.join(&path[..at + 4]), &path[at + 5..], query, &body),
        None => fs::read(dir.join(path)).ok().map(|bytes| ("application/octet-stream", bytes)),
    };
    let (status, kind, bytes) = match found {
        Some((kind, bytes)) => ("200 OK", kind, bytes),
        None => ("404 Not Found", "text/plain", vec![]),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    );
    reader.get_mut().write_all(&[head.as_bytes(), &bytes].concat()).ok()
}

/// Answers a request of git's smart protocol.
fn git(dir: &PathBuf, path: &str, query: &str, body: &[u8]) -> Option<(&'static str, Vec<u8>)> {
    if !dir.is_dir() {
        return None;
    }
    let is_advertisement = path == "info/refs" && query.contains("git-upload-pack");
    let mut command = Command::new("git");
    command.args(["upload-pack", "--stateless-rpc"]);
    if is_advertisement {
        command.arg("--advertise-refs");
    }
    let mut child = command.arg(dir).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    child.stdin.take()?.write_all(body).ok()?;
    let output = child.wait_with_output().ok()?.stdout;
    Some(if is_advertisement {
        let head = b"001e# service=git-upload-pack\n0000";
        ("application/x-git-upload-pack-advertisement", [head, output.as_slice()].concat())
    } else {
        ("application/x-git-upload-pack-result", output)
    })
}
