//! What is served, put together: the surfaces' routes behind the limits, everything behind the guard.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};

use crate::{
    Guard, Limits, Mark, Readiness, Terms, Wing,
    guard::{self, Door, Gate},
    health,
    limits::{self, Work},
    refusal::{self, Wording},
};

/// What to serve.
#[derive(Debug, Clone)]
pub struct App {
    /// The surfaces' routes.
    pub routes: Router,
    /// Routes with terms of their own.
    pub wings: Vec<Wing>,
    /// What takes the addresses that no route has; without it they are answered with 404.
    pub rest: Option<Wing>,
    /// Who may ask.
    pub guard: Guard,
    /// What `/readyz` tells.
    pub readiness: Readiness,
    /// How much may be asked.
    pub limits: Limits,
    /// How refusals look where they do not look as they do everywhere.
    pub wordings: Vec<Wording>,
}

impl App {
    /// With the limits that every server has.
    #[must_use]
    pub fn new(routes: Router, guard: Guard, readiness: Readiness) -> Self {
        let limits = Limits::default();
        Self { routes, wings: vec![], rest: None, guard, readiness, limits, wordings: vec![] }
    }

    /// All routes, as they are served at an address.
    pub(crate) fn router(self, bound: SocketAddr) -> Router {
        let Self { routes, wings, rest, guard, readiness, limits, wordings } = self;
        let work = Work::new(limits);
        let door = Door::new(guard.clone(), bound);
        let kept = |Wing { routes, terms }| {
            let work = work.under(&terms);
            let gate = Gate::new(guard.clone(), terms.own_check);
            let keeper = Arc::new(Keeper { gate, work, mark: terms.mark });
            routes
                .method_not_allowed_fallback(async || refusal::METHOD_NOT_ALLOWED)
                // Ours counts what any reader takes, theirs only what axum's extractors take.
                .layer(DefaultBodyLimit::disable())
                .layer(middleware::from_fn_with_state(keeper, keep))
        };
        let nowhere = || {
            let routes = Router::new().fallback(async || refusal::NOT_FOUND);
            Wing::new(routes, Terms { waits: true, ..Terms::default() })
        };
        // Health is outside the limits: a server with much to do is alive.
        let health = health::routes(readiness)
            .method_not_allowed_fallback(async || refusal::METHOD_NOT_ALLOWED);
        wings
            .into_iter()
            .map(kept)
            .fold(kept(Wing::new(routes, Terms::default())), Router::merge)
            .merge(health)
            .fallback_service(kept(rest.unwrap_or_else(nowhere)))
            .layer(middleware::from_fn_with_state(Arc::new(Porch { door, wordings }), enter))
    }
}

// One layer before all routes and one before those of a wing: each costs every request a few allocations.

/// What stands before all routes.
struct Porch {
    door: Door,
    wordings: Vec<Wording>,
}

async fn enter(State(porch): State<Arc<Porch>>, request: Request, next: Next) -> Response {
    let wording = Wording::of(&porch.wordings, request.uri().path());
    let response = guard::admit(&porch.door, request, next).await;
    match wording {
        Some(wording) => wording.reword(response),
        None => response,
    }
}

/// What stands before the routes of a wing.
struct Keeper {
    gate: Gate,
    work: Work,
    mark: Option<Mark>,
}

async fn keep(State(keeper): State<Arc<Keeper>>, mut request: Request, next: Next) -> Response {
    let Keeper { gate, work, mark } = &*keeper;
    let caller = match gate.identify(&mut request) {
        Ok(caller) => caller,
        Err(refused) => return refused.into_response(),
    };
    let mut response = limits::bounded(work, request, next).await;
    if let Some(mark) = mark {
        mark.write(&caller, response.headers_mut());
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::{
        body::Body,
        http::{Request, StatusCode},
    };
    use proptest::prelude::*;
    use tower::ServiceExt as _;

    use super::*;
    use crate::Access;

    async fn answer(readiness: &Readiness, request: Request<Body>) -> StatusCode {
        let guard = Guard::new(Access { token: Some("t".to_owned()), ..Access::default() });
        let app = App::new(Router::new(), guard.unwrap(), readiness.clone());
        app.router(([127, 0, 0, 1], 80).into()).oneshot(request).await.unwrap().status()
    }

    async fn status(readiness: &Readiness, method: &str, path: &str) -> StatusCode {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("authorization", "Bearer t").body(Body::empty()).unwrap();
        answer(readiness, request).await
    }

    #[tokio::test]
    async fn alive_from_the_start_and_ready_when_told() {
        let readiness = Readiness::default();
        assert_eq!(status(&readiness, "GET", "/healthz").await, StatusCode::OK);
        assert_eq!(status(&readiness, "GET", "/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
        readiness.set(true);
        assert_eq!(status(&readiness, "GET", "/readyz").await, StatusCode::OK);
        readiness.set(false);
        assert_eq!(status(&readiness, "GET", "/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[tokio::test]
    async fn what_is_not_there_is_said() {
        let readiness = Readiness::default();
        for (method, path, expected) in [
            ("GET", "/nowhere", StatusCode::NOT_FOUND),
            ("GET", "/healthz/", StatusCode::NOT_FOUND),
            ("OPTIONS", "*", StatusCode::NOT_FOUND),
            ("CONNECT", "localhost:80", StatusCode::NOT_FOUND),
            ("POST", "/healthz", StatusCode::METHOD_NOT_ALLOWED),
            ("HEAD", "/healthz", StatusCode::OK),
        ] {
            assert_eq!(status(&readiness, method, path).await, expected, "{method} {path}");
        }
    }
    proptest! {
        #[test]
        fn whatever_the_headers_say_nobody_gets_in_by_it(
            host in prop_oneof![Just(b"localhost".to_vec()), prop::collection::vec(any::<u8>(), 0..24)],
            origin in prop::option::of(prop::collection::vec(any::<u8>(), 0..24)),
            authorization in prop::option::of(prop::collection::vec(any::<u8>(), 0..24)),
        ) {
            let mut request = Request::get("/nowhere").header("host", host);
            for (name, value) in [("origin", origin), ("authorization", authorization)] {
                if let Some(value) = value {
                    request = request.header(name, value);
                }
            }
            // Not every value can be sent at all.
            if let Ok(request) = request.body(Body::empty()) {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let readiness = Readiness::default();
                let status = runtime.unwrap().block_on(answer(&readiness, request)).as_u16();
                prop_assert!([400, 401, 403].contains(&status), "{}", status);
            }
        }
    }
}
