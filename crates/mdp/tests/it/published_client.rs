//! The published client library, unmodified, over the HTTP loop.

use modeldriveprotocol_client::{
    AuthContext, ClientInfo, EndpointOptions, HttpMethod, MdpClient, PromptOptions, SkillOptions,
};
use serde_json::{Value, json};
use skills_mdp::{ClientCall, Config, wire::Method};

use crate::test_host::{TestHost, text};

#[tokio::test(flavor = "multi_thread")]
async fn the_published_client_registers_answers_updates_and_disconnects() {
    let config = Config { token: Some("s3cret".into()), ..Config::default() };
    let host = TestHost::with(config, None).await;
    let url = format!("http://{}", host.address);
    let client = MdpClient::new(url, ClientInfo::new("rust", "Rust")).unwrap();
    client.set_auth(Some(AuthContext { token: Some("s3cret".into()), ..AuthContext::default() }));
    let body = "# Review\n\nReview it.\n";
    client.expose_skill_markdown("/review/skill.md", body, SkillOptions::new()).unwrap();
    client.expose_prompt_markdown("/ask/prompt.md", "Ask.", PromptOptions::new()).unwrap();
    let echo = async |request: modeldriveprotocol_client::PathRequest, _| {
        Ok(json!([request.params, request.queries, request.body, request.headers]))
    };
    let options = EndpointOptions::new();
    client.expose_endpoint("/goods/:id", HttpMethod::Post, echo, options).unwrap();
    client.connect().await.unwrap();
    client.register(None).await.unwrap();
    host.until(|ids| ids == ["rust"]).await;

    let answer = host.get("/skills/rust/review").await;
    assert_eq!((answer.status, text(&answer)), (200, body));
    let prompt = ClientCall::new(Method::Get, "/ask/prompt.md");
    let prompt = host.host.call_path("rust", &prompt).await.unwrap();
    assert_eq!(prompt["data"]["messages"][0]["content"], "Ask.");
    let call = ClientCall {
        query: json!({"q": 1}).as_object().cloned(),
        body: Some(json!("b")),
        ..ClientCall::new(Method::Post, "/goods/7")
    };
    let echoed = host.host.call_path("rust", &call).await.unwrap();
    assert_eq!(echoed["data"], json!([{"id": "7"}, {"q": 1}, "b", {}]));

    client.expose_skill_markdown("/later/skill.md", "# L", SkillOptions::new()).unwrap();
    client.sync_catalog().await.unwrap();
    assert_eq!(host.get("/skills/rust/later").await.status, 200);
    let listed: Value = host.host.list_clients(&skills_mdp::ListClients::default()).await.unwrap();
    assert_eq!(listed["clients"][0]["connection"]["mode"], "http-loop");
    client.disconnect().await.unwrap();
    host.until(<[_]>::is_empty).await;
}
