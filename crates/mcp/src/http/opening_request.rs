//! Task-local context of a request that may open a session: rmcp creates sessions without passing the request on.

use std::sync::{Arc, OnceLock};

use axum::{
    extract::Request,
    http::{HeaderValue, header},
};
use skills_core::{Caller, RequestBudget, WorkAccount};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    handler::ClientContext,
    notifications::{SessionStream, StreamState},
    server::Shared,
};

tokio::task_local! {
    static CURRENT: OpeningRequest;
}

/// Credential, caller and budget of a request, and the stream of the session that it may open.
#[derive(Clone)]
pub(super) struct OpeningRequest {
    pub(super) authorization: Option<HeaderValue>,
    pub(super) caller: Caller,
    pub(super) budget: Option<RequestBudget>,
    pub(super) stream_state: watch::Sender<StreamState>,
    pub(super) closed: CancellationToken,
    /// State of the handler, once it is created.
    pub(super) shared: Arc<OnceLock<Arc<Shared>>>,
}

impl OpeningRequest {
    pub(super) fn new(request: &Request) -> Self {
        Self {
            authorization: request.headers().get(header::AUTHORIZATION).cloned(),
            caller: request.extensions().get::<Caller>().cloned().unwrap_or_default(),
            budget: request.extensions().get::<RequestBudget>().cloned(),
            stream_state: watch::Sender::default(),
            closed: CancellationToken::new(),
            shared: Arc::default(),
        }
    }

    /// Handles the request with this context.
    pub(super) async fn scope<T>(self, handled: impl Future<Output = T>) -> T {
        CURRENT.scope(self, handled).await
    }

    /// Returns the context of the request that is being handled.
    pub(super) fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// Returns the account of the client.
    pub(super) fn account(&self) -> WorkAccount {
        let budget = self.budget.as_ref();
        budget.map_or_else(WorkAccount::process, |budget| budget.account().clone())
    }

    /// Returns the context of the handler of this request, with the receiving side of the session's stream state.
    pub(super) fn client(&self) -> ClientContext {
        let (state, closed) = (self.stream_state.subscribe(), self.closed.clone());
        let stream = Some(SessionStream { state, closed });
        ClientContext { account: self.account(), request: self.budget.clone(), stream }
    }
}
