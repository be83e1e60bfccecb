//! Memory of a process as reported by the operating system.

use std::fs;

/// Memory of a process. Without `/proc` all figures are zero, so that bounds hold.
#[derive(Debug, Clone, Copy)]
pub struct ProcessMemory {
    pid: u32,
    idle: u64,
}

impl ProcessMemory {
    /// Starts measuring a process: its current size is the idle size, and the peak is reset.
    pub fn measure(pid: u32) -> Self {
        // Without permission the peak is not reset, which makes the bound stricter.
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        let memory = Self { pid, idle: 0 };
        Self { idle: memory.field("VmRSS:"), ..memory }
    }

    fn field(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0 kB");
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() << 10
    }

    /// Returns the current bytes above idle.
    pub fn resident(&self) -> u64 {
        self.field("VmRSS:").saturating_sub(self.idle)
    }

    /// Returns the peak bytes above idle since the measurement began.
    pub fn peak(&self) -> u64 {
        self.field("VmHWM:").saturating_sub(self.idle)
    }

    /// Checks the peak against a bound.
    ///
    /// # Panics
    /// If the peak is not below it.
    pub fn assert_peak_below(&self, bytes: u64) {
        let peak = self.peak();
        assert!(peak < bytes, "the peak is {} MiB above idle", peak >> 20);
    }
}
