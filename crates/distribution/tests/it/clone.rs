//! What a clone has.

use bytes::Bytes;
use skills_agent_skills::Bundle;
use skills_core::{Caller, Code, Coded as _, EntryKind, Layer, MemoryBudget, Timestamp};
use skills_registry::{BundlePublication, PublishRequest, YankRequest};
use skills_store::{Batch, EntryContent, MemoryStore, Mutation, PublishOptions, Store as _};
use std::sync::Arc;

use crate::support::{Objects, Site, lines, pack_of, read_pack, skill, user};

const ANYONE: Caller = Caller::Anonymous;

#[tokio::test]
async fn files_are_byte_exact_with_their_executable_bits() {
    let site = Site::new();
    let binary: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let files: [(&str, &[u8], Option<bool>); 4] = [
        ("scripts/run.sh", b"#!/bin/sh\r\n", None),
        ("scripts/tool", b"binary", Some(true)),
        ("notes.txt", b"#!not a script", Some(false)),
        ("assets/deep/er/logo.png", &binary, None),
    ];
    let root = skill("pdf", "Text.\r\n");
    site.put_bundle("pdf", root.clone(), &files).await;
    let (main, objects) = site.clone_view(&ANYONE, "all").await;
    let cloned = objects.files(&main);
    let file = |path: &str| &cloned[&format!("skills/pdf/{path}")];
    assert_eq!(file("SKILL.md"), &("100644".to_owned(), root.into_bytes()));
    for ((path, bytes, _), mode) in files.iter().zip(["100755", "100755", "100644", "100644"]) {
        assert_eq!(file(path), &(mode.to_owned(), bytes.to_vec()), "{path}");
    }
    let wrapped = cloned.keys().filter(|path| path.starts_with("dist/pdf/skills/pdf/")).count();
    assert_eq!(wrapped, 5);
}

#[tokio::test]
async fn files_that_git_reads_for_itself_are_in_no_tree() {
    let site = Site::new();
    let files: [(&str, &[u8], Option<bool>); 6] = [
        (".gitattributes", b"* text eol=crlf\n", None),
        (".gitignore", b"*.pyc\n", None),
        ("a/.GITMODULES", b"[submodule \"../x\"]\n", None),
        ("a/b.md", b"B\n", None),
        ("gitmod~1/c.md", b"C\n", None),
        (".gitmodules/d.md", b"D\n", None),
    ];
    site.put_bundle("pdf", skill("pdf", "Text."), &files).await;
    let (main, objects) = site.clone_view(&ANYONE, "all").await;
    let cloned = objects.files(&main);
    let paths = cloned.keys().filter_map(|path| path.strip_prefix("skills/pdf/"));
    assert_eq!(paths.collect::<Vec<_>>(), [".gitignore", "SKILL.md", "a/b.md"]);
    let archive = site.get(&ANYONE, "/archive/official/pdf/1.zip").await;
    assert_eq!(archive.status, 200);
    for (path, _, _) in files {
        let bytes = path.as_bytes();
        assert!(archive.body.windows(bytes.len()).any(|name| name == bytes), "{path}");
    }
}

