//! Reproducible pseudo-random numbers.

use std::time::{SystemTime, UNIX_EPOCH};

/// Environment variable with the seed of a run to repeat.
pub const SEED_VARIABLE: &str = "SKILLS_TEST_SEED";

/// Generator (SplitMix64) whose seed a failing test reports.
pub struct Random {
    /// Initial seed.
    pub seed: u64,
    state: u64,
}

impl Random {
    /// Creates a generator with the seed of the environment, else of the clock.
    pub fn new() -> Self {
        let given = std::env::var(SEED_VARIABLE).ok().map(|seed| seed.parse().unwrap());
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        let seed = given.unwrap_or_else(|| u64::try_from(clock()).unwrap());
        Self { seed, state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to `end`, exclusive.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::new()
    }
}
