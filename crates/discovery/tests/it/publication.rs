//! Published skills match the index.

use std::{io::Read as _, sync::Arc};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
};
use bytes::Bytes;
use serde_json::{Value, json};
use skills_agent_skills::Bundle;
use skills_core::{Digest, Layer, MemoryBudget, RequestBudget, SkillCollection};
use skills_discovery::{Settings, routes};
use skills_registry::{PublishRequest, Registry, RegistryConfig};
use skills_store::{MemoryStore, SharedMemoryStore};
use tower::ServiceExt as _;

const SPEC: &str = "---\nname: spec\ndescription: Does it.\nlicense: MIT\n---\n# Spec\n";

async fn registry() -> Arc<Registry> {
    let store = Arc::new(MemoryStore::new());
    let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
    registry.register_skill("t", &Layer::Official, "spec", SPEC.to_owned()).await.unwrap();
    // YAML parses the name as a number.
    let number = "---\nname: 123\ndescription: Counts.\n---\n# N\n";
    registry.register_skill("t", &Layer::Official, "number", number.to_owned()).await.unwrap();
    registry
        .register_skill("t", &Layer::Official, "plain", "# Plain\n\nText.\n".to_owned())
        .await
        .unwrap();
    registry
        .register_skill("t", &Layer::Official, "under_score", "# U\n\nText.\n".to_owned())
        .await
        .unwrap();
    let files = vec![
        ("references/deep er.md".parse().unwrap(), Bytes::from("# Deeper")),
        ("logo.png".parse().unwrap(), Bytes::from_static(b"\x89PNG\xff")),
    ];
    let root = "---\nname: many\ndescription: Many files.\n---\n# Many\n".to_owned();
    let bundle = Bundle::new(root, files).unwrap();
    registry.register_bundle("t", &Layer::Official, "many", bundle).await.unwrap();
    registry
}

async fn ask(
    router: &Router,
    method: &str,
    path: &str,
    tag: Option<&str>,
) -> (StatusCode, HeaderMap, Bytes) {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(tag) = tag {
        request = request.header("if-none-match", tag);
    }
    let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    (head.status, head.headers, axum::body::to_bytes(body, usize::MAX).await.unwrap())
}

async fn json(router: &Router, path: &str) -> Value {
    let (status, _, body) = ask(router, "GET", path, None).await;
    assert_eq!(status, StatusCode::OK, "{path}");
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test]
async fn every_digest_matches_the_served_bytes() {
    let router = routes(registry().await, Settings::default());
    let index = json(&router, "/.well-known/agent-skills/index.json").await;
    assert!(index["$schema"].as_str().unwrap().contains("0.2.0"));
    let rows = index["skills"].as_array().unwrap();
    let named: Vec<_> = rows.iter().map(|row| (&row["name"], &row["type"])).collect();
    let expected =
        [("many", "archive"), ("123", "skill-md"), ("plain", "skill-md"), ("spec", "skill-md")];
    assert_eq!(json!(named), json!(expected));
    for row in rows {
        let (status, headers, body) = ask(&router, "GET", row["url"].as_str().unwrap(), None).await;
        assert_eq!(status, StatusCode::OK, "{row}");
        assert_eq!(row["digest"], format!("sha256:{}", Digest::of(&body)), "{row}");
        assert_eq!(headers["etag"].to_str().unwrap(), format!("\"{}\"", Digest::of(&body)));
        assert!(headers["cache-control"].to_str().unwrap().starts_with("public"));
    }
    let (_, headers, spec) =
        ask(&router, "GET", "/.well-known/agent-skills/spec/SKILL.md", None).await;
    assert_eq!(spec, SPEC);
    assert!(headers["content-type"].to_str().unwrap().starts_with("text/markdown"));
    let (_, _, plain) = ask(&router, "GET", "/.well-known/agent-skills/plain/SKILL.md", None).await;
    assert!(
        plain.starts_with(b"---\nname: \"plain\"\n") || plain.starts_with(b"---\ndescription:")
    );
}

#[tokio::test]
async fn an_archive_has_every_file_at_its_root() {
    let router = routes(registry().await, Settings::default());
    let (_, headers, body) =
        ask(&router, "GET", "/.well-known/agent-skills/many.tar.gz", None).await;
    assert_eq!(headers["content-type"], "application/gzip");
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(body.as_ref()));
    let mut found = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        found.push((entry.path().unwrap().to_string_lossy().into_owned(), bytes.len()));
    }
    let sizes = [("SKILL.md", 51), ("logo.png", 5), ("references/deep er.md", 8)];
    assert_eq!(found, sizes.map(|(path, size)| (path.to_owned(), size)));
}

