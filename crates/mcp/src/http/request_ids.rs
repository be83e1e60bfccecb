//! Ids of the pending requests of one session.
//!
//! rmcp finds the stream of a response by the id of its request. A second request with the same id would replace the
//! first in that table: rmcp would lose the first one's response and never free its entry. So it is refused.

use std::{
    collections::HashSet,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;
use rmcp::{
    ErrorData,
    model::{RequestId, ServerJsonRpcMessage},
    transport::streamable_http_server::session::ServerSseMessage,
};
use serde_json::json;
use skills_core::Code;

/// Set of pending ids. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestIds(Arc<Mutex<HashSet<RequestId>>>);

impl RequestIds {
    /// Adds an id until the guard is dropped; `None` when it is pending already.
    pub(crate) fn begin(&self, id: &RequestId) -> Option<PendingId> {
        let is_new = self.0.lock().insert(id.clone());
        is_new.then(|| PendingId { ids: self.clone(), id: id.clone() })
    }
}

/// Guard of a pending id.
#[derive(Debug)]
pub(crate) struct PendingId {
    ids: RequestIds,
    id: RequestId,
}

impl Drop for PendingId {
    fn drop(&mut self) {
        self.ids.0.lock().remove(&self.id);
    }
}

type Messages = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;

/// Stream of a request's response, which holds the request's id until the response has passed.
///
/// A lost connection does not end the request: a task then waits for the response.
pub(super) struct RequestStream {
    messages: Option<Messages>,
    pending: Option<PendingId>,
}

impl RequestStream {
    pub(super) fn new(
        messages: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static,
        pending: Option<PendingId>,
    ) -> Self {
        Self { messages: Some(Box::pin(messages)), pending }
    }

    /// Returns the error response to a request whose id is pending.
    pub(super) fn duplicate_id(id: RequestId) -> Self {
        let data =
            json!({ "code": Code::DuplicateRequestId, "hint": "give each request its own id" });
        let message = "another pending request of this session has the same id";
        let error =
            ServerJsonRpcMessage::error(ErrorData::invalid_request(message, Some(data)), Some(id));
        let message = ServerSseMessage::from_message(error);
        Self::new(stream::iter([message]), None)
    }
}

/// Returns whether rmcp is done with a request: it removes the id before it reads the next message.
fn is_last(message: Option<&ServerSseMessage>) -> bool {
    message.is_none_or(|event| {
        matches!(
            event.message.as_deref(),
            Some(ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))
        )
    })
}

impl Stream for RequestStream {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(messages) = &mut self.messages else { return Poll::Ready(None) };
        let next = messages.as_mut().poll_next(context);
        if let Poll::Ready(message) = &next
            && is_last(message.as_ref())
        {
            self.pending = None;
        }
        next
    }
}

impl Drop for RequestStream {
    fn drop(&mut self) {
        let (Some(mut messages), Some(pending)) = (self.messages.take(), self.pending.take())
        else {
            return;
        };
        // Without a runtime the server is shutting down, and all streams end with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                while !is_last(messages.next().await.as_ref()) {}
                drop(pending);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    fn id(number: i64) -> RequestId {
        RequestId::Number(number)
    }

    #[tokio::test]
    async fn an_id_is_pending_until_the_stream_of_its_response_ends() {
        let ids = RequestIds::default();
        let (sender, mut receiver) = mpsc::channel(1);
        let messages = stream::poll_fn(move |context| receiver.poll_recv(context));
        let pending = ids.begin(&id(1));
        assert!(pending.is_some() && ids.begin(&id(1)).is_none() && ids.begin(&id(2)).is_some());
        let stream = RequestStream::new(messages, pending);
        // The connection is lost, and the request goes on.
        drop(stream);
        assert!(ids.begin(&id(1)).is_none());
        sender.send(ServerSseMessage::default()).await.unwrap();
        drop(sender);
        while ids.begin(&id(1)).is_none() {
            tokio::task::yield_now().await;
        }
    }
}
