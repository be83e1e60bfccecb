//! Stored skills as paths of the `registry` client.

use std::{num::NonZeroUsize, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};
use skills_agent_skills::Bundle;
use skills_core::{Digest, Layer};
use skills_mdp::{ClientCall, Config, wire::Method};
use skills_registry::{Registry, RegistryConfig, SkillRegistry};
use skills_store::{MemoryStore, SharedMemoryStore};
use skills_testkit::{Request, mdp::registration};

use crate::{
    directory::{clients, of},
    test_host::{TestHost, text},
};

const ROOT: &str = "---\nname: many\ndescription: Many files.\n---\n# Many\n\nText.\n";

async fn host() -> (TestHost, Arc<Registry>) {
    let store = Arc::new(MemoryStore::new());
    let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
    registry
        .register_skill("t", &Layer::Official, "plain", "# Plain\n\nOne line.\n".to_owned())
        .await
        .unwrap();
    let files = [
        ("references/guide.md", &b"# Guide"[..]),
        ("files/SKILL.md", b"# Files"),
        ("deep er.md", b"# Deeper"),
        ("logo.png", b"\x89PNG\xff"),
    ];
    let files = files.map(|(path, bytes)| (path.parse().unwrap(), Bytes::from_static(bytes)));
    let bundle = Bundle::new(ROOT.to_owned(), files.to_vec()).unwrap();
    registry.register_bundle("t", &Layer::Official, "many", bundle).await.unwrap();
    let skills: Arc<dyn SkillRegistry> = registry.clone();
    (TestHost::with(Config::default(), Some(skills)).await, registry)
}

#[tokio::test]
async fn stored_skills_have_the_same_addresses_as_live_ones() {
    let (host, registry) = host().await;
    for (address, body) in [
        ("/skills/registry/plain", "# Plain\n\nOne line.\n"),
        ("/registry/skills/plain/skill.md", "# Plain\n\nOne line.\n"),
        ("/skills/registry/plain/SKILL.md", "# Plain\n\nOne line.\n"),
        ("/skills/registry/many", ROOT),
        ("/skills/registry/many/files", "# Files"),
        ("/skills/registry/many/files/skill.md", "# Files"),
        ("/skills/registry/many/files/SKILL.md", "# Files"),
        ("/skills/registry/many/references/guide.md", "# Guide"),
        ("/skills/registry/many/deep%20er.md", "# Deeper"),
    ] {
        let answer = host.get(address).await;
        assert_eq!((answer.status, text(&answer)), (200, body), "{address}");
        let media_type = answer.header("content-type").unwrap();
        assert_eq!(media_type, "text/markdown; charset=utf-8", "{address}");
        let tag = format!("\"{}\"", Digest::of(body.as_bytes()));
        assert_eq!(answer.header("etag").as_deref(), Some(&*tag), "{address}");
        let again = host.ask(Request::get(address).header("If-None-Match", &tag)).await;
        assert_eq!(again.status, 304, "{address}");
    }
    let picture = host.get("/skills/registry/many/logo.png").await;
    assert_eq!(picture.body, b"\x89PNG\xff");
    assert_eq!(picture.header("content-type").as_deref(), Some("image/png"));
    for address in [
        "/skills/registry",
        "/skills/registry/none",
        "/skills/registry/many/none.md",
        "/skills/registry/many/../plain",
        "/skills/registry/plain/state::get",
        "/skills/registry/skills",
    ] {
        assert_eq!(host.get(address).await.refusal(), (404, "not_found".to_owned()), "{address}");
    }
    registry.register_skill("t", &Layer::Official, "plain", "# New".to_owned()).await.unwrap();
    let changed = host.get("/skills/registry/plain").await;
    assert_eq!(text(&changed), "# New");
    assert_eq!(changed.header("etag").unwrap(), format!("\"{}\"", Digest::of(b"# New")));
}

