//! Who hears that the tools are others than before: whoever sees them, in every way of listening.

use serde_json::{Value, json};
use skills_testkit::{DEADLINE, Worker};
use tokio::time::timeout;

use crate::{
    clients::{Client, Events, Pipe, Session, Stateless, stateless_request},
    house::{ADMIN, House, tool, weather},
    tools::{CHANGED, VERSION, over_http, plan},
};

/// A client and where it hears.
struct Ear {
    what: &'static str,
    client: Client,
    events: Option<Events>,
}

impl Ear {
    async fn session(house: &House, key: Option<&str>) -> Self {
        let session = Session::open_as(&house.server.http, VERSION, key).await;
        let events = Some(session.events().await);
        Self { what: "HTTP, session", client: Client::Session(session), events }
    }

    async fn pipe(house: &House, key: Option<&str>) -> Self {
        let mut arguments = vec!["--url", &house.server.url];
        arguments.extend(key.into_iter().flat_map(|key| ["--key", key]));
        let client = Client::Pipe(Pipe::session(&arguments, VERSION).await);
        Self { what: "stdio, session", client, events: None }
    }

    /// One of each kind, for nobody in particular.
    async fn every_kind(house: &House) -> Vec<Self> {
        let wanted = json!({ "toolsListChanged": true, "resourcesListChanged": true });
        let mut stream = Stateless::listen(&house.server.http, 4711, &wanted).await;
        stream.message().await;
        let stateless = Client::Stateless(Stateless::new(&house.server.http));
        let mut pipe = Pipe::stateless(&["--url", &house.server.url]);
        let params = json!({ "notifications": wanted });
        pipe.send(&stateless_request(4711, "subscriptions/listen", &params)).await;
        pipe.message().await;
        vec![
            Self::session(house, None).await,
            Self { what: "HTTP, stateless", client: stateless, events: Some(stream) },
            Self::pipe(house, None).await,
            Self { what: "stdio, stateless", client: Client::Pipe(pipe), events: None },
        ]
    }

    async fn next(&mut self) -> Value {
        let next = async {
            match (&mut self.events, &mut self.client) {
                (Some(events), _) => events.message().await,
                (None, Client::Pipe(pipe)) => pipe.message().await,
                (None, _) => panic!("it hears nothing"),
            }
        };
        // A stream that only says that it is alive says nothing.
        timeout(DEADLINE, next).await.unwrap_or_else(|_| panic!("{}: nothing is told", self.what))
    }

    /// Waits until the tools are told to be others, and are.
    async fn until(&mut self, mut holds: impl FnMut(&[String]) -> bool) {
        loop {
            let told = self.next().await;
            if told["method"] == CHANGED && holds(&self.client.tools().await) {
                return;
            }
        }
    }

    /// Waits until whatever a client hears at its beginning is heard.
    async fn settle(&mut self, worker: &Worker) {
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

fn sync(house: &House, uid: &str, status: &str, id: &str, manifest: &str) {
    let manifest: Value = serde_json::from_str(manifest).unwrap();
    let body = json!({ "user_uid": uid, "skill_name": id, "status": status, "manifest": manifest });
    let answer = house.post(Some(ADMIN), "/v1/admin/sync_skill", &body);
    assert_eq!(answer.status, 200, "{}", answer.json());
}

fn has(tools: &[String], name: &str) -> bool {
    tools.iter().any(|tool| tool == name)
}

#[tokio::test]
async fn a_tool_that_comes_and_one_that_is_defined_otherwise() {
    let house = plan().await.serve();
    let origin = house.upstream.origin.clone();
    for mut ear in Ear::every_kind(&house).await {
        let id = "newcomer";
        sync(&house, "ann", "market", id, &tool(id, &origin, json!({})));
        ear.until(|tools| has(tools, id)).await;
        // Under the same name, with other parameters.
        sync(&house, "ann", "market", id, &weather(&origin).replace("uniskill_weather", id));
        loop {
            let told = ear.next().await;
            let listed = ear.client.all("tools/list", "tools").await;
            let row = listed.iter().find(|tool| tool["name"] == id).unwrap();
            if told["method"] == CHANGED && row["title"] == "Global Weather" {
                break;
            }
        }
        let gone = house.ask(
            Some(ADMIN),
            skills_testkit::Request::new("DELETE", "/v1/admin/skills/market/newcomer"),
        );
        assert_eq!(gone.status, 200, "{}", ear.what);
        ear.until(|tools| !has(tools, id)).await;
    }
}

#[tokio::test]
async fn every_client_hears_of_refresh_tools() {
    let house = plan().await.serve();
    let worker = Worker::connect(&house.server.url).await;
    let mut ears = Ear::every_kind(&house).await;
    for ear in &mut ears {
        ear.settle(&worker).await;
    }
    let answer = house.post(Some(ADMIN), "/v1/admin/refresh-tools", &Value::Null);
    assert_eq!(answer.status, 200, "{}", answer.json());
    for ear in &mut ears {
        while ear.next().await["method"] != CHANGED {}
    }
}

#[tokio::test]
async fn a_document_that_shadows_a_tool_and_goes_again() {
    let plan = plan().await;
    let (ann, bob) = (plan.key("ann"), plan.key("bob"));
    let house = plan.serve();
    let worker = Worker::connect(&house.server.url).await;
    let mut bob = over_http(&house, Some(&bob)).await;
    for mut ear in [Ear::session(&house, Some(&ann)).await, Ear::pipe(&house, Some(&ann)).await] {
        // With the id of the tool, and with the prefix before it.
        for (id, name) in [("uniskill_weather", "uniskill_weather"), ("uniskill_needy", "needy")] {
            let entry = json!({ "id": id, "tier": "private", "key": ann, "skill": "# Notes" });
            worker.ok("skills::register", entry.clone()).await;
            ear.until(|tools| !has(tools, name)).await;
            assert!(has(&bob.tools().await, name), "{}: others see it as before", ear.what);
            worker.ok("skills::unregister", entry).await;
            ear.until(|tools| has(tools, name)).await;
        }
    }
}
