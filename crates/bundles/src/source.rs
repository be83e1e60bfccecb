//! Bytes of a file in a folder, an archive or a repository, or the reason why there are none.

use std::{io, path::PathBuf, sync::Arc};

use bytes::Bytes;

/// Reader of the objects of a repository.
pub(crate) trait ObjectReader: std::fmt::Debug + Send + Sync {
    /// Reads an object, up to a number of bytes.
    fn read(&self, id: &str, limit: usize) -> io::Result<Bytes>;
}

/// Bytes of a file, or the reason why there are none.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// File at its own path.
    OnDisk,
    /// File at another path of the searched folder, which a link leads to.
    OnDiskAt(PathBuf),
    InMemory {
        bytes: Bytes,
        /// `None` if the archive has no permissions.
        executable: Option<bool>,
    },
    Object {
        objects: Arc<dyn ObjectReader>,
        id: String,
        executable: bool,
    },
    TooLarge,
    /// Link, with its target if it could be a root document.
    Link(Option<PathBuf>),
    Special,
    Unreadable(Arc<io::Error>),
}

/// Bytes of a file and its executable bit, if it is known.
pub(crate) struct FileBytes {
    pub(crate) bytes: Bytes,
    pub(crate) executable: Option<bool>,
}
