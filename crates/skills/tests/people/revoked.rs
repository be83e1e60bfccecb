//! A key that is revoked while its user listens: from then on they are told, shown and called nothing.

use serde_json::{Value, json};
use skills_testkit::{DEADLINE, Request, Worker, program, run};
use tokio::time::timeout;

use crate::{
    clients::{Client, Events, Pipe, Session, Stateless, eventually, stateless_request},
    site::Site,
    support::BINARY,
};

const VERSION: &str = "2025-11-25";
const LIST_CHANGED: &str = "notifications/resources/list_changed";

/// A site with a user, her key and its id.
fn site() -> (Site, String, String) {
    let site = Site::new();
    let (ann, id) = site.key("ann");
    (site, ann, id)
}

fn revoke(site: &Site, id: &str) {
    site.administer("DELETE", &format!("/v1/admin/keys/{id}"), &Value::Null);
}

async fn heard(events: &mut Events, method: &str) {
    let heard = async { while events.message().await["method"] != method {} };
    timeout(DEADLINE, heard).await.expect("it is not told");
}

/// What is left of a stream, which must end.
async fn rest(mut events: Events) -> Vec<Value> {
    let mut rest = vec![];
    let ended = async {
        while let Some(message) = events.next().await {
            rest.push(message);
        }
    };
    // A stream that only says that it is alive has not ended.
    timeout(DEADLINE, ended).await.expect("it does not end");
    rest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_over_http_end_and_tell_nothing_more() {
    let (site, ann, id) = site();
    let session = Session::open_as(&site.server.http, VERSION, Some(&ann)).await;
    let mut events = session.events().await;
    let params =
        json!({ "notifications": { "resourcesListChanged": true, "toolsListChanged": true } });
    let listen = Stateless::post(&stateless_request(7, "subscriptions/listen", &params));
    let listen = listen.header("Authorization", &format!("Bearer {ann}"));
    let mut stream = Events::open(&site.server.http, &listen).await;
    stream.message().await;
    // Both hear of what is hers.
    site.tool("ann", "private", "first_plan");
    heard(&mut events, LIST_CHANGED).await;
    heard(&mut stream, LIST_CHANGED).await;
    revoke(&site, &id);
    site.tool("ann", "private", "second_plan");
    for (what, events) in [("session", events), ("stream", stream)] {
        // What came of the first may still be under way: that the tools changed.
        let told = rest(events).await;
        assert!(!told.iter().any(|it| it["method"] == LIST_CHANGED), "{what}: {told:?}");
    }
    assert_eq!(session.ping().await, 401);
    let again = session.within(Request::get("/mcp").header("Accept", "text/event-stream"));
    assert_eq!(again.send(&site.server.http).status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_a_bus_nothing_private_is_listed_any_more() {
    let (site, ann, id) = site();
    site.tool("ann", "private", "first_plan");
    let arguments = ["--url", &site.server.url, "--key", &ann];
    let mut client = Client::Pipe(Pipe::session(&arguments, VERSION).await);
    assert!(client.tools().await.contains(&"first_plan".to_owned()));
    revoke(&site, &id);
    let refused = client.fails("resources/read", json!({ "uri": "iii://first_plan" })).await;
    assert_eq!(refused.data["code"], "unknown_key", "{refused:?}");
    eventually("what was known is forgotten", async || {
        let listed = client.ask("resources/list", json!({})).await;
        listed["error"]["data"]["code"] == "unknown_key"
    })
    .await;
    assert!(!client.tools().await.contains(&"first_plan".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_the_directory_itself_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let skills = |arguments: &[&str]| {
        let mut command = program(BINARY);
        command.arg("--data-dir").arg(&data).args(arguments);
        let ran = run(&mut command);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        ran.stdout.trim().to_owned()
    };
    let key = skills(&["key", "create", "--uid", "ann"]);
    let note = dir.path().join("note.md");
    std::fs::write(&note, "# Note").unwrap();
    skills(&["--key", &key, "add", note.to_str().unwrap(), "--tier", "private"]);
    let arguments = ["--data-dir", data.to_str().unwrap(), "--key", &key];
    let mut client = Client::Pipe(Pipe::session(&arguments, VERSION).await);
    assert_eq!(client.read("iii://note").await, "# Note");
    skills(&["key", "revoke", "--uid", "ann"]);
    for (method, params) in
        [("resources/read", json!({ "uri": "iii://note" })), ("resources/list", json!({}))]
    {
        let refused = client.fails(method, params).await;
        assert_eq!(refused.data["code"], "unknown_key", "{method}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_key_of_the_same_user_goes_on() {
    let (site, ann, id) = site();
    let (other, _) = site.key("ann");
    let gone = Session::open_as(&site.server.http, VERSION, Some(&ann)).await;
    let stays = Session::open_as(&site.server.http, VERSION, Some(&other)).await;
    let mut events = stays.events().await;
    revoke(&site, &id);
    site.tool("ann", "private", "plan");
    heard(&mut events, LIST_CHANGED).await;
    assert_eq!((gone.ping().await, stays.ping().await), (401, 200));
    let worker = Worker::connect(&site.server.url).await;
    let refused = worker.fails("skills::resolve", json!({ "id": "plan", "key": ann })).await;
    assert_eq!(refused.code, "unknown_key");
}
