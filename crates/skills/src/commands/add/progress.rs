//! How far a long import is, for people at a terminal.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

/// A shorter import needs no progress.
const LONG: Duration = Duration::from_millis(500);
const INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct Progress {
    total: usize,
    is_wanted: bool,
    /// When it is shown next.
    next: Instant,
    is_shown: bool,
}

impl Progress {
    pub(super) fn new(total: usize, json: bool) -> Self {
        let is_wanted = !json && io::stderr().is_terminal();
        Self { total, is_wanted, next: Instant::now() + LONG, is_shown: false }
    }

    pub(super) fn show(&mut self, done: usize) {
        let now = Instant::now();
        if !self.is_wanted || now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        self.is_shown = true;
        // A terminal that is gone does not matter to the import.
        let _ = write!(anstream::stderr().lock(), "\r{done} of {} skills\x1b[K", self.total);
    }

    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(anstream::stderr().lock(), "\r\x1b[K");
        }
    }
}
