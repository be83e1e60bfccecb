//! One ranking on all surfaces.

use serde_json::{Value, json};
use skills_testkit::{program, run};

use super::{fill, result_ids, search};
use crate::support::{BINARY, TestServer, mcp_clients::every_kind, register};

/// Percent-encodes a query.
fn encoded(query: &str) -> String {
    query.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn every_surface_has_the_same_results_in_the_same_order() {
    let server = TestServer::new();
    let worker = server.worker().await;
    fill(&worker).await;
    for query in [
        "pdf",
        "pdf tables",
        "scanned paper as a table",
        "tessract",
        "pdf-f",
        "\"pdf files\" -encrypt",
    ] {
        let bus = search(&worker, query).await;
        let expected = result_ids(&bus);
        assert!(!expected.is_empty(), "{query}");
        let target = format!("/v1/search?q={}", encoded(query));
        let mut http = server.ask(None, "GET", &target, &Value::Null).json();
        assert_eq!(http["success"].take(), json!(true));
        http.as_object_mut().unwrap().remove("success");
        assert_eq!(http, bus, "{query}");
        let arguments = ["--url", &server.process.url, "search", query, "--json"];
        let ran = run(program(BINARY).args(arguments));
        assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap(), bus, "{query}: {ran:?}");
        let offered: Vec<&String> = expected.iter().filter(|id| *id != "secret-pdf").collect();
        for (kind, mut client) in every_kind(&server).await {
            let found = client.call("search_skills", json!({ "query": query })).await;
            let text = found["content"][0]["text"].as_str().unwrap();
            let lines = text.lines().filter_map(|line| line.strip_prefix("- iii://"));
            let ids: Vec<&str> = lines.map(|line| line.split(':').next().unwrap()).collect();
            assert_eq!(ids, offered, "{kind}: {query}");
        }
    }
}

#[tokio::test]
async fn results_are_explained() {
    let server = TestServer::new();
    let worker = server.worker().await;
    fill(&worker).await;
    let page = search(&worker, "camelot").await;
    let result = &page["results"][0];
    assert_eq!(result["id"], "pdf-tables");
    assert_eq!(result["uri"], "iii://pdf-tables");
    assert_eq!((&result["kind"], &result["tier"]), (&json!("skill"), &json!("official")));
    assert_eq!(result["matched"], json!([{ "field": "body", "terms": ["camelot"] }]));
    assert!(result["snippet"].as_str().unwrap().contains("Runs **camelot** on each page."));
    assert!(result["score"].as_f64().unwrap() > 0.0);
    assert_eq!(result["title"], "PDF tables");
    let page = search(&worker, "camelott").await;
    assert_eq!(page["did_you_mean"], json!(["camelot"]));
    assert_eq!(result_ids(&page), ["pdf-tables"]);
}

#[tokio::test]
async fn parameters_restrict_a_search_and_invalid_ones_are_refused() {
    let server = TestServer::new();
    let worker = server.worker().await;
    fill(&worker).await;
    let prompt =
        json!({ "name": "pdf-hello", "description": "Greets a PDF.", "function_id": "w::f" });
    worker.ok("prompts::register", prompt).await;
    for (input, expected) in [
        (json!({ "query": "pdf", "kind": "prompt" }), vec!["pdf-hello"]),
        (json!({ "query": "pdf kind:prompt" }), vec!["pdf-hello"]),
        (json!({ "query": "tag:data" }), vec!["pdf-tables"]),
        (json!({ "query": "pdf", "tier": "market" }), vec![]),
        (json!({ "query": "pdf", "kind": "live" }), vec![]),
    ] {
        let page = worker.ok("skills::search", input.clone()).await;
        assert_eq!(result_ids(&page), expected, "{input}");
    }
    let first = worker.ok("skills::search", json!({ "query": "pdf", "limit": 2 })).await;
    let next = json!({ "query": "pdf", "limit": 2, "cursor": first["next"] });
    let second = worker.ok("skills::search", next).await;
    let all = worker.ok("skills::search", json!({ "query": "pdf" })).await;
    let joined = [result_ids(&first), result_ids(&second)].concat();
    assert_eq!(joined, result_ids(&all)[..4]);
    for input in [json!({ "query": "pdf", "kind": "x" }), json!({ "query": 7 })] {
        let refused = worker.fails("skills::search", input.clone()).await;
        assert_eq!(refused.code, "invalid_input", "{input}");
    }
    for (target, code) in [
        ("/v1/search?q=pdf&kind=x", "invalid_query"),
        ("/v1/search?q=pdf&tier=x", "invalid_query"),
        ("/v1/search?q=pdf&limit=0", "invalid_query"),
        ("/v1/search?q=pdf&limit=101", "invalid_query"),
        ("/v1/search?q=pdf&cursor=2.abc", "invalid_cursor"),
    ] {
        let answer = server.ask(None, "GET", target, &Value::Null);
        assert_eq!(answer.status, 400, "{target}: {}", answer.json());
        assert_eq!(answer.json()["code"], code, "{target}");
    }
}

