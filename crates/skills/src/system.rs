//! What a server asks of the system for itself.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Asks for all of it. What is not given is done without.
pub(crate) fn prepare() {
    allow_many_files();
    use_small_pages();
}

/// Every connection is a file, and what a shell allows by default is for less than a server is asked to hold:
/// as many as the system lets a process allow itself.
fn allow_many_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, ?current, ?maximum, "the number of open files stays as it is");
    }
}

/// The allocator sets memory aside before it is needed. On huge pages the first byte of it takes 2 MiB: a server
/// that has just begun 12 MB, and one with a thousand idle clients a third more than it needs.
fn use_small_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "pages stay as large as they are");
    }
}