#[tokio::test]
async fn the_tree_has_what_every_client_reads() {
    let site = Site::new();
    site.put(&Layer::Official, "pdf", "Text.").await;
    // Without frontmatter, and with a name that Agent Skills may not have.
    let plain = "# Plain\n\nDoes it plainly.\n".to_owned();
    site.registry.register_skill("t", &Layer::Market, "plain", plain).await.unwrap();
    let other = "# Other\n\nText.\n".to_owned();
    site.registry.register_skill("t", &Layer::Market, "not_a_name", other).await.unwrap();
    let (main, objects) = site.clone_view(&ANYONE, "all").await;
    let files = objects.files(&main);
    let paths: Vec<&str> = files.keys().map(String::as_str).collect();
    let expected = [
        ".agents/plugins/marketplace.json",
        ".claude-plugin/marketplace.json",
        ".cursor-plugin/marketplace.json",
        "README.md",
        "dist/pdf/.codex-plugin/plugin.json",
        "dist/pdf/.cursor-plugin/plugin.json",
        "dist/pdf/plugin.json",
        "dist/pdf/skills/pdf/SKILL.md",
        "dist/plain/.codex-plugin/plugin.json",
        "dist/plain/.cursor-plugin/plugin.json",
        "dist/plain/plugin.json",
        "dist/plain/skills/plain/SKILL.md",
        "plugin.json",
        "skills/pdf/SKILL.md",
        "skills/plain/SKILL.md",
    ];
    assert_eq!(paths, expected);
    let json = |path: &str| serde_json::from_slice::<serde_json::Value>(&files[path].1).unwrap();
    let claude = json(".claude-plugin/marketplace.json");
    assert_eq!(claude["plugins"][1]["source"], "./skills/plain");
    assert_eq!(
        json(".agents/plugins/marketplace.json")["plugins"][0]["source"]["path"],
        "./dist/pdf"
    );
    assert_eq!(json("dist/pdf/plugin.json")["version"], "1.0.0");
    let plain = String::from_utf8(files["skills/plain/SKILL.md"].1.clone()).unwrap();
    // The order of generated fields is that of the JSON library's maps.
    assert!(plain.starts_with("---\n") && plain.contains("name: \"plain\"\n"));
    assert!(plain.ends_with("# Plain\n\nDoes it plainly.\n"));
}

#[tokio::test]
async fn each_change_is_a_commit_and_ids_depend_on_the_log_alone() {
    let site = Site::new();
    let mut incremental = vec![];
    for (id, text) in [("a", "1"), ("b", "1"), ("a", "2")] {
        site.put(&Layer::Official, id, text).await;
        incremental.push(site.main(&ANYONE, "all").await);
    }
    site.registry.remove_skill("t", &Layer::Official, "b").await.unwrap();
    incremental.push(site.main(&ANYONE, "all").await);
    let fresh = Site::of(Arc::clone(&site.registry));
    let (main, objects) = fresh.clone_view(&ANYONE, "all").await;
    let mut log = objects.log(&main);
    log.reverse();
    assert_eq!(log, incremental);
    let messages: Vec<String> = log.iter().map(|id| objects.message(id)).collect();
    assert_eq!(
        messages,
        ["a: version 1 (1.0.0)", "b: version 1 (1.0.0)", "a: version 2 (1.0.1)", "b: removed"]
    );
    // Every commit of the past is complete.
    assert!(objects.files(&log[1]).contains_key("skills/b/SKILL.md"));
    assert!(!objects.files(&main).contains_key("skills/b/SKILL.md"));
}

#[tokio::test]
async fn changes_that_are_stored_together_are_one_commit() {
    let store = Arc::new(MemoryStore::new());
    let put = |id: &str, text: &str| {
        let bundle: Bundle<Bytes> = Bundle::new(skill(id, text), vec![]).unwrap();
        let blobs = vec![(bundle.meta().files[0].digest, skill(id, text).into())];
        Mutation::Put {
            layer: Layer::Official,
            id: id.into(),
            content: EntryContent::Skill(bundle.meta().clone()),
            blobs,
            options: PublishOptions::default(),
        }
    };
    let import: Vec<Mutation> = (0..100).map(|n| put(&format!("skill-{n}"), "Text.")).collect();
    let batch = |mutations| Batch::new("t", mutations);
    store.commit(vec![batch(import)], Timestamp::from_micros(1_000_000)).unwrap();
    let later = vec![batch(vec![put("skill-0", "More.")])];
    store.commit(later, Timestamp::from_micros(3_000_000)).unwrap();
    let site = Site::on(store);
    let (main, objects) = site.clone_view(&ANYONE, "all").await;
    let log = objects.log(&main);
    assert_eq!(log.len(), 2);
    assert!(objects.message(&log[1]).starts_with("100 skills changed\n\nskill-0: version 1"));
    assert_eq!(
        objects.files(&log[1]).keys().filter(|path| path.starts_with("skills/")).count(),
        100
    );
    // The same log has the same ids on every server.
    assert_eq!(main, "c582716422d089ea385e49924b36eaf3db3f1d1c");
}

