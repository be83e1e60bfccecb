//! Reader of the blobs of a repository: one `git cat-file` that answers request after request.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;
use tempfile::TempDir;

use crate::source::ObjectReader;

/// Running `git cat-file --batch`. The repository is removed with it.
#[derive(Debug)]
pub(super) struct GitObjects {
    process: Mutex<CatFile>,
    _dir: TempDir,
}

#[derive(Debug)]
struct CatFile {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl GitObjects {
    pub(super) fn new(mut git: Command, dir: TempDir) -> io::Result<Self> {
        git.args(["cat-file", "--batch"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = git.stderr(Stdio::null()).spawn()?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("git has no pipes"));
        };
        let answers = BufReader::new(answers);
        Ok(Self { process: Mutex::new(CatFile { child, requests, answers }), _dir: dir })
    }
}

impl ObjectReader for GitObjects {
    fn read(&self, id: &str, limit: usize) -> io::Result<Bytes> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        process.read(id, limit)
    }
}

impl CatFile {
    fn read(&mut self, id: &str, limit: usize) -> io::Result<Bytes> {
        writeln!(self.requests, "{id}")?;
        self.requests.flush()?;
        let mut head = String::new();
        self.answers.read_line(&mut head)?;
        // `ID TYPE SIZE`, or `ID missing`.
        let size = head.split_ascii_whitespace().nth(2).and_then(|size| size.parse::<u64>().ok());
        let size = size.ok_or_else(|| io::Error::other("the repository lacks the object"))?;
        let wanted = size.min(limit as u64);
        let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or_default());
        (&mut self.answers).take(wanted).read_to_end(&mut bytes)?;
        // The rest of the object, and the line end after it.
        let rest = size - wanted + 1;
        let skipped = io::copy(&mut (&mut self.answers).take(rest), &mut io::sink())?;
        if bytes.len() as u64 != wanted || skipped != rest {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok(bytes.into())
    }
}

impl Drop for CatFile {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
