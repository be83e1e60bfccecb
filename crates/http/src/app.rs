//! The application: the surfaces' routes behind limits and authentication, all of them behind the access guard.

use std::{net::SocketAddr, sync::Arc};

use axum::Router;

use skills_core::{MemoryBudget, RequestStats};

use crate::{
    Guard, HttpLimits, Readiness, RouteGroup, RoutePolicy,
    client_shares::ClientShares,
    error::{self, ErrorFormat},
    front_page,
    guard::{Authenticator, BoundGuard, OwnPages},
    health,
    limits::ConcurrencyLimit,
    middleware::{GroupRules, MiddlewareLayer, ServerRules},
};

/// Routes and rules of one HTTP server.
#[derive(Debug, Clone)]
pub struct App {
    /// Routes of the surfaces under the default policy.
    pub routes: Router,
    /// Routes with a policy of their own.
    pub route_groups: Vec<RouteGroup>,
    /// Handles every path that no route has. Without it the answer is 404.
    pub fallback: Option<RouteGroup>,
    /// Handles `/` for clients that accept HTML. Other clients, and WebSockets, get what they would get without it.
    pub front_page: Option<RouteGroup>,
    /// Counters of the requests of route groups that name their surface.
    pub stats: RequestStats,
    /// Access rules of the server.
    pub guard: Guard,
    /// State behind `/readyz`.
    pub readiness: Readiness,
    /// Limits on connections and requests.
    pub limits: HttpLimits,
    /// Error formats of surfaces that do not use the default one.
    pub error_formats: Vec<ErrorFormat>,
    /// Memory budget of requests, shared with the rest of the process.
    pub budget: MemoryBudget,
}

impl App {
    /// Creates an app with default limits and no route groups.
    #[must_use]
    pub fn new(routes: Router, guard: Guard, readiness: Readiness) -> Self {
        Self {
            routes,
            route_groups: vec![],
            fallback: None,
            front_page: None,
            stats: RequestStats::default(),
            guard,
            readiness,
            limits: HttpLimits::default(),
            error_formats: vec![],
            budget: MemoryBudget::default(),
        }
    }

    /// Builds the router of a server that is bound to an address.
    pub(crate) fn router(self, bound: SocketAddr, shares: &Arc<ClientShares>) -> Router {
        let Self {
            routes,
            route_groups,
            fallback,
            front_page,
            stats,
            guard,
            readiness,
            limits,
            error_formats,
            ..
        } = self;
        let concurrency = ConcurrencyLimit::new(&limits, Arc::clone(shares));
        let server = Arc::new(ServerRules {
            guard: BoundGuard { guard: guard.clone(), bound },
            error_formats,
            readiness: readiness.clone(),
        });
        let with_middleware = |RouteGroup { routes, policy }| {
            let group = GroupRules {
                concurrency: concurrency.with_policy(&policy),
                authenticator: Authenticator {
                    guard: guard.clone(),
                    bypass: policy.auth_bypass,
                    is_public: policy.is_public,
                    accepts_basic: policy.accepts_basic,
                },
                decorator: policy.decorator,
                own_pages: policy.same_origin.then_some(if policy.linkable {
                    OwnPages::Linkable
                } else {
                    OwnPages::Unlinkable
                }),
                counter: policy.surface.map(|surface| stats.surface(surface)),
            };
            routes
                .method_not_allowed_fallback(async || error::METHOD_NOT_ALLOWED)
                .layer(MiddlewareLayer::new(Arc::clone(&server), Some(group)))
        };
        let not_found = || {
            let routes = Router::new().fallback(async || error::NOT_FOUND);
            RouteGroup::new(routes, RoutePolicy { long_poll: true, ..RoutePolicy::default() })
        };
        // Health is outside the limits: a busy server is alive.
        let health = health::routes(readiness)
            .method_not_allowed_fallback(async || error::METHOD_NOT_ALLOWED)
            .layer(MiddlewareLayer::new(Arc::clone(&server), None));
        let default_group = with_middleware(RouteGroup::new(routes, RoutePolicy::default()));
        let fallback = with_middleware(fallback.unwrap_or_else(not_found));
        let front_page =
            front_page.map(|page| front_page::route(with_middleware(page), fallback.clone()));
        route_groups
            .into_iter()
            .map(with_middleware)
            .fold(default_group, Router::merge)
            .merge(health)
            .merge(front_page.unwrap_or_default())
            .fallback_service(fallback)
    }
}

#[cfg(test)]
mod tests {
    use axum::{
        Extension,
        body::Body,
        http::{HeaderMap, Request, StatusCode},
        routing::any,
    };
    use proptest::prelude::{Just, any as arbitrary, prop, prop_assert, prop_oneof, proptest};
    use skills_core::{
        Caller, Digest, KeyDirectory, KeyLookup, User, WorkAccount,
        caller::{AdminName, KEY_PREFIX},
    };
    use tower::ServiceExt as _;

