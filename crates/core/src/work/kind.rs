//! Kinds of work and the pools of threads that they run on.

use std::time::Duration;

/// Pool of permits for blocking threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkPool {
    /// Work that keeps a processor busy. Few run at a time, so that the rest of the server gets processor time.
    Compute,
    /// Work that waits for a disk or a database. Many run at a time.
    Io,
    /// Lookups of names, which wait for servers that anybody may run.
    Lookup,
}

/// Kind of work that a request can cause. Kinds are constants; SECURITY.md lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkKind {
    name: &'static str,
    pool: WorkPool,
}

impl WorkKind {
    /// Longest wait for a permit, and time after which the [`StopFlag`](super::StopFlag) of running work is raised.
    pub const TIME_LIMIT: Duration = Duration::from_secs(30);

    /// Creates a kind of work that keeps a processor busy.
    #[must_use]
    pub const fn compute(name: &'static str) -> Self {
        Self { name, pool: WorkPool::Compute }
    }

    /// Creates a kind of work that waits for a disk or a database.
    #[must_use]
    pub const fn io(name: &'static str) -> Self {
        Self { name, pool: WorkPool::Io }
    }

    /// Creates a kind of work that looks up names.
    #[must_use]
    pub const fn lookup(name: &'static str) -> Self {
        Self { name, pool: WorkPool::Lookup }
    }

    /// Returns the name, for logs and the list in SECURITY.md.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Returns the pool whose permits the work needs.
    #[must_use]
    pub const fn pool(self) -> WorkPool {
        self.pool
    }
}
