//! How many files this process may have open. Every connection is one, and what a shell allows by default is for
//! less than a server is asked to hold.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Allows as many as the system lets a process allow itself.
pub(crate) fn allow_many() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, ?current, ?maximum, "the number of open files stays as it is");
    }
}
