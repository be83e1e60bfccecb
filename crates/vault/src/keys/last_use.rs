//! Last use of keys, in memory: a write for each request would cost a flush.

use std::collections::HashMap;

use parking_lot::Mutex;
use skills_core::{Digest, Timestamp};

use crate::{Vault, now};

/// Most keys whose last use is remembered; then it starts anew.
const MAX_KEYS: usize = 10_000;

/// Times at which keys were presented since the vault was opened.
#[derive(Debug, Default)]
pub(crate) struct LastUses(Mutex<HashMap<Digest, Timestamp>>);

impl Vault {
    /// Remembers that a key was presented now.
    pub(crate) fn record_use(&self, hash: &Digest) {
        let mut uses = self.last_uses.0.lock();
        if uses.len() >= MAX_KEYS && !uses.contains_key(hash) {
            uses.clear();
        }
        uses.insert(*hash, now());
    }

    /// Returns when a key was last presented to this process; `None` if it was not since the vault was opened.
    #[must_use]
    pub fn last_use(&self, hash: &Digest) -> Option<Timestamp> {
        self.last_uses.0.lock().get(hash).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::testing::vault;

    #[test]
    fn the_last_use_is_remembered_in_bounded_memory() {
        let (vault, _dir) = vault();
        let hash = |number: usize| Digest::of(&number.to_le_bytes());
        assert_eq!(vault.last_use(&hash(0)), None);
        for number in 0..=MAX_KEYS {
            vault.record_use(&hash(number));
        }
        assert!(vault.last_use(&hash(MAX_KEYS)).is_some());
        assert_eq!(vault.last_uses.0.lock().len(), 1);
    }
}
