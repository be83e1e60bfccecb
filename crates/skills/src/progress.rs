//! Progress line of a long import or copy on a terminal.

use std::{
    io::{self, IsTerminal as _, Write},
    time::{Duration, Instant},
};

/// Delay before the first progress line.
const DELAY: Duration = Duration::from_millis(500);
const INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Progress<W> {
    terminal: W,
    total: usize,
    is_enabled: bool,
    /// Time of the next update.
    next: Instant,
    is_visible: bool,
}

impl Progress<anstream::Stderr> {
    pub(crate) fn new(total: usize, json: bool) -> Self {
        let is_enabled = !json && io::stderr().is_terminal();
        Self::on(anstream::stderr(), total, is_enabled, Instant::now())
    }
}

impl<W: Write> Progress<W> {
    fn on(terminal: W, total: usize, is_enabled: bool, now: Instant) -> Self {
        Self { terminal, total, is_enabled, next: now + DELAY, is_visible: false }
    }

    pub(crate) fn show(&mut self, done: usize, now: Instant) {
        let total = self.total;
        self.show_text(&format!("{done} of {total} skills"), now);
    }

    pub(crate) fn show_text(&mut self, text: &str, now: Instant) {
        if !self.is_enabled || now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        self.is_visible = true;
        self.write(&format!("\r{text}\x1b[K"));
    }

    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_visible) {
            self.write("\r\x1b[K");
        }
    }

    /// Writes to the terminal and ignores errors: they must not stop the import.
    fn write(&mut self, text: &str) {
        let _ = self.terminal.write_all(text.as_bytes());
        let _ = self.terminal.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(is_enabled: bool, moments: &[(usize, u64)]) -> String {
        let began = Instant::now();
        let mut written = Vec::new();
        let mut progress = Progress::on(&mut written, 9, is_enabled, began);
        for (done, millis) in moments {
            progress.show(*done, began + Duration::from_millis(*millis));
        }
        progress.clear();
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn progress_starts_after_a_delay_and_updates_at_an_interval() {
        assert_eq!(output(true, &[(1, 0), (2, 499)]), "");
        assert_eq!(
            output(true, &[(1, 100), (3, 500), (4, 599), (5, 600)]),
            "\r3 of 9 skills\x1b[K\r5 of 9 skills\x1b[K\r\x1b[K"
        );
        assert_eq!(output(false, &[(3, 500)]), "", "disabled");
    }
}