#[tokio::test]
async fn an_unchanged_resource_is_not_modified() {
    let registry = registry().await;
    let router = routes(registry.clone(), Settings { is_private: true });
    let path = "/.well-known/agent-skills/index.json";
    let (_, headers, _) = ask(&router, "GET", path, None).await;
    let tag = headers["etag"].to_str().unwrap().to_owned();
    assert!(headers["cache-control"].to_str().unwrap().starts_with("private"));
    for known in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
        let (status, _, body) = ask(&router, "GET", path, Some(&known)).await;
        assert_eq!((status, body.len()), (StatusCode::NOT_MODIFIED, 0), "{known}");
    }
    let (status, _, body) = ask(&router, "HEAD", path, None).await;
    assert_eq!((status, body.len()), (StatusCode::OK, 0));
    registry.remove_skill("t", &Layer::Official, "plain").await.unwrap();
    let (status, _, _) = ask(&router, "GET", path, Some(&tag)).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn the_previous_index_format_lists_files_with_their_urls() {
    let router = routes(registry().await, Settings::default());
    let index = json(&router, "/.well-known/skills/index.json").await;
    assert_eq!(
        index["skills"][0]["files"],
        json!(["SKILL.md", "logo.png", "references/deep er.md"])
    );
    let (_, _, deep) =
        ask(&router, "GET", "/.well-known/skills/many/references/deep%20er.md", None).await;
    assert_eq!(deep, "# Deeper");
    for nothing in ["many/none.md", "nobody/SKILL.md", "many", "under_score/SKILL.md"] {
        let (status, _, _) =
            ask(&router, "GET", &format!("/.well-known/skills/{nothing}"), None).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{nothing}");
    }
}

#[tokio::test]
async fn a_skill_without_a_name_is_published_under_its_id() {
    let registry = registry().await;
    let body = "---\ndescription: No name.\nuser-invocable: false\n---\n# N\n";
    registry.register_skill("t", &Layer::Official, "nameless", body.to_owned()).await.unwrap();
    let router = routes(registry, Settings::default());
    let path = "/.well-known/agent-skills/nameless/SKILL.md";
    let (status, _, served) = ask(&router, "GET", path, None).await;
    assert_eq!(status, StatusCode::OK);
    let served = String::from_utf8(served.to_vec()).unwrap();
    let skill = skills_agent_skills::read_agent_skill(&served, None).unwrap();
    assert_eq!((skill.name.as_str(), skill.user_invocable), ("nameless", false));
    let listed = json(&router, "/.well-known/agent-skills/index.json").await;
    let row = listed["skills"].as_array().unwrap().iter().find(|row| row["name"] == "nameless");
    assert_eq!(row.unwrap()["digest"], format!("sha256:{}", Digest::of(served.as_bytes())));
}

#[tokio::test]
async fn memory_for_files_and_archives_is_reserved_before_reading() {
    let router = routes(registry().await, Settings::default());
    // The index is built first, so that only the file needs memory.
    json(&router, "/.well-known/skills/index.json").await;
    for path in ["skills/many/logo.png", "skills/many/SKILL.md", "agent-skills/spec/SKILL.md"] {
        for (capacity, is_refused) in [(1, true), (1 << 20, false)] {
            let share = MemoryBudget::new(capacity);
            let budget = RequestBudget::with_memory(&share);
            let request = Request::get(format!("/.well-known/{path}")).extension(budget.clone());
            let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await;
            let expected = if is_refused { 503 } else { 200 };
            assert_eq!(response.unwrap().status(), expected, "{path}");
            assert_eq!(budget.is_refused(), is_refused, "{path}: the listener answers for it");
        }
    }
    let router = routes(registry().await, Settings::default());
    let share = MemoryBudget::new(1);
    let budget = RequestBudget::with_memory(&share);
    let request = Request::get("/.well-known/agent-skills/many.tar.gz").extension(budget.clone());
    // As the listener does.
    let handled = router.oneshot(request.body(Body::empty()).unwrap());
    let response = budget.account().scope(handled).await.unwrap();
    assert_eq!((response.status().as_u16(), budget.is_refused()), (503, true));
}

