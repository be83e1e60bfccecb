//! The built-in MDP client `registry` as the owner of a key sees it.

use serde_json::{Value, json};
use skills_testkit::Worker;

use crate::support::TestServer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_registry_client_has_the_view_of_the_key() {
    let server = TestServer::with_admin();
    let ((ann, _), (bob, _)) = (server.create_key("ann"), server.create_key("bob"));
    let worker = Worker::connect(&server.process.url).await;
    let skill = json!({ "id": "diary", "skill": "# Diary\n", "tier": "private", "key": ann });
    worker.ok("skills::register", skill).await;
    for (key, status, count) in [(Some(&ann), 200, 1), (Some(&bob), 404, 0), (None, 404, 0)] {
        let read =
            server.ask(key.map(String::as_str), "GET", "/skills/registry/diary", &Value::Null);
        assert_eq!(read.status, status, "{key:?}");
        let listed =
            worker.ok("mdp::list-paths", json!({ "clientId": "registry", "key": key })).await;
        assert_eq!(listed["paths"].as_array().unwrap().len(), count, "{key:?}");
        let call = json!({
            "clientId": "registry", "method": "GET", "path": "/diary/skill.md", "key": key,
        });
        let called = worker.call("mdp::call-path", call).await;
        assert_eq!(called.is_ok(), status == 200, "{key:?}: {called:?}");
    }
    let unknown = server.ask(Some("us-nobody"), "GET", "/skills/registry/diary", &Value::Null);
    assert_eq!(unknown.status, 401);
}