#[tokio::test]
async fn an_import_is_one_commit_whatever_its_size() {
    let site = Site::new();
    site.put(&Layer::Official, "before", "Text.").await;
    let publication = |id: String| BundlePublication {
        bundle: Bundle::new(skill(&id, "Text."), vec![]).unwrap(),
        id,
        request: PublishRequest::default(),
        label: None,
    };
    // More than the writer thread commits together of its own accord, and one that is refused.
    let mut import: Vec<BundlePublication> =
        (0..1200).map(|number| publication(format!("skill-{number}"))).collect();
    import.insert(700, publication("Not an id".to_owned()));
    let results = site.registry.publish_bundles("t", &Layer::Official, import).await.unwrap();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1200);
    assert_eq!(results[700].as_ref().unwrap_err().code(), Code::InvalidInput);
    let (main, objects) = site.clone_view(&ANYONE, "all").await;
    let log = objects.log(&main);
    assert_eq!(log.len(), 2);
    assert!(objects.message(&main).starts_with("1200 skills changed\n"));
}

#[tokio::test]
async fn a_purge_rewrites_the_history_from_its_version_on() {
    let site = Site::new();
    site.put(&Layer::Official, "a", "1").await;
    let first = site.main(&ANYONE, "all").await;
    site.put(&Layer::Official, "a", "secret").await;
    let second = site.main(&ANYONE, "all").await;
    site.put(&Layer::Official, "a", "3").await;
    let third = site.main(&ANYONE, "all").await;
    let purge = YankRequest {
        id: "a".to_owned(),
        tier: None,
        version: "2".parse().unwrap(),
        reason: "a secret".to_owned(),
        undo: false,
        purge: true,
    };
    let view = Arc::clone(&site.registry);
    view.yank("t", &key("a"), &purge).await.unwrap();
    let (main, objects) = site.clone_view(&ANYONE, "all").await;
    assert!(main != third);
    let log = objects.log(&main);
    assert_eq!(log.last(), Some(&first));
    assert!(!log.contains(&second));
    let secret =
        objects.0.values().any(|(_, bytes)| bytes.windows(6).any(|text| text == b"secret"));
    assert!(!secret);
    let lost = format!("want {second}");
    let answer =
        site.post(&ANYONE, "all", 2, &["command=fetch", "0001", &lost, "done", "0000"]).await;
    assert_eq!(lines(&answer.body), [format!("ERR upload-pack: not our ref {second}")]);
}

fn key(id: &str) -> skills_core::EntryKey {
    skills_core::EntryKey { kind: EntryKind::Skill, layer: Layer::Official, id: id.into() }
}

#[tokio::test]
async fn views_have_the_skills_of_their_caller_alone() {
    let site = Site::new();
    let (ann, bob) = (user("ann"), user("bob"));
    site.put(&Layer::Official, "shared", "Official.").await;
    site.put(&Layer::Market, "shared", "Market.").await;
    site.put(&Layer::Private("ann".parse().unwrap()), "shared", "Private.").await;
    site.put(&Layer::Private("ann".parse().unwrap()), "secret", "Private.").await;
    let text = async |caller: &Caller, view: &str, id: &str| {
        let (main, objects) = site.clone_view(caller, view).await;
        let file = objects.files(&main).remove(&format!("skills/{id}/SKILL.md"));
        file.map(|(_, bytes)| String::from_utf8(bytes).unwrap().lines().last().unwrap().to_owned())
    };
    for (caller, view, expected) in [
        (&ANYONE, "all", "Official."),
        (&ann, "all", "Official."),
        (&ANYONE, "market", "Market."),
        (&ann, "mine", "Private."),
        (&ann, "private", "Private."),
        (&bob, "mine", "Official."),
        (&ann, "skill/shared", "Private."),
        (&bob, "skill/shared", "Official."),
    ] {
        let shared = text(caller, view, "shared").await;
        assert_eq!(shared.as_deref(), Some(expected), "{view} {caller:?}");
    }
    assert_eq!(text(&ann, "mine", "secret").await.as_deref(), Some("Private."));
    assert_eq!(text(&bob, "mine", "secret").await, None);
    // A commit of another's view is not a valid want, and a private skill does not exist for others.
    let private = site.main(&ann, "mine").await;
    let want = format!("want {private}");
    let answer =
        site.post(&bob, "mine", 2, &["command=fetch", "0001", &want, "done", "0000"]).await;
    assert!(lines(&answer.body)[0].starts_with("ERR upload-pack: not our ref"));
    let hidden = site.get(&bob, "/git/skill/secret.git/info/refs?service=git-upload-pack").await;
    assert_eq!(hidden.status, 404);
    for view in ["mine", "private"] {
        let target = format!("/git/{view}.git/info/refs?service=git-upload-pack");
        assert_eq!(site.get(&ANYONE, &target).await.status, 401, "{view}");
    }
}

