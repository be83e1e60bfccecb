//! Meter of one archive: what unpacking it uses of memory and time.

use std::{
    cell::RefCell,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use bytes::Bytes;
use skills_core::{RunningWork, WorkError, limits::MAX_BUNDLE_BYTES};

use super::ArchiveError;
use crate::source::Source;

/// Fewest bytes by which the buffer of a file grows, where the size that its archive declares is too small.
const MIN_GROWTH: usize = 64 << 10;
/// Memory of an entry beside its path and content.
const ENTRY_BYTES: usize = 256;

/// Meter that all readers of one archive share. A refusal is passed on as an I/O error and remembered.
pub(super) struct Meter<'a>(RefCell<State<'a>>);

struct State<'a> {
    work: &'a mut RunningWork,
    max_bytes: u64,
    /// Bytes that may still be unpacked.
    left: u64,
    /// Bytes that may still be read before the next entry, where its metadata is read.
    left_of_header: Option<u64>,
    refusal: Option<ArchiveError>,
}

impl<'a> Meter<'a> {
    pub(super) const fn new(max_bytes: u64, work: &'a mut RunningWork) -> Self {
        let (left_of_header, refusal) = (None, None);
        Self(RefCell::new(State { work, max_bytes, left: max_bytes, left_of_header, refusal }))
    }

    /// Returns the most bytes that the archive may unpack to.
    pub(super) fn max_bytes(&self) -> u64 {
        self.0.borrow().max_bytes
    }

    fn refuse(&self, error: ArchiveError) -> io::Error {
        let message = error.to_string();
        self.0.borrow_mut().refusal.get_or_insert(error);
        io::Error::other(message)
    }

    /// Returns the error that an I/O error stands for.
    pub(super) fn error(&self, error: &io::Error) -> ArchiveError {
        let refusal = self.0.borrow_mut().refusal.take();
        refusal.unwrap_or_else(|| ArchiveError::Damaged(error.to_string()))
    }

    /// Reserves memory.
    pub(super) fn reserve(&self, bytes: usize) -> io::Result<()> {
        let grown = self.0.borrow_mut().work.try_grow(bytes);
        grown.map_err(|error| self.refuse(error.into()))
    }

    /// Reserves the memory of an entry.
    pub(super) fn reserve_entry(&self, path: &Path) -> io::Result<()> {
        self.reserve(ENTRY_BYTES + 2 * path.as_os_str().len())
    }

    /// Gives back memory.
    pub(super) fn release(&self, bytes: usize) {
        let mut state = self.0.borrow_mut();
        let left = state.work.reserved().saturating_sub(bytes);
        state.work.shrink_to(left);
    }

    /// Checks that the work goes on.
    fn check(&self) -> io::Result<()> {
        let checked = self.0.borrow().work.check();
        checked.map_err(|stopped| self.refuse(WorkError::from(stopped).into()))
    }

    /// Counts bytes that were unpacked.
    fn count(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        let left = state.left.checked_sub(bytes);
        let header = state.left_of_header.map(|left| left.checked_sub(bytes));
        (state.left, state.left_of_header) =
            (left.unwrap_or_default(), header.map(Option::unwrap_or_default));
        drop(state);
        if left.is_none() {
            return Err(self.refuse(ArchiveError::TooLarge { max: self.max_bytes() }));
        }
        if header == Some(None) {
            let message = "the metadata of an entry is too large".to_owned();
            return Err(self.refuse(ArchiveError::Damaged(message)));
        }
        Ok(())
    }

    /// Runs a step that reads the metadata of an entry: at most `max` bytes.
    pub(super) fn read_header<T>(&self, max: u64, read: impl FnOnce() -> T) -> T {
        self.0.borrow_mut().left_of_header = Some(max);
        let header = read();
        self.0.borrow_mut().left_of_header = None;
        header
    }

    /// Reads a file to its end, into a buffer of the declared size if that is right. Bytes beyond the bundle limit are
    /// counted and dropped.
    pub(super) fn read_file(
        &self,
        mut reader: impl Read,
        declared: u64,
        executable: Option<bool>,
    ) -> io::Result<Source> {
        let mut buffer = FileBuffer { meter: self, bytes: vec![], capacity: 0 };
        buffer.grow(usize::try_from(declared).unwrap_or(usize::MAX).min(MAX_BUNDLE_BYTES))?;
        loop {
            let FileBuffer { bytes, capacity, .. } = &mut buffer;
            let room = (*capacity - bytes.len()) as u64;
            reader.by_ref().take(room).read_to_end(bytes)?;
            let mut next = [0];
            if bytes.len() < *capacity || reader.read(&mut next)? == 0 {
                return Ok(Source::InMemory { bytes: buffer.finish(), executable });
            }
            if *capacity == MAX_BUNDLE_BYTES {
                drop(buffer);
                io::copy(&mut reader, &mut io::sink())?;
                return Ok(Source::TooLarge);
            }
            let doubled = (2 * *capacity).clamp(MIN_GROWTH, MAX_BUNDLE_BYTES);
            buffer.grow(doubled)?;
            buffer.bytes.extend(next);
        }
    }
}

/// Buffer of a file, whose capacity is reserved.
struct FileBuffer<'a, 'w> {
    meter: &'a Meter<'w>,
    bytes: Vec<u8>,
    capacity: usize,
}

impl FileBuffer<'_, '_> {
    fn grow(&mut self, capacity: usize) -> io::Result<()> {
        // The old buffer is copied into the new one.
        self.meter.reserve(capacity)?;
        self.bytes.reserve_exact(capacity - self.bytes.len());
        self.meter.release(self.capacity);
        self.capacity = capacity;
        Ok(())
    }

    /// Returns the bytes, whose memory stays reserved.
    fn finish(mut self) -> Bytes {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.shrink_to_fit();
        self.capacity -= bytes.len();
        bytes.into()
    }
}

impl Drop for FileBuffer<'_, '_> {
    fn drop(&mut self) {
        self.meter.release(self.capacity);
    }
}

/// Reader of an archive, which fails when the work has to stop.
pub(super) struct StoppableReader<'a, 'w, R> {
    pub(super) inner: R,
    pub(super) meter: &'a Meter<'w>,
}

impl<R: Read> Read for StoppableReader<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.meter.check()?;
        self.inner.read(buffer)
    }
}

impl<R: Seek> Seek for StoppableReader<'_, '_, R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// Reader whose bytes are counted.
pub(super) struct MeteredReader<'a, 'w, R> {
    pub(super) inner: R,
    pub(super) meter: &'a Meter<'w>,
}

impl<R: Read> Read for MeteredReader<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.meter.check()?;
        let count = self.inner.read(buffer)?;
        self.meter.count(count as u64)?;
        Ok(count)
    }
}
