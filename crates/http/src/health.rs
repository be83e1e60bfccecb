//! Liveness (`/healthz`) and readiness (`/readyz`) of the server.

use std::{sync::Arc, time::Instant};

use axum::{Json, Router, extract::State, http::StatusCode, routing::get};
use parking_lot::Mutex;
use serde_json::{Value, json};
use skills_core::{RefusedWrite, StoreOutage, WriteRefusal};

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

/// Problem of a server whose store is read-only.
const READ_ONLY: ServerProblem = ServerProblem {
    message: WriteRefusal::ReadOnly.message(),
    hint: "check the database, and name a host that accepts writes; everything resumes by itself",
};
/// Problem of a server whose store is full.
const FULL: ServerProblem = ServerProblem {
    message: WriteRefusal::Full.message(),
    hint: "free some space; the next change shows whether it suffices",
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
    /// Write that the store refused.
    refused_write: Option<RefusedWrite>,
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

    /// Returns the problem of the store.
    fn store_problem(&self) -> Option<ServerProblem> {
        if self.outage.is_some() {
            return Some(UNREACHABLE);
        }
        Some(match self.refused_write?.current(Instant::now())? {
            WriteRefusal::ReadOnly => READ_ONLY,
            WriteRefusal::Full => FULL,
        })
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
        let state = *self.0.lock();
        if !state.is_ready {
            return Some(NOT_OPEN);
        }
        state.impaired.or_else(|| state.store_problem())
    }

    /// Sets the reason for which the server is impaired; `None` clears it.
    pub fn set_impaired(&self, reason: Option<ServerProblem>) {
        self.0.lock().impaired = reason;
    }

    /// Sets the reason for which a server that starts is not ready yet. Only health is served meanwhile.
    pub fn set_waiting(&self, reason: &'static str) {
        self.0.lock().waiting = Some(reason);
    }

    /// Sets the outage of a store that cannot be reached, and the write that one refused that can be read; `None` if
    /// there is none. Reads go on until the catalog is too old.
    pub fn set_store(&self, outage: Option<StoreOutage>, refused_write: Option<RefusedWrite>) {
        let mut state = self.0.lock();
        (state.outage, state.refused_write) = (outage, refused_write);
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
    let store_problem = state.store_problem().map(|problem| problem.message);
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
        _ if store_problem.is_some() => {
            let mut body = json!({ "status": "degraded", "reason": store_problem });
            if let Some(CatalogAge { seconds, .. }) = age {
                body["catalog_age"] = seconds.into();
            }
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
        readiness.set_store(Some(outage), None);
        let (code, Json(body)) = status().await;
        assert_eq!((code, &body["status"]), (StatusCode::OK, &json!("degraded")));
        assert_eq!(body["catalog_age"], json!(0));
        let max_stale = Some(Duration::ZERO);
        readiness.set_store(Some(StoreOutage { max_stale, ..outage }), None);
        let (code, Json(body)) = status().await;
        assert_eq!((code, &body["catalog_age"]), (StatusCode::SERVICE_UNAVAILABLE, &json!(0)));
        readiness.set_store(None, None);
        assert_eq!(status().await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn a_server_whose_store_takes_no_writes_is_degraded() {
        let readiness = Readiness::default();
        readiness.set(true);
        for (refusal, problem) in [(WriteRefusal::ReadOnly, READ_ONLY), (WriteRefusal::Full, FULL)]
        {
            let refused = RefusedWrite { refusal, at: Instant::now() };
            readiness.set_store(None, Some(refused));
            let (code, Json(body)) = ready(State(readiness.clone())).await;
            let expected = json!({ "status": "degraded", "reason": problem.message });
            assert_eq!((code, body), (StatusCode::OK, expected));
            assert_eq!(readiness.problem(), Some(problem));
        }
        readiness.set_store(None, None);
        let (_, Json(body)) = ready(State(readiness.clone())).await;
        assert_eq!((body, readiness.problem()), (json!({ "status": "ready" }), None));
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
