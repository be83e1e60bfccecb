//! What was looked for in a store a moment ago and not found. Where a live client has something, it is looked each
//! time whether something is stored there, and a look may take as long as a slow store does.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use skills_core::EntryKey;

/// How long nothing counts as nothing.
const MOMENT: Duration = Duration::from_secs(1);
/// How many are remembered.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Looked(Mutex<HashMap<EntryKey, Instant>>);

impl Looked {
    /// Whether it was looked for a moment ago.
    pub(crate) fn is_recent(&self, key: &EntryKey) -> bool {
        let looked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        looked.get(key).is_some_and(|then| then.elapsed() < MOMENT)
    }

    /// Notes that it was looked for now.
    pub(crate) fn note(&self, key: EntryKey) {
        let mut looked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.len() >= MOST {
            looked.retain(|_, then| then.elapsed() < MOMENT);
        }
        if looked.len() < MOST {
            looked.insert(key, Instant::now());
        }
    }
}
