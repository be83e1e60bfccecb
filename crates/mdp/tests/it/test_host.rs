//! [`TestHost`]: a server with the MDP routes only.

use std::{net::SocketAddr, sync::Arc};

use serde_json::Value;
use skills_mdp::{Config, MdpHost, http};
use skills_registry::SkillRegistry;
use skills_testkit::{
    DEADLINE, Request, Response,
    mdp::{Client, registration},
};
use tokio::{net::TcpListener, task::spawn_blocking, time::timeout};
use tokio_util::sync::CancellationToken;

pub(crate) struct TestHost {
    pub(crate) address: SocketAddr,
    pub(crate) host: MdpHost,
    pub(crate) shutdown: CancellationToken,
}

impl TestHost {
    pub(crate) async fn new() -> Self {
        Self::with(Config::default(), None).await
    }

    pub(crate) async fn with(config: Config, skills: Option<Arc<dyn SkillRegistry>>) -> Self {
        let shutdown = CancellationToken::new();
        let host = MdpHost::start(config, skills, shutdown.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = http::router(&host);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, host, shutdown }
    }

    pub(crate) fn ws(&self) -> String {
        format!("ws://{}", self.address)
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::connect(&self.ws()).await
    }

    /// Connects and registers a client.
    pub(crate) async fn client(&self, id: &str, paths: Value) -> Client {
        let mut client = self.connect().await;
        client.send(&registration(id, paths)).await;
        self.until(|ids| ids.iter().any(|known| known == id)).await;
        client
    }

    /// Returns the ids of all clients in order.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.host.client_table().clients().map(|client| client.info.id.clone()).collect()
    }

    /// Waits until the list of clients matches.
    pub(crate) async fn until(&self, wanted: impl Fn(&[String]) -> bool) {
        let mut changes = self.host.changes();
        let waited = timeout(DEADLINE, changes.wait_for(|_| wanted(&self.ids()))).await;
        waited.unwrap_or_else(|_| panic!("in vain, with {:?}", self.ids())).unwrap();
    }

    pub(crate) async fn ask(&self, request: Request) -> Response {
        let address = self.address.to_string();
        spawn_blocking(move || request.send(&address)).await.unwrap()
    }

    pub(crate) async fn get(&self, target: &str) -> Response {
        self.ask(Request::get(target)).await
    }

    pub(crate) async fn post(&self, target: &str, body: &str) -> Response {
        let request = Request::new("POST", target).header("Content-Type", "application/json");
        self.ask(request.body(body)).await
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

pub(crate) fn text(answer: &Response) -> &str {
    std::str::from_utf8(&answer.body).unwrap()
}
