//! Lingering close.
//!
//! Closing a socket with unread data resets the connection, and the client may lose the last response: the very one that
//! says why its request was not read to the end. So the sending half is closed first, and for a while incoming data is
//! read and dropped.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::min_rate::{MinRate, WriteDeadline};

type Deadline = Pin<Box<dyn Future<Output = ()> + Send>>;

/// TCP stream with a lingering close, whose writes fail when the client reads too slowly.
pub(crate) struct LingeringStream {
    stream: TcpStream,
    write_deadline: WriteDeadline,
    linger: Duration,
    /// Ends lingering early when the server shuts down.
    shutdown: CancellationToken,
    linger_end: Option<Deadline>,
}

impl LingeringStream {
    pub(crate) fn new(
        stream: TcpStream,
        rate: MinRate,
        linger: Duration,
        shutdown: CancellationToken,
    ) -> Self {
        let write_deadline = WriteDeadline::new(rate);
        Self { stream, write_deadline, linger, shutdown, linger_end: None }
    }
}

impl AsyncRead for LingeringStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for LingeringStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.write_deadline.check(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.write_deadline.check(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes when nothing is left to write.
        self.write_deadline.reset();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, linger, shutdown, linger_end, .. } = &mut *self;
        if linger_end.is_none() {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
        }
        let linger_end = linger_end.get_or_insert_with(|| {
            let (linger, shutdown) = (*linger, shutdown.clone());
            Box::pin(async move { drop(timeout(linger, shutdown.cancelled()).await) })
        });
        loop {
            if linger_end.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut dropped = [0; 8 << 10];
            let mut dropped = ReadBuf::new(&mut dropped);
            let read = ready!(Pin::new(&mut *stream).poll_read(cx, &mut dropped));
            if read.is_err() || dropped.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
