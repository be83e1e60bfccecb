//! The three tools for hosts that cannot read resources.

use serde_json::{Value, json};

use crate::{
    clients::{Client, every_kind, session, stateless},
    many,
    support::{Home, keys, register},
};

fn text(result: &Value) -> &str {
    let content = result["content"].as_array().unwrap();
    assert_eq!((content.len(), &content[0]["type"]), (1, &json!("text")));
    content[0]["text"].as_str().unwrap()
}

fn ids(result: &Value) -> Vec<&str> {
    let skills = result["structuredContent"]["skills"].as_array().unwrap();
    skills.iter().map(|row| row["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn they_say_what_they_take_give_and_touch() {
    let home = Home::new();
    for (kind, mut client) in every_kind(&home).await {
        let list = client.ok("tools/list", json!({})).await;
        let tools = list["tools"].as_array().unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        let of_clients = ["listClients", "listPaths", "callPath", "callPaths"];
        assert_eq!(names[..3], ["list_skills", "read_skill", "search_skills"], "{kind}");
        assert_eq!(names[3..], of_clients, "{kind}");
        for tool in &tools[..3] {
            assert_eq!(tool["inputSchema"]["type"], "object", "{kind}");
            assert_eq!(tool["outputSchema"]["type"], "object", "{kind}");
            assert!(tool["title"].is_string() && tool["description"].is_string());
            let annotations = &tool["annotations"];
            assert_eq!(annotations["readOnlyHint"], true);
            assert_eq!(annotations["idempotentHint"], true);
            assert_eq!(annotations["openWorldHint"], false);
        }
        let takes = |number: usize| keys(&tools[number]["inputSchema"]["properties"]);
        assert_eq!(takes(0), ["budget_tokens"]);
        assert_eq!(takes(1), ["uri", "uris"]);
        assert_eq!(takes(2), ["limit", "query"]);
        assert_eq!(tools[2]["inputSchema"]["required"], json!(["query"]));
    }
}

#[tokio::test]
async fn a_listing_fits_its_budget_and_says_how_many_it_left_out() {
    let home = Home::new();
    let worker = home.worker().await;
    let skill = |number: usize| {
        let body = format!("# Number {number}\n\nDoes the thing of number {number}, and well.\n");
        json!({ "id": format!("s{number:02}"), "skill": body })
    };
    many(&worker, "skills::register", (0..60).map(skill)).await;
    let mut client = session(&home).await;
    let all = client.call("list_skills", json!({})).await;
    assert_eq!(all["isError"], false);
    assert_eq!(ids(&all).len(), 60);
    assert_eq!(all["structuredContent"]["total"], 60);
    assert_eq!(all["structuredContent"]["omitted"], 0);
    assert!(text(&all).contains("iii://s59: Does the thing of number 59"));
    let mut previous = 0;
    for budget in [1, 20, 50, 100, 300, 700] {
        let some = client.call("list_skills", json!({ "budget_tokens": budget })).await;
        let (shown, told) = (ids(&some).len(), text(&some));
        // Four characters are about a token; the line that says what is missing needs a few of its own.
        assert!(told.len() <= (4 * budget).max(80), "{budget}: {} {told}", told.len());
        // A host may give its model the structure instead.
        let structure = some["structuredContent"].to_string().len();
        assert!(structure <= (4 * budget).max(80), "{budget}: {structure}");
        assert!(shown >= previous && shown < 60, "{budget}: {shown}");
        previous = shown;
        assert_eq!(some["structuredContent"]["omitted"], 60 - shown, "{budget}");
        assert!(told.contains(&format!("{} more left out", 60 - shown)), "{budget}: {told}");
        assert_eq!(told.matches("- iii://").count(), shown);
    }
    assert!(previous > 20, "a budget is used: {previous}");
}

#[tokio::test]
async fn an_empty_registry_says_so() {
    let home = Home::new();
    let mut client = stateless(&home);
    for (tool, arguments) in
        [("list_skills", json!({})), ("search_skills", json!({ "query": "x" }))]
    {
        let result = client.call(tool, arguments).await;
        assert_eq!(text(&result), "No skills are registered.");
        assert_eq!(result["structuredContent"], json!({ "skills": [], "total": 0, "omitted": 0 }));
    }
}

#[tokio::test]
async fn a_search_finds_the_best_first_up_to_its_limit() {
    let home = Home::new();
    let worker = home.worker().await;
    register(&worker, "pdf", "# PDF\n\nReads documents.\n").await;
    register(&worker, "scan", "# Scan a PDF\n\nFor paper.\n").await;
    register(&worker, "mail", "# Mail\n\nSends a pdf to people.\n").await;
    register(&worker, "other", "# Other\n").await;
    for (kind, mut client) in every_kind(&home).await {
        let found = client.call("search_skills", json!({ "query": "PDF" })).await;
        assert_eq!(ids(&found), ["pdf", "scan", "mail"], "{kind}");
        let row = &found["structuredContent"]["skills"][0];
        let expected = json!({
            "id": "pdf", "uri": "iii://pdf", "title": "PDF", "description": "Reads documents.",
        });
        assert_eq!(row, &expected, "{kind}");
        let found = client.call("search_skills", json!({ "query": "pdf", "limit": 1 })).await;
        assert_eq!(ids(&found), ["pdf"], "{kind}");
        let found = client.call("search_skills", json!({ "query": "zzz" })).await;
        assert_eq!((text(&found), ids(&found).len()), ("No skill matches.", 0), "{kind}");
    }
}

#[tokio::test]
async fn what_is_not_for_models_is_not_put_before_them() {
    let home = Home::new();
    let worker = home.worker().await;
    let hidden =
        "---\nname: deploy\ndescription: Deploys pdf.\ndisable-model-invocation: true\n---\n# D\n";
    register(&worker, "deploy", hidden).await;
    register(&worker, "pdf", "# PDF\n\nReads documents.\n").await;
    for (kind, mut client) in every_kind(&home).await {
        for (tool, arguments) in [
            ("list_skills", json!({})),
            ("search_skills", json!({ "query": "pdf deploy", "limit": 1 })),
        ] {
            let found = client.call(tool, arguments).await;
            assert_eq!(ids(&found), ["pdf"], "{kind} {tool}");
            assert_eq!(found["structuredContent"]["total"], 1, "{kind} {tool}");
        }
        let named = read(&mut client, json!({ "uri": "iii://deploy" })).await;
        assert!(text(&named).contains("# D"), "{kind}");
    }
}

async fn read(client: &mut Client, arguments: Value) -> Value {
    client.call("read_skill", arguments).await
}

#[tokio::test]
async fn one_is_read_as_it_is_and_several_under_a_heading_each() {
    let home = Home::new();
    let worker = home.worker().await;
    register(&worker, "a", "# A\n\nText of a.\n").await;
    register(&worker, "b", "# B\n").await;
    worker.serve("a::section", |_| Some(Ok(json!("# Section\n")))).await;
    for (kind, mut client) in every_kind(&home).await {
        let one = read(&mut client, json!({ "uri": "iii://a" })).await;
        assert_eq!(text(&one), "# A\n\nText of a.", "{kind}");
        assert_eq!(
            one["structuredContent"],
            json!({ "documents": [
                { "uri": "iii://a", "mimeType": "text/markdown", "text": "# A\n\nText of a.\n" },
            ] }),
            "{kind}"
        );
        let bare = read(&mut client, json!({ "uri": "a" })).await;
        assert_eq!(text(&bare), "# A\n\nText of a.", "{kind}: a bare id will do");
        let uris = ["iii://b", "iii://nobody", "iii://a/a::section", "skill://a/SKILL.md"];
        let several = read(&mut client, json!({ "uris": uris })).await;
        assert_eq!(several["isError"], false, "{kind}: part of an answer is better than none");
        let told = text(&several);
        let places: Vec<_> =
            uris.iter().map(|uri| told.find(&format!("# {uri}\n")).unwrap()).collect();
        assert!(places.is_sorted(), "{kind}: {told}");
        assert!(told.contains("# B\n") && told.contains("# Section\n"), "{kind}: {told}");
        let documents = several["structuredContent"]["documents"].as_array().unwrap();
        assert_eq!(documents.len(), 4, "{kind}");
        assert!(documents[1]["error"].as_str().unwrap().contains("nobody"), "{kind}");
        assert!(documents[1]["text"].is_null() && documents[0]["error"].is_null(), "{kind}");
        assert_eq!(documents[2]["text"], "# Section\n", "{kind}");
        let file = documents[3]["text"].as_str().unwrap();
        assert!(file.starts_with("---\n") && file.contains("\nname: \"a\"\n"), "{kind}: {file}");
    }
}

#[tokio::test]
async fn what_a_model_gets_wrong_it_is_told() {
    let home = Home::new();
    register(&home.worker().await, "a", "# A\n").await;
    for (kind, mut client) in every_kind(&home).await {
        for (tool, arguments, words) in [
            ("read_skill", json!({}), "uri or uris is needed"),
            ("read_skill", json!({ "uri": "iii://a", "uris": ["iii://a"] }), "either uri or uris"),
            ("read_skill", json!({ "uris": [] }), "1 to 50"),
            ("read_skill", json!({ "uris": vec!["iii://a"; 51] }), "1 to 50"),
            ("read_skill", json!({ "uri": 7 }), "read_skill: "),
            ("read_skill", json!({ "uri": "iii://nobody" }), "nobody"),
            ("read_skill", json!({ "uris": ["iii://x", "iii://y"] }), "not found: y"),
            ("search_skills", json!({}), "query"),
            ("list_skills", json!({ "budget_tokens": -1 }), "list_skills: "),
        ] {
            let result = client.call(tool, arguments.clone()).await;
            assert_eq!(result["isError"], true, "{kind} {tool} {arguments}");
            assert!(text(&result).contains(words), "{kind} {tool} {arguments}: {result}");
        }
        let refused = client.fails("tools/call", json!({ "name": "no_such_tool" })).await;
        assert_eq!(refused.code, -32602, "{kind}");
        assert!(refused.message.contains("no_such_tool"), "{kind}");
    }
}
