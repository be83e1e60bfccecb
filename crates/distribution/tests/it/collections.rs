//! Collections as repositories, plugins and entries of the marketplace.

use std::sync::Arc;

use axum::{body::Body, http::Request};
use serde_json::{Value, json};
use skills_core::{Caller, EntryKey, EntryKind, Layer, SkillCollection};
use skills_distribution::Settings;
use skills_registry::{LabelRequest, PublishRequest, SkillRegistry, YankRequest};

use crate::support::{Site, user};

const ANYONE: Caller = Caller::Anonymous;

async fn collect(site: &Site, layer: &Layer, name: &str, skills: &[&str]) {
    let skills = skills.iter().map(|&skill| skill.to_owned()).collect();
    let (title, description) = ("Office".to_owned(), "Documents\nand tables.".to_owned());
    let collection = SkillCollection { title, description, skills };
    let stored =
        site.registry.put_collection("t", layer, name, collection, PublishRequest::default());
    stored.await.unwrap();
}

/// A server with a public address, and a collection of two of its three skills.
async fn office() -> Site {
    let first = Site::new();
    let public_url = Some("https://skills.example".parse().unwrap());
    let settings = Settings { public_url, ..Settings::default() };
    let site = Site::with(Arc::clone(&first.registry), settings);
    site.put(&Layer::Official, "pdf", "One.").await;
    site.put(&Layer::Official, "pdf", "Two.").await;
    site.put(&Layer::Official, "sheet", "One.").await;
    site.put(&Layer::Official, "other", "One.").await;
    let label = LabelRequest {
        id: "pdf".to_owned(),
        tier: None,
        label: "tested".parse().unwrap(),
        version: Some("1".parse().unwrap()),
        expected: None,
    };
    (&*site.registry as &dyn SkillRegistry).set_label(EntryKind::Skill, &label).await.unwrap();
    collect(&site, &Layer::Official, "office", &["pdf@tested", "sheet", "missing"]).await;
    site
}

#[tokio::test]
async fn a_collection_is_a_repository_and_one_plugin() {
    let site = office().await;
    let (main, objects) = site.clone_view(&ANYONE, "collection/office").await;
    let files = objects.files(&main);
    let text = |path: &str| String::from_utf8_lossy(&files[path].1).into_owned();
    let value = |path: &str| serde_json::from_str::<Value>(&text(path)).unwrap();
    assert!(text("skills/pdf/SKILL.md").contains("One."), "the version of the label");
    assert!(!files.keys().any(|path| path.contains("other")));
    let manifest = value("plugin.json");
    assert_eq!(manifest["name"], "collection-office");
    assert_eq!(manifest["description"], "Documents and tables.");
    assert_eq!(value("mcp.json")["mcpServers"]["skills"]["url"], "https://skills.example/mcp");
    for file in ["plugin.json", "mcp.json", "skills/pdf/SKILL.md", "skills/sheet/SKILL.md"] {
        assert_eq!(text(&format!("dist/collection-office/{file}")), text(file));
    }
    assert_eq!(value("dist/collection-office/.codex-plugin/plugin.json")["skills"], "./skills/");
    for (market, count) in [(".claude-plugin", 3), (".agents/plugins", 3), (".cursor-plugin", 3)] {
        let market = value(&format!("{market}/marketplace.json"));
        assert_eq!(market["plugins"].as_array().unwrap().len(), count);
    }
    let whole = &value(".claude-plugin/marketplace.json")["plugins"][2];
    assert_eq!((&whole["name"], &whole["source"]), (&json!("collection-office"), &json!("./")));
    assert_eq!(whole["skills"], json!(["./skills/pdf", "./skills/sheet"]));
    // Other repositories are as without collections.
    let (main, objects) = site.clone_view(&ANYONE, "all").await;
    let files = objects.files(&main);
    assert!(!files.contains_key("mcp.json") && files.contains_key("skills/other/SKILL.md"));
}

#[tokio::test]
async fn a_change_of_a_skill_is_fetched_alone() {
    let site = office().await;
    let view = "collection/office";
    let (before, mut objects) = site.clone_view(&ANYONE, view).await;
    site.put(&Layer::Official, "sheet", "Two.").await;
    let after = site.main(&ANYONE, view).await;
    let arguments = [format!("want {after}"), format!("have {before}"), "done".to_owned()];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    site.fetch(&ANYONE, view, &arguments, &mut objects).await;
    let files = objects.files(&after);
    assert!(String::from_utf8_lossy(&files["skills/sheet/SKILL.md"].1).contains("Two."));
    assert_eq!(
        files["dist/collection-office/skills/sheet/SKILL.md"],
        files["skills/sheet/SKILL.md"]
    );
}

