//! MCP over HTTP and stdio, as two users and anonymously.

use serde_json::json;

use crate::{
    support::{
        mcp_clients::{Client, Pipe, Session, post, send},
        wait::eventually,
    },
    tiers::fixture::{ANN, BOB, InProcessServer, register, register_in_three_tiers, unregister},
};

const VERSION: &str = "2025-11-25";

async fn client(server: &InProcessServer, key: Option<&str>) -> Client {
    Client::Session(Session::open_as(&server.http, VERSION, key).await)
}

async fn pipe(server: &InProcessServer, key: Option<&str>) -> Client {
    let mut arguments = vec!["--url", &server.bus];
    arguments.extend(key.into_iter().flat_map(|key| ["--key", key]));
    Client::Pipe(Pipe::session(&arguments, VERSION).await)
}

async fn names(client: &mut Client) -> Vec<String> {
    let rows = client.all("resources/list", "resources").await;
    let names = rows.iter().map(|row| row["name"].as_str().unwrap().to_owned());
    names.filter(|name| name != "skills").collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mcp_lists_the_callers_view() {
    let server = InProcessServer::new().await;
    let worker = server.worker().await;
    register_in_three_tiers(&worker, "weather").await;
    register(&worker, "private", Some(ANN), "secret").await;
    for (what, mut ann, mut bob, mut nobody) in [
        (
            "HTTP",
            client(&server, Some(ANN)).await,
            client(&server, Some(BOB)).await,
            client(&server, None).await,
        ),
        (
            "stdio",
            pipe(&server, Some(ANN)).await,
            pipe(&server, Some(BOB)).await,
            pipe(&server, None).await,
        ),
    ] {
        assert_eq!(names(&mut ann).await, ["secret", "weather"], "{what}");
        assert!(ann.read("iii://weather").await.starts_with("# private"), "{what}");
        assert!(ann.read("skill://weather/SKILL.md").await.contains("# private"), "{what}");
        assert!(ann.read("iii://skills").await.contains("secret"), "{what}");
        for tier in ["private", "official", "market"] {
            let text = ann.read(&format!("skill://{tier}/weather/SKILL.md")).await;
            assert!(text.starts_with(&format!("# {tier}")), "{what}: {text}");
        }
        let listed = ann.call("list_skills", json!({})).await.to_string();
        assert!(listed.contains("secret"), "{what}: {listed}");
        for other in [&mut bob, &mut nobody] {
            assert_eq!(names(other).await, ["weather"], "{what}");
            assert!(other.read("iii://weather").await.starts_with("# official"), "{what}");
            assert!(!other.read("iii://skills").await.contains("secret"), "{what}");
            for uri in
                ["iii://secret", "skill://secret/SKILL.md", "skill://private/secret/SKILL.md"]
            {
                let refusal = other.fails("resources/read", json!({ "uri": uri })).await;
                assert_eq!(
                    refusal.data["code"].as_str().unwrap_or("not_found"),
                    "not_found",
                    "{uri}"
                );
            }
            let found = other.call("search_skills", json!({ "query": "secret" })).await;
            assert!(!found.to_string().contains("iii://secret"), "{what}: {found}");
            let all = other.ok("skills/list", json!({})).await.to_string();
            assert!(!all.contains("secret") && !all.contains("# private"), "{what}: {all}");
        }
        assert!(ann.ok("skills/list", json!({})).await.to_string().contains("secret"), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_notified_of_entries_its_user_sees() {
    let server = InProcessServer::new().await;
    let worker = server.worker().await;
    let ann = Session::open_as(&server.http, VERSION, Some(ANN)).await;
    let nobody = Session::open(&server.http, VERSION).await;
    let (mut hears, mut does_not) = (ann.events().await, nobody.events().await);
    let mut ann = Client::Session(ann);
    let mut nobody = Client::Session(nobody);
    for client in [&mut ann, &mut nobody] {
        client.ok("resources/subscribe", json!({ "uri": "iii://secret" })).await;
        client.ok("resources/subscribe", json!({ "uri": "iii://public" })).await;
    }
    register(&worker, "private", Some(ANN), "uniskill_secret").await;
    let updated = hears.message().await;
    assert_eq!(updated["params"]["uri"], "iii://secret", "the shorter name leads to it: {updated}");
    register(&worker, "official", None, "public").await;
    // Another user first hears of the later change.
    let first = does_not.message().await;
    assert_eq!(first["params"]["uri"], "iii://public", "{first}");
    // Shadowing and uncovering notify.
    register(&worker, "private", Some(ANN), "public").await;
    loop {
        let received = hears.message().await;
        if received["params"]["uri"] == "iii://public"
            && ann.read("iii://public").await.starts_with("# private")
        {
            break;
        }
    }
    unregister(&worker, "private", Some(ANN), "public").await;
    loop {
        let received = hears.message().await;
        if received["params"]["uri"] == "iii://public"
            && ann.read("iii://public").await.starts_with("# official")
        {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_belongs_to_the_key_that_opened_it() {
    let server = InProcessServer::new().await;
    let ann = Session::open_as(&server.http, VERSION, Some(ANN)).await;
    assert_eq!(ann.ping().await, 200);
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for (credential, status) in
        [(None, 404), (Some(BOB), 404), (Some("us-nobody"), 401), (Some(ANN), 200)]
    {
        let mut request = post(&ping).header("Mcp-Session-Id", &ann.id);
        if let Some(key) = credential {
            request = request.header("Authorization", &format!("Bearer {key}"));
        }
        let answer = send(&server.http, &request.header("MCP-Protocol-Version", VERSION)).await;
        assert_eq!(answer.status, status, "{credential:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_without_a_session_uses_the_view_of_its_key() {
    let server = InProcessServer::new().await;
    let worker = server.worker().await;
    register(&worker, "private", Some(ANN), "secret").await;
    let message = crate::support::mcp_clients::stateless_request(
        1,
        "resources/read",
        &json!({ "uri": "iii://secret" }),
    );
    let ask = async |key: Option<&str>| {
        let mut request = crate::support::mcp_clients::Stateless::post(&message);
        if let Some(key) = key {
            request = request.header("Authorization", key);
        }
        send(&server.http, &request).await.json()
    };
    let answer = ask(Some(ANN)).await;
    assert!(answer["result"].to_string().contains("# private"), "{answer}");
    assert_eq!(answer["result"]["cacheScope"], "private");
    for key in [None, Some(BOB)] {
        let answer = ask(key).await;
        assert!(
            answer["result"].is_null() && !answer.to_string().contains("# private"),
            "{answer}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_changes_notify_over_a_bus() {
    let server = InProcessServer::new().await;
    let worker = server.worker().await;
    let mut ann = pipe(&server, Some(ANN)).await;
    assert!(names(&mut ann).await.is_empty());
    register(&worker, "private", Some(ANN), "secret").await;
    assert!(ann.read("iii://secret").await.starts_with("# private"), "what is read is never old");
    eventually("it is listed", async || names(&mut ann).await == ["secret"]).await;
    unregister(&worker, "private", Some(ANN), "secret").await;
    eventually("it is not listed", async || names(&mut ann).await.is_empty()).await;
}
