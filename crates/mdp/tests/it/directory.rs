//! Listing and calling live clients, in the shapes of the protocol.

use std::num::NonZeroUsize;

use serde_json::{Value, json};
use skills_core::Coded as _;
use skills_mdp::{ClientCall, ClientCallError, Config, MdpLimits, MdpTimeouts, wire::Method};
use skills_mdp::{ListClients, ListPaths};
use skills_testkit::mdp::{ok, skill};

use crate::test_host::TestHost;

pub(crate) fn clients(search: Option<&str>) -> ListClients {
    ListClients { search: search.map(str::to_owned), ..ListClients::default() }
}

pub(crate) fn of(client: Option<&str>, search: Option<&str>, depth: Option<usize>) -> ListPaths {
    ListPaths {
        client_id: client.map(str::to_owned),
        search: search.map(str::to_owned),
        depth: depth.and_then(NonZeroUsize::new),
        ..ListPaths::default()
    }
}

fn paths(listed: &Value) -> Vec<String> {
    let paths = listed["paths"].as_array().unwrap().iter();
    paths
        .map(|path| {
            format!("{}{}", path["clientId"].as_str().unwrap(), path["path"].as_str().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn clients_are_listed_with_metadata_and_connection() {
    let host = TestHost::new().await;
    let mut client = host.connect().await;
    let described = json!({
        "id": "c", "name": "C", "description": "d", "version": "1", "platform": "web",
        "metadata": {"team": "Blue"}, "x-more": [1],
        "paths": [{"type": "skill", "path": "/a/skill.md", "x-order": 1}],
    });
    let auth = json!({"token": "t"});
    client.send(&json!({"type": "registerClient", "client": described, "auth": auth})).await;
    host.until(|ids| ids == ["c"]).await;
    let listed = host.host.list_clients(&clients(None)).await.unwrap();
    let mut listed = listed["clients"][0].as_object().unwrap().clone();
    for time in ["connectedAt", "lastSeenAt"] {
        let time = listed.remove(time).unwrap();
        let time = time.as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
    }
    let mut expected = described.as_object().unwrap().clone();
    expected.insert("status".into(), "online".into());
    let connection = json!({"mode": "ws", "secure": false, "authSource": "message"});
    expected.insert("connection".into(), connection);
    assert_eq!(Value::Object(listed), Value::Object(expected));
    for (search, count) in [
        ("BLUE", 1),
        (" web ", 1),
        ("skill", 1),
        ("insecure", 1),
        ("http-loop", 0),
        ("", 1),
        ("no", 0),
    ] {
        let found = host.host.list_clients(&clients(Some(search))).await.unwrap();
        assert_eq!(found["clients"].as_array().unwrap().len(), count, "{search}");
    }
}

#[tokio::test]
async fn paths_are_filtered_by_client_depth_and_search_words() {
    let host = TestHost::new().await;
    let catalogue = json!([
        skill("/team/review/files/skill.md"),
        {"type": "skill", "path": "/team/review/skill.md", "description": "About REVIEWS"},
        {"type": "endpoint", "path": "/goods/:id", "method": "PATCH", "inputSchema": {"price": 1}},
    ]);
    let _b = host.client("b", catalogue).await;
    let _a = host.client("a", json!([{"type": "prompt", "path": "/ask/prompt.md"}])).await;
    let list = async |client: Option<&str>, search: Option<&str>, depth: Option<usize>| {
        paths(&host.host.list_paths(&of(client, search, depth)).await.unwrap())
    };
    let shallow = ["b/team/review/skill.md", "b/goods/:id", "a/ask/prompt.md"];
    assert_eq!(list(None, None, None).await, shallow);
    assert_eq!(list(None, Some("  "), None).await, shallow);
    assert_eq!(list(Some("b"), None, Some(2)).await.len(), 3);
    assert_eq!(list(Some("nobody"), None, None).await.len(), 0);
    assert_eq!(list(None, Some("review"), None).await.len(), 2, "searching goes all the way down");
    assert_eq!(list(None, Some("review"), Some(1)).await.len(), 1);
    assert_eq!(list(None, Some("patch"), None).await, ["b/goods/:id"]);
    assert_eq!(list(None, Some("price"), None).await, ["b/goods/:id"]);
    assert_eq!(list(None, Some("name of a"), None).await, ["a/ask/prompt.md"]);
    let listed = host.host.list_paths(&of(Some("b"), Some("patch"), None)).await.unwrap();
    let expected = json!({
        "clientId": "b", "clientName": "Name of b", "type": "endpoint", "path": "/goods/:id",
        "method": "PATCH", "inputSchema": {"price": 1},
    });
    assert_eq!(listed["paths"][0], expected);
}

#[tokio::test]
async fn listings_continue_after_their_cursor() {
    let host = TestHost::new().await;
    let many = |folder: &str| -> Value {
        (0..700).map(|number| skill(&format!("/{folder}-{number}/skill.md"))).collect()
    };
    let mut here = vec![];
    for id in ["b", "a"] {
        here.push(host.client(id, many(id)).await);
    }
    let all = async |limit: Option<usize>| {
        let mut asked =
            ListPaths { limit: limit.and_then(NonZeroUsize::new), ..ListPaths::default() };
        let (mut found, mut pages) = (vec![], vec![]);
        loop {
            let page = host.host.list_paths(&asked).await.unwrap();
            pages.push(page["paths"].as_array().unwrap().len());
            found.extend(paths(&page));
            match page["nextCursor"].as_str() {
                Some(next) => asked.cursor = Some(next.to_owned()),
                None => return (found, pages),
            }
        }
    };
    let (found, pages) = all(None).await;
    assert_eq!(pages, [1000, 400]);
    assert_eq!((found[0].as_str(), found[1399].as_str()), ("b/b-0/skill.md", "a/a-699/skill.md"));
    assert_eq!(all(Some(700)).await, (found.clone(), vec![700, 700]));
    assert_eq!(all(Some(5000)).await, (found, vec![1000, 400]));
    let bad = ListPaths { cursor: Some("x".to_owned()), ..ListPaths::default() };
    let refused = host.host.list_paths(&bad).await.expect_err("no cursor");
    assert_eq!(
        (refused.code().as_str(), &refused),
        ("bad_request", &ClientCallError::InvalidCursor)
    );

    // Clients are listed with all their paths, up to the size of one answer.
    let large = json!([{"type": "skill", "path": "/skill.md", "x": "x".repeat(600_000)}]);
    for id in ["c", "d", "e"] {
        here.push(host.client(id, large.clone()).await);
    }
    let mut asked = ListClients::default();
    let mut found = vec![];
    loop {
        let page = host.host.list_clients(&asked).await.unwrap();
        let ids = page["clients"].as_array().unwrap().iter();
        found.push(ids.map(|client| client["id"].as_str().unwrap().to_owned()).collect::<String>());
        match page["nextCursor"].as_str() {
            Some(next) => asked.cursor = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(found, ["bacd", "e"]);
}

#[tokio::test]
async fn a_path_call_passes_on_all_arguments() {
    let host = TestHost::new().await;
    let endpoint = json!([{"type": "endpoint", "path": "/goods/:id", "method": "POST"}]);
    let client = host.client("c", endpoint).await;
    client.serve_calls(|call| ok(call.clone()));
    let call = ClientCall {
        query: json!({"deep": {"a": null}}).as_object().cloned(),
        body: Some(Value::Null),
        headers: Some(vec![("x".into(), "y".into())]),
        auth: serde_json::from_value(json!({"token": "t"})).unwrap(),
        ..ClientCall::new(Method::Post, "/goods/7")
    };
    let answer = host.host.call_path("c", &call).await.unwrap();
    assert_eq!(answer["ok"], true);
    let mut seen = answer["data"].as_object().unwrap().clone();
    seen.remove("requestId").unwrap();
    let expected = json!({
        "type": "callClient", "clientId": "c", "method": "POST", "path": "/goods/7",
        "params": {"id": "7"}, "query": {"deep": {"a": null}}, "body": null,
        "headers": {"x": "y"}, "auth": {"token": "t"},
    });
    assert_eq!(Value::Object(seen), expected);

    let error = async |client: &str, call: ClientCall| {
        host.host.call_path(client, &call).await.expect_err("refused").to_string()
    };
    let get = |path: &str| ClientCall::new(Method::Get, path);
    assert_eq!(error("zzz", get("/goods/7")).await, r#"Client "zzz" is not connected"#);
    let words = r#"Path "/goods/7" with method "GET" was not found on client "c""#;
    assert_eq!(error("c", get("/goods/7")).await, words);
    assert!(error("c", get("/goods/SKU")).await.contains("is not a segment"));
    assert!(error("c", get("/goods/:id")).await.contains("is a parameter"));
    assert_eq!(error("c", get(&format!("/{}", "a".repeat(2000)))).await, "the path is too long");
}

#[tokio::test]
async fn a_call_of_many_clients_reports_each_outcome() {
    let times =
        MdpTimeouts { answer_within: std::time::Duration::from_secs(5), ..MdpTimeouts::default() };
    let limits = MdpLimits { gathered_bytes: 1000, ..MdpLimits::default() };
    let host = TestHost::with(Config { times, limits, ..Config::default() }, None).await;
    let path = || json!([skill("/a/skill.md")]);
    host.client("good", path()).await.serve_calls(|_| ok("fine"));
    let failure = json!({"ok": false, "error": {"code": "handler_error", "message": "broke"}});
    host.client("bad", path()).await.serve_calls(move |_| failure.clone());
    let _silent = host.client("silent", path()).await;
    host.client("other", json!([])).await.serve_calls(|_| ok("never asked"));
    let call = ClientCall::new(Method::Get, "/a/skill.md");
    let answer = host.host.call_paths(&[], &call).await.unwrap();
    let error = |code: &str, message: &str| json!({"code": code, "message": message});
    let timeout = error("timeout", "Invocation timed out for client \"silent\"");
    let expected = json!([
        {"clientId": "good", "ok": true, "data": "fine"},
        {"clientId": "bad", "ok": false, "error": error("handler_error", "broke")},
        {"clientId": "silent", "ok": false, "error": timeout},
    ]);
    assert_eq!(answer, json!({ "results": expected }));

    let named = ["absent", "good", "good"].map(str::to_owned);
    let answer = host.host.call_paths(&named, &call).await.unwrap();
    let absent = error("not_found", "Client \"absent\" is not connected");
    let expected = json!([
        {"clientId": "absent", "ok": false, "error": absent},
        {"clientId": "good", "ok": true, "data": "fine"},
    ]);
    assert_eq!(answer["results"], expected);
    let nobody = host.host.call_paths(&[], &ClientCall::new(Method::Get, "/none")).await;
    assert_eq!(nobody.expect_err("none"), ClientCallError::NoClients);

    host.client("large", path()).await.serve_calls(|_| ok("x".repeat(2000)));
    let answer = host.host.call_paths(&["large".to_owned()], &call).await.unwrap();
    assert_eq!(answer["results"][0]["error"]["code"], "transport_error");
}

#[tokio::test]
async fn an_oversized_call_is_refused_for_one_or_all_clients() {
    let limits = MdpLimits { gathered_bytes: 2000, queue_bytes: 1500, ..MdpLimits::default() };
    let host = TestHost::with(Config { limits, ..Config::default() }, None).await;
    let path = || json!([{"type": "endpoint", "path": "/a", "method": "POST"}]);
    for id in ["a", "b", "c"] {
        host.client(id, path()).await.serve_calls(|_| ok("fine"));
    }
    let call = |bytes| ClientCall {
        body: Some("x".repeat(bytes).into()),
        ..ClientCall::new(Method::Post, "/a")
    };
    let refused = host.host.call_paths(&[], &call(800)).await.expect_err("three times 800");
    assert!(
        matches!(refused, ClientCallError::TooLarge { clients: 3, max: 2000, .. }),
        "{refused:?}"
    );
    assert_eq!(refused.code().as_str(), "bad_request");
    let two = ["a", "b"].map(str::to_owned);
    let answer = host.host.call_paths(&two, &call(700)).await.unwrap();
    assert_eq!(answer["results"][1]["data"], "fine", "{answer}");
    let refused = host.host.call_path("a", &call(1500)).await.expect_err("more than may wait");
    assert!(
        matches!(refused, ClientCallError::TooLarge { clients: 1, max: 1500, .. }),
        "{refused:?}"
    );
    assert_eq!(host.host.call_path("a", &call(1000)).await.unwrap()["data"], "fine");
}

#[tokio::test]
async fn a_too_deeply_nested_answer_is_refused() {
    let host = TestHost::new().await;
    let mut client = host.client("c", json!([skill("/a/skill.md")])).await;
    let host = host.host.clone();
    let calling = tokio::spawn(async move {
        host.call_path("c", &ClientCall::new(Method::Get, "/a/skill.md")).await
    });
    let call = client.next_call().await;
    let (open, close) = ("[".repeat(5000), "]".repeat(5000));
    let text = format!(
        r#"{{"type":"callClientResult","requestId":{},"ok":true,"data":{open}{close}}}"#,
        call["requestId"]
    );
    client.send_raw(tokio_tungstenite::tungstenite::Message::text(text)).await;
    assert_eq!(calling.await.unwrap().expect_err("deep"), ClientCallError::TooDeep("c".into()));
}
