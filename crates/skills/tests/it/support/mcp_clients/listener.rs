//! [`Listener`]: a client with notifications, over each of the four transports.

use serde_json::{Value, json};

use super::{Client, EventStream, Pipe, Session, Stateless, stateless_request};

use crate::support::TestServer;

/// Id of the listen request.
const STREAM: i64 = 4711;

/// A client and its notifications.
pub(crate) struct Listener {
    /// Client for requests meanwhile.
    pub(crate) client: Client,
    /// Event stream, unless the client itself receives notifications.
    events: Option<EventStream>,
}

impl Listener {
    /// Opens a session over HTTP with its event stream.
    pub(crate) async fn session(server: &TestServer, uris: &[&str]) -> Self {
        let session = Session::open(&server.process.http, "2025-06-18").await;
        let events = session.events().await;
        let mut listener = Self { client: Client::Session(session), events: Some(events) };
        listener.subscribe(uris).await;
        listener
    }

    /// Opens a stream of the newest revision over HTTP.
    pub(crate) async fn stream(server: &TestServer, uris: &[&str]) -> Self {
        let mut events = Stateless::listen(&server.process.http, STREAM, &everything(uris)).await;
        acknowledged(&events.message().await);
        Self { client: super::stateless(server), events: Some(events) }
    }

    /// Opens a session over stdio.
    pub(crate) async fn pipe(server: &TestServer, uris: &[&str]) -> Self {
        let pipe = Pipe::session(&["--url", &server.process.url], "2025-11-25").await;
        let mut listener = Self { client: Client::Pipe(pipe), events: None };
        listener.subscribe(uris).await;
        listener
    }

    /// Opens a stream of the newest revision over stdio.
    pub(crate) async fn pipe_stream(server: &TestServer, uris: &[&str]) -> Self {
        let mut pipe = Pipe::stateless(&["--url", &server.process.url]);
        let params = json!({ "notifications": everything(uris) });
        pipe.send(&stateless_request(STREAM, "subscriptions/listen", &params)).await;
        acknowledged(&pipe.message().await);
        Self { client: Client::Pipe(pipe), events: None }
    }

    /// Opens one listener of each kind.
    pub(crate) async fn every_kind(
        server: &TestServer,
        uris: &[&str],
    ) -> Vec<(&'static str, Self)> {
        vec![
            ("HTTP, session", Self::session(server, uris).await),
            ("HTTP, stateless", Self::stream(server, uris).await),
            ("stdio, session", Self::pipe(server, uris).await),
            ("stdio, stateless", Self::pipe_stream(server, uris).await),
        ]
    }

    async fn subscribe(&mut self, uris: &[&str]) {
        for uri in uris {
            self.client.ok("resources/subscribe", json!({ "uri": uri })).await;
        }
    }

    /// Returns the next notification.
    pub(crate) async fn next(&mut self) -> Value {
        let message = match (&mut self.events, &mut self.client) {
            (Some(events), _) => events.message().await,
            (None, Client::Pipe(pipe)) => pipe.message().await,
            (None, _) => panic!("it receives no notifications"),
        };
        assert!(message["id"].is_null(), "only notifications come unasked: {message}");
        message
    }

    /// Waits for a notification after which a condition holds.
    pub(crate) async fn until(
        &mut self,
        method: &str,
        mut holds: impl AsyncFnMut(&mut Client) -> bool,
    ) {
        loop {
            let received = self.next().await;
            if received["method"] == method && holds(&mut self.client).await {
                return;
            }
        }
    }
}

fn everything(uris: &[&str]) -> Value {
    json!({
        "resourcesListChanged": true, "promptsListChanged": true, "toolsListChanged": true,
        "resourceSubscriptions": uris,
    })
}

fn acknowledged(message: &Value) {
    assert_eq!(message["method"], "notifications/subscriptions/acknowledged", "{message}");
}
