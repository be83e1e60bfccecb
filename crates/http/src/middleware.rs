//! The middleware around every route: request id, access rules, authentication, limits, response headers.
//!
//! One layer for all of them. Each layer of a router copies the boxed services below it for every request, so a stack of
//! layers costs more than what they do.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    extract::Request,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::Route,
};
use skills_core::SurfaceCounter;
use tower::{Layer, Service};

use crate::{
    Readiness, ResponseDecorator,
    error::ErrorFormat,
    front_page,
    guard::{self, Authenticator, BoundGuard, OwnPages},
    key_lifetime,
    limits::{self, ConcurrencyLimit},
    request_span, security_headers,
};

/// Header with the age of the catalog in seconds, while the store cannot be reached.
const CATALOG_AGE: HeaderName = HeaderName::from_static("x-skills-catalog-age");

/// Seconds after which a client may repeat a request that the server cannot answer at the moment.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// Rules for all routes of a server.
pub(crate) struct ServerRules {
    pub(crate) guard: BoundGuard,
    pub(crate) error_formats: Vec<ErrorFormat>,
    pub(crate) readiness: Readiness,
}

/// Rules for one route group.
pub(crate) struct GroupRules {
    pub(crate) authenticator: Authenticator,
    pub(crate) concurrency: ConcurrencyLimit,
    pub(crate) decorator: Option<ResponseDecorator>,
    /// Set if only pages of this server may request the routes.
    pub(crate) own_pages: Option<OwnPages>,
    pub(crate) counter: Option<SurfaceCounter>,
}

/// Layer that applies the rules to routes.
#[derive(Clone)]
pub(crate) struct MiddlewareLayer(Arc<Rules>);

struct Rules {
    server: Arc<ServerRules>,
    /// `None` for routes that anyone may request at any time: those of health.
    group: Option<GroupRules>,
}

impl MiddlewareLayer {
    pub(crate) fn new(server: Arc<ServerRules>, group: Option<GroupRules>) -> Self {
        Self(Arc::new(Rules { server, group }))
    }
}

impl Layer<Route> for MiddlewareLayer {
    type Service = Middleware;

    fn layer(&self, route: Route) -> Middleware {
        Middleware { rules: Arc::clone(&self.0), route: Arc::new(route) }
    }
}

/// Route behind the middleware.
#[derive(Clone)]
pub(crate) struct Middleware {
    rules: Arc<Rules>,
    /// Shared: a copy of a route is an allocation.
    route: Arc<Route>,
}

impl fmt::Debug for Middleware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Middleware").field("route", &self.route).finish_non_exhaustive()
    }
}

impl Service<Request> for Middleware {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Routes are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (rules, next) = (Arc::clone(&self.rules), Next(Arc::clone(&self.route)));
        Box::pin(async move { Ok(rules.handle(request, next).await) })
    }
}

/// Route that a request is for.
pub(crate) struct Next(Arc<Route>);

impl Next {
    /// Runs the handler of the route.
    pub(crate) async fn run(self, request: Request) -> Response {
        let handling = Route::clone(&self.0).call(request);
        match handling.await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

impl Rules {
    async fn handle(&self, request: Request, next: Next) -> Response {
        let Self { server, group } = self;
        request_span::trace(request, async |request: Request| {
            let uri = request.uri().clone();
            let (age, refusal) = server.readiness.age_and_refusal();
            let next = async |request| match (group, refusal) {
                (Some(_), Some(refusal)) => refusal.into_response(),
                (Some(group), None) => group.handle(request, next).await,
                (None, _) => next.run(request).await,
            };
            let own_pages = group.as_ref().and_then(|group| group.own_pages);
            let names_html = front_page::names_html(request.headers());
            let response = guard::check_host_and_origin(&server.guard, own_pages, request, next);
            let mut response = response.await;
            if let Some(counter) = group.as_ref().and_then(|group| group.counter.as_ref()) {
                counter.count(
                    response.status().is_client_error() || response.status().is_server_error(),
                );
            }
            if let Some(format) = ErrorFormat::find(&server.error_formats, uri.path()) {
                response = format.apply(response, names_html);
            }
            if response.status() == StatusCode::SERVICE_UNAVAILABLE {
                response.headers_mut().entry(header::RETRY_AFTER).or_insert(RETRY_AFTER);
            }
            security_headers::insert(uri.path(), own_pages.is_some(), &mut response);
            if let Some(age) = age {
                response.headers_mut().insert(CATALOG_AGE, age.seconds.into());
            }
            response
        })
        .await
    }
}

impl GroupRules {
    async fn handle(&self, mut request: Request, next: Next) -> Response {
        let Self { authenticator, concurrency, decorator, .. } = self;
        if let Some(response) = authenticator.check_public(&request) {
            return response;
        }
        let caller = match authenticator.authenticate(&mut request) {
            Ok(caller) => caller,
            Err(error) => {
                let response = authenticator.challenge(error.into_response());
                let client = authenticator.guessing_client(&request, None);
                authenticator.delay_refusal(client.as_ref(), response.status()).await;
                return response;
            }
        };
        let client = authenticator.guessing_client(&request, Some(&caller));
        let response = limits::run_within_limits(concurrency, &caller, request, next);
        let key_end = || authenticator.key_end(&caller);
        let response = key_lifetime::end_with_key(key_end, response).await;
        let mut response = authenticator.challenge(response);
        if let Some(decorator) = decorator {
            decorator.apply(&caller, response.headers_mut());
        }
        request_span::set_caller(&mut response, &caller);
        authenticator.delay_refusal(client.as_ref(), response.status()).await;
        response
    }
}
