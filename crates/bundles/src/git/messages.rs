//! What git prints during a fetch: messages of its own, of programs that it starts, and of the server.
//!
//! A server writes whatever it likes, so lines are bounded in number and length and have no control characters.

use std::{
    io::Read,
    process::ExitStatus,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use skills_core::text::{first_chars, plain};

/// Most bytes of one line that are kept.
const MAX_LINE_BYTES: usize = 1 << 10;
/// Most lines that are kept or shown.
const MAX_LINES: usize = 100;
/// Most characters of messages in an error.
const MAX_REASON_CHARS: usize = 600;

/// Receiver of git's messages while a fetch runs. Texts have no control characters.
pub trait FetchDisplay: Send + Sync {
    /// Shows a message.
    fn message(&self, line: &str);

    /// Shows the progress, in place of what was shown before.
    fn progress(&self, text: &str);
}

/// Text that messages do not show, such as a URL with credentials, and its replacement.
#[derive(Debug, Clone, Default)]
pub(super) struct HiddenText {
    pub(super) text: String,
    pub(super) replacement: String,
}

/// Messages that are being read.
pub(super) struct Messages {
    lines: Arc<Mutex<Vec<String>>>,
    ended: mpsc::Receiver<()>,
}

impl Messages {
    /// Reads messages to their end on a thread of its own.
    pub(super) fn read(
        source: impl Read + Send + 'static,
        display: Option<Arc<dyn FetchDisplay>>,
        hidden: HiddenText,
    ) -> Self {
        let lines = Arc::default();
        let reader =
            MessageReader { display, hidden, line: vec![], lines: Arc::clone(&lines), shown: 0 };
        let (end, ended) = mpsc::channel();
        thread::spawn(move || {
            reader.read(source);
            // Nobody may wait for the end any more.
            let _ = end.send(());
        });
        Self { lines, ended }
    }

    /// Returns the lines that were not shown, which with a display are those of errors. Waits a while for the last ones: a
    /// program that git started may outlive it.
    pub(super) fn take(self, timeout: Duration) -> Vec<String> {
        let _ = self.ended.recv_timeout(timeout);
        std::mem::take(&mut self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct MessageReader {
    display: Option<Arc<dyn FetchDisplay>>,
    hidden: HiddenText,
    line: Vec<u8>,
    lines: Arc<Mutex<Vec<String>>>,
    shown: usize,
}

impl MessageReader {
    fn read(mut self, mut source: impl Read) {
        let mut buffer = [0; 4096];
        // The rest is read too, so that git does not wait for a reader.
        while let Ok(read @ 1..) = source.read(&mut buffer) {
            for byte in &buffer[..read] {
                match byte {
                    b'\n' => self.end_line(false),
                    b'\r' => self.end_line(true),
                    byte if self.line.len() < MAX_LINE_BYTES => self.line.push(*byte),
                    _ => {}
                }
            }
        }
        self.end_line(false);
    }

    fn end_line(&mut self, is_progress: bool) {
        let line = std::mem::take(&mut self.line);
        let mut text = String::from_utf8_lossy(&line).into_owned();
        if !self.hidden.text.is_empty() {
            text = text.replace(&self.hidden.text, &self.hidden.replacement);
        }
        let text = plain(text.trim_end());
        if text.trim().is_empty() {
            return;
        }
        let is_error = text.starts_with("fatal:") || text.starts_with("error:");
        match &self.display {
            Some(display) if is_progress => display.progress(&text),
            None if is_progress => {}
            Some(display) if !is_error => {
                self.shown += 1;
                if self.shown <= MAX_LINES {
                    display.message(&text);
                }
            }
            _ => {
                let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
                if lines.len() < MAX_LINES {
                    lines.push(text);
                }
            }
        }
    }
}

/// Returns the reason for which git failed.
pub(super) fn reason(lines: &[String], status: ExitStatus) -> String {
    if lines.is_empty() {
        return format!("git failed ({status})");
    }
    first_chars(&lines.join("; "), MAX_REASON_CHARS).to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);

    impl Recorder {
        fn push(&self, text: String) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }
    }

    impl FetchDisplay for Recorder {
        fn message(&self, line: &str) {
            self.push(format!("message {line}"));
        }

        fn progress(&self, text: &str) {
            self.push(format!("progress {text}"));
        }
    }

    /// Returns the lines that are not shown.
    fn read(said: &str, display: Option<Arc<dyn FetchDisplay>>) -> Vec<String> {
        let hidden =
            HiddenText { text: "https://me:x@h/a".into(), replacement: "https://h/a".into() };
        let said = std::io::Cursor::new(said.as_bytes().to_vec());
        Messages::read(said, display, hidden).take(Duration::MAX)
    }

    #[test]
    fn messages_of_a_git_server_are_plain_and_bounded() {
        let attack = "remote: \x1b]52;c;aGk=\x07\u{9b}2J hello\nfatal: no https://me:x@h/a\n";
        let lines = read(attack, None);
        assert_eq!(lines, ["remote:  ]52;c;aGk=  2J hello", "fatal: no https://h/a"]);
        for flood in ["x".repeat(1 << 20), "remote: x\n".repeat(1 << 16), "é".repeat(1 << 20)] {
            let lines = read(&flood, None);
            assert!(lines.len() <= MAX_LINES);
            assert!(lines.iter().all(|line| line.len() <= 3 * MAX_LINE_BYTES));
            let reason = reason(&lines, ExitStatus::from_raw(0));
            assert!(reason.chars().count() <= MAX_REASON_CHARS);
        }
    }

    #[test]
    fn messages_are_shown_while_they_arrive_and_errors_are_not_shown_twice() {
        let recorder = Arc::new(Recorder::default());
        let said = "Receiving: 1%\rReceiving: 2%\rdone.\nremote: hi\x1b[8m\nerror: a\nfatal: b";
        assert_eq!(read(said, Some(Arc::clone(&recorder) as _)), ["error: a", "fatal: b"]);
        let expected = [
            "progress Receiving: 1%",
            "progress Receiving: 2%",
            "message done.",
            "message remote: hi [8m",
        ];
        assert_eq!(*recorder.0.lock().unwrap(), expected);
        let recorder = Arc::new(Recorder::default());
        let flood = "remote: x\n".repeat(10_000);
        assert!(read(&flood, Some(Arc::clone(&recorder) as _)).is_empty());
        assert_eq!(recorder.0.lock().unwrap().len(), MAX_LINES);
    }
}
