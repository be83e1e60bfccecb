//! How far a long import is, for people at a terminal.

use std::{
    io::{self, IsTerminal as _, Write},
    time::{Duration, Instant},
};

/// A shorter import needs no progress.
const LONG: Duration = Duration::from_millis(500);
const INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct Progress<W> {
    terminal: W,
    total: usize,
    is_wanted: bool,
    /// When it is shown next.
    next: Instant,
    is_shown: bool,
}

impl Progress<anstream::Stderr> {
    pub(super) fn new(total: usize, json: bool) -> Self {
        let is_wanted = !json && io::stderr().is_terminal();
        Self::on(anstream::stderr(), total, is_wanted, Instant::now())
    }
}

impl<W: Write> Progress<W> {
    fn on(terminal: W, total: usize, is_wanted: bool, now: Instant) -> Self {
        Self { terminal, total, is_wanted, next: now + LONG, is_shown: false }
    }

    pub(super) fn show(&mut self, done: usize, now: Instant) {
        if !self.is_wanted || now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        self.is_shown = true;
        let line = format!("\r{done} of {} skills\x1b[K", self.total);
        self.say(&line);
    }

    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            self.say("\r\x1b[K");
        }
    }

    /// A terminal that is gone does not matter to the import.
    fn say(&mut self, text: &str) {
        let _ = self.terminal.write_all(text.as_bytes());
        let _ = self.terminal.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(is_wanted: bool, moments: &[(usize, u64)]) -> String {
        let began = Instant::now();
        let mut said = Vec::new();
        let mut progress = Progress::on(&mut said, 9, is_wanted, began);
        for (done, millis) in moments {
            progress.show(*done, began + Duration::from_millis(*millis));
        }
        progress.clear();
        String::from_utf8(said).unwrap()
    }

    #[test]
    fn only_what_takes_long_is_shown_and_not_too_often() {
        assert_eq!(shown(true, &[(1, 0), (2, 499)]), "");
        assert_eq!(
            shown(true, &[(1, 100), (3, 500), (4, 599), (5, 600)]),
            "\r3 of 9 skills\x1b[K\r5 of 9 skills\x1b[K\r\x1b[K"
        );
        assert_eq!(shown(false, &[(3, 500)]), "", "nobody looks");
    }
}
