//! The published client over the HTTP loop, unchanged.

use modeldriveprotocol_client::{
    AuthContext, ClientInfo, EndpointOptions, HttpMethod, MdpClient, PromptOptions, SkillOptions,
};
use serde_json::{Value, json};
use skills_mdp::{Call, Config, wire::Method};

use crate::world::{World, text};

#[tokio::test(flavor = "multi_thread")]
async fn registers_answers_changes_its_catalogue_and_leaves() {
    let config = Config { token: Some("s3cret".into()), ..Config::default() };
    let world = World::with(config, None).await;
    let url = format!("http://{}", world.address);
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
    world.until(|ids| ids == ["rust"]).await;

    let answer = world.get("/skills/rust/review").await;
    assert_eq!((answer.status, text(&answer)), (200, body));
    let prompt = Call::new(Method::Get, "/ask/prompt.md");
    let prompt = world.host.call_path("rust", &prompt).await.unwrap();
    assert_eq!(prompt["data"]["messages"][0]["content"], "Ask.");
    let call = Call {
        query: json!({"q": 1}).as_object().cloned(),
        body: Some(json!("b")),
        ..Call::new(Method::Post, "/goods/7")
    };
    let echoed = world.host.call_path("rust", &call).await.unwrap();
    assert_eq!(echoed["data"], json!([{"id": "7"}, {"q": 1}, "b", {}]));

    client.expose_skill_markdown("/later/skill.md", "# L", SkillOptions::new()).unwrap();
    client.sync_catalog().await.unwrap();
    assert_eq!(world.get("/skills/rust/later").await.status, 200);
    let listed: Value =
        world.host.list_clients(&skills_registry::live::ListClients::default()).await.unwrap();
    assert_eq!(listed["clients"][0]["connection"]["mode"], "http-loop");
    client.disconnect().await.unwrap();
    world.until(<[_]>::is_empty).await;
}
