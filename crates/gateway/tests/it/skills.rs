//! Listing and reading skills.

use axum::{
    body::Body,
    http::{Method, Request, StatusCode, header},
};
use serde_json::json;
use skills_core::{Caller, Digest, Layer, SkillId, User};
use skills_manifest::{self as manifest, ParseMode};
use skills_registry::Tool;

use crate::test_gateway::TestGateway;

const WEATHER: &str = include_str!("weather.json");

pub(crate) fn tool(id: &str, text: &str) -> Tool {
    let id: SkillId = id.parse().unwrap();
    let parsed = manifest::parse(text, ParseMode::Strict, Some(&id)).unwrap();
    Tool::from_manifest(&id, &parsed, text.to_owned()).unwrap()
}

#[tokio::test]
async fn a_tool_is_listed_and_returned_in_the_published_shapes() {
    let gateway = TestGateway::open();
    let tool = tool("uniskill_weather", WEATHER);
    let put = gateway.registry.register_tool("test", &Layer::Market, "uniskill_weather", tool);
    put.await.unwrap();
    let (status, list) = gateway.get(&Caller::Anonymous, "/v1/skills").await;
    assert_eq!((status, &list["success"]), (StatusCode::OK, &json!(true)));
    let row = &list["data"][0];
    assert_eq!(row["id"], "uniskill_weather");
    assert_eq!(row["name"], "Global Weather");
    assert_eq!((&row["source"], &row["isOfficial"]), (&json!("market"), &json!(false)));
    for uri in
        ["/v1/skills/uniskill_weather", "/v1/skills/weather", "/v1/skills/weather?tier=market"]
    {
        let (status, shown) = gateway.get(&Caller::Anonymous, uri).await;
        assert_eq!(status, StatusCode::OK, "{shown}");
        assert_eq!(shown["spec"]["name"], "uniskill_weather", "{uri}");
        assert_eq!(
            (&shown["source"], &shown["is_official"]),
            (&json!("market"), &json!(false)),
            "{uri}"
        );
        assert_eq!(shown["spec"]["parameters"]["required"], json!(["location"]), "{uri}");
        assert!(shown.get("secrets").is_none(), "{uri}");
    }
    let ann = gateway.user("ann");
    let (_, shown) = gateway.get(&ann, "/v1/skills/weather?explain=1").await;
    assert_eq!(shown["secrets"]["missing"], json!([]));
    assert_eq!(shown["explain"]["answer"], json!({"tier": "market", "id": "uniskill_weather"}));
    assert_eq!(shown["explain"]["tried"].as_array().unwrap().len(), 6);
}

#[tokio::test]
async fn a_document_is_returned_in_the_shape_of_a_tool() {
    let gateway = TestGateway::open();
    gateway
        .registry
        .register_skill("test", &Layer::Official, "notes", "# Notes\n\nHow to.".to_owned())
        .await
        .unwrap();
    let (_, shown) = gateway.get(&Caller::Anonymous, "/v1/skills/notes").await;
    assert_eq!(shown["spec"]["docs"]["full_md"], "# Notes\n\nHow to.");
    assert_eq!(shown["spec"]["implementation"], json!({"type": "document"}));
    assert_eq!((&shown["source"], &shown["is_official"]), (&json!("official"), &json!(true)));
}

#[tokio::test]
async fn an_unchanged_skill_is_not_modified() {
    let gateway = TestGateway::open();
    gateway
        .registry
        .register_skill("test", &Layer::Official, "notes", "# Notes".to_owned())
        .await
        .unwrap();
    let get = |tag: Option<String>| {
        let request = Request::builder().method(Method::GET).uri("/v1/skills/notes");
        let request = match tag {
            Some(tag) => request.header(header::IF_NONE_MATCH, tag),
            None => request,
        };
        gateway.send(&Caller::Anonymous, request.body(Body::empty()).unwrap())
    };
    let (_, first, _) = get(None).await;
    let tag = first.headers()[header::ETAG].to_str().unwrap().to_owned();
    assert_eq!(get(Some(tag.clone())).await.0, StatusCode::NOT_MODIFIED);
    gateway
        .registry
        .register_skill("test", &Layer::Official, "notes", "# Other".to_owned())
        .await
        .unwrap();
    assert_eq!(get(Some(tag)).await.0, StatusCode::OK);
}