#[tokio::test]
async fn the_marketplace_lists_collections_and_private_ones_ask_for_a_key() {
    let (site, ann) = (office().await, user("ann"));
    collect(&site, &Layer::Private("ann".parse().unwrap()), "mine", &["sheet"]).await;
    collect(&site, &Layer::Official, "empty", &["missing"]).await;
    let names = async |caller: &Caller| {
        let request = Request::get("/.claude-plugin/marketplace.json").body(Body::empty()).unwrap();
        let market: Value = serde_json::from_slice(&site.send(caller, request).await.body).unwrap();
        let plugins = market["plugins"].as_array().unwrap().clone();
        plugins.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&ANYONE).await, ["other", "pdf", "sheet", "collection-office"]);
    let own = ["other", "pdf", "sheet", "collection-mine", "collection-office"];
    assert_eq!(names(&ann).await, own);
    let path = |name: &str| format!("/git/collection/{name}.git/info/refs?service=git-upload-pack");
    for (caller, name, status) in [
        (&ann, "mine", 200),
        (&ANYONE, "mine", 401),
        (&user("bob"), "mine", 404),
        (&ANYONE, "nothing", 401),
        (&ann, "nothing", 404),
        (&ANYONE, "office", 200),
        (&ANYONE, "..%2fx", 404),
    ] {
        assert_eq!(site.get(caller, &path(name)).await.status, status, "{name} {caller:?}");
    }
}

/// Returns name, description and version of the plugins of a marketplace file.
fn plugins(market: &Value) -> Vec<[String; 3]> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let fields = |it: &Value| ["name", "description", "version"].map(|field| text(&it[field]));
    market["plugins"].as_array().unwrap().iter().map(fields).collect()
}

#[tokio::test]
async fn a_marketplace_has_the_versions_of_the_git_remotes() {
    let (site, ann) = (office().await, user("ann"));
    let own = Layer::Private("ann".parse().unwrap());
    collect(&site, &own, "mine", &["sheet", "pdf@1", "other"]).await;
    collect(&site, &Layer::Official, "all-three", &["other", "pdf", "sheet"]).await;
    site.put(&own, "sheet", "Own.").await;
    // After each change, incrementally and on a server that begins anew.
    for step in 0..6 {
        match step {
            0 => site.put(&Layer::Official, "pdf", "Three.").await,
            1 => site.put(&Layer::Market, "other", "Shadowed.").await,
            2 => drop(site.registry.remove_skill("t", &Layer::Official, "other").await.unwrap()),
            3 => site.put(&own, "pdf", "Own.").await,
            4 => yank(&site, "pdf", "2").await,
            _ => site.put(&Layer::Official, "unrelated", "One.").await,
        }
        let public_url = Some("https://skills.example".parse().unwrap());
        let settings = Settings { public_url, is_private: true, ..Settings::default() };
        let fresh = Site::with(Arc::clone(&site.registry), settings);
        for (caller, view) in [(&ANYONE, "all"), (&ann, "mine")] {
            let market = async |site: &Site| -> Vec<[String; 3]> {
                let path = "/.claude-plugin/marketplace.json";
                plugins(&serde_json::from_slice(&site.get(caller, path).await.body).unwrap())
            };
            let listed = market(&site).await;
            assert_eq!(market(&fresh).await, listed, "{step} {view}");
            let remote = async |view: &str| {
                let (main, objects) = site.clone_view(caller, view).await;
                let file = objects.files(&main)[".claude-plugin/marketplace.json"].1.clone();
                plugins(&serde_json::from_slice(&file).unwrap())
            };
            let (collections, skills): (Vec<_>, Vec<_>) =
                listed.into_iter().partition(|[name, ..]| name.starts_with("collection-"));
            assert_eq!(skills, remote(view).await, "{step} {view}");
            assert!(!collections.is_empty());
            for collection in collections {
                let name = collection[0].strip_prefix("collection-").unwrap();
                let own = remote(&format!("collection/{name}")).await;
                assert_eq!(own.last(), Some(&collection), "{step} {name} {view}");
            }
        }
    }
}

/// Yanks a version and removes its content.
async fn yank(site: &Site, id: &str, version: &str) {
    let request = YankRequest {
        id: id.to_owned(),
        tier: None,
        version: version.parse().unwrap(),
        reason: "a secret".to_owned(),
        undo: false,
        purge: true,
    };
    let key = EntryKey { kind: EntryKind::Skill, layer: Layer::Official, id: id.into() };
    Arc::clone(&site.registry).yank("t", &key, &request).await.unwrap();
}
