//! Liveness (`/healthz`) and readiness (`/readyz`) of the server.

use std::sync::Arc;

use axum::{Json, Router, extract::State, http::StatusCode, routing::get};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::ServerProblem;

pub(crate) const ALIVE: &str = "/healthz";
pub(crate) const READY: &str = "/readyz";

/// Problem of a server that is starting or stopping.
const NOT_OPEN: ServerProblem = ServerProblem {
    message: "the registry is not open",
    hint: "wait a moment; if it stays so, look at the log of the server",
};

/// Readiness flag, shared between the HTTP server and the code that sets it.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<ReadyState>>);

#[derive(Debug, Clone, Copy, Default)]
struct ReadyState {
    is_ready: bool,
    /// Reason for which a ready server cannot do a part of its work.
    impaired: Option<ServerProblem>,
    /// Whether searches do not find everything yet.
    is_indexing: bool,
}

impl Readiness {
    /// Sets whether the server accepts work.
    pub fn set(&self, ready: bool) {
        self.0.lock().is_ready = ready;
    }

    /// Returns the reason for which the server cannot do all of its work.
    #[must_use]
    pub fn problem(&self) -> Option<ServerProblem> {
        let ReadyState { is_ready, impaired, .. } = *self.0.lock();
        if is_ready { impaired } else { Some(NOT_OPEN) }
    }

    /// Sets the reason for which the server is impaired; `None` clears it.
    pub fn set_impaired(&self, reason: Option<ServerProblem>) {
        self.0.lock().impaired = reason;
    }

    /// Returns whether the search index is being built.
    #[must_use]
    pub fn is_indexing(&self) -> bool {
        self.0.lock().is_indexing
    }

    /// Sets whether the search index is being built. The server is ready meanwhile, and says so.
    pub fn set_indexing(&self, is_indexing: bool) {
        self.0.lock().is_indexing = is_indexing;
    }
}

pub(crate) fn routes(readiness: Readiness) -> Router {
    Router::new()
        .route(ALIVE, get(async || Json(json!({ "status": "ok" }))))
        .route(READY, get(ready))
        .with_state(readiness)
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, Json<Value>) {
    let ReadyState { is_ready, impaired, is_indexing } = *readiness.0.lock();
    let (status, body) = match impaired {
        _ if !is_ready => (StatusCode::SERVICE_UNAVAILABLE, json!({ "status": "not ready" })),
        None if is_indexing => (StatusCode::OK, json!({ "status": "ready", "search": "indexing" })),
        None => (StatusCode::OK, json!({ "status": "ready" })),
        Some(ServerProblem { message: reason, .. }) => {
            let body = json!({ "status": "not ready", "reason": reason });
            (StatusCode::SERVICE_UNAVAILABLE, body)
        }
    };
    (status, Json(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn readiness_reports_the_reason_for_impairment() {
        let readiness = Readiness::default();
        let status = async || ready(State(readiness.clone())).await;
        assert_eq!(status().await.0, StatusCode::SERVICE_UNAVAILABLE);
        readiness.set(true);
        assert_eq!(status().await.0, StatusCode::OK);
        readiness.set_impaired(Some(ServerProblem { message: "no writes", hint: "wait" }));
        let (code, Json(body)) = status().await;
        assert_eq!((code, &body["reason"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("no writes")));
        readiness.set_impaired(None);
        readiness.set_indexing(true);
        let (code, Json(body)) = status().await;
        assert_eq!((code, &body["search"]), (StatusCode::OK, &json!("indexing")));
        readiness.set_indexing(false);
        let (code, Json(body)) = status().await;
        assert_eq!((code, body), (StatusCode::OK, json!({ "status": "ready" })));
    }
}
