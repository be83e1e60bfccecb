//! Limits of the server process: open files and page size.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limits as far as the system allows. Failures are only logged.
pub(crate) fn prepare() {
    raise_file_limit();
    disable_huge_pages();
}

/// Raises the limit of open files to its maximum: every connection is a file, and the default of a shell is too small.
fn raise_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, ?current, ?maximum, "cannot raise the limit of open files");
    }
}

/// Disables transparent huge pages, on which the allocator's first byte of a reserved block takes 2 MiB: 12 MB for a new
/// server, and a third more than needed with a thousand idle clients.
fn disable_huge_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "cannot disable huge pages");
    }
}
