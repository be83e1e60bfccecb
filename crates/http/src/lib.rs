//! The HTTP listener and what is mounted on it.
//!
//! Today that is whether the server lives (`/healthz`) and whether it takes work (`/readyz`); the
//! surfaces that speak HTTP are merged into [`router`] as they come. No surface knows another.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Json, Router, extract::State, http::StatusCode, routing::get, serve::ListenerExt as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

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

/// All routes.
pub fn router(routes: Router, readiness: Readiness) -> Router {
    let own = Router::new()
        .route("/healthz", get(async || Json(json!({ "status": "ok" }))))
        .route("/readyz", get(ready))
        .fallback(async || {
            let error =
                json!({ "code": "not_found", "message": "there is nothing at this address" });
            (StatusCode::NOT_FOUND, Json(json!({ "error": error })))
        })
        .with_state(readiness);
    routes.merge(own)
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, Json<Value>) {
    if readiness.get() {
        (StatusCode::OK, Json(json!({ "status": "ready" })))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "not ready" })))
    }
}

/// How long requests that are under way may take to finish after `shutdown`; one that never arrives
/// in full would take for ever.
const DRAIN: Duration = Duration::from_secs(2);

/// Serves until `shutdown`, then finishes the requests that are under way.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    readiness: Readiness,
    shutdown: CancellationToken,
) -> io::Result<()> {
    tracing::debug!(address = ?listener.local_addr(), "http listens");
    // Without NODELAY a small answer can wait 40 ms for the acknowledgement of the one before it.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
    });
    let served = axum::serve(listener, router(routes, readiness))
        .with_graceful_shutdown(shutdown.clone().cancelled_owned())
        .into_future();
    let too_late = async {
        shutdown.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        served = served => served,
        () = too_late => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt as _;

    use super::*;

    async fn status(readiness: &Readiness, path: &str) -> StatusCode {
        let request = Request::get(path).body(Body::empty()).unwrap();
        router(Router::new(), readiness.clone()).oneshot(request).await.unwrap().status()
    }

    #[tokio::test]
    async fn alive_from_the_start_and_ready_when_told() {
        let readiness = Readiness::default();
        assert_eq!(status(&readiness, "/healthz").await, StatusCode::OK);
        assert_eq!(status(&readiness, "/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
        readiness.set(true);
        assert_eq!(status(&readiness, "/readyz").await, StatusCode::OK);
        readiness.set(false);
        assert_eq!(status(&readiness, "/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(&readiness, "/nowhere").await, StatusCode::NOT_FOUND);
    }
}
