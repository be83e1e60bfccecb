//! The first poll of a future, by itself.
//!
//! Most handlers have their response at the first poll. What is only needed while one waits, such as a timer, costs
//! nothing then.

use std::{future::poll_fn, pin::Pin, task::Poll};

/// Polls a future once and returns whether it is ready.
pub(crate) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}
