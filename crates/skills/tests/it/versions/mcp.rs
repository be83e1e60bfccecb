//! Versions over MCP.

use serde_json::{Value, json};
use skills_testkit::Worker;

use crate::support::{
    TestServer,
    mcp_clients::{Listener, every_kind, session},
    register,
};

const UPDATED: &str = "notifications/resources/updated";
const PROMPTS: &str = "notifications/prompts/list_changed";

async fn label(worker: &Worker, label: &str, version: Value) {
    worker.ok("skills::label", json!({ "id": "a", "label": label, "version": version })).await;
}

#[tokio::test]
async fn a_version_is_a_resource_with_its_number_and_its_yank() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for number in 1..=4 {
        register(&worker, "a", &format!("# {number}\n")).await;
    }
    label(&worker, "stable", json!(2)).await;
    worker.ok("skills::yank", json!({ "id": "a", "version": 3, "reason": "wrong" })).await;
    let purge = json!({ "id": "a", "version": 1, "reason": "a secret", "purge": true });
    worker.ok("skills::yank", purge).await;
    for (kind, mut client) in every_kind(&server).await {
        assert_eq!(client.read("iii://a").await, "# 2\n", "{kind}");
        for (uri, number) in [
            ("iii://a@2", 2),
            ("iii://a%402", 2),
            ("iii://a@stable", 2),
            ("iii://a@latest", 4),
            ("iii://a@3", 3),
            ("iii://a@4/SKILL.md", 4),
            ("skill://official/a@4", 4),
            ("skill://official/a%403/SKILL.md", 3),
        ] {
            let answer = client.ok("resources/read", json!({ "uri": uri })).await;
            let content = &answer["contents"][0];
            assert_eq!(content["text"], format!("# {number}\n"), "{kind} {uri}");
            let meta = match number {
                3 => json!({ "version": 3, "yanked": "wrong" }),
                number => json!({ "version": number }),
            };
            assert_eq!(content["_meta"], meta, "{kind} {uri}");
        }
        let extension = client.ok("resources/read", json!({ "uri": "skill://a@2/SKILL.md" })).await;
        let text = extension["contents"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("---\n") && text.ends_with("# 2\n"), "{kind}: {text}");
        for (uri, code) in [
            ("iii://a@1", "purged"),
            ("iii://a@9", "not_found"),
            ("iii://a@nobody", "not_found"),
            ("iii://nobody@1", "not_found"),
        ] {
            let error = client.fails("resources/read", json!({ "uri": uri })).await;
            assert_eq!(error.data["code"], code, "{kind} {uri}: {error:?}");
        }
        let error = client.fails("resources/read", json!({ "uri": "iii://a@0" })).await;
        assert_eq!(error.code, -32602, "{kind}: {error:?}");
    }
}

#[tokio::test]
async fn read_skill_takes_a_version_and_names_its_files() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let files = |text: &str| json!({ "notes.md": text });
    for (number, text) in [(1, "one"), (2, "two")] {
        let skill = format!("# {number}\n");
        let data = json!({ "id": "a", "skill": skill, "files": files(text) });
        worker.ok("skills::register", data).await;
    }
    worker.ok("skills::yank", json!({ "id": "a", "version": 1, "reason": "wrong" })).await;
    let mut client = session(&server).await;
    let mut text = async |uri: &str| {
        let answer = client.call("read_skill", json!({ "uri": uri })).await;
        assert_ne!(answer["isError"], true, "{uri}: {answer}");
        answer["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let old = text("a@1").await;
    assert!(
        old.starts_with("> Warning: version 1 of this skill is yanked: wrong\n\n# 1\n"),
        "{old}"
    );
    assert!(old.contains("- iii://a@1/notes.md"), "{old}");
    assert!(text("iii://a@1/notes.md").await.ends_with("one"));
    assert_eq!(text("iii://a@2/notes.md").await, "two");
    assert!(text("iii://a@latest").await.starts_with("# 2\n"));

    let complete = json!({
        "ref": { "type": "ref/resource", "uri": "iii://{id}" },
        "argument": { "name": "id", "value": "a@" },
    });
    label(&worker, "canary", json!(2)).await;
    let mut client = session(&server).await;
    let completed = client.ok("completion/complete", complete).await;
    assert_eq!(completed["completion"]["values"], json!(["a@latest", "a@canary", "a@2", "a@1"]));
}

/// Returns the URIs that a client is notified of until a final prompt is registered.
async fn updated_until_prompt(listener: &mut Listener, worker: &Worker, name: &str) -> Vec<String> {
    let prompt = json!({ "name": name, "description": "d", "function_id": "a::b" });
    worker.ok("prompts::register", prompt).await;
    let mut uris = Vec::new();
    loop {
        let message = listener.next().await;
        if message["method"] == UPDATED {
            uris.push(message["params"]["uri"].as_str().unwrap().to_owned());
        }
        if message["method"] == PROMPTS {
            uris.sort_unstable();
            uris.dedup();
            return uris;
        }
    }
}

#[tokio::test]
async fn subscribers_hear_of_promotions_and_rollbacks() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "a", "# 1\n").await;
    label(&worker, "stable", json!(1)).await;
    let uris = ["iii://a", "iii://a@latest", "iii://a%40canary", "iii://b@latest"];
    let mut listener = Listener::session(&server, &uris).await;
    let all = ["iii://a", "iii://a%40canary", "iii://a@latest"];

    register(&worker, "a", "# 2\n").await;
    let heard = updated_until_prompt(&mut listener, &worker, "p1").await;
    assert_eq!(heard, all[1..], "publishing under stable changes only what versions read");
    assert_eq!(listener.client.read("iii://a").await, "# 1\n");
    assert_eq!(listener.client.read("iii://a@latest").await, "# 2\n");

    label(&worker, "canary", json!(2)).await;
    assert_eq!(updated_until_prompt(&mut listener, &worker, "p2").await, all[1..]);

    label(&worker, "stable", json!(2)).await;
    assert_eq!(updated_until_prompt(&mut listener, &worker, "p3").await, all, "a promotion");
    assert_eq!(listener.client.read("iii://a").await, "# 2\n");

    label(&worker, "stable", Value::Null).await;
    updated_until_prompt(&mut listener, &worker, "p4").await;
    worker.ok("skills::rollback", json!({ "id": "a", "to": 1 })).await;
    assert_eq!(updated_until_prompt(&mut listener, &worker, "p5").await, all, "a rollback");
    assert_eq!(listener.client.read("iii://a").await, "# 1\n");

    worker.ok("skills::yank", json!({ "id": "a", "version": 3, "reason": "r" })).await;
    assert_eq!(updated_until_prompt(&mut listener, &worker, "p6").await, all, "a yank");
    assert_eq!(listener.client.read("iii://a").await, "# 2\n");
}

#[tokio::test]
async fn every_kind_of_client_hears_of_a_promotion() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "a", "# 1\n").await;
    register(&worker, "a", "# 2\n").await;
    for (_, mut listener) in Listener::every_kind(&server, &["iii://a"]).await {
        for number in [1, 2] {
            label(&worker, "stable", json!(number)).await;
            let text = format!("# {number}\n");
            listener.until(UPDATED, async |client| client.read("iii://a").await == text).await;
        }
    }
}
