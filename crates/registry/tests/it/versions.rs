//! Versions, labels and yanks as surfaces see them.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use skills_agent_skills::Bundle;
use skills_core::{Caller, Code, Coded as _, Digest, EntryKind, PromptDefinition, Tier, User};
use skills_registry::{
    ChangeEvent, CollectRequest, DiffRequest, HistoryRequest, LabelRequest, LogRequest,
    PublishRequest, Registry, RegistryConfig, RegistryError, RollbackRequest, SkillRegistry,
    YankRequest, bundles,
};
use skills_store::{MemoryStore, SqliteStore, Store};

use crate::support::FakeBus;

const SKILL: EntryKind = EntryKind::Skill;

fn open(store: Arc<dyn Store>) -> Arc<Registry> {
    Registry::open(store, None, RegistryConfig::default()).unwrap()
}

fn request<T: serde::de::DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap()
}

fn label(id: &str, label: &str, version: Value) -> LabelRequest {
    request(json!({ "id": id, "label": label, "version": version }))
}

fn yank(id: &str, version: u64) -> YankRequest {
    request(json!({ "id": id, "version": version, "reason": "broken" }))
}

async fn publish(skills: &dyn SkillRegistry, id: &str, bodies: &[&str]) {
    for body in bodies {
        skills.register_skill(Tier::Official, id, (*body).to_owned()).await.unwrap();
    }
}

async fn read(skills: &dyn SkillRegistry, uri: &str) -> Result<String, RegistryError> {
    skills.read(uri).await.map(|resource| resource.into_text())
}

fn user(name: &str) -> Caller {
    Caller::User(User { owner: name.parse().unwrap(), key: Digest::of(name.as_bytes()) })
}

async fn on_each_store<F: Future<Output = ()>>(test: impl Fn(Arc<Registry>) -> F) {
    test(open(Arc::new(MemoryStore::new()))).await;
    let dir = tempfile::tempdir().unwrap();
    test(open(Arc::new(SqliteStore::open(dir.path()).unwrap()))).await;
}

#[tokio::test]
async fn every_form_of_an_address_reads_its_version() {
    on_each_store(|skills| async move {
        let body = "---\nname: a\ndescription: d\nmetadata:\n  version: 1.4.0\n---\n";
        publish(&*skills, "alpha", &["one", "two", body, "four", "five"]).await;
        skills.set_label_as(label("alpha", "canary", json!(2))).await;
        let history = skills.history_of("alpha").await;
        let digest = history[4].digest.to_string();
        for (uri, expected) in [
            ("iii://alpha".to_owned(), "five"),
            ("iii://alpha@1".to_owned(), "one"),
            ("iii://alpha%401".to_owned(), "one"),
            ("iii://alpha@latest".to_owned(), "five"),
            ("iii://alpha@canary".to_owned(), "two"),
            ("iii://alpha@1.4.0".to_owned(), body),
            (format!("iii://alpha@sha256:{}", &digest[..12]), "one"),
            ("iii://alpha@1/SKILL.md".to_owned(), "one"),
            ("skill://official/alpha@2".to_owned(), "two"),
            ("skill://official/alpha@2/SKILL.md".to_owned(), "two"),
        ] {
            // The second read comes from the cache.
            for round in 0..2 {
                assert_eq!(read(&*skills, &uri).await.unwrap(), expected, "{uri} {round}");
            }
        }
        let versions: Vec<u64> = history.iter().map(|version| version.version).collect();
        assert_eq!(versions, [5, 4, 3, 2, 1]);
        for (uri, words) in [
            ("iii://alpha@9", "it has 5, 4, 3, 2, 1"),
            ("iii://alpha@nope", "no version nope"),
            ("iii://alpha@1/missing.md", "alpha/missing.md"),
            ("iii://unknown@1", "skill not found: unknown"),
            ("skill://market/alpha@1", "skill not found: alpha"),
        ] {
            let error = read(&*skills, uri).await.unwrap_err();
            assert_eq!(error.code(), Code::NotFound, "{uri}: {error}");
            assert!(error.to_string().contains(words), "{uri}: {error}");
        }
        let error = read(&*skills, "iii://alpha@").await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidInput);
    })
    .await;
}

