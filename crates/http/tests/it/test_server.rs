//! [`TestServer`]: the listener with routes that misbehave on request.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::Request as Incoming,
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use futures_util::{StreamExt as _, stream};
use skills_core::{
    Caller, Digest, KeyDirectory, KeyLookup, MemoryBudget, RequestBudget, User,
    caller::{AdminName, EmptyKeyDirectory},
};
use skills_http::{
    Access, App, AuthBypass, BodyLimit, Guard, HttpLimits, Readiness, RouteGroup, RoutePolicy,
    serve,
};
use skills_testkit::{DEADLINE, Request, Response};
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    task::{JoinHandle, spawn_blocking},
};
use tokio_util::sync::CancellationToken;

/// Key directory with one user and one administrator.
struct FixedKey;

impl KeyDirectory for FixedKey {
    fn lookup(&self, bearer: &str) -> KeyLookup {
        let owner = "ann".parse().unwrap();
        match bearer {
            "us-ann" => {
                KeyLookup::Found(Caller::User(User { owner, key: Digest::of(bearer.as_bytes()) }))
            }
            "us-admin" => KeyLookup::Found(Caller::Admin(AdminName::AdminKey)),
            other => EmptyKeyDirectory.lookup(other),
        }
    }
}

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    /// Requests to `/wait` that have arrived.
    arrived: Arc<Semaphore>,
    released: Arc<Semaphore>,
    served: JoinHandle<std::io::Result<()>>,
}

/// Limits whose timeouts never fire in a test.
pub(crate) fn without_timeouts() -> HttpLimits {
    let limits = HttpLimits::default();
    let limits = HttpLimits { body_timeout: DEADLINE, ..limits };
    HttpLimits { head_timeout: DEADLINE, response_timeout: DEADLINE, linger: DEADLINE, ..limits }
}

impl TestServer {
    pub(crate) async fn new() -> Self {
        Self::with(without_timeouts()).await
    }

    pub(crate) async fn with(limits: HttpLimits) -> Self {
        Self::build(limits, None, false, MemoryBudget::default()).await
    }

    pub(crate) async fn with_budget(limits: HttpLimits, budget: MemoryBudget) -> Self {
        Self::build(limits, None, false, budget).await
    }

    /// Starts a server with a token and two route groups: one below `/hall` with long polls, large bodies and an
    /// auth bypass for `x-own`, and a fallback group.
    pub(crate) async fn with_route_groups(limits: HttpLimits, token: &str) -> Self {
        Self::build(limits, Some(token.to_owned()), true, MemoryBudget::default()).await
    }

    async fn build(
        limits: HttpLimits,
        token: Option<String>,
        has_route_groups: bool,
        budget: MemoryBudget,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let [arrived, released] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
        let routes = routes(&arrived, &released);
        let access = Access { token, keys: Arc::new(FixedKey), ..Access::default() };
        let guard = Guard::new(access).unwrap();
        let mut app =
            App { limits, budget, ..App::new(routes.clone(), guard, Readiness::default()) };
        if has_route_groups {
            let auth_bypass: AuthBypass = |_, headers| headers.contains_key("x-own");
            let terms = RoutePolicy {
                body_limit: Some(BodyLimit::new(|_| 8 << 20)),
                long_poll: true,
                auth_bypass: Some(auth_bypass),
                ..RoutePolicy::default()
            };
            app.route_groups = vec![RouteGroup::new(Router::new().nest("/hall", routes), terms)];
            let rest = Router::new().fallback(async || (StatusCode::IM_A_TEAPOT, "the rest"));
            app.fallback = Some(RouteGroup::new(
                rest,
                RoutePolicy { auth_bypass: Some(auth_bypass), ..RoutePolicy::default() },
            ));
        }
        let shutdown = CancellationToken::new();
        let served = tokio::spawn(serve(listener, app, shutdown.clone()));
        Self { address, shutdown, arrived, released, served }
    }

    /// Starts a request and returns a handle of its response.
    pub(crate) fn ask(&self, request: Request) -> JoinHandle<Response> {
        let address = self.address.to_string();
        spawn_blocking(move || request.send(&address))
    }

    /// Sends a request and returns its response.
    pub(crate) async fn answer(&self, request: Request) -> Response {
        self.ask(request).await.unwrap()
    }

    /// Starts a request to `/wait` and returns when its handler runs.
    pub(crate) async fn start_waiting_request(&self) -> JoinHandle<Response> {
        let answer = self.ask(Request::get("/wait"));
        self.until_arrived(1).await;
        answer
    }

