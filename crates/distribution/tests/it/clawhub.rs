//! The registry API of ClawHub clients.

use std::io::Cursor;

use axum::{body::Body, http::Request};
use serde_json::{Value, json};
use skills_core::{Caller, Digest, Layer, caller::AdminName};

use crate::support::{Answer, Site, skill, user};

const ANYONE: Caller = Caller::Anonymous;
const ADMIN: Caller = Caller::Admin(AdminName::AdminKey);

async fn get(site: &Site, caller: &Caller, path: &str) -> Answer {
    let request = Request::get(path).header("host", "skills.example:8080");
    site.send(caller, request.body(Body::empty()).unwrap()).await
}

async fn read(site: &Site, caller: &Caller, path: &str) -> Value {
    let answer = get(site, caller, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", text(&answer));
    serde_json::from_slice(&answer.body).unwrap()
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

async fn send(site: &Site, caller: &Caller, method: &str, path: &str, body: &Value) -> Answer {
    let request = Request::builder().method(method).uri(path).header("host", "skills.example");
    let request = request.header("content-type", "application/json");
    site.send(caller, request.body(Body::from(body.to_string())).unwrap()).await
}

async fn announce(site: &Site, caller: &Caller, path: &str, bytes: &[u8]) -> Answer {
    let file = json!({ "path": path, "size": bytes.len(), "sha256": Digest::of(bytes) });
    send(site, caller, "POST", "/api/v1/skills/-/upload-url", &file).await
}

async fn post_file(site: &Site, caller: &Caller, url: &str, bytes: &[u8]) -> Answer {
    let path = url.strip_prefix("http://skills.example").unwrap();
    site.send(caller, Request::post(path).body(Body::from(bytes.to_vec())).unwrap()).await
}

/// Announces and sends a file. Returns it as a publish names it.
async fn upload(site: &Site, caller: &Caller, path: &str, bytes: &[u8]) -> Value {
    let answer = announce(site, caller, path, bytes).await;
    assert_eq!(answer.status, 200, "{}", text(&answer));
    let ticket: Value = serde_json::from_slice(&answer.body).unwrap();
    let answer = post_file(site, caller, ticket["uploadUrl"].as_str().unwrap(), bytes).await;
    assert_eq!(answer.status, 200, "{}", text(&answer));
    let stored: Value = serde_json::from_slice(&answer.body).unwrap();
    json!({
        "path": path, "size": bytes.len(), "sha256": Digest::of(bytes),
        "storageId": stored["storageId"], "uploadTicket": ticket["uploadTicket"],
    })
}

fn publication(slug: &str, version: &str, files: &[Value]) -> Value {
    json!({
        "slug": slug, "displayName": "X", "version": version, "changelog": "News.",
        "acceptLicenseTerms": true, "tags": ["latest"], "files": files,
    })
}

async fn publish(site: &Site, caller: &Caller, body: &Value) -> Answer {
    send(site, caller, "POST", "/api/v1/skills", body).await
}

/// Publishes a skill of two files.
async fn publish_skill(
    site: &Site,
    caller: &Caller,
    slug: &str,
    version: &str,
    owner: &str,
) -> Answer {
    let root = upload(site, caller, "SKILL.md", skill(slug, version).as_bytes()).await;
    let other = upload(site, caller, "scripts/run.sh", b"#!/bin/sh\n").await;
    let mut body = publication(slug, version, &[root, other]);
    if !owner.is_empty() {
        body["ownerHandle"] = owner.into();
    }
    publish(site, caller, &body).await
}

/// Computes the fingerprint of files that are in the order of the client.
fn fingerprint(files: &[(&str, &[u8])]) -> String {
    let lines = files.iter().map(|(path, bytes)| format!("{path}:{}", Digest::of(bytes)));
    Digest::of(lines.collect::<Vec<_>>().join("\n").as_bytes()).to_string()
}

#[tokio::test]
async fn skills_are_found_listed_and_read_by_version() {
    let site = Site::new();
    let first = skill("pdf", "Reads portable documents.");
    site.put_bundle("pdf", first.clone(), &[("run.sh", b"#!/bin/sh\n", None)]).await;
    site.put(&Layer::Official, "pdf", "Second.").await;
    site.put(&Layer::Market, "sheet", "Tables.").await;
    let known = read(&site, &ANYONE, "/.well-known/clawhub.json").await;
    assert_eq!(known["apiBase"], "http://skills.example:8080");
    let found = read(&site, &ANYONE, "/api/v1/search?q=tables&limit=5").await;
    assert_eq!(found["results"][0]["slug"], "sheet");
    assert_eq!(found["results"][0]["ownerHandle"], "market");
    let exact = read(&site, &ANYONE, "/api/v1/search?q=pdf&mode=exact").await;
    assert_eq!(exact["results"].as_array().unwrap().len(), 1);
    let list = read(&site, &ANYONE, "/api/v1/skills?limit=1").await;
    assert_eq!(list["items"][0]["slug"], "sheet", "the newest first");
    let next = format!("/api/v1/skills?limit=1&cursor={}", list["nextCursor"].as_str().unwrap());
    let next = read(&site, &ANYONE, &next).await;
    assert_eq!((&next["items"][0]["slug"], &next["nextCursor"]), (&json!("pdf"), &Value::Null));
    let prefix = read(&site, &ANYONE, "/api/v1/skills?prefix=sh").await;
    assert_eq!(prefix["items"].as_array().unwrap().len(), 1);

    let pdf = read(&site, &ANYONE, "/api/v1/skills/pdf").await;
    assert_eq!(pdf["latestVersion"]["version"], "1.0.1");
    assert_eq!((&pdf["owner"]["handle"], &pdf["moderation"]), (&json!("official"), &Value::Null));
    assert!(pdf["skill"]["createdAt"].as_u64() <= pdf["skill"]["updatedAt"].as_u64());
    let versions = read(&site, &ANYONE, "/api/v1/skills/pdf/versions").await;
    let versions = versions["items"].as_array().unwrap().clone();
    let names: Vec<&str> = versions.iter().map(|it| it["version"].as_str().unwrap()).collect();
    assert_eq!(names, ["1.0.1", "1.0.0"]);
    let old = read(&site, &ANYONE, "/api/v1/skills/pdf/versions/1.0.0?ownerHandle=official").await;
    assert_eq!(old["version"]["files"][1]["path"], "run.sh");
    let file = get(&site, &ANYONE, "/api/v1/skills/pdf/file?path=SKILL.md&version=1.0.0").await;
    assert_eq!(text(&file), first);
    let zip = get(&site, &ANYONE, "/api/v1/download?slug=pdf&version=1.0.0").await;
    let zip = zip::ZipArchive::new(Cursor::new(zip.body.clone())).unwrap();
    assert_eq!(zip.len(), 2);
    let hash = fingerprint(&[("run.sh", b"#!/bin/sh\n"), ("SKILL.md", first.as_bytes())]);
    let resolved = read(&site, &ANYONE, &format!("/api/v1/resolve?slug=pdf&hash={hash}")).await;
    assert_eq!(resolved["match"]["version"], "1.0.0");
    assert_eq!(resolved["latestVersion"]["version"], "1.0.1");
    let install = read(&site, &ANYONE, "/api/v1/skills/pdf/install").await;
    let url = install["archive"]["downloadUrl"].as_str().unwrap();
    assert_eq!(
        get(&site, &ANYONE, url.strip_prefix("http://skills.example:8080").unwrap()).await.status,
        200
    );
}

#[tokio::test]
async fn a_document_without_frontmatter_is_known_as_published_and_as_served() {
    let site = Site::new();
    let body = "# Plain\n\nDoes it.\n";
    site.registry.register_skill("t", &Layer::Official, "plain", body.to_owned()).await.unwrap();
    let served = get(&site, &ANYONE, "/api/v1/skills/plain/file?path=SKILL.md").await;
    assert!(text(&served).starts_with("---\n") && text(&served).ends_with(body));
    for document in [body.as_bytes(), &served.body] {
        let hash = fingerprint(&[("SKILL.md", document)]);
        let resolved =
            read(&site, &ANYONE, &format!("/api/v1/resolve?slug=plain&hash={hash}")).await;
        assert_eq!(resolved["match"]["version"], "1.0.0");
    }
}

#[tokio::test]
async fn a_publish_goes_to_the_private_tier_of_its_caller() {
    let (site, ann, bob) = (Site::new(), user("ann"), user("bob"));
    let who = read(&site, &ann, "/api/v1/whoami").await;
    assert_eq!((&who["user"]["handle"], &who["user"]["role"]), (&json!("ann"), &json!("user")));
    assert_eq!(get(&site, &ANYONE, "/api/v1/whoami").await.status, 401);
    let answer = publish_skill(&site, &ann, "notes", "2.1.0", "ann").await;
    assert_eq!(answer.status, 200, "{}", text(&answer));
    let published: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(published["publicationStatus"], "published");
    let notes = read(&site, &ann, "/api/v1/skills/notes?ownerHandle=ann").await;
    assert_eq!(notes["latestVersion"]["version"], "2.1.0");
    assert_eq!(notes["owner"]["handle"], "ann");
    let versions = read(&site, &ann, "/api/v1/skills/notes/versions").await;
    assert_eq!(versions["items"][0]["changelog"], "News.");
    for (caller, path) in [
        (&bob, "/api/v1/skills/notes"),
        (&ANYONE, "/api/v1/skills/notes?ownerHandle=ann"),
        (&bob, "/api/v1/download?slug=notes&ownerHandle=ann"),
        (&ANYONE, "/api/v1/resolve?slug=notes&hash=x"),
    ] {
        let answer = get(&site, caller, path).await;
        assert_eq!((answer.status, text(&answer)), (404, "Skill not found".to_owned()), "{path}");
    }
    for owner in ["official", "market"] {
        assert_eq!(publish_skill(&site, &ann, "notes", "3.0.0", owner).await.status, 403);
        assert_eq!(publish_skill(&site, &ADMIN, "notes", "3.0.0", owner).await.status, 200);
    }
    assert_eq!(publish_skill(&site, &ADMIN, "notes", "3.0.1", "admin").await.status, 403);
    assert_eq!(publish_skill(&site, &ann, "notes", "3.0.1", "bob").await.status, 404);
    let own = read(&site, &ann, "/api/v1/skills/notes").await;
    assert_eq!(own["latestVersion"]["version"], "2.1.0", "private before official");
    let theirs = read(&site, &bob, "/api/v1/skills/notes").await;
    assert_eq!(theirs["owner"]["handle"], "official");
}

#[tokio::test]
async fn versions_rise_and_tags_become_labels() {
    let (site, ann) = (Site::new(), user("ann"));
    assert_eq!(publish_skill(&site, &ann, "notes", "1.1.0", "").await.status, 200);
    for (version, status) in [("1.1.0", 409), ("1.0.9", 409), ("2", 400), ("2.0.0-rc.1", 400)] {
        let answer = publish_skill(&site, &ann, "notes", version, "").await;
        assert_eq!(answer.status, status, "{version}: {}", text(&answer));
    }
    let root = upload(&site, &ann, "SKILL.md", skill("notes", "new").as_bytes()).await;
    let mut body = publication("notes", "1.2.0", &[root]);
    body["tags"] = json!(["latest", "beta"]);
    assert_eq!(publish(&site, &ann, &body).await.status, 200);
    let notes = read(&site, &ann, "/api/v1/skills/notes").await;
    assert_eq!(notes["skill"]["tags"], json!({ "beta": "1.2.0", "latest": "1.2.0" }));
    let tagged = get(&site, &ann, "/api/v1/download?slug=notes&tag=beta").await;
    assert_eq!(tagged.status, 200);
    // The same files again are no version, whatever number they are given.
    let root = upload(&site, &ann, "SKILL.md", skill("notes", "new").as_bytes()).await;
    let answer = publish(&site, &ann, &publication("notes", "1.3.0", &[root])).await;
    assert_eq!(answer.status, 409, "{}", text(&answer));
    assert!(text(&answer).contains("1.2.0"), "{}", text(&answer));
    let notes = read(&site, &ann, "/api/v1/skills/notes").await;
    assert_eq!(notes["latestVersion"]["version"], "1.2.0");
}

#[tokio::test]
async fn withdrawn_skills_and_versions_are_gone_until_they_are_restored() {
    let (site, ann) = (Site::new(), user("ann"));
    for version in ["1.0.0", "1.1.0"] {
        assert_eq!(publish_skill(&site, &ann, "notes", version, "").await.status, 200);
    }
    let old = "/api/v1/download?slug=notes&version=1.0.0";
    let versions = "/api/v1/skills/notes/versions";
    let change = async |method, path: &str| send(&site, &ann, method, path, &json!({})).await;
    assert_eq!(change("DELETE", &format!("{versions}/1.0.0")).await.status, 200);
    assert_eq!(get(&site, &ann, old).await.status, 410);
    assert_eq!(change("POST", &format!("{versions}/1.0.0/restore")).await.status, 200);
    assert_eq!(get(&site, &ann, old).await.status, 200);
    let bob = send(&site, &user("bob"), "DELETE", "/api/v1/skills/notes", &json!({})).await;
    assert_eq!(bob.status, 404);
    assert_eq!(
        send(&site, &ANYONE, "DELETE", "/api/v1/skills/notes", &json!({})).await.status,
        401
    );
    assert_eq!(change("DELETE", "/api/v1/skills/notes").await.status, 200);
    for path in ["/api/v1/skills/notes", "/api/v1/download?slug=notes"] {
        assert_eq!(get(&site, &ann, path).await.status, 410, "{path}");
    }
    // A publish asks for the last version, and has to be higher.
    let resolved = read(&site, &ann, "/api/v1/resolve?slug=notes&hash=x&ownerHandle=ann").await;
    assert_eq!(resolved["latestVersion"]["version"], "1.1.0");
    assert_eq!(publish_skill(&site, &ann, "notes", "1.1.0", "").await.status, 409);
    let answer = change("POST", "/api/v1/skills/notes/undelete").await;
    assert_eq!(answer.status, 200, "{}", text(&answer));
    assert_eq!(get(&site, &ann, "/api/v1/download?slug=notes").await.status, 200);
    assert_eq!(publish_skill(&site, &ann, "notes", "1.2.0", "").await.status, 200);
}

#[tokio::test]
async fn an_upload_is_bound_to_its_caller_its_announcement_and_one_publish() {
    let (site, ann, bob) = (Site::new(), user("ann"), user("bob"));
    let document = skill("notes", "Text.");
    assert_eq!(announce(&site, &ANYONE, "SKILL.md", b"x").await.status, 401);
    let ticket = announce(&site, &ann, "SKILL.md", document.as_bytes()).await;
    let ticket: Value = serde_json::from_slice(&ticket.body).unwrap();
    let url = ticket["uploadUrl"].as_str().unwrap();
    for (caller, bytes, status) in [
        (&ANYONE, document.as_bytes(), 401),
        (&bob, document.as_bytes(), 400),
        (&ann, b"other".as_slice(), 400),
        (&ann, document.replace("Text", "Tex!").as_bytes(), 400),
        (&ann, document.as_bytes(), 200),
    ] {
        let answer = post_file(&site, caller, url, bytes).await;
        assert_eq!(answer.status, status, "{}", text(&answer));
    }
    let root = upload(&site, &ann, "SKILL.md", document.as_bytes()).await;
    let with = |field: &str, value: Value| {
        let mut root = root.clone();
        root[field] = value;
        publication("notes", "1.0.0", &[root])
    };
    for body in [
        with("storageId", json!("0")),
        with("size", json!(1)),
        with("sha256", json!(Digest::of(b"x"))),
        with("path", json!("../SKILL.md")),
    ] {
        let answer = publish(&site, &ann, &body).await;
        assert_eq!(answer.status, 400, "{body}: {}", text(&answer));
        assert!(!text(&answer).is_empty());
    }
    let good = publication("notes", "1.0.0", std::slice::from_ref(&root));
    assert_eq!(publish(&site, &bob, &good).await.status, 400, "uploads of another key");
    // A refused publish ends its uploads.
    assert_eq!(publish(&site, &ann, &good).await.status, 400);
    let root = upload(&site, &ann, "SKILL.md", document.as_bytes()).await;
    let good = publication("notes", "1.0.0", &[root]);
    assert_eq!(publish(&site, &ann, &good).await.status, 200);
    let replay = publish(&site, &ann, &good).await;
    assert_eq!(replay.status, 400, "{}", text(&replay));
}

#[tokio::test]
async fn hostile_publishes_are_refused_with_a_sentence() {
    let (site, ann) = (Site::new(), user("ann"));
    for path in ["../x", "/etc/passwd", "a/../b", "a\\b", "", "C:/x", ".git/config"] {
        let answer = announce(&site, &ann, path, b"x").await;
        assert_eq!(answer.status, 400, "{path}: {}", text(&answer));
    }
    let large = json!({ "path": "a", "size": (10 << 20) + 1, "sha256": Digest::of(b"") });
    let answer = send(&site, &ann, "POST", "/api/v1/skills/-/upload-url", &large).await;
    assert_eq!(answer.status, 413, "{}", text(&answer));
    let root = || upload(&site, &ann, "SKILL.md", b"---\nname: a\ndescription: d\n---\n");
    let cases = [
        publication("../a", "1.0.0", &[root().await]),
        publication("A", "1.0.0", &[root().await]),
        publication("a", "1.0.0", &[]),
        publication("a", "1.0.0", &[upload(&site, &ann, "skill.md", b"# A\n\nText.").await]),
        publication("a", "1.0.0", &[upload(&site, &ann, "SKILL.md", &[0xff, 0xfe]).await]),
        publication("a", "1.0.0", &[root().await, root().await]),
        publication("a", "1.0.0", &[root().await, upload(&site, &ann, "skill.MD", b"x").await]),
        publication("a", "1.0.0", &vec![root().await; 2001]),
        publication("a_b", "1.0.0", &[upload(&site, &ann, "SKILL.md", b"# \n").await]),
    ];
    for body in cases {
        let answer = publish(&site, &ann, &body).await;
        let shown: String = body.to_string().chars().take(200).collect();
        assert_eq!(answer.status, 400, "{shown}: {}", text(&answer));
    }
    let mut tagged = publication("a", "1.0.0", &[root().await]);
    tagged["tags"] = json!(["Not A Label"]);
    assert_eq!(publish(&site, &ann, &tagged).await.status, 400);
    assert_eq!(publish(&site, &ann, &json!([])).await.status, 400);
    let multipart = Request::post("/api/v1/skills").header("content-type", "multipart/form-data");
    let answer = site.send(&ann, multipart.body(Body::from("x")).unwrap()).await;
    assert_eq!(answer.status, 415);
    assert_eq!(read(&site, &ann, "/api/v1/skills").await["items"], json!([]));
}

#[tokio::test]
async fn other_functions_are_refused_without_a_retry() {
    let (site, ann) = (Site::new(), user("ann"));
    for (method, path) in [
        ("POST", "/api/v1/stars/pdf"),
        ("GET", "/api/v1/packages"),
        ("GET", "/api/v1/skills/pdf/verify"),
        ("POST", "/api/v1/skills/pdf/report"),
        ("GET", "/api/v1/trending"),
    ] {
        let answer = send(&site, &ann, method, path, &json!({})).await;
        assert!((400..429).contains(&answer.status), "{path}: {}", answer.status);
        assert!(!text(&answer).contains('{'), "{path}: {}", text(&answer));
    }
    for path in [
        "/api/v1/skills/..%2f..%2fetc",
        "/api/v1/skills/pdf/file?path=../../etc/passwd",
        "/api/v1/download?slug=../x",
        "/api/v1/resolve",
    ] {
        assert_eq!(get(&site, &ann, path).await.status, 404, "{path}");
    }
    assert_eq!(get(&site, &ann, "/api/v1/skills?cursor=x").await.status, 400);
}
