//! The three tools for hosts that cannot read resources.

use serde_json::{Value, json};

use crate::{
    mcp::many,
    support::{
        TestServer, keys,
        mcp_clients::{Client, OWN_TOOLS, every_kind, initialize, post, send, session, stateless},
        register,
    },
};

fn text(result: &Value) -> &str {
    let content = result["content"].as_array().unwrap();
    assert_eq!((content.len(), &content[0]["type"]), (1, &json!("text")));
    content[0]["text"].as_str().unwrap()
}

/// Returns the ids of a listing, which is text alone.
fn ids(result: &Value) -> Vec<&str> {
    assert!(result["structuredContent"].is_null(), "one list is enough: {result}");
    let uris = text(result).lines().filter_map(|line| line.strip_prefix("- iii://"));
    uris.map(|line| line.split(": ").next().unwrap()).collect()
}

#[tokio::test]
async fn tools_declare_schemas_and_annotations() {
    let server = TestServer::new();
    for (kind, mut client) in every_kind(&server).await {
        let list = client.ok("tools/list", json!({})).await;
        let tools = list["tools"].as_array().unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, OWN_TOOLS, "{kind}");
        for tool in tools {
            assert_eq!(tool["inputSchema"]["type"], "object", "{kind}");
            assert!(tool["title"].is_string(), "{kind}");
            let description = tool["description"].as_str().unwrap();
            assert!(description.split_whitespace().count() < 60, "{kind}: {description}");
            assert!(description.contains("Use it "), "{kind}: when to use it: {description}");
            let annotations = &tool["annotations"];
            assert_eq!(annotations["readOnlyHint"], true);
            assert_eq!(annotations["openWorldHint"], false);
        }
        let takes = |number: usize| keys(&tools[number]["inputSchema"]["properties"]);
        assert_eq!(takes(0), ["after", "budget_tokens", "context", "query"]);
        assert_eq!(takes(1), ["uri", "uris"]);
        assert_eq!(takes(2), ["budget_tokens", "cursor", "kind", "limit", "query", "tier"]);
        assert_eq!(tools[2]["inputSchema"]["required"], json!(["query"]));
    }
}

/// 700 tokens, of which one has at least 3.5 characters in JSON of this kind.
#[tokio::test]
async fn the_handshake_and_the_tools_cost_few_tokens() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let skill = |number: usize| json!({ "id": format!("s{number}"), "skill": "# S\n\nText.\n" });
    many(&worker, "skills::register", (0..100).map(skill)).await;
    let greeting = send(&server.process.http, &post(&initialize("2025-11-25"))).await;
    let tools = session(&server).await.ok("tools/list", json!({})).await;
    let characters = greeting.json()["result"].to_string().len() + tools.to_string().len();
    assert!(characters < 2450, "{characters}");
}

#[tokio::test]
async fn a_listing_fits_its_token_budget_and_says_how_to_go_on() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let skill = |number: usize| {
        let body = format!("# Number {number}\n\nDoes the thing of number {number}, and well.\n");
        json!({ "id": format!("s{number:02}"), "skill": body })
    };
    many(&worker, "skills::register", (0..60).map(skill)).await;
    let mut client = session(&server).await;
    let all = client.call("list_skills", json!({})).await;
    assert_eq!(all["isError"], false);
    assert_eq!(ids(&all).len(), 60);
    assert!(text(&all).contains("iii://s59: Does the thing of number 59"));
    let mut previous = 0;
    for budget in [1, 50, 100, 300, 700] {
        let some = client.call("list_skills", json!({ "budget_tokens": budget })).await;
        let (shown, output) = (ids(&some).len(), text(&some));
        // Four characters are about a token; the line about the others needs a few of its own.
        assert!(output.len() <= (4 * budget).max(160), "{budget}: {} {output}", output.len());
        assert!(shown >= previous && shown < 60, "{budget}: {shown}");
        previous = shown;
        assert!(output.contains(&format!("{} more: call again", 60 - shown)), "{budget}: {output}");
    }
    assert!(previous > 20, "a budget is used: {previous}");
    // Page after page, as the last line of each says.
    let (mut seen, mut after) = (Vec::new(), json!(null));
    loop {
        let arguments = json!({ "budget_tokens": 300, "after": after });
        let page = client.call("list_skills", arguments).await;
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        let Some((_, rest)) = text(&page).split_once("`after`: \"") else { break };
        after = json!(rest.split('"').next().unwrap());
    }
    assert_eq!(seen.len(), 60);
    assert!(seen.is_sorted());
}