    /// Waits until this many requests to `/wait` have arrived.
    pub(crate) async fn until_arrived(&self, requests: u32) {
        self.arrived.acquire_many(requests).await.unwrap().forget();
    }

    /// Releases one request to `/wait`.
    pub(crate) fn release(&self) {
        self.released.add_permits(1);
    }

    /// Opens a connection and sends some bytes.
    pub(crate) fn connect(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    }

    /// Waits until the server has stopped.
    pub(crate) async fn wait_until_stopped(self) {
        let ended = tokio::time::timeout(DEADLINE, self.served).await;
        ended.expect("it did not end in time").unwrap().unwrap();
    }
}

/// Reads until the text contains some words.
pub(crate) async fn read_until(mut stream: TcpStream, words: &'static str) -> TcpStream {
    let read = move || {
        let mut output = Vec::new();
        while !String::from_utf8_lossy(&output).contains(words) {
            let mut more = [0; 1024];
            let count = stream.read(&mut more).unwrap();
            assert!(count > 0, "{words} was not received");
            output.extend_from_slice(&more[..count]);
        }
        stream
    };
    spawn_blocking(read).await.unwrap()
}

/// Reads until the peer closes.
pub(crate) async fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    let read = move || {
        let mut output = Vec::new();
        stream.read_to_end(&mut output).map(|_| output).unwrap()
    };
    spawn_blocking(read).await.unwrap()
}

/// Checks that the connection stays open and silent for a while.
pub(crate) async fn is_silent(stream: &TcpStream, time: Duration) -> bool {
    let stream = stream.try_clone().unwrap();
    let look = move || {
        stream.set_read_timeout(Some(time)).unwrap();
        let peeked = stream.peek(&mut [0; 1]);
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let late = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
        peeked.is_err_and(|error| late.contains(&error.kind()))
    };
    spawn_blocking(look).await.unwrap()
}

/// Size of the body of `/large`.
pub(crate) const LARGE: usize = 32 << 20;

/// Guard that adds a permit when dropped.
struct OnDrop(Arc<Semaphore>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

fn routes(arrived: &Arc<Semaphore>, released: &Arc<Semaphore>) -> Router {
    let detached = {
        let (arrived, released) = (Arc::clone(arrived), Arc::clone(released));
        async move |Extension(budget): Extension<RequestBudget>| {
            tokio::spawn(async move {
                released.acquire().await.unwrap().forget();
                drop(budget);
            });
            arrived.add_permits(1);
            let _given_up = OnDrop(arrived);
            std::future::pending::<()>().await;
        }
    };
    let (arrived, released) = (Arc::clone(arrived), Arc::clone(released));
    let wait = async move || {
        arrived.add_permits(1);
        released.acquire().await.unwrap().forget();
        "done"
    };
    let endless = async || {
        let first = stream::iter([Ok::<_, std::io::Error>("first ")]);
        Body::from_stream(first.chain(stream::pending()))
    };
    let flood = async || {
        let chunk = Bytes::from(vec![b'x'; 64 << 10]);
        Body::from_stream(stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone())))
    };
    let broken = async || {
        let divided = |by: i32| Ok::<_, std::io::Error>((10 / by).to_string());
        Body::from_stream(stream::iter([1, 0]).map(divided))
    };
    let raw = async |request: Incoming| match axum::body::to_bytes(request.into_body(), usize::MAX)
        .await
    {
        Ok(bytes) => bytes.len().to_string(),
        Err(_) => "the handler went on all the same".to_owned(),
    };
    let nested = Router::new().fallback(async || (StatusCode::IM_A_TEAPOT, "mine"));
    Router::new()
        .nest("/nested", nested)
        .route("/wait", get(wait))
        .route("/detached", get(detached))
        .route("/large", get(async || vec![b'x'; LARGE]))
        .route("/endless", get(endless))
        .route("/flood", get(flood))
        .route("/broken", get(broken))
        .route("/panic", get(async || if true { panic!("on purpose") } else { "never" }))
        .route("/bytes", post(async |body: Bytes| body.len().to_string()))
        .route("/raw", post(raw))
        .route(
            "/caller",
            get(async |Extension(caller): Extension<Caller>| caller.actor().unwrap_or_default()),
        )
        .route("/who", get(who))
}

/// Says whether a request that reaches its handler has a credential.
async fn who(headers: HeaderMap) -> &'static str {
    if headers.contains_key("authorization") { "Credential(_)" } else { "Credential(none)" }
}
