//! Pagination while entries are added and removed.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use skills_testkit::Worker;

use crate::{
    mcp::many,
    support::{
        TestServer,
        mcp_clients::{Client, Pipe, every_kind, session, stateless},
        register,
        wait::eventually,
    },
};

fn id(number: usize) -> String {
    format!("s{number:04}")
}

async fn fill(worker: &Worker, count: usize) {
    let skill = |number| json!({ "id": id(number), "skill": format!("# Number {number}\n") });
    many(worker, "skills::register", (0..count).map(skill)).await;
}

/// Returns the skills on a page and the next cursor.
async fn page(client: &mut Client, method: &str, cursor: &Value) -> (Vec<String>, Value) {
    let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
    let page = client.ok(method, params).await;
    let key = if method == "skills/list" { "skills" } else { "resources" };
    let rows = page[key].as_array().unwrap();
    assert!(rows.len() <= 100, "a page is small");
    let id = |row: &Value| {
        let uri = row["uri"].as_str().unwrap();
        uri.split_once("://").unwrap().1.split('/').next().unwrap().to_owned()
    };
    (rows.iter().map(id).filter(|id| id != "skills").collect(), page["nextCursor"].clone())
}

/// Pages through a listing. Between two pages it removes the last entry of the page and the first of the next one,
/// and adds entries before and behind.
async fn walk(client: &mut Client, worker: &Worker, method: &str) {
    fill(worker, 260).await;
    let mut stayed: BTreeSet<String> = (0..260).map(id).collect();
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    let mut pages = 0;
    loop {
        let (ids, next) = page(client, method, &cursor).await;
        seen.extend(ids);
        pages += 1;
        if next.is_null() {
            break;
        }
        let last = seen.last().unwrap().clone();
        let after = stayed.range(last.clone()..).nth(1).unwrap().clone();
        for gone in [&last, &after] {
            worker.ok("skills::unregister", json!({ "id": gone })).await;
            stayed.remove(gone);
        }
        register(worker, &format!("a-before-{pages}"), "# New\n").await;
        register(worker, &format!("z-behind-{pages}"), "# New\n").await;
        // A client over a bus sees the change a moment later.
        let behind = json!({ "query": format!("z-behind-{pages}"), "limit": 1 });
        eventually("the new skill is known", async || {
            let found = client.call("search_skills", behind.clone()).await;
            let found = found["content"][0]["text"].as_str().unwrap().to_owned();
            found.contains(behind["query"].as_str().unwrap())
        })
        .await;
        cursor = next;
    }
    assert!(pages >= 3, "{pages}");
    let once: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(once.len(), seen.len(), "nothing comes twice");
    let left_out: Vec<_> = stayed.iter().filter(|id| !once.contains(id)).collect();
    assert!(left_out.is_empty(), "{left_out:?}");
    let (ends, begins): (Vec<_>, Vec<_>) = (0..2)
        .map(|number| (format!("z-behind-{}", number + 1), format!("a-before-{}", number + 1)))
        .unzip();
    assert!(ends.iter().all(|id| once.contains(id)), "what comes behind is seen");
    assert!(begins.iter().all(|id| !once.contains(id)), "what comes before is not");
}

#[tokio::test]
async fn resources_are_paged_in_a_session() {
    let server = TestServer::new();
    walk(&mut session(&server).await, &server.worker().await, "resources/list").await;
}

#[tokio::test]
async fn resources_are_paged_without_a_session() {
    let server = TestServer::new();
    walk(&mut stateless(&server), &server.worker().await, "resources/list").await;
}

#[tokio::test]
async fn resources_are_paged_over_a_bus() {
    let server = TestServer::new();
    let pipe = Pipe::session(&["--url", &server.process.url], "2025-11-25").await;
    walk(&mut Client::Pipe(pipe), &server.worker().await, "resources/list").await;
}

#[tokio::test]
async fn skills_of_the_extension_are_paged() {
    let server = TestServer::new();
    walk(&mut stateless(&server), &server.worker().await, "skills/list").await;
}

#[tokio::test]
async fn pages_have_an_order_and_one_cache_scope() {
    let server = TestServer::new();
    fill(&server.worker().await, 205).await;
    let mut client = stateless(&server);
    let (one, other) = (
        client.all("resources/list", "resources").await,
        client.all("resources/list", "resources").await,
    );
    assert_eq!(one.len(), 206);
    assert_eq!(one, other);
    let names: Vec<_> = one[1..].iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(names.is_sorted());
    let mut cursor = Value::Null;
    for _ in 0..3 {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = client.ok("resources/list", params).await;
        assert_eq!(page["cacheScope"], "public");
        cursor = page["nextCursor"].clone();
    }
    assert!(cursor.is_null());
}

#[tokio::test]
async fn a_cursor_of_another_listing_is_refused() {
    let server = TestServer::new();
    fill(&server.worker().await, 101).await;
    for (kind, mut client) in every_kind(&server).await {
        let list = client.ok("resources/list", json!({})).await;
        let cursor = list["nextCursor"].as_str().unwrap().to_owned();
        for method in ["prompts/list", "tools/list", "skills/list"] {
            let refused = client.fails(method, json!({ "cursor": cursor })).await;
            assert_eq!(refused.code, -32602, "{kind} {method}");
        }
        for cursor in ["", "bad!", "AAAA", &"A".repeat(10_000), "ü"] {
            for method in ["resources/list", "prompts/list", "tools/list", "skills/list"] {
                let refused = client.fails(method, json!({ "cursor": cursor })).await;
                assert_eq!(refused.code, -32602, "{kind} {method} {:.20}", cursor);
            }
        }
    }
}
