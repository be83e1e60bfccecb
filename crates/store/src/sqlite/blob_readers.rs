//! Connections that read blobs.
//!
//! Blobs have connections of their own, so that reading one never waits for a query that takes long, and several, so that
//! threads do not wait for each other.

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, OptionalExtension as _, Row};
use skills_core::Digest;

/// Stored bytes with their checksum.
pub(super) struct StoredBlob {
    pub(super) bytes: Bytes,
    pub(super) crc32: u32,
}

#[derive(Debug)]
pub(super) struct BlobReaders(Vec<Mutex<Connection>>);

impl BlobReaders {
    /// Opens as many connections as threads can use, up to four: each has a page cache of two megabytes.
    pub(super) fn open<E>(connect: impl Fn() -> Result<Connection, E>) -> Result<Self, E> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let connections = (0..threads.min(4)).map(|_| connect().map(Mutex::new));
        Ok(Self(connections.collect::<Result<_, _>>()?))
    }

    /// Returns all connections, locked.
    #[cfg(test)]
    pub(super) fn lock_all(&self) -> impl Iterator<Item = MutexGuard<'_, Connection>> {
        self.0.iter().map(Mutex::lock)
    }

    /// Reads the blob with this digest.
    pub(super) fn read(&self, digest: &Digest) -> rusqlite::Result<Option<StoredBlob>> {
        let free: Option<MutexGuard<'_, _>> = self.0.iter().find_map(Mutex::try_lock);
        let Some(connection) = free.or_else(|| self.0.first().map(Mutex::lock)) else {
            return Ok(None);
        };
        let mut statement =
            connection.prepare_cached("SELECT bytes, crc32 FROM blob WHERE digest = ?1")?;
        let stored = |row: &Row<'_>| {
            let bytes = Bytes::copy_from_slice(row.get_ref(0)?.as_blob()?);
            Ok(StoredBlob { bytes, crc32: row.get(1)? })
        };
        statement.query_row([digest.as_bytes()], stored).optional()
    }
}