/// A shorter description of every skill is worth more than the full one of the first few.
#[tokio::test]
async fn descriptions_are_shortened_before_skills_are_left_out() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let long = "Word by word. ".repeat(40);
    let skill =
        |number: usize| json!({ "id": format!("s{number}"), "skill": format!("# S\n\n{long}\n") });
    many(&worker, "skills::register", (0..20).map(skill)).await;
    let mut client = session(&server).await;
    for (budget, characters) in [(4000, 559), (2000, 283), (1000, 143), (600, 63)] {
        let listed = client.call("list_skills", json!({ "budget_tokens": budget })).await;
        assert_eq!(ids(&listed).len(), 20, "{budget}: {}", text(&listed));
        let line = text(&listed).lines().next().unwrap().split_once(": ").unwrap().1.to_owned();
        assert!(line.len() <= characters && line.len() > characters - 5, "{budget}: {line}");
    }
}

#[tokio::test]
async fn a_listing_for_a_task_has_the_relevant_skills_first() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for id in ["aaa", "bbb", "ccc"] {
        register(&worker, id, "# Other\n\nFor the rest.\n").await;
    }
    register(&worker, "mail", "# Mail\n\nSend a table by mail.\n").await;
    register(&worker, "xlsx", "---\nname: xlsx\ndescription: Fill a spreadsheet table.\n---\n")
        .await;
    for (kind, mut client) in every_kind(&server).await {
        let task = "Please fill the table in this spreadsheet, and mail it to me.";
        for arguments in [json!({ "query": task }), json!({ "context": task })] {
            let listed = client.call("list_skills", arguments).await;
            assert_eq!(ids(&listed), ["xlsx", "mail"], "{kind}");
        }
        let listed = client.call("list_skills", json!({ "query": "zzz" })).await;
        assert!(text(&listed).starts_with("No skill matches; without `query`"), "{kind}");
    }
}

#[tokio::test]
async fn a_skill_of_several_files_ends_with_the_uris_of_the_others() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let files = json!({ "references/a b.md": "# Reference\n", "run.py": "print()" });
    let bundle = json!({ "id": "pdf", "skill": "# PDF\n\nText.\n", "files": files });
    worker.ok("skills::register", bundle).await;
    for (kind, mut client) in every_kind(&server).await {
        for uri in ["iii://pdf", "pdf", "skill://pdf/SKILL.md"] {
            let result = read(&mut client, json!({ "uri": uri })).await;
            let (body, files) = text(&result).split_once("\n\nOther files of this skill").unwrap();
            assert!(body.ends_with("# PDF\n\nText.\n"), "{kind}: {body}");
            let uris: Vec<_> = files.lines().filter_map(|line| line.strip_prefix("- ")).collect();
            assert_eq!(uris, ["iii://pdf/references/a%20b.md", "iii://pdf/run.py"], "{kind}");
            let result = read(&mut client, json!({ "uris": uris })).await;
            assert!(
                text(&result).contains("# Reference\n") && text(&result).contains("print()"),
                "{uri:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_empty_registry_is_reported() {
    let server = TestServer::new();
    let mut client = stateless(&server);
    for (tool, arguments) in
        [("list_skills", json!({})), ("search_skills", json!({ "query": "x" }))]
    {
        let result = client.call(tool, arguments).await;
        assert_eq!(text(&result), "No skills are registered.", "{tool:?}");
    }
}

#[tokio::test]
async fn a_search_ranks_results_up_to_its_limit() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "pdf", "# PDF\n\nReads documents.\n").await;
    register(&worker, "scan", "# Scan a PDF\n\nFor paper.\n").await;
    register(&worker, "mail", "# Mail\n\nSends a pdf to people.\n").await;
    register(&worker, "other", "# Other\n").await;
    for (kind, mut client) in every_kind(&server).await {
        let found = client.call("search_skills", json!({ "query": "PDF" })).await;
        assert_eq!(ids(&found), ["pdf", "scan", "mail"], "{kind}");
        assert!(text(&found).starts_with("- iii://pdf: Reads documents.\n"), "{kind}");
        let found = client.call("search_skills", json!({ "query": "pdf", "limit": 1 })).await;
        assert_eq!(ids(&found), ["pdf"], "{kind}");
        let found = client.call("search_skills", json!({ "query": "zzz" })).await;
        assert_eq!((text(&found), ids(&found).len()), ("No skill matches.", 0), "{kind}");
    }
}