#[tokio::test]
async fn the_registry_is_listed_as_a_client() {
    let (host, _registry) = host().await;
    let mut client = host.connect().await;
    client.send(&registration("live", json!([]))).await;
    host.until(|ids| ids == ["live"]).await;
    let clients = host.host.list_clients(&clients(None)).await.unwrap();
    let ids: Vec<_> = clients["clients"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, ["registry", "live"]);
    assert_eq!(clients["clients"][0]["status"], "online");

    let paths = host.host.list_paths(&of(Some("registry"), None, None)).await.unwrap();
    let listed: Vec<(&str, &str)> = paths["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| (path["type"].as_str().unwrap(), path["path"].as_str().unwrap()))
        .collect();
    assert_eq!(
        listed,
        [
            ("skill", "/many/skill.md"),
            ("endpoint", "/many/deep er.md"),
            ("skill", "/many/files/SKILL.md"),
            ("endpoint", "/many/references/guide.md"),
            ("skill", "/plain/skill.md"),
        ]
    );
    assert_eq!(paths["paths"][4]["description"], "One line.");

    // Pages of one entry give the same result.
    let mut asked = of(Some("registry"), None, None);
    asked.limit = NonZeroUsize::new(1);
    let mut found = vec![];
    loop {
        let page = host.host.list_paths(&asked).await.unwrap();
        assert_eq!(page["paths"].as_array().unwrap().len(), 1);
        found.push(page["paths"][0].clone());
        let Some(next) = page["nextCursor"].as_str() else { break };
        asked.cursor = Some(next.to_owned());
    }
    assert_eq!(Value::from(found), paths["paths"]);
    asked.cursor = Some("0:many/x".to_owned());
    assert!(host.host.list_paths(&asked).await.is_err());

    // Every listed path is readable.
    for path in paths["paths"].as_array().unwrap() {
        let call = ClientCall::new(Method::Get, path["path"].as_str().unwrap());
        let answer = host.host.call_path("registry", &call).await.unwrap();
        assert!(answer["ok"] == true && answer["data"].is_string(), "{path}: {answer}");
    }
    let picture = ClientCall::new(Method::Get, "/many/logo.png");
    let answer = host.host.call_path("registry", &picture).await.unwrap();
    assert_eq!(answer["data"]["contentType"], "image/png");
    let post = ClientCall::new(Method::Post, "/plain/skill.md");
    assert!(host.host.call_path("registry", &post).await.is_err());
    let found =
        host.host.call_paths(&[], &ClientCall::new(Method::Get, "/plain/skill.md")).await.unwrap();
    let expected: Value =
        json!([{"clientId": "registry", "ok": true, "data": "# Plain\n\nOne line.\n"}]);
    assert_eq!(found["results"], expected);
}

#[tokio::test]
async fn many_stored_skills_are_listed_in_pages() {
    let (host, registry) = host().await;
    for number in 0..1200 {
        let id = format!("s{number:04}");
        registry.register_skill("t", &Layer::Official, &id, format!("# {id}\n")).await.unwrap();
    }
    let listed = host.host.list_clients(&clients(None)).await.unwrap();
    let client = &listed["clients"][0];
    assert_eq!(client["paths"].as_array().unwrap().len(), 100);
    assert!(client["pathCount"].as_u64().unwrap() > 1200, "{}", client["pathCount"]);
    let mut asked = of(Some("registry"), None, None);
    let mut found = vec![];
    loop {
        let page = host.host.list_paths(&asked).await.unwrap();
        let paths = page["paths"].as_array().unwrap();
        assert!(paths.len() <= 1000, "{}", paths.len());
        found.extend(paths.iter().map(|path| path["path"].as_str().unwrap().to_owned()));
        match page["nextCursor"].as_str() {
            Some(next) => asked.cursor = Some(next.to_owned()),
            None => break,
        }
    }
    assert!(found.contains(&"/s0000/skill.md".into()) && found.contains(&"/s1199/skill.md".into()));
    let mut unique = found.clone();
    unique.dedup();
    assert_eq!(found, unique);
}

#[tokio::test]
async fn a_stored_skill_that_cannot_be_read_during_an_outage_is_not_ready() {
    let store = Arc::new(SharedMemoryStore::default());
    let open = || Registry::open(Arc::clone(&store) as _, None, RegistryConfig::default()).unwrap();
    let cold = "# Cold\n".to_owned();
    open().register_skill("t", &Layer::Official, "cold", cold).await.unwrap();
    // Another server, which has read no body.
    store.set_blobs_down(true);
    let host = TestHost::with(Config::default(), Some(open() as _)).await;
    let answer = host.get("/skills/registry/cold").await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (503, &json!("not_ready")));
    assert_eq!(answer.header("retry-after").as_deref(), Some("1"));
    store.set_blobs_down(false);
    assert_eq!(host.get("/skills/registry/cold").await.status, 200);
}
