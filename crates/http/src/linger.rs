//! Closing without taking the last answer back.
//!
//! A socket that is closed with unread data resets the connection, and the other end may lose what it was
//! sent: the very answer that says why its request was not read to the end. So the sending half is closed
//! first, and what still comes is dropped for a while.

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

type Over = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection that closes in this way.
pub(crate) struct Lingering {
    stream: TcpStream,
    at_most: Duration,
    /// When everything ends, so does this.
    stop: CancellationToken,
    over: Option<Over>,
}

impl Lingering {
    pub(crate) fn new(stream: TcpStream, at_most: Duration, stop: CancellationToken) -> Self {
        Self { stream, at_most, stop, over: None }
    }
}

impl AsyncRead for Lingering {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, at_most, stop, over } = &mut *self;
        if over.is_none() {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
        }
        let over = over.get_or_insert_with(|| {
            let (at_most, stop) = (*at_most, stop.clone());
            Box::pin(async move { drop(timeout(at_most, stop.cancelled()).await) })
        });
        loop {
            if over.as_mut().poll(cx).is_ready() {
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
