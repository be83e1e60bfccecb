//! The list of skills that can be offered as Agent Skills.

use axum::http::StatusCode;
use serde_json::json;
use skills_core::{Caller, Layer, MemoryBudget, RequestBudget};
use skills_http::ErrorCode;

use crate::test_gateway::TestGateway;

const SPEC: &str = "---\nname: spec\ndescription: Does it.\nlicense: MIT\n---\n# Spec\n";

async fn gateway_with_skills() -> TestGateway {
    let gateway = TestGateway::open();
    for (id, body) in [
        ("spec", SPEC),
        ("number", "---\nname: 123\ndescription: Counts.\n---\n# N\n"),
        ("plain", "# Plain\n\nText.\n"),
        ("under_score", "# U\n\nText.\n"),
        ("nameless", "---\ndescription: No name.\nuser-invocable: false\n---\n# N\n"),
    ] {
        let write = gateway.registry.register_skill("t", &Layer::Official, id, body.to_owned());
        write.await.unwrap();
    }
    gateway
}

#[tokio::test]
async fn filters_select_skills_and_skills_that_break_a_rule_are_left_out() {
    let gateway = gateway_with_skills().await;
    let get = async |path: &str| gateway.get(&Caller::Anonymous, path).await;
    let (status, all) = get("/v1/available-skills").await;
    assert_eq!((status, all["skills"].as_array().unwrap().len()), (StatusCode::OK, 4));
    assert_eq!(all["left_out"][0]["id"], "under_score");
    let row = all["skills"].as_array().unwrap().iter().find(|row| row["id"] == "nameless");
    assert_eq!(row.unwrap()["userInvocable"], false);
    let (_, mit) = get("/v1/available-skills?license=mit").await;
    assert_eq!(mit["skills"].as_array().unwrap().len(), 1);
    assert_eq!(mit["skills"][0]["name"], "spec");
    for wrong in ["license=a&license=b", "tool=a&tool="] {
        let (status, error) = get(&format!("/v1/available-skills?{wrong}")).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_query")),
            "{wrong:?}"
        );
    }
}

#[tokio::test]
async fn the_list_is_public_and_described() {
    let gateway = gateway_with_skills().await;
    let request = axum::http::Request::get("/v1/available-skills");
    let request = request.body(axum::body::Body::empty()).unwrap();
    let (_, response, _) = gateway.send(&Caller::Anonymous, request).await;
    assert_eq!(response.headers()["cache-control"], "public, max-age=60");
    assert_eq!(response.headers()["vary"], "authorization");
    let (_, api) = gateway.get(&Caller::Anonymous, "/v1/openapi.json").await;
    assert!(api["paths"]["/v1/available-skills"]["get"].is_object());
}

#[tokio::test]
async fn errors_have_a_code_for_the_access_line_and_rows_reserve_their_size() {
    let gateway = gateway_with_skills().await;
    let request =
        |uri: &str| axum::http::Request::get(uri).body(axum::body::Body::empty()).unwrap();
    let wrong = request("/v1/available-skills?license=a&license=b");
    let (_, response, _) = gateway.send(&Caller::Anonymous, wrong).await;
    let code = response.extensions().get::<ErrorCode>().map(|code| code.0.as_str());
    assert_eq!(code, Some("invalid_query"));

    let notes = "n".repeat(6 << 10);
    let large =
        format!("---\nname: large\ndescription: D.\nmetadata:\n  notes: {notes}\n---\n# L\n");
    gateway.registry.register_skill("t", &Layer::Official, "large", large).await.unwrap();
    for (bytes, status) in [(1 << 20, StatusCode::OK), (10 << 10, StatusCode::SERVICE_UNAVAILABLE)]
    {
        let budget = MemoryBudget::new(bytes);
        let mut request = request("/v1/available-skills");
        request.extensions_mut().insert(RequestBudget::with_memory(&budget));
        let (found, ..) = gateway.send(&Caller::Anonymous, request).await;
        assert_eq!(found, status, "{bytes}");
    }
}
