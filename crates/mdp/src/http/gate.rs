//! How much a connection may send before it has said who it is. It knows bytes and no frames: a frame says how
//! long it will be, and whoever reads it waits for all of it.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many more bytes are let through.
#[derive(Debug, Clone)]
pub(super) struct Allowance(Arc<AtomicUsize>);

impl Allowance {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// From now on it is so many.
    pub(super) fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// A connection of which no more is read than is allowed.
#[derive(Debug)]
pub(super) struct Gate<S> {
    io: S,
    allowance: Allowance,
}

impl<S> Gate<S> {
    pub(super) const fn new(io: S, allowance: Allowance) -> Self {
        Self { io, allowance }
    }

    /// Lets everything through, for whoever keeps nothing of it.
    pub(super) fn open(&self) {
        self.allowance.set(usize::MAX);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gate<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { io, allowance } = self.get_mut();
        let left = allowance.0.load(Ordering::Relaxed);
        if left == 0 {
            return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(io).poll_read(context, buffer);
        // The last of it may be exceeded by as much as is read at once.
        let read = buffer.filled().len() - before;
        allowance.set(left.saturating_sub(read));
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gate<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