#[tokio::test]
async fn pagination_continues_after_its_cursor_in_every_layer() {
    let gateway = TestGateway::open();
    for (layer, ids) in [(Layer::Official, ["a", "b", "c"]), (Layer::Market, ["b", "c", "d"])] {
        for id in ids {
            gateway.registry.register_skill("test", &layer, id, "# X".to_owned()).await.unwrap();
        }
    }
    for (query, expected) in [
        ("", vec!["official/a", "official/b", "official/c", "market/d"]),
        ("&tier=market", vec!["market/b", "market/c", "market/d"]),
        (
            "&layers=all",
            vec!["official/a", "official/b", "market/b", "official/c", "market/c", "market/d"],
        ),
    ] {
        let (mut seen, mut cursor) = (vec![], String::new());
        loop {
            let uri = format!("/v1/skills?limit=2{query}{cursor}");
            let (_, page) = gateway.get(&Caller::Anonymous, &uri).await;
            for row in page["data"].as_array().unwrap() {
                seen.push(format!("{}/{}", row["source"], row["id"]).replace('"', ""));
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(seen, expected, "{query}");
    }
}

#[tokio::test]
async fn all_errors_have_one_shape() {
    let gateway = TestGateway::open();
    for (uri, status, code) in [
        ("/v1/skills/none", 404, "not_found"),
        ("/v1/skills/%00", 404, "not_found"),
        ("/v1/nowhere", 404, "not_found"),
        ("/v1", 404, "not_found"),
        ("/v1/skills?limit=0", 400, "invalid_query"),
        ("/v1/skills?limit=1001", 400, "invalid_query"),
        ("/v1/skills?tier=gold", 400, "invalid_query"),
        ("/v1/skills?cursor=A", 400, "invalid_cursor"),
        ("/v1/skills?layers=all&cursor=a", 400, "invalid_cursor"),
        ("/v1/skills/x?explain=maybe", 400, "invalid_query"),
        ("/v1/skills/%ff", 400, "invalid_path"),
    ] {
        let (found, body) = gateway.get(&Caller::Anonymous, uri).await;
        assert_eq!((found.as_u16(), &body["code"]), (status, &json!(code)), "{uri}: {body}");
        assert_eq!(body["success"], false, "{uri}");
        assert!(body["error"].is_string(), "{uri}");
    }
    let request = Request::post("/v1/skills").body(Body::empty()).unwrap();
    let (status, response, body) = gateway.send(&Caller::Anonymous, request).await;
    assert_eq!((status.as_u16(), &body["code"]), (405, &json!("method_not_allowed")));
    assert!(response.headers()[header::ALLOW].to_str().unwrap().contains("GET"));
}

#[tokio::test]
async fn every_answer_has_rate_limit_headers() {
    let gateway = TestGateway::open();
    let ann = gateway.user("ann");
    let gone = Caller::User(User { owner: "bob".parse().unwrap(), key: Digest::of(b"us-gone") });
    for (caller, expected) in [(&ann, Some("30")), (&Caller::Anonymous, Some("30")), (&gone, None)]
    {
        let request = Request::get("/v1/skills/none").body(Body::empty()).unwrap();
        let (_, response, _) = gateway.send(caller, request).await;
        for name in ["x-ratelimit-limit", "x-ratelimit-remaining"] {
            let value = response.headers().get(name).map(|value| value.to_str().unwrap());
            assert_eq!(value, expected, "{name}");
        }
        assert_eq!(
            response.headers().contains_key("x-ratelimit-reset"),
            expected.is_some(),
            "{expected:?}"
        );
    }
}

#[tokio::test]
async fn the_openapi_document_lists_every_route_and_error() {
    let gateway = TestGateway::open();
    let (status, api) = gateway.get(&Caller::Anonymous, "/v1/openapi.json").await;
    assert_eq!((status, &api["openapi"]), (StatusCode::OK, &json!("3.1.0")));
    for (path, item) in api["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.contains_key("401"), "{method} {path}");
            assert!(operation["operationId"].is_string() && operation["tags"].is_array());
        }
    }
    assert!(api["paths"]["/v1/skills/{id}"]["get"].is_object());
}

/// The list of tools has a path that a skill id could have; the encoded path addresses the skill.
#[tokio::test]
async fn a_skill_may_be_named_schema() {
    let gateway = TestGateway::open();
    gateway
        .registry
        .register_skill("test", &Layer::Official, "schema", "# Of it".to_owned())
        .await
        .unwrap();
    let (status, shown) = gateway.get(&Caller::Anonymous, "/v1/skills/%73chema").await;
    assert_eq!((status, &shown["spec"]["id"]), (StatusCode::OK, &json!("schema")), "{shown}");
    let (_, list) = gateway.get(&Caller::Anonymous, "/v1/skills/schema").await;
    assert_eq!(list["tools"], json!([]));
}

#[tokio::test]
async fn one_trailing_slash_is_ignored() {
    let gateway = TestGateway::open();
    let ann = gateway.user("ann");
    let put = gateway.registry.register_skill("test", &Layer::Official, "a", "# A".to_owned());
    put.await.unwrap();
    for uri in ["/v1/skills", "/v1/skills/a", "/v1/auth/verify", "/v1/skills/nope", "/v1/nothing"] {
        let plain = gateway.get(&ann, uri).await;
        assert_eq!(gateway.get(&ann, &format!("{uri}/")).await, plain, "{uri}");
        assert_eq!(gateway.get(&ann, &format!("{uri}//")).await.0, 404, "{uri}");
    }
    let (_, page) = gateway.get(&ann, "/v1/skills/?limit=1&tier=official").await;
    assert_eq!(page["data"][0]["id"], "a", "{page}");
    let set = serde_json::json!({ "value": "v" });
    let (status, answer) = gateway.ask(&ann, "PUT", "/v1/secrets/TOKEN/", &set).await;
    assert_eq!((status.as_u16(), &answer["name"]), (200, &serde_json::json!("TOKEN")), "{answer}");
    let (status, answer) =
        gateway.ask(&ann, "PATCH", "/v1/skills/", &serde_json::Value::Null).await;
    assert_eq!((status.as_u16(), &answer["code"]), (405, &serde_json::json!("method_not_allowed")));
    assert_eq!(gateway.get(&skills_core::Caller::Anonymous, "/v1/auth/verify/").await.0, 401);
}
