//! `tools/list_changed` reaches every client that sees the tools, over every transport.

use serde_json::{Value, json};
use skills_testkit::{DEADLINE, Worker};
use tokio::time::timeout;

use crate::{
    gateway::{
        fixture::{TestGateway, tool, weather},
        tools::{CHANGED, VERSION, over_http, setup},
    },
    support::{
        admin::ADMIN_KEY,
        mcp_clients::{Client, EventStream, Pipe, Session, Stateless, stateless_request},
    },
};

/// A client and its notification stream.
struct NotifiedClient {
    what: &'static str,
    client: Client,
    events: Option<EventStream>,
}

impl NotifiedClient {
    async fn session(gateway: &TestGateway, key: Option<&str>) -> Self {
        let session = Session::open_as(&gateway.server.process.http, VERSION, key).await;
        let events = Some(session.events().await);
        Self { what: "HTTP, session", client: Client::Session(session), events }
    }

    async fn pipe(gateway: &TestGateway, key: Option<&str>) -> Self {
        let mut arguments = vec!["--url", &gateway.server.process.url];
        arguments.extend(key.into_iter().flat_map(|key| ["--key", key]));
        let client = Client::Pipe(Pipe::session(&arguments, VERSION).await);
        Self { what: "stdio, session", client, events: None }
    }

    /// Opens an anonymous client of each kind.
    async fn every_kind(gateway: &TestGateway) -> Vec<Self> {
        let wanted = json!({ "toolsListChanged": true, "resourcesListChanged": true });
        let mut stream = Stateless::listen(&gateway.server.process.http, 4711, &wanted).await;
        stream.message().await;
        let stateless = Client::Stateless(Stateless::new(&gateway.server.process.http));
        let mut pipe = Pipe::stateless(&["--url", &gateway.server.process.url]);
        let params = json!({ "notifications": wanted });
        pipe.send(&stateless_request(4711, "subscriptions/listen", &params)).await;
        pipe.message().await;
        vec![
            Self::session(gateway, None).await,
            Self { what: "HTTP, stateless", client: stateless, events: Some(stream) },
            Self::pipe(gateway, None).await,
            Self { what: "stdio, stateless", client: Client::Pipe(pipe), events: None },
        ]
    }

    async fn next(&mut self) -> Value {
        let next = async {
            match (&mut self.events, &mut self.client) {
                (Some(events), _) => events.message().await,
                (None, Client::Pipe(pipe)) => pipe.message().await,
                (None, _) => panic!("it receives no notifications"),
            }
        };
        // A keep-alive is no notification.
        timeout(DEADLINE, next).await.unwrap_or_else(|_| panic!("{}: no notification", self.what))
    }

    /// Waits for a notification after which the tools match.
    async fn until(&mut self, mut holds: impl FnMut(&[String]) -> bool) {
        loop {
            let received = self.next().await;
            if received["method"] == CHANGED && holds(&self.client.tools().await) {
                return;
            }
        }
    }

    /// Waits until the initial notifications have arrived.
    async fn drain_initial_notifications(&mut self, worker: &Worker) {
        let has_begun = self.client.tools().await;
        assert!(has_begun.iter().any(|name| name == "uniskill_weather"), "{}", self.what);
        for number in 0..2 {
            let id = format!("marker{number}");
            worker.ok("skills::register", json!({ "id": id, "skill": "# Marker" })).await;
            while self.next().await["method"] != "notifications/resources/list_changed" {}
            worker.ok("skills::unregister", json!({ "id": id })).await;
            while self.next().await["method"] != "notifications/resources/list_changed" {}
        }
    }
}

fn sync(gateway: &TestGateway, uid: &str, status: &str, id: &str, manifest: &str) {
    let manifest: Value = serde_json::from_str(manifest).unwrap();
    let body = json!({ "user_uid": uid, "skill_name": id, "status": status, "manifest": manifest });
    let answer = gateway.post(Some(ADMIN_KEY), "/v1/admin/sync_skill", &body);
    assert_eq!(answer.status, 200, "{}", answer.json());
}

fn has(tools: &[String], name: &str) -> bool {
    tools.iter().any(|tool| tool == name)
}

#[tokio::test]
async fn added_and_redefined_tools_notify_every_client() {
    let gateway = setup().await.serve();
    let origin = gateway.upstream.origin.clone();
    for mut client in NotifiedClient::every_kind(&gateway).await {
        let id = "newcomer";
        sync(&gateway, "ann", "market", id, &tool(id, &origin, json!({})));
        client.until(|tools| has(tools, id)).await;
        // The same name with other parameters.
        sync(&gateway, "ann", "market", id, &weather(&origin).replace("uniskill_weather", id));
        loop {
            let received = client.next().await;
            let listed = client.client.all("tools/list", "tools").await;
            let row = listed.iter().find(|tool| tool["name"] == id).unwrap();
            if received["method"] == CHANGED && row["title"] == "Global Weather" {
                break;
            }
        }
        let gone = gateway.send(
            Some(ADMIN_KEY),
            skills_testkit::Request::new("DELETE", "/v1/admin/skills/market/newcomer"),
        );
        assert_eq!(gone.status, 200, "{}", client.what);
        client.until(|tools| !has(tools, id)).await;
    }
}

#[tokio::test]
async fn refresh_tools_notifies_every_client() {
    let gateway = setup().await.serve();
    let worker = gateway.server.worker().await;
    let mut ears = NotifiedClient::every_kind(&gateway).await;
    for client in &mut ears {
        client.drain_initial_notifications(&worker).await;
    }
    let answer = gateway.post(Some(ADMIN_KEY), "/v1/admin/refresh-tools", &Value::Null);
    assert_eq!(answer.status, 200, "{}", answer.json());
    for client in &mut ears {
        while client.next().await["method"] != CHANGED {}
    }
}

#[tokio::test]
async fn a_document_that_temporarily_shadows_a_tool_notifies_every_client() {
    let setup = setup().await;
    let (ann, bob) = (setup.key("ann"), setup.key("bob"));
    let gateway = setup.serve();
    let worker = gateway.server.worker().await;
    let mut bob = over_http(&gateway, Some(&bob)).await;
    for mut client in [
        NotifiedClient::session(&gateway, Some(&ann)).await,
        NotifiedClient::pipe(&gateway, Some(&ann)).await,
    ] {
        // Under the id of the tool, and with the prefix added.
        for (id, name) in [("uniskill_weather", "uniskill_weather"), ("uniskill_needy", "needy")] {
            let entry = json!({ "id": id, "tier": "private", "key": ann, "skill": "# Notes" });
            worker.ok("skills::register", entry.clone()).await;
            client.until(|tools| !has(tools, name)).await;
            assert!(has(&bob.tools().await, name), "{}: others see it as before", client.what);
            worker.ok("skills::unregister", entry).await;
            client.until(|tools| has(tools, name)).await;
        }
    }
}
