//! Reference server: `git http-backend` of Debian's git behind a small HTTP server of this process, one process a request,
//! as a web server runs it.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    thread,
};

/// Places of the program in distributions of Linux.
const PROGRAMS: [&str; 2] =
    ["/usr/lib/git-core/git-http-backend", "/usr/libexec/git-core/git-http-backend"];

/// Returns the program, or how to install it.
pub(crate) fn program() -> Result<PathBuf, &'static str> {
    let found = PROGRAMS.iter().map(PathBuf::from).find(|path| path.exists());
    found.ok_or("git http-backend is missing: sudo apt-get install git")
}

/// Serves all repositories below a folder. Returns the address.
pub(crate) fn serve(program: PathBuf, folder: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let state = Arc::new((program, folder.to_owned()));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let state = Arc::clone(&state);
            // A client that disconnects ends its thread.
            thread::spawn(move || serve_connection(stream, &state.0, &state.1));
        }
    });
    address
}

fn serve_connection(stream: TcpStream, program: &Path, folder: &Path) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = (BufReader::new(stream.try_clone()?), stream);
    while let Some(request) = Request::read(&mut reader)? {
        request.answer(program, folder, &mut writer)?;
    }
    Ok(())
}

struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn read(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Self>> {
        let first = line(reader)?;
        let mut words = first.split(' ').map(str::to_owned);
        let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(None) };
        let mut headers = Vec::new();
        loop {
            let line = line(reader)?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self { method, target, headers, body: Vec::new() };
        if request.header("transfer-encoding") == "chunked" {
            loop {
                let size = usize::from_str_radix(&line(reader)?, 16).map_err(io::Error::other)?;
                reader.take(size as u64).read_to_end(&mut request.body)?;
                line(reader)?;
                if size == 0 {
                    break;
                }
            }
        } else {
            let size: u64 = request.header("content-length").parse().unwrap_or(0);
            reader.take(size).read_to_end(&mut request.body)?;
        }
        Ok(Some(request))
    }

    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    fn answer(&self, program: &Path, folder: &Path, writer: &mut TcpStream) -> io::Result<()> {
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let mut child = Command::new(program)
            .env("GIT_PROJECT_ROOT", folder)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("REQUEST_METHOD", &self.method)
            .env("PATH_INFO", path)
            .env("QUERY_STRING", query)
            .env("CONTENT_TYPE", self.header("content-type"))
            .env("CONTENT_LENGTH", self.body.len().to_string())
            .env("HTTP_CONTENT_ENCODING", self.header("content-encoding"))
            .env("GIT_PROTOCOL", self.header("git-protocol"))
            .env("REMOTE_ADDR", "127.0.0.1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(&self.body))?;
        let mut output = BufReader::with_capacity(64 << 10, child.stdout.take().unwrap());
        let (mut status, mut head) = ("200 OK".to_owned(), String::new());
        loop {
            let line = line(&mut output)?;
            match line.split_once(": ") {
                Some(("Status", value)) => value.clone_into(&mut status),
                Some(_) => head.push_str(&format!("{line}\r\n")),
                None => break,
            }
        }
        write!(writer, "HTTP/1.1 {status}\r\n{head}Transfer-Encoding: chunked\r\n\r\n")?;
        loop {
            let part = output.fill_buf()?;
            let size = part.len();
            writer.write_all(&[format!("{size:x}\r\n").as_bytes(), part, b"\r\n"].concat())?;
            output.consume(size);
            if size == 0 {
                break;
            }
        }
        child.wait()?;
        Ok(())
    }
}

/// Reads a line without its end.
fn line(reader: &mut impl io::BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    line.truncate(line.trim_end().len());
    Ok(line)
}
