//! rmcp's session manager on top of the session table.

use std::sync::Arc;

use axum::extract::Request;
use futures_util::Stream;
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, ServerJsonRpcMessage},
    transport::streamable_http_server::session::{
        ServerSseMessage, SessionId, SessionManager, local::SessionError,
    },
};
use skills_core::RequestBudget;

use super::{
    opening_request::OpeningRequest,
    request_ids::RequestStream,
    sessions::{Error, InnerManager, Session, Sessions},
};
use crate::McpProfile;

/// Session manager that rmcp calls.
pub(super) struct Manager {
    pub(super) sessions: Arc<Sessions>,
    /// Profile of its route.
    pub(super) profile: McpProfile,
}

/// Refuses to open a session, because the client's memory is used up or other clients have all sessions. The error is not
/// sent: the listener responds to a request that was refused memory.
fn refuse(budget: Option<&RequestBudget>) -> Error {
    budget.inspect(|budget| budget.refuse());
    SessionError::SessionServiceTerminated.into()
}

impl SessionManager for Manager {
    type Error = Error;
    type Transport = <InnerManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Error> {
        let request = OpeningRequest::current();
        let request = request.unwrap_or_else(|| OpeningRequest::new(&Request::default()));
        let (budget, client) = (request.budget.clone(), request.account());
        let reservation = self.sessions.reserve(&client);
        let reservation = reservation.map_err(|_| refuse(budget.as_ref()))?;
        let (id, transport) = self.sessions.inner.create_session().await?;
        let session = Session::new(request, self.profile, reservation);
        if self.sessions.insert(client, id.clone(), session).is_err() {
            self.sessions.inner.close_session(&id).await?;
            return Err(refuse(budget.as_ref()));
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Error> {
        if let ClientJsonRpcMessage::Request(request) = &message
            && let ClientRequest::InitializeRequest(request) = &request.request
        {
            self.sessions.set_client_name(id, &request.params.client_info.name);
        }
        self.sessions.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Error> {
        self.sessions.inner.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Error> {
        self.sessions.close(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        let ClientJsonRpcMessage::Request(request) = &message else {
            let stream = self.sessions.inner.create_stream(id, message).await?;
            return Ok(RequestStream::new(stream, None));
        };
        let request_id = request.id.clone();
        let requests = self.sessions.requests(id);
        let Some(pending) = requests.unwrap_or_default().begin(&request_id) else {
            return Ok(RequestStream::duplicate_id(request_id));
        };
        let stream = self.sessions.inner.create_stream(id, message).await?;
        Ok(RequestStream::new(stream, Some(pending)))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Error> {
        self.sessions.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        let stream = self.sessions.take_over_stream(id).await;
        let source = self.sessions.inner.create_standalone_stream(id).await;
        let source = source.inspect_err(|_| self.sessions.stream_failed(id, stream.as_ref()))?;
        Ok(self.sessions.forward(id, source, stream, false))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        let stream = self.sessions.take_over_stream(id).await;
        let source = self.sessions.inner.resume(id, last_event_id).await;
        let source = source.inspect_err(|_| self.sessions.stream_failed(id, stream.as_ref()))?;
        Ok(self.sessions.forward(id, source, stream, true))
    }
}