#[tokio::test]
async fn skills_hidden_from_models_are_not_listed() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let hidden =
        "---\nname: deploy\ndescription: Deploys pdf.\ndisable-model-invocation: true\n---\n# D\n";
    register(&worker, "deploy", hidden).await;
    register(&worker, "pdf", "# PDF\n\nReads documents.\n").await;
    for (kind, mut client) in every_kind(&server).await {
        for (tool, arguments) in [
            ("list_skills", json!({})),
            ("search_skills", json!({ "query": "pdf deploy", "limit": 1 })),
        ] {
            let found = client.call(tool, arguments).await;
            assert_eq!(ids(&found), ["pdf"], "{kind} {tool}");
        }
        let named = read(&mut client, json!({ "uri": "iii://deploy" })).await;
        assert!(text(&named).contains("# D"), "{kind}");
    }
}

async fn read(client: &mut Client, arguments: Value) -> Value {
    client.call("read_skill", arguments).await
}

#[tokio::test]
async fn one_skill_is_returned_verbatim_and_several_under_headings() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "a", "# A\n\nText of a.\n").await;
    register(&worker, "b", "# B\n").await;
    register(&worker, "c", "See iii://c/a::section.\n").await;
    worker.serve("a::section", |_| Some(Ok(json!("# Section\n")))).await;
    for (kind, mut client) in every_kind(&server).await {
        let one = read(&mut client, json!({ "uri": "iii://a" })).await;
        assert_eq!(text(&one), "# A\n\nText of a.", "{kind}");
        assert!(one["structuredContent"].is_null(), "{kind}: one copy is enough");
        let bare = read(&mut client, json!({ "uri": "a" })).await;
        assert_eq!(text(&bare), "# A\n\nText of a.", "{kind}: a bare id will do");
        let uris = ["iii://b", "iii://nobody", "iii://c/a::section", "skill://a/SKILL.md"];
        let several = read(&mut client, json!({ "uris": uris })).await;
        assert_eq!(several["isError"], false, "{kind}: part of an answer is better than none");
        let output = text(&several);
        let places: Vec<_> =
            uris.iter().map(|uri| output.find(&format!("# {uri}\n")).unwrap()).collect();
        assert!(places.is_sorted(), "{kind}: {output}");
        assert!(output.contains("# B\n") && output.contains("# Section\n"), "{kind}: {output}");
        assert!(output.contains("not found: nobody"), "{kind}: {output}");
        let file = output.split("# skill://a/SKILL.md\n\n").nth(1).unwrap();
        assert!(file.starts_with("---\n") && file.contains("\nname: \"a\"\n"), "{kind}: {file}");
    }
}

#[tokio::test]
async fn invalid_tool_arguments_are_reported_to_the_model() {
    let server = TestServer::new();
    register(&server.worker().await, "a", "# A\n").await;
    for (kind, mut client) in every_kind(&server).await {
        for (tool, arguments, words) in [
            ("read_skill", json!({}), "uri or uris is required"),
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
