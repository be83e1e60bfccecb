//! A client that hears of changes, in any of the four ways.

use serde_json::{Value, json};

use super::{Client, Events, Pipe, Session, Stateless, stateless_request};
use crate::support::Home;

/// What a listener calls its stream.
const STREAM: i64 = 4711;

/// A client and what it hears.
pub(crate) struct Listener {
    /// Asks meanwhile.
    pub(crate) client: Client,
    /// Where it hears, unless that is where it asks.
    events: Option<Events>,
}

impl Listener {
    /// A session over HTTP with its stream.
    pub(crate) async fn session(home: &Home, uris: &[&str]) -> Self {
        let session = Session::open(&home.server.http, "2025-06-18").await;
        let events = session.events().await;
        let mut listener = Self { client: Client::Session(session), events: Some(events) };
        listener.subscribe(uris).await;
        listener
    }

    /// A stream of the newest revision over HTTP.
    pub(crate) async fn stream(home: &Home, uris: &[&str]) -> Self {
        let mut events = Stateless::listen(&home.server.http, STREAM, &everything(uris)).await;
        acknowledged(&events.message().await);
        Self { client: super::stateless(home), events: Some(events) }
    }

    /// A session over standard input and output.
    pub(crate) async fn pipe(home: &Home, uris: &[&str]) -> Self {
        let pipe = Pipe::session(&["--url", &home.server.url], "2025-11-25").await;
        let mut listener = Self { client: Client::Pipe(pipe), events: None };
        listener.subscribe(uris).await;
        listener
    }

    /// A stream of the newest revision over standard input and output.
    pub(crate) async fn pipe_stream(home: &Home, uris: &[&str]) -> Self {
        let mut pipe = Pipe::stateless(&["--url", &home.server.url]);
        let params = json!({ "notifications": everything(uris) });
        pipe.send(&stateless_request(STREAM, "subscriptions/listen", &params)).await;
        acknowledged(&pipe.message().await);
        Self { client: Client::Pipe(pipe), events: None }
    }

    /// One of each kind.
    pub(crate) async fn every_kind(home: &Home, uris: &[&str]) -> Vec<(&'static str, Self)> {
        vec![
            ("HTTP, session", Self::session(home, uris).await),
            ("HTTP, stateless", Self::stream(home, uris).await),
            ("stdio, session", Self::pipe(home, uris).await),
            ("stdio, stateless", Self::pipe_stream(home, uris).await),
        ]
    }

    async fn subscribe(&mut self, uris: &[&str]) {
        for uri in uris {
            self.client.ok("resources/subscribe", json!({ "uri": uri })).await;
        }
    }

    /// The next notification.
    pub(crate) async fn next(&mut self) -> Value {
        let message = match (&mut self.events, &mut self.client) {
            (Some(events), _) => events.message().await,
            (None, Client::Pipe(pipe)) => pipe.message().await,
            (None, _) => panic!("it hears nothing"),
        };
        assert!(message["id"].is_null(), "only notifications come unasked: {message}");
        message
    }

    /// Waits for a notification after which something holds: one that came before says nothing of it.
    pub(crate) async fn until(
        &mut self,
        method: &str,
        mut holds: impl AsyncFnMut(&mut Client) -> bool,
    ) {
        loop {
            let heard = self.next().await;
            if heard["method"] == method && holds(&mut self.client).await {
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