#[tokio::test]
async fn a_tier_and_a_skill_have_indexes_below_their_paths() {
    let registry = registry().await;
    registry
        .register_skill("t", &Layer::Market, "stall", "# Stall\n\nText.\n".to_owned())
        .await
        .unwrap();
    let router = routes(registry, Settings::default());
    let names = async |path: &str| {
        let index = json(&router, path).await;
        let rows = index["skills"].as_array().unwrap();
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (scope, expected) in [
        ("/official", vec!["many", "123", "plain", "spec"]),
        ("/market", vec!["stall"]),
        ("/private", vec![]),
        ("/skill/many", vec!["many"]),
        ("/skill/plain", vec!["plain"]),
    ] {
        for format in ["agent-skills", "skills"] {
            let path = format!("{scope}/.well-known/{format}/index.json");
            assert_eq!(names(&path).await, expected, "{path}");
        }
    }
    // Files of the current format are those of the root; of the legacy format they are beside the index.
    let index = json(&router, "/skill/many/.well-known/agent-skills/index.json").await;
    let (status, _, body) =
        ask(&router, "GET", index["skills"][0]["url"].as_str().unwrap(), None).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(index["skills"][0]["digest"], format!("sha256:{}", Digest::of(&body)));
    for (path, expected) in [
        ("/skill/many/.well-known/skills/many/logo.png", 200),
        ("/official/.well-known/skills/many/logo.png", 200),
        ("/market/.well-known/skills/many/logo.png", 404),
        ("/skill/plain/.well-known/skills/many/logo.png", 404),
        ("/skill/nothing/.well-known/agent-skills/index.json", 404),
        ("/skill/under_score/.well-known/skills/index.json", 404),
    ] {
        assert_eq!(ask(&router, "GET", path, None).await.0.as_u16(), expected, "{path}");
    }
}

#[tokio::test]
async fn a_collection_has_an_index_of_the_versions_that_it_names() {
    let registry = registry().await;
    let newer = SPEC.replace("# Spec", "# Newer");
    registry.register_skill("t", &Layer::Official, "spec", newer.clone()).await.unwrap();
    let skills = ["spec@1", "many", "missing"].map(str::to_owned).to_vec();
    let collection =
        SkillCollection { title: "Team".to_owned(), description: String::new(), skills };
    let layer = Layer::Official;
    let stored =
        registry.put_collection("t", &layer, "team", collection, PublishRequest::default());
    stored.await.unwrap();
    let router = routes(registry, Settings::default());
    let index = json(&router, "/collection/team/.well-known/agent-skills/index.json").await;
    let rows = index["skills"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0]["name"], &rows[0]["type"]), (&json!("spec"), &json!("archive")));
    for row in rows {
        let (status, _, body) = ask(&router, "GET", row["url"].as_str().unwrap(), None).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(row["digest"], format!("sha256:{}", Digest::of(&body)));
    }
    // The digest of the served version is that of its document, whatever was published before.
    let all = json(&router, "/skill/spec/.well-known/agent-skills/index.json").await;
    assert_eq!(all["skills"][0]["digest"], format!("sha256:{}", Digest::of(newer.as_bytes())));
    let legacy = "/collection/team/.well-known/skills";
    let (_, _, body) = ask(&router, "GET", &format!("{legacy}/spec/SKILL.md"), None).await;
    assert_eq!(body, SPEC.as_bytes());
    for (path, expected) in [
        (format!("{legacy}/many/logo.png"), 200),
        (format!("{legacy}/plain/SKILL.md"), 404),
        ("/collection/nothing/.well-known/agent-skills/index.json".to_owned(), 404),
        ("/collection/..%2f/.well-known/skills/index.json".to_owned(), 404),
    ] {
        assert_eq!(ask(&router, "GET", &path, None).await.0.as_u16(), expected, "{path}");
    }
}

#[tokio::test]
async fn long_paths_are_whole_in_the_plain_header_of_an_archive() {
    let registry = registry().await;
    let long = format!("{}/{}/file.md", "folder".repeat(12), "below".repeat(12));
    assert!(long.len() > 100);
    let files = vec![(long.parse().unwrap(), Bytes::from("Text."))];
    let root = "---\nname: long\ndescription: Long paths.\n---\n# Long\n".to_owned();
    let bundle = Bundle::new(root, files).unwrap();
    registry.register_bundle("t", &Layer::Official, "long", bundle).await.unwrap();
    let router = routes(registry, Settings::default());
    let (_, _, body) = ask(&router, "GET", "/.well-known/agent-skills/long.tar.gz", None).await;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(body.as_ref()).read_to_end(&mut bytes).unwrap();
    // As installers read it: name and prefix of each header, without extensions.
    let text = |field: &[u8]| String::from_utf8_lossy(field).trim_end_matches('\0').to_owned();
    let header = &bytes[1024..1536];
    let path = format!("{}/{}", text(&header[345..500]), text(&header[..100]));
    assert_eq!((path.as_str(), header[156]), (long.as_str(), b'0'));
}

#[tokio::test]
async fn what_cannot_be_read_during_an_outage_is_unavailable_and_not_left_out() {
    let store = Arc::new(SharedMemoryStore::default());
    let config = || RegistryConfig::default();
    let writer = Registry::open(Arc::clone(&store) as _, None, config()).unwrap();
    let plain = "# Plain\n\nText.\n".to_owned();
    writer.register_skill("t", &Layer::Official, "plain", plain).await.unwrap();
    store.set_blobs_down(true);
    let reader = Registry::open(Arc::clone(&store) as _, None, config()).unwrap();
    let router = routes(reader, Settings::default());
    let paths =
        ["plain/SKILL.md", "index.json"].map(|it| format!("/.well-known/agent-skills/{it}"));
    for path in &paths {
        let (status, _, body) = ask(&router, "GET", path, None).await;
        let error: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert_eq!(error["error"]["code"], "store_unavailable", "{path}");
    }
    store.set_blobs_down(false);
    for path in &paths {
        assert_eq!(ask(&router, "GET", path, None).await.0, StatusCode::OK, "{path}");
    }
}
