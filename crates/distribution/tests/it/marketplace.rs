//! The marketplace over HTTP, its archives, and search for installers.

use std::{
    io::{Cursor, Read as _},
    sync::Arc,
};

use axum::{body::Body, http::Request};
use serde_json::Value;
use skills_core::{Caller, Digest, Layer};
use skills_distribution::Settings;
use skills_registry::{Registry, RegistryConfig};
use skills_store::SharedMemoryStore;

use crate::support::{Site, skill, user};

const ANYONE: Caller = Caller::Anonymous;

async fn json(site: &Site, caller: &Caller, path: &str) -> Value {
    let request = Request::get(path).header("host", "skills.example:8080");
    let answer = site.send(caller, request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, 200, "{path}");
    serde_json::from_slice(&answer.body).unwrap()
}

#[tokio::test]
async fn without_a_public_https_address_plugins_come_from_git() {
    let site = Site::new();
    site.put(&Layer::Official, "pdf", "Text.").await;
    site.put(&Layer::Private("ann".parse().unwrap()), "secret", "Text.").await;
    let path = "/.claude-plugin/marketplace.json";
    let market = json(&site, &ANYONE, path).await;
    assert_eq!(market["name"], "skills");
    assert_eq!(market["plugins"].as_array().unwrap().len(), 1);
    let source = &market["plugins"][0]["source"];
    assert_eq!(source["source"], "git-subdir");
    assert_eq!(source["url"], "http://skills.example:8080/git/all.git");
    assert_eq!(source["path"], "skills/pdf");
    let own = json(&site, &user("ann"), path).await;
    assert_eq!(own["plugins"].as_array().unwrap().len(), 2);
    assert_eq!(own["plugins"][1]["source"]["url"], "http://skills.example:8080/git/mine.git");
}

#[tokio::test]
async fn with_a_public_https_address_archives_have_pinned_digests() {
    let first = Site::new();
    let files: [(&str, &[u8], Option<bool>); 2] =
        [("run.sh", b"#!/bin/sh\n", None), ("b/c.bin", &[0, 255, 13, 10], None)];
    first.put_bundle("pdf", skill("pdf", "Text."), &files).await;
    let settings = || Settings {
        public_url: Some("https://skills.example".parse().unwrap()),
        ..Settings::default()
    };
    let site = Site::with(Arc::clone(&first.registry), settings());
    let market = json(&site, &ANYONE, "/.claude-plugin/marketplace.json").await;
    let source = &market["plugins"][0]["source"];
    assert_eq!(source["url"], "https://skills.example/archive/official/pdf/1.zip");
    let archive = site.get(&ANYONE, "/archive/official/pdf/1.zip").await;
    assert_eq!(source["sha256"].as_str(), Some(&*Digest::of(&archive.body).to_string()));
    let mut zip = zip::ZipArchive::new(Cursor::new(archive.body.clone())).unwrap();
    let names: Vec<String> = zip.file_names().map(|name| name.unwrap().into_owned()).collect();
    assert_eq!(names, ["SKILL.md", "b/c.bin", "run.sh"]);
    let mut script = zip.by_name("run.sh").unwrap();
    assert_eq!(script.unix_mode().map(|mode| mode & 0o777), Some(0o755));
    let mut text = String::new();
    script.read_to_string(&mut text).unwrap();
    assert_eq!(text, "#!/bin/sh\n");
    // Another server packs the same bytes.
    let other = Site::with(Arc::clone(&first.registry), settings());
    assert_eq!(other.get(&ANYONE, "/archive/official/pdf/1.zip").await.body, archive.body);
    // Private skills come by git, because installers send no key for archives.
    site.put(&Layer::Private("ann".parse().unwrap()), "secret", "Text.").await;
    let own = json(&site, &user("ann"), "/.claude-plugin/marketplace.json").await;
    assert_eq!(own["plugins"][1]["source"]["source"], "git-subdir");
    for (caller, path, expected) in [
        (&ANYONE, "/archive/private/secret/1.zip", 401),
        (&user("bob"), "/archive/private/secret/1.zip", 404),
        (&user("ann"), "/archive/private/secret/1.zip", 200),
        (&ANYONE, "/archive/official/pdf/2.zip", 404),
        (&ANYONE, "/archive/official/pdf/x.zip", 404),
        (&ANYONE, "/archive/nowhere/pdf/1.zip", 404),
        (&ANYONE, "/archive/official/..%2f/1.zip", 404),
    ] {
        assert_eq!(site.get(caller, path).await.status, expected, "{path} {caller:?}");
    }
}

#[tokio::test]
async fn search_names_addresses_that_installers_take() {
    let site = Site::new();
    site.put(&Layer::Official, "pdf", "Reads portable documents.").await;
    site.put(&Layer::Official, "sheet", "Reads tables.").await;
    let found = json(&site, &ANYONE, "/api/search?q=portable&limit=5").await;
    assert_eq!(found["skills"].as_array().unwrap().len(), 1);
    assert_eq!(found["skills"][0]["name"], "pdf");
    assert_eq!(found["skills"][0]["source"], "http://skills.example:8080/skill/pdf");
    assert_eq!(found["skills"][0]["installs"], 0);
}

#[tokio::test]
async fn what_cannot_be_read_during_an_outage_is_unavailable() {
    let store = Arc::new(SharedMemoryStore::default());
    let writer = Site::on(Arc::clone(&store) as _);
    writer.put(&Layer::Official, "pdf", "Text.").await;
    // Another server, which has read nothing yet.
    store.set_blobs_down(true);
    let site = Site::on(Arc::clone(&store) as _);
    // Names, descriptions and versions are in no file.
    let during = json(&site, &ANYONE, "/.claude-plugin/marketplace.json").await;
    for path in [
        "/git/all.git/info/refs?service=git-upload-pack",
        "/git/skill/pdf.git/info/refs?service=git-upload-pack",
        "/archive/official/pdf/1.zip",
    ] {
        let answer = site.get(&ANYONE, path).await;
        let error: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(
            (answer.status, &error["error"]["code"]),
            (503, &"store_unavailable".into()),
            "{path} {error}"
        );
    }
    store.set_blobs_down(false);
    site.clone_view(&ANYONE, "all").await;
    assert_eq!(json(&Site::on(store), &ANYONE, "/.claude-plugin/marketplace.json").await, during);
    assert_eq!(during["plugins"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn no_plugin_is_left_out_because_its_archive_cannot_be_built_during_an_outage() {
    let store = Arc::new(SharedMemoryStore::default());
    let config = RegistryConfig { blob_cache_bytes: 0, ..RegistryConfig::default() };
    let registry = Registry::open(Arc::clone(&store) as _, None, config).unwrap();
    let public_url = Some("https://skills.example".parse().unwrap());
    let site = Site::with(registry, Settings { public_url, ..Settings::default() });
    site.put(&Layer::Official, "pdf", "Text.").await;
    // The history is in memory, the archive is not.
    site.main(&ANYONE, "all").await;
    store.set_blobs_down(true);
    let path = "/.claude-plugin/marketplace.json";
    assert_eq!(site.get(&ANYONE, path).await.status, 503);
    store.set_blobs_down(false);
    let market = json(&site, &ANYONE, path).await;
    assert_eq!(market["plugins"].as_array().unwrap().len(), 1);
}