    use super::*;
    use crate::{Access, SessionLookup};

    async fn answer(readiness: &Readiness, request: Request<Body>) -> StatusCode {
        let guard = Guard::new(Access { token: Some("t".to_owned()), ..Access::default() });
        let app = App::new(Router::new(), guard.unwrap(), readiness.clone());
        let shares = ClientShares::new(&app.budget);
        app.router(([127, 0, 0, 1], 80).into(), &shares).oneshot(request).await.unwrap().status()
    }

    async fn status(readiness: &Readiness, method: &str, path: &str) -> StatusCode {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("authorization", "Bearer t").body(Body::empty()).unwrap();
        answer(readiness, request).await
    }

    #[tokio::test]
    async fn the_server_is_alive_at_once_and_ready_after_set() {
        let readiness = Readiness::default();
        assert_eq!(status(&readiness, "GET", "/healthz").await, StatusCode::OK);
        assert_eq!(status(&readiness, "GET", "/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
        readiness.set(true);
        assert_eq!(status(&readiness, "GET", "/readyz").await, StatusCode::OK);
        readiness.set(false);
        assert_eq!(status(&readiness, "GET", "/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[tokio::test]
    async fn a_server_that_waits_for_its_store_serves_health_alone() {
        let readiness = Readiness::default();
        readiness.set_waiting("the database cannot be reached");
        assert_eq!(status(&readiness, "GET", "/healthz").await, StatusCode::OK);
        for path in ["/readyz", "/nowhere", "/mcp"] {
            let unavailable = StatusCode::SERVICE_UNAVAILABLE;
            assert_eq!(status(&readiness, "GET", path).await, unavailable, "{path}");
        }
        // The keys of users are in the database.
        let request = Request::get("/mcp").header("host", "localhost");
        let request = request.header("authorization", "Bearer us-key").body(Body::empty()).unwrap();
        assert_eq!(answer(&readiness, request).await, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[tokio::test]
    async fn unknown_paths_and_methods_get_404_and_405() {
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

    /// Directory whose database is away.
    struct NoKeys;

    impl KeyDirectory for NoKeys {
        fn lookup(&self, _: &str) -> KeyLookup {
            KeyLookup::Unavailable
        }
    }

    #[tokio::test]
    async fn a_key_that_cannot_be_looked_up_is_not_called_unknown() {
        let access = Access { keys: Arc::new(NoKeys), ..Access::default() };
        let readiness = Readiness::default();
        let app = App::new(Router::new(), Guard::new(access).unwrap(), readiness);
        let shares = ClientShares::new(&app.budget);
        let request = Request::get("/nowhere").header("host", "localhost");
        let request = request.header("authorization", "Bearer us-key").body(Body::empty()).unwrap();
        let router = app.router(([127, 0, 0, 1], 80).into(), &shares);
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()["retry-after"], "1");
    }

    #[tokio::test]
    async fn a_session_uses_the_account_of_its_caller() {
        let find = |headers: &HeaderMap| {
            let owner = headers.get("x-session")?.to_str().ok()?.parse().ok()?;
            Some(Caller::User(User { owner, key: Digest::of(b"us-key") }))
        };
        let session = Some(SessionLookup::new(find));
        let routes =
            Router::new().route("/account", any(async || Extension(WorkAccount::current())));
        let guard = Guard::new(Access::default()).unwrap();
        let mut app = App::new(Router::new(), guard, Readiness::default());
        let policy = RoutePolicy { session, long_poll: true, ..RoutePolicy::default() };
        app.route_groups = vec![RouteGroup::new(routes, policy)];
        let shares = ClientShares::new(&app.budget);
        let router = app.router(([127, 0, 0, 1], 80).into(), &shares);
        let account = async |session: &'static str| {
            let request = Request::get("/account").header("host", "localhost");
            let request = request.header("x-session", session).body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            response.extensions().get::<WorkAccount>().cloned().unwrap()
        };
        let ann = account("ann").await;
        assert_eq!(account("ann").await, ann);
        assert_ne!(account("bob").await, ann);
        assert_ne!(account("").await, ann, "without a session the address has the account");
    }

    /// Identifies every key as that of an administrator.
    struct AnyKey;

    impl KeyDirectory for AnyKey {
        fn lookup(&self, bearer: &str) -> KeyLookup {
            if bearer.starts_with(KEY_PREFIX) {
                KeyLookup::Found(Caller::Admin(AdminName::AdminKey))
            } else {
                KeyLookup::NotAKey
            }
        }
    }

    #[tokio::test]
    async fn pages_allowed_by_a_wildcard_may_only_read_public_routes_without_a_key() {
        let access =
            Access { origins: vec!["*".to_owned()], keys: Arc::new(AnyKey), ..Access::default() };
        let routes = |path: &str| Router::new().route(path, any(async || "text"));
        let mut app =
            App::new(routes("/closed"), Guard::new(access).unwrap(), Readiness::default());
        let policy = RoutePolicy { is_public: true, ..RoutePolicy::default() };
        app.route_groups.push(RouteGroup::new(routes("/open"), policy));
        let shares = ClientShares::new(&app.budget);
        let router = app.router(([127, 0, 0, 1], 80).into(), &shares);
        let page = ("origin", "https://evil.example");
        let link = ("sec-fetch-site", "cross-site");
        let key = ("authorization", "Bearer us-key");
        let local = ("origin", "http://localhost:3000");
        for (method, path, headers, expected) in [
            ("GET", "/open", vec![page], 200),
            ("GET", "/open", vec![link], 200),
            ("HEAD", "/open", vec![page], 200),
            ("POST", "/open", vec![page], 403),
            ("GET", "/open", vec![page, key], 403),
            ("GET", "/open", vec![link, key], 403),
            ("GET", "/closed", vec![page], 403),
            ("GET", "/closed", vec![link], 403),
            ("GET", "/nowhere", vec![page], 403),
            ("GET", "/healthz", vec![page], 200),
            ("POST", "/closed", vec![local, key], 200),
            ("GET", "/open", vec![key], 200),
        ] {
            let mut request =
                Request::builder().method(method).uri(path).header("host", "localhost");
            for (name, value) in &headers {
                request = request.header(*name, *value);
            }
            let request = request.body(Body::empty()).unwrap();
            let status = router.clone().oneshot(request).await.unwrap().status();
            assert_eq!(status.as_u16(), expected, "{method} {path} {headers:?}");
        }
    }

    /// Returns the seconds of the paused clock that requests with these credentials take, and the last status.
    async fn seconds(router: &Router, path: &str, authorizations: &[&str]) -> (u64, StatusCode) {
        let (start, mut last) = (tokio::time::Instant::now(), StatusCode::OK);
        for authorization in authorizations {
            let request = Request::get(path).header("host", "localhost");
            let request = request.header("authorization", *authorization).body(Body::empty());
            last = router.clone().oneshot(request.unwrap()).await.unwrap().status();
        }
        (start.elapsed().as_secs(), last)
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_cannot_be_guessed_quickly_and_accepted_ones_are_never_delayed() {
        let unauthorized = || async { StatusCode::UNAUTHORIZED };
        let app = |token: Option<&str>| {
            let access = Access {
                token: token.map(str::to_owned),
                keys: Arc::new(AnyKey),
                ..Access::default()
            };
            let readiness = Readiness::default();
            readiness.set(true);
            let routes = Router::new().route("/admin", any(unauthorized));
            let app = App::new(routes, Guard::new(access).unwrap(), readiness);
            let shares = ClientShares::new(&app.budget);
            app.router(([127, 0, 0, 1], 80).into(), &shares)
        };
        let private = app(Some("the-token"));
        let wrong = ["Bearer wrong"; 110];
        assert_eq!(seconds(&private, "/nowhere", &wrong).await, (5, StatusCode::UNAUTHORIZED));
        for accepted in ["Bearer the-token", "Bearer us-key"] {
            let found = seconds(&private, "/nowhere", &[accepted; 15]).await;
            assert_eq!(found, (0, StatusCode::NOT_FOUND), "{accepted}");
        }
        // The token is no secret of an administrator, and no guess.
        let found = seconds(&private, "/admin", &["Bearer the-token"; 15]).await;
        assert_eq!(found, (0, StatusCode::UNAUTHORIZED));

        let public = app(None);
        let found = seconds(&public, "/nowhere", &wrong).await;
        assert_eq!(found, (0, StatusCode::NOT_FOUND), "nothing is refused");
        assert_eq!(seconds(&public, "/admin", &wrong).await, (5, StatusCode::UNAUTHORIZED));
        assert_eq!(seconds(&public, "/nowhere", &wrong).await, (0, StatusCode::NOT_FOUND));
    }

    proptest! {
        #[test]
        fn arbitrary_headers_never_grant_access(
            host in prop_oneof![Just(b"localhost".to_vec()), prop::collection::vec(arbitrary::<u8>(), 0..24)],
            origin in prop::option::of(prop::collection::vec(arbitrary::<u8>(), 0..24)),
            authorization in prop::option::of(prop::collection::vec(arbitrary::<u8>(), 0..24)),
        ) {
            let mut request = Request::get("/nowhere").header("host", host);
            for (name, value) in [("origin", origin), ("authorization", authorization)] {
                if let Some(value) = value {
                    request = request.header(name, value);
                }
            }
            // Some values cannot be sent at all.
            if let Ok(request) = request.body(Body::empty()) {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let readiness = Readiness::default();
                let status = runtime.unwrap().block_on(answer(&readiness, request)).as_u16();
                prop_assert!([400, 401, 403].contains(&status), "{}", status);
            }
        }
    }
}