#[tokio::test]
async fn listings_for_a_model_fit_a_budget() {
    let server = TestServer::new();
    let worker = server.worker().await;
    fill(&worker).await;
    for number in 0..40 {
        let body = format!("# Report {number}\n\nWrites the PDF report of department {number}.\n");
        register(&worker, &format!("report-{number}"), &body).await;
    }
    for (kind, mut client) in every_kind(&server).await {
        let arguments = json!({ "query": "pdf report", "limit": 40, "budget_tokens": 200 });
        let found = client.call("search_skills", arguments).await;
        let text = found["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("more match less well"), "{kind}: {text}");
        assert!((2..20).contains(&text.lines().count()), "{kind}: {text}");
        let page = client.read("iii://skills?q=pdf%20tables&budget=150").await;
        assert!(page.starts_with("# Skills\n\n- [PDF tables](iii://pdf-tables)"), "{kind}: {page}");
        assert!(page.contains("more skills do not fit the budget"), "{kind}: {page}");
    }
}

#[tokio::test]
async fn a_model_is_told_what_a_result_is_and_how_many_are_left() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for number in 0..105 {
        let body = format!("# R{number}\n\nReports.\n");
        register(&worker, &format!("report-{number}"), &body).await;
    }
    let prompt =
        json!({ "name": "greet", "description": "Greets reporters.", "function_id": "w::f" });
    worker.ok("prompts::register", prompt).await;
    for (kind, mut client) in every_kind(&server).await {
        let mut list = async |arguments: Value| {
            let found = client.call("list_skills", arguments).await;
            found["content"][0]["text"].as_str().unwrap().to_owned()
        };
        let text = list(json!({ "query": "reports", "budget_tokens": 100_000 })).await;
        assert!(text.contains("More than 100 match; call `search_skills`"), "{kind}: {text}");
        let text = list(json!({ "query": "reports", "budget_tokens": 200 })).await;
        let remark = text.lines().last().unwrap();
        assert!(remark.starts_with("At least ") && remark.contains(" more match"), "{remark}");
        assert!(!text.contains("more more"), "{kind}: {text}");
        let found = client.call("search_skills", json!({ "query": "greets reporters" })).await;
        let text = found["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("- prompt greet: Greets"), "{kind}: {text}");
    }
}

#[tokio::test]
async fn bad_queries_are_answered_on_the_wire() {
    let server = TestServer::new();
    let worker = server.worker().await;
    fill(&worker).await;
    let terms: String = (0..10_000).map(|number| format!("t{number} ")).collect();
    for query in ["", "the of", ".*+?^${}()|[]\\", "a\u{0}b", &"x".repeat(100_000), &terms] {
        let page = search(&worker, query).await;
        assert!(page["results"].is_array(), "{query:.30}");
        assert!(page["indexing"].is_null(), "{query:.30}");
    }
    let garbage = server.ask(None, "GET", "/v1/search?q=%FF%FE", &Value::Null);
    assert_eq!(garbage.json()["results"], json!([]));
    let all = search(&worker, "").await;
    assert_eq!(result_ids(&all)[..2], ["deploy-web", "notes"]);
}