#[tokio::test]
async fn clients_of_protocol_0_and_1_clone_too() {
    let site = Site::new();
    site.put(&Layer::Official, "a", "1").await;
    site.put(&Layer::Official, "a", "2").await;
    let main = site.main(&ANYONE, "all").await;
    let refs = site.get(&ANYONE, "/git/all.git/info/refs?service=git-upload-pack").await;
    let text = String::from_utf8_lossy(&refs.body).into_owned();
    assert!(text.starts_with("001e# service=git-upload-pack\n0000"), "{text}");
    assert!(
        text.contains(&format!("{main} HEAD\0")) && text.contains("symref=HEAD:refs/heads/main")
    );
    assert_eq!(refs.headers["content-type"], "application/x-git-upload-pack-advertisement");
    assert_eq!(refs.headers["cache-control"], "no-store");
    for (version, capabilities) in [(0, "side-band-64k thin-pack"), (1, "side-band-64k"), (0, "")] {
        let want = format!("want {main} {capabilities}");
        let answer = site.post(&ANYONE, "all", version, &[&want, "0000", "done"]).await;
        let nak = &answer.body[..8];
        assert_eq!(nak, b"0008NAK\n");
        let mut objects = Objects::default();
        let pack = &answer.body[8..];
        let pack =
            if capabilities.is_empty() { pack.to_vec() } else { crate::support::unframe(pack) };
        read_pack(&pack, &mut objects);
        assert_eq!(objects.log(&main).len(), 2, "{version} {capabilities}");
    }
}

#[tokio::test]
async fn many_clones_at_once_fit_the_memory_of_one_client() {
    let site = Site::new();
    let publication = |number: usize| {
        let (id, words) = (format!("skill-{number}"), "words ".repeat(150));
        let text = format!("---\nname: {id}\ndescription: {words}\n---\n\nText of {id}.\n");
        BundlePublication {
            bundle: Bundle::new(text, vec![]).unwrap(),
            id,
            request: PublishRequest::default(),
            label: None,
        }
    };
    let import = (0..1000).map(publication).collect();
    site.registry.publish_bundles("t", &Layer::Official, import).await.unwrap();
    site.put(&Layer::Official, "skill-7", "Changed.").await;
    let main = site.main(&ANYONE, "all").await;
    let want = format!("want {main}");
    let budget = MemoryBudget::new(96 << 20);
    // All are answered before one of them is read.
    let mut responses = vec![];
    for _ in 0..16 {
        let lines = ["command=fetch", "0001", &want, "done", "0000"];
        responses.push(site.open_within(&budget, "all", &lines).await);
    }
    let mut clones = vec![];
    for (status, body, _held) in responses {
        assert_eq!(status, 200);
        let mut objects = Objects::default();
        read_pack(&pack_of(body).await, &mut objects);
        clones.push(objects);
    }
    assert_eq!(clones[0].files(&main).len(), 5005);
    for objects in &clones {
        assert_eq!(objects.log(&main).len(), 2);
        assert!(objects.0 == clones[0].0);
    }
    // A shallow clone has the files of the others, whatever form their pack entries have.
    let mut shallow = Objects::default();
    site.fetch(&ANYONE, "all", &[&want, "deepen 1", "done"], &mut shallow).await;
    assert!(shallow.files(&main) == clones[0].files(&main));
}
