//! Whether the server lives (`/healthz`) and whether it takes work (`/readyz`).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{Json, Router, extract::State, http::StatusCode, routing::get};
use serde_json::{Value, json};

pub(crate) const ALIVE: &str = "/healthz";
pub(crate) const READY: &str = "/readyz";

/// Whether the server takes work; shared between the listener and whoever decides it.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Says whether work is taken from now on.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) fn routes(readiness: Readiness) -> Router {
    Router::new()
        .route(ALIVE, get(async || Json(json!({ "status": "ok" }))))
        .route(READY, get(ready))
        .with_state(readiness)
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, Json<Value>) {
    if readiness.get() {
        (StatusCode::OK, Json(json!({ "status": "ready" })))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "not ready" })))
    }
}