/// Short forms of requests that must succeed.
trait Versions {
    async fn set_label_as(&self, request: LabelRequest);
    async fn history_of(&self, id: &str) -> Vec<skills_registry::VersionInfo>;
}

impl Versions for Registry {
    async fn set_label_as(&self, request: LabelRequest) {
        SkillRegistry::set_label(self, SKILL, &request).await.unwrap();
    }

    async fn history_of(&self, id: &str) -> Vec<skills_registry::VersionInfo> {
        let request: HistoryRequest = request(json!({ "id": id }));
        SkillRegistry::history(self, SKILL, &request).await.unwrap().data
    }
}

#[tokio::test]
async fn the_catalog_has_the_served_version() {
    on_each_store(|skills| async move {
        publish(&*skills, "a", &["# One", "# Two", "# Three"]).await;
        skills.set_label_as(label("a", "stable", json!("2"))).await;
        let catalog = skills.catalog();
        let row = catalog.skill("a").unwrap();
        assert_eq!(row.title(), "Two");
        let heads = row.heads.as_ref().unwrap();
        assert_eq!((heads.served, heads.latest, heads.labels.len()), (2, 3, 1));
        publish(&*skills, "a", &["# Four"]).await;
        let catalog = skills.catalog();
        let heads = catalog.skill("a").unwrap().heads.clone().unwrap();
        assert_eq!((heads.served, heads.latest), (2, 4), "without a change of the row's content");
        assert_eq!(read(&*skills, "iii://a").await.unwrap(), "# Two");
        let history = skills.history_of("a").await;
        let served: Vec<bool> = history.iter().map(|version| version.served).collect();
        assert_eq!(served, [false, false, true, false]);
        assert_eq!(history[2].labels, ["stable"]);
    })
    .await;
}

#[tokio::test]
async fn subscribers_hear_of_what_is_served_and_of_nothing_else() {
    on_each_store(|skills| async move {
        publish(&*skills, "a", &["one", "two"]).await;
        let mut events = SkillRegistry::changes(&*skills);
        let mut feed = Registry::changes(&skills);
        let skill = || ChangeEvent::Skill("a".into());
        let versions = || ChangeEvent::SkillVersions("a".into());
        skills.set_label_as(label("a", "canary", json!(1))).await;
        assert_eq!(events.next().await, Some(versions()), "a label without effect");
        skills.set_label_as(label("a", "stable", json!(2))).await;
        assert_eq!(events.next().await, Some(versions()), "the newest version is promoted");
        publish(&*skills, "a", &["three"]).await;
        assert_eq!(events.next().await, Some(versions()), "publishing under a label that stays");
        skills.set_label_as(label("a", "stable", json!(3))).await;
        assert_eq!(events.next().await, Some(skill()), "a promotion");
        SkillRegistry::yank(&*skills, SKILL, &yank("a", 3)).await.unwrap();
        assert_eq!(events.next().await, Some(skill()), "a yank of the served version");
        let exact = ChangeEvent::SkillVersion { id: "a".into(), version: 3 };
        assert_eq!(events.next().await, Some(exact), "its exact address warns now");
        let rollback: RollbackRequest = request(json!({ "id": "a", "to": 1 }));
        SkillRegistry::rollback(&*skills, SKILL, &rollback).await.unwrap();
        assert_eq!(events.next().await, Some(versions()), "a rollback under a label");
        skills.set_label_as(label("a", "stable", json!(null))).await;
        assert_eq!(events.next().await, Some(skill()), "without the label");
        let same = label("a", "canary", json!(1));
        let state = SkillRegistry::set_label(&*skills, SKILL, &same).await.unwrap();
        assert!(!state.changed);
        publish(&*skills, "a", &["one"]).await;
        assert_eq!(events.next().await, Some(skill()), "the same content again, as before");
        assert_eq!(events.next().now_or_never(), None);
        let mut served = Vec::new();
        for _ in 0..8 {
            served.push(feed.next().await.unwrap().unwrap().affects_served);
        }
        assert_eq!(served, [false, false, false, true, true, false, true, true]);
    })
    .await;
}

