//! Liveness (`/healthz`) and readiness (`/readyz`) of the server.

use std::{sync::Arc, time::Instant};

use axum::{Json, Router, extract::State, http::StatusCode, routing::get};
use parking_lot::Mutex;
use serde_json::{Value, json};
use skills_core::StoreOutage;

use crate::{
    ServerProblem,
    error::{self, HttpError},
};

pub(crate) const ALIVE: &str = "/healthz";
pub(crate) const READY: &str = "/readyz";
/// Problem of a server whose shared store is gone.
const UNREACHABLE: ServerProblem = ServerProblem {
    message: "the store cannot be reached: reads go on from memory, writes fail",
    hint: "check the database; everything resumes by itself when it answers",
};

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
    /// Reason for which a server that starts is not ready.
    waiting: Option<&'static str>,
    /// Outage of the store.
    outage: Option<StoreOutage>,
}

/// Age of a catalog that may lack changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CatalogAge {
    pub(crate) seconds: u64,
    /// Whether it is too old to be read.
    pub(crate) is_stale: bool,
}

impl ReadyState {
    fn catalog_age(&self) -> Option<CatalogAge> {
        let (outage, now) = (self.outage?, Instant::now());
        Some(CatalogAge { seconds: outage.age(now).as_secs(), is_stale: outage.is_stale(now) })
    }
}

impl Readiness {
    /// Sets whether the server accepts work.
    pub fn set(&self, ready: bool) {
        self.0.lock().is_ready = ready;
    }

    /// Returns the reason for which the server cannot do all of its work.
    #[must_use]
    pub fn problem(&self) -> Option<ServerProblem> {
        let ReadyState { is_ready, impaired, outage, .. } = *self.0.lock();
        match impaired {
            _ if !is_ready => Some(NOT_OPEN),
            None if outage.is_some() => Some(UNREACHABLE),
            impaired => impaired,
        }
    }

    /// Sets the reason for which the server is impaired; `None` clears it.
    pub fn set_impaired(&self, reason: Option<ServerProblem>) {
        self.0.lock().impaired = reason;
    }

    /// Sets the reason for which a server that starts is not ready yet. Only health is served meanwhile.
    pub fn set_waiting(&self, reason: &'static str) {
        self.0.lock().waiting = Some(reason);
    }

    /// Sets the outage of a store that cannot be reached; `None` when it can. Reads go on until the catalog is too old.
    pub fn set_outage(&self, outage: Option<StoreOutage>) {
        self.0.lock().outage = outage;
    }

    /// Returns the age of the catalog while the store cannot be reached, and the error that answers all requests but
    /// those of health.
    pub(crate) fn age_and_refusal(&self) -> (Option<CatalogAge>, Option<HttpError>) {
        let state = *self.0.lock();
        let age = state.catalog_age();
        let refusal = match age {
            _ if state.waiting.is_some() => Some(error::WAITING),
            Some(CatalogAge { is_stale: true, .. }) => Some(error::STALE),
            _ => None,
        };
        (age, refusal)
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
    let state = *readiness.0.lock();
    let ReadyState { is_ready, impaired, is_indexing, waiting, .. } = state;
    let age = state.catalog_age();
    let (status, body) = match (impaired.map(|problem| problem.message).or(waiting), age) {
        (Some(reason), _) => {
            let body = json!({ "status": "not ready", "reason": reason });
            (StatusCode::SERVICE_UNAVAILABLE, body)
        }
        _ if !is_ready => (StatusCode::SERVICE_UNAVAILABLE, json!({ "status": "not ready" })),
        (None, Some(CatalogAge { seconds, is_stale: true })) => {
            let reason = "the store cannot be reached, and the catalog is older than max_stale";
            let body = json!({ "status": "not ready", "reason": reason, "catalog_age": seconds });
            (StatusCode::SERVICE_UNAVAILABLE, body)
        }
        (None, Some(CatalogAge { seconds, is_stale: false })) => {
            let body = json!({ "status": "degraded", "reason": UNREACHABLE.message, "catalog_age": seconds });
            (StatusCode::OK, body)
        }
        _ if is_indexing => (StatusCode::OK, json!({ "status": "ready", "search": "indexing" })),
        _ => (StatusCode::OK, json!({ "status": "ready" })),
    };
    (status, Json(body))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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

    #[tokio::test]
    async fn a_server_without_its_store_is_degraded_until_the_catalog_is_too_old() {
        let readiness = Readiness::default();
        readiness.set(true);
        let status = async || ready(State(readiness.clone())).await;
        let outage = StoreOutage { last_contact: Instant::now(), max_stale: None };
        readiness.set_outage(Some(outage));
        let (code, Json(body)) = status().await;
        assert_eq!((code, &body["status"]), (StatusCode::OK, &json!("degraded")));
        assert_eq!(body["catalog_age"], json!(0));
        let max_stale = Some(Duration::ZERO);
        readiness.set_outage(Some(StoreOutage { max_stale, ..outage }));
        let (code, Json(body)) = status().await;
        assert_eq!((code, &body["catalog_age"]), (StatusCode::SERVICE_UNAVAILABLE, &json!(0)));
        readiness.set_outage(None);
        assert_eq!(status().await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn a_server_that_waits_says_for_what() {
        let readiness = Readiness::default();
        readiness.set_waiting("the database cannot be reached");
        let (code, Json(body)) = ready(State(readiness)).await;
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body["reason"], json!("the database cannot be reached"));
    }
}
