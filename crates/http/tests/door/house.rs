//! A server with routes that make trouble on request.

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
    http::StatusCode,
    routing::{get, post},
};
use futures_util::{StreamExt as _, stream};
use skills_core::{
    Caller, Digest, Identify, Identity, User,
    caller::{AdminName, NoKeys},
};
use skills_http::{
    Access, App, Credential, Guard, Limits, OwnCheck, Readiness, Terms, Wing, serve,
};
use skills_testkit::{Answer, DEADLINE, Request};
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    task::{JoinHandle, spawn_blocking},
};
use tokio_util::sync::CancellationToken;

/// Knows the key of ann.
struct OneKey;

impl Identify for OneKey {
    fn identify(&self, bearer: &str) -> Identity {
        let owner = "ann".parse().unwrap();
        match bearer {
            "us-ann" => {
                Identity::Known(Caller::User(User { owner, key: Digest::of(bearer.as_bytes()) }))
            }
            "us-admin" => Identity::Known(Caller::Admin(AdminName::AdminKey)),
            other => NoKeys.identify(other),
        }
    }
}

pub(crate) struct House {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    /// How many requests to `/wait` have come in, and how many may be answered.
    arrived: Arc<Semaphore>,
    released: Arc<Semaphore>,
    served: JoinHandle<std::io::Result<()>>,
}

/// Limits under which nothing happens by the clock.
pub(crate) fn patient() -> Limits {
    let limits = Limits::default();
    Limits { head_within: DEADLINE, answer_within: DEADLINE, linger: DEADLINE, ..limits }
}

impl House {
    pub(crate) async fn new() -> Self {
        Self::with(patient()).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        Self::build(limits, None, false).await
    }

    /// With a token, and with wings: one that waits at `/hall/wait`, takes large bodies at `/hall/raw`, and
    /// checks itself who says `x-own`, and another that takes the rest.
    pub(crate) async fn with_wings(limits: Limits, token: &str) -> Self {
        Self::build(limits, Some(token.to_owned()), true).await
    }

    async fn build(limits: Limits, token: Option<String>, has_wings: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let [arrived, released] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
        let routes = routes(&arrived, &released);
        let access = Access { token, keys: Arc::new(OneKey), ..Access::default() };
        let guard = Guard::new(access).unwrap();
        let mut app = App { limits, ..App::new(routes.clone(), guard, Readiness::default()) };
        if has_wings {
            let own_check: OwnCheck = |_, headers| headers.contains_key("x-own");
            let terms = Terms {
                body_bytes: Some(8 << 20),
                waits: true,
                own_check: Some(own_check),
                mark: None,
            };
            app.wings = vec![Wing::new(Router::new().nest("/hall", routes), terms)];
            let rest = Router::new().fallback(async || (StatusCode::IM_A_TEAPOT, "the rest"));
            app.rest =
                Some(Wing::new(rest, Terms { own_check: Some(own_check), ..Terms::default() }));
        }
        let shutdown = CancellationToken::new();
        let served = tokio::spawn(serve(listener, app, shutdown.clone()));
        Self { address, shutdown, arrived, released, served }
    }

    /// Starts a request and returns what will be its answer.
    pub(crate) fn ask(&self, request: Request) -> JoinHandle<Answer> {
        let address = self.address.to_string();
        spawn_blocking(move || request.send(&address))
    }

    /// A request and its answer.
    pub(crate) async fn answer(&self, request: Request) -> Answer {
        self.ask(request).await.unwrap()
    }

    /// Starts a request to `/wait`, which is being worked on when this returns.
    pub(crate) async fn busy(&self) -> JoinHandle<Answer> {
        let answer = self.ask(Request::get("/wait"));
        self.until_arrived(1).await;
        answer
    }

    /// Waits until so many requests to `/wait` have come in.
    pub(crate) async fn until_arrived(&self, requests: u32) {
        self.arrived.acquire_many(requests).await.unwrap().forget();
    }

    /// Lets one request to `/wait` go on.
    pub(crate) fn release(&self) {
        self.released.add_permits(1);
    }

    /// A connection on which some bytes have been sent.
    pub(crate) fn connect(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    }

    /// Waits for the end.
    pub(crate) async fn ended(self) {
        let ended = tokio::time::timeout(DEADLINE, self.served).await;
        ended.expect("it did not end in time").unwrap().unwrap();
    }
}

/// Reads until something is said.
pub(crate) async fn read_until(mut stream: TcpStream, words: &'static str) -> TcpStream {
    let read = move || {
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains(words) {
            let mut more = [0; 1024];
            let count = stream.read(&mut more).unwrap();
            assert!(count > 0, "{words} was never said");
            said.extend_from_slice(&more[..count]);
        }
        stream
    };
    spawn_blocking(read).await.unwrap()
}

/// Reads until the other end closes.
pub(crate) async fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    let read = move || {
        let mut said = Vec::new();
        stream.read_to_end(&mut said).map(|_| said).unwrap()
    };
    spawn_blocking(read).await.unwrap()
}

/// Whether for a while nothing comes, not even the end.
pub(crate) async fn is_silent(stream: &TcpStream, time: Duration) -> bool {
    let stream = stream.try_clone().unwrap();
    let look = move || {
        stream.set_read_timeout(Some(time)).unwrap();
        let looked = stream.peek(&mut [0; 1]);
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let late = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
        looked.is_err_and(|error| late.contains(&error.kind()))
    };
    spawn_blocking(look).await.unwrap()
}

fn routes(arrived: &Arc<Semaphore>, released: &Arc<Semaphore>) -> Router {
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
        .route("/who", get(async |Extension(who): Extension<Credential>| format!("{who:?}")))
}