#[tokio::test]
async fn a_yanked_version_warns_and_all_yanked_is_not_found() {
    on_each_store(|skills| async move {
        publish(&*skills, "a", &["one", "two"]).await;
        assert_eq!(skills.read("iii://a@2").await.unwrap().version.unwrap().yanked, None);
        SkillRegistry::yank(&*skills, SKILL, &yank("a", 2)).await.unwrap();
        assert_eq!(read(&*skills, "iii://a").await.unwrap(), "one");
        let exact = SkillRegistry::read(&*skills, "iii://a@2").await.unwrap();
        let version = exact.version.clone().unwrap();
        assert_eq!((version.version, version.yanked.as_deref()), (2, Some("broken")));
        assert_eq!(exact.into_text(), "two");
        let state = SkillRegistry::yank(&*skills, SKILL, &yank("a", 1)).await.unwrap();
        assert_eq!((state.served, state.changed), (None, true));
        for uri in ["iii://a", "iii://a@latest", "skill://official/a"] {
            let error = read(&*skills, uri).await.unwrap_err();
            assert_eq!(error.code(), Code::NotFound);
            assert!(
                error.to_string().contains("all versions of a that could be served are yanked"),
                "{uri}: {error}"
            );
        }
        assert!(skills.catalog().skill("a").is_none());
        let undo: YankRequest = request(json!({ "id": "a", "version": 1, "undo": true }));
        let state = SkillRegistry::yank(&*skills, SKILL, &undo).await.unwrap();
        assert_eq!(state.served, Some(1), "an entry that is not listed is found by its versions");
        assert_eq!(read(&*skills, "iii://a").await.unwrap(), "one");
        for bad in [
            json!({ "id": "a", "version": 1, "reason": " " }),
            json!({ "id": "a", "version": 1, "undo": true, "purge": true }),
            json!({ "id": "a", "version": 1, "reason": "x".repeat(1025) }),
        ] {
            let error = SkillRegistry::yank(&*skills, SKILL, &request(bad)).await.unwrap_err();
            assert!(matches!(error, RegistryError::Rule(_)), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_entry_whose_versions_are_all_yanked_shadows_lower_tiers() {
    let dir = tempfile::tempdir().unwrap();
    let yanked = |error: RegistryError| {
        assert_eq!(error.code(), Code::NotFound, "{error}");
        assert!(error.to_string().contains("all versions of x that could be served are yanked"));
    };
    {
        let skills = open(Arc::new(SqliteStore::open(dir.path()).unwrap()));
        let ann: Arc<dyn SkillRegistry> = skills.clone().view(&user("ann")).unwrap();
        publish(&*skills, "x", &["official"]).await;
        publish(&*skills, "y", &["other"]).await;
        ann.register_skill(Tier::Private, "x", "private one".to_owned()).await.unwrap();
        let prompt = |text: &str| PromptDefinition {
            description: text.to_owned(),
            arguments: vec![],
            function_id: "a::b".to_owned(),
        };
        for (tier, text) in [(Tier::Official, "official"), (Tier::Private, "private")] {
            ann.register_prompt(tier, "x", prompt(text)).await.unwrap();
        }
        let state = ann.yank(SKILL, &yank("x", 1)).await.unwrap();
        assert_eq!(state.served, None);
        ann.yank(EntryKind::Prompt, &yank("x", 1)).await.unwrap();
    }
    // The second round reads a catalog that was built from the store.
    for round in 0..2 {
        let skills = open(Arc::new(SqliteStore::open(dir.path()).unwrap()));
        let ann: Arc<dyn SkillRegistry> = skills.clone().view(&user("ann")).unwrap();
        yanked(read(&*ann, "iii://x").await.unwrap_err());
        yanked(ann.render_prompt("x", json!({})).await.unwrap_err());
        assert_eq!(read(&*ann, "iii://x@1").await.unwrap(), "private one", "the same entry");
        assert_eq!(read(&*ann, "skill://official/x").await.unwrap(), "official");
        assert_eq!(read(&*skills, "iii://x").await.unwrap(), "official", "others see no change");
        let catalog = ann.catalog().await.unwrap();
        let listed: Vec<&str> = catalog.skills_after(None).map(|row| &*row.id).collect();
        assert_eq!((listed, catalog.skill_count()), (vec!["y"], 1));
        assert_eq!(catalog.prompts().len(), 0);
        assert_eq!(skills.catalog().skill_count(), 2);
        let answer = ann.explain("x").await.unwrap();
        assert_eq!(answer.answer.unwrap().tier, Tier::Private);
        assert_eq!(answer.shadows[0].tier, Tier::Official);
        let undo: YankRequest = request(json!({ "id": "x", "version": 1, "undo": true }));
        assert_eq!(ann.yank(SKILL, &undo).await.unwrap().served, Some(1), "in the private tier");
        assert_eq!(read(&*ann, "iii://x").await.unwrap(), "private one");
        assert_eq!(ann.catalog().await.unwrap().skill_count(), 2);
        ann.yank(SKILL, &yank("x", 1)).await.unwrap();
        yanked(read(&*ann, "iii://x").await.unwrap_err());
        if round == 1 {
            assert!(ann.remove_skill(Tier::Private, "x").await.unwrap());
            assert_eq!(read(&*ann, "iii://x").await.unwrap(), "official", "without the entry");
        }
    }
}

#[tokio::test]
async fn a_purge_says_what_is_gone_and_where_the_rest_is() {
    on_each_store(|skills| async move {
        let ann: Arc<dyn SkillRegistry> = skills.clone().view(&user("ann")).unwrap();
        let bob: Arc<dyn SkillRegistry> = skills.clone().view(&user("bob")).unwrap();
        publish(&*skills, "a", &["secret", "two", "secret", "four"]).await;
        publish(&*skills, "b", &["secret"]).await;
        for view in [&ann, &bob] {
            view.register_skill(Tier::Private, "c", "secret".to_owned()).await.unwrap();
        }
        let purge = |id: &str, tier: &str, version: u64| -> YankRequest {
            request(json!({
                "id": id, "tier": tier, "version": version, "reason": "leak", "purge": true
            }))
        };
        let report = |state: skills_registry::VersionState| {
            serde_json::to_value(state.purged.expect("a purge")).unwrap()
        };
        let state = SkillRegistry::yank(&*skills, SKILL, &purge("a", "official", 1)).await.unwrap();
        let holder = |tier: &str, id: &str, version: u64| {
            json!({ "tier": tier, "id": id, "version": version })
        };
        assert_eq!(
            report(state),
            json!({
                "freed_bytes": 0,
                "held_by": [holder("official", "a", 3), holder("official", "b", 1)],
                "held_privately": 2,
            })
        );
        let state = ann.yank(SKILL, &purge("c", "private", 1)).await.unwrap();
        assert_eq!(
            report(state),
            json!({ "held_by": [holder("official", "a", 3), holder("official", "b", 1)] }),
            "it does not tell of files of other users"
        );
        let state = SkillRegistry::yank(&*skills, SKILL, &purge("a", "official", 2)).await.unwrap();
        assert_eq!(report(state), json!({ "freed_bytes": 3 }));
        let again = SkillRegistry::yank(&*skills, SKILL, &purge("a", "official", 2)).await.unwrap();
        assert_eq!((again.changed, again.purged), (false, None));
    })
    .await;
}

#[tokio::test]
async fn the_log_of_a_user_is_found_by_name() {
    on_each_store(|skills| async move {
        let ann: Arc<dyn SkillRegistry> = skills.clone().view(&user("ann")).unwrap();
        ann.register_skill(Tier::Private, "x", "one".to_owned()).await.unwrap();
        publish(&*skills, "y", &["other"]).await;
        let log: LogRequest = request(json!({ "by": "ann" }));
        let found = ann.log(&log).await.unwrap().data;
        assert_eq!((found.len(), &*found[0].id), (1, "x"));
        let key = format!("{:.8}", Digest::of(b"ann").to_string());
        assert_eq!(found[0].by, format!("key:ann/{key}"));
        assert_eq!(found[0].subject(), "private/ann/x");
    })
    .await;
}

#[tokio::test]
async fn a_purge_leaves_readers_their_bytes_and_nobody_else() {
    on_each_store(|skills| async move {
        publish(&*skills, "a", &["secret", "two"]).await;
        let held = skills.read("iii://a@1").await.unwrap();
        let row = skills.skill_version(None, "a", &"1".parse().unwrap()).await.unwrap();
        let purge: YankRequest =
            request(json!({ "id": "a", "version": 1, "reason": "leak", "purge": true }));
        SkillRegistry::yank(&*skills, SKILL, &purge).await.unwrap();
        assert_eq!(held.into_text(), "secret");
        let error = read(&*skills, "iii://a@1").await.unwrap_err();
        assert_eq!((error.code(), error.to_string().contains("leak")), (Code::Purged, true));
        let error = skills.document(&row, "SKILL.md").await.unwrap_err();
        assert_eq!(error.code(), Code::Purged, "the cache of blobs has forgotten it: {error}");
        let info = skills.version(SKILL, None, "a", &"1".parse().unwrap()).await.unwrap();
        assert!(info.purged);
        assert_eq!(read(&*skills, "iii://a").await.unwrap(), "two");
        let diff: DiffRequest = request(json!({ "id": "a", "from": 1, "to": 2 }));
        let error = SkillRegistry::diff(&*skills, SKILL, &diff).await.unwrap_err();
        assert_eq!(error.code(), Code::Purged);
    })
    .await;
}

#[tokio::test]
async fn exactly_one_of_two_writers_wins_each_round() {
    on_each_store(|skills| async move {
        for round in 0..20_u64 {
            let write = |writer: u64| {
                let skills = Arc::clone(&skills);
                tokio::spawn(async move {
                    let bundle = Bundle::new(format!("{round} by {writer}"), vec![]).unwrap();
                    let request =
                        PublishRequest { expected_version: Some(round), ..Default::default() };
                    SkillRegistry::publish_bundle(&*skills, Tier::Official, "a", bundle, request)
                        .await
                })
            };
            let (one, other) = tokio::join!(write(1), write(2));
            let results = [one.unwrap(), other.unwrap()];
            let won: Vec<_> = results.iter().flatten().collect();
            assert_eq!(won.len(), 1, "round {round}: {results:?}");
            assert_eq!(won[0].version, Some(round + 1));
            let lost = results.iter().find_map(|result| result.as_ref().err()).unwrap();
            assert_eq!(lost.code(), Code::VersionConflict);
            let RegistryError::Version(error) = lost else { panic!("{lost}") };
            assert_eq!(error.current(), Some(round + 1));
        }
    })
    .await;
}

#[tokio::test]
async fn a_version_is_a_bundle_byte_for_byte() {
    on_each_store(|skills| async move {
        let bundle = |text: &str| {
            let files = vec![
                ("scripts/run.sh".parse().unwrap(), Bytes::from(format!("#!/bin/sh\n{text}"))),
                ("logo.png".parse().unwrap(), Bytes::from_static(b"\x89PNG\0")),
            ];
            let bundle = Bundle::new(format!("# {text}\n"), files).unwrap();
            bundle.with_executable(|path| Some(path.ends_with(".sh")))
        };
        for text in ["one", "two"] {
            let write =
                skills.register_bundle("t", &skills_core::Layer::Official, "a", bundle(text));
            write.await.unwrap();
        }
        skills.set_label_as(label("a", "old", json!(1))).await;
        for (address, text) in [("a@1", "one"), ("a@old", "one"), ("a@2", "two"), ("a", "two")] {
            let read = bundles::read_bundle(&*skills, address).await.unwrap();
            assert_eq!(read, bundle(text), "{address}");
        }
        assert_eq!(skills.read("iii://a@1/scripts/run.sh").await.unwrap().body, "#!/bin/sh\none");
        let diff: DiffRequest = request(json!({ "id": "a", "from": "old", "to": 2 }));
        let diff = SkillRegistry::diff(&*skills, SKILL, &diff).await.unwrap();
        let paths: Vec<&str> = diff.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["SKILL.md", "scripts/run.sh"]);
        assert_eq!((diff.from.version, diff.to.version), (Some(1), Some(2)));
    })
    .await;
}

#[tokio::test]
async fn private_versions_belong_to_their_owner() {
    on_each_store(|skills| async move {
        let (ann, bob) = (skills.view_for(&user("ann")), skills.view_for(&user("bob")));
        for body in ["one", "two"] {
            ann.register_skill(Tier::Private, "a", body.to_owned()).await.unwrap();
        }
        publish(&*skills, "a", &["official"]).await;
        assert_eq!(read(&ann, "iii://a@1").await.unwrap(), "one");
        assert_eq!(read(&bob, "iii://a@1").await.unwrap(), "official");
        assert_eq!(read(&ann, "skill://official/a@1").await.unwrap(), "official");
        let mine: HistoryRequest = request(json!({ "id": "a", "tier": "private" }));
        assert_eq!(ann.history(SKILL, &mine).await.unwrap().data.len(), 2);
        assert_eq!(bob.history(SKILL, &mine).await.unwrap_err().code(), Code::NotFound);
        let error = SkillRegistry::history(&*skills, SKILL, &mine).await.unwrap_err();
        assert_eq!(error.code(), Code::KeyNeeded);
        ann.set_label(SKILL, &label("a", "stable", json!(1))).await.unwrap();
        assert_eq!(read(&ann, "iii://a").await.unwrap(), "one");
        ann.remove_skill(Tier::Private, "a").await.unwrap();
        assert_eq!(ann.history(SKILL, &mine).await.unwrap().data.len(), 2, "removed and known");
        let all = LogRequest::default();
        assert_eq!(ann.log(&all).await.unwrap().data.len(), 5);
        assert_eq!(bob.log(&all).await.unwrap().data.len(), 1);
        assert_eq!(skills.log_of(None, &all).await.unwrap().data.len(), 5);
    })
    .await;
}

#[tokio::test]
async fn prompts_have_versions_too() {
    let bus = FakeBus::with(Ok(json!("hello")));
    let weak = Arc::downgrade(&bus);
    let store = Arc::new(MemoryStore::new());
    let skills = Registry::open(store, Some(weak), RegistryConfig::default()).unwrap();
    let prompt = |function: &str| PromptDefinition {
        description: "d".to_owned(),
        arguments: vec![],
        function_id: function.to_owned(),
    };
    for function in ["a::one", "a::two"] {
        let request = PublishRequest { message: Some("why".into()), ..Default::default() };
        let definition = prompt(function);
        let published =
            SkillRegistry::publish_prompt(&*skills, Tier::Official, "p", definition, request);
        published.await.unwrap();
    }
    let called = || bus.calls.lock().unwrap().last().unwrap().0.clone();
    for (name, function) in [("p", "a::two"), ("p@1", "a::one"), ("p@latest", "a::two")] {
        SkillRegistry::render_prompt(&*skills, name, Value::Null).await.unwrap();
        assert_eq!(called(), function, "{name}");
    }
    let kind = EntryKind::Prompt;
    SkillRegistry::set_label(&*skills, kind, &label("p", "stable", json!(1))).await.unwrap();
    SkillRegistry::render_prompt(&*skills, "p", Value::Null).await.unwrap();
    assert_eq!(called(), "a::one");
    let named: HistoryRequest = request(json!({ "name": "p" }));
    let history = SkillRegistry::history(&*skills, kind, &named).await.unwrap().data;
    assert_eq!(history[0].message.as_deref(), Some("why"));
    let diff: DiffRequest = request(json!({ "name": "p", "from": 1, "to": 2 }));
    let diff = SkillRegistry::diff(&*skills, kind, &diff).await.unwrap();
    assert_eq!(diff.frontmatter[0].field, "function_id");
    for version in [1, 2] {
        SkillRegistry::yank(&*skills, kind, &yank("p", version)).await.unwrap();
    }
    let error = SkillRegistry::render_prompt(&*skills, "p", Value::Null).await.unwrap_err();
    assert!(
        error.to_string().contains("all versions of p that could be served are yanked"),
        "{error}"
    );
}

#[tokio::test]
async fn a_collection_frees_old_versions_in_batches() {
    on_each_store(|skills| async move {
        for number in 0..100 {
            publish(&*skills, "a", &[&format!("body {number:03}")]).await;
        }
        publish(&*skills, "b", &["only"]).await;
        skills.set_label_as(label("a", "old", json!(1))).await;
        let dry: CollectRequest = request(json!({ "versions": 10, "dry_run": true }));
        let planned = SkillRegistry::collect(&*skills, &dry).await.unwrap();
        assert_eq!((planned.versions, planned.bytes), (89, 89 * 8));
        assert_eq!(skills.history_of("a").await.len(), 50, "one page");
        let collected = CollectRequest { dry_run: false, ..dry };
        let collected = SkillRegistry::collect(&*skills, &collected).await.unwrap();
        assert_eq!((collected.versions, collected.bytes), (89, 89 * 8));
        let versions: Vec<u64> = skills.history_of("a").await.iter().map(|v| v.version).collect();
        assert_eq!(versions, [100, 99, 98, 97, 96, 95, 94, 93, 92, 91, 1]);
        let error = read(&*skills, "iii://a@50").await.unwrap_err();
        assert_eq!(error.code(), Code::Collected);
        assert!(error.to_string().contains("it has 100, 99"), "{error}");
        let fifty = "50".parse().unwrap();
        let error = skills.version(SKILL, None, "a", &fifty).await.unwrap_err();
        assert_eq!(error.code(), Code::Collected);
        assert_eq!(read(&*skills, "iii://a@old").await.unwrap(), "body 000");
        let nothing = SkillRegistry::collect(&*skills, &CollectRequest::default()).await.unwrap();
        assert_eq!(nothing.versions, 0, "everything is kept by default");
    })
    .await;
}

#[tokio::test]
async fn history_and_log_continue_page_by_page() {
    on_each_store(|skills| async move {
        publish(&*skills, "a", &["1", "2", "3", "4", "5"]).await;
        let mut request: HistoryRequest = request(json!({ "id": "a", "limit": 2 }));
        let mut seen = Vec::new();
        loop {
            let page = SkillRegistry::history(&*skills, SKILL, &request).await.unwrap();
            seen.extend(page.data.iter().map(|version| version.version));
            match page.next {
                Some(next) => request.after = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, [5, 4, 3, 2, 1]);
        request.after = Some("x".to_owned());
        let error = SkillRegistry::history(&*skills, SKILL, &request).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidInput);
        let log = LogRequest { limit: Some(2), by: Some("local".into()), ..Default::default() };
        let page = SkillRegistry::log(&*skills, &log).await.unwrap();
        assert_eq!((page.data[0].number, page.next.as_deref()), (5, Some("4")));
        assert_eq!(page.data[0].action, "skill.put");
        let since = LogRequest { since: Some("soon".into()), ..Default::default() };
        assert!(SkillRegistry::log(&*skills, &since).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn everything_survives_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let skills = open(Arc::new(SqliteStore::open(dir.path()).unwrap()));
    publish(&*skills, "a", &["one", "two", "three"]).await;
    skills.set_label_as(label("a", "stable", json!(2))).await;
    SkillRegistry::yank(&*skills, SKILL, &yank("a", 1)).await.unwrap();
    let before = skills.history_of("a").await;
    drop(skills);
    let skills = open(Arc::new(SqliteStore::open(dir.path()).unwrap()));
    assert_eq!(skills.history_of("a").await, before);
    assert_eq!(read(&*skills, "iii://a").await.unwrap(), "two");
    let catalog = skills.catalog();
    let heads = catalog.skill("a").unwrap().heads.as_ref().unwrap();
    assert_eq!((heads.served, heads.latest), (2, 3));
}
