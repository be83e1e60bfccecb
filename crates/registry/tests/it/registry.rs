//! Order of writes, snapshots, and failures of store and bus.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json};
use skills_agent_skills::Bundle;
use skills_bus::CallError;
use skills_core::{BundlePath, Coded as _, Layer, PromptArgument, PromptDefinition, Tier};
use skills_registry::{
    Registry, RegistryConfig, RegistryError, SkillRegistry,
    bundles::{read_bundle, unwritable_files},
};
use skills_store::MemoryStore;

use crate::support::{on_fake_bus, on_faulty_store};

const ME: &str = "tester";

fn prompt(function_id: &str) -> PromptDefinition {
    let argument = PromptArgument { name: "to".into(), description: None, required: true };
    PromptDefinition {
        description: "Does it.".into(),
        arguments: vec![argument],
        function_id: function_id.into(),
    }
}

async fn text(registry: &Registry, uri: &str) -> String {
    registry.read(uri).await.unwrap().into_text()
}

#[tokio::test]
async fn a_snapshot_does_not_change() {
    let (_, registry) = on_faulty_store();
    registry.register_skill(ME, &Layer::Official, "a", "# One".into()).await.unwrap();
    let before = registry.catalog();
    registry.register_skill(ME, &Layer::Official, "a", "# Two".into()).await.unwrap();
    registry.register_skill(ME, &Layer::Official, "b", "# B".into()).await.unwrap();
    registry.remove_skill(ME, &Layer::Official, "a").await.unwrap();
    assert_eq!(before.skill("a").unwrap().title(), "One");
    assert_eq!(before.skills().len(), 1);
    assert!(before.index().contains("[One](iii://a)"));
    let after = registry.catalog();
    assert!(after.skill("a").is_none() && after.skill("b").is_some());
    assert_eq!((before.revision(), after.revision()), (1, 4));
}

#[tokio::test]
async fn writes_are_ordered_by_call_and_not_by_await() {
    let (_, registry) = on_faulty_store();
    let mut calls: Vec<_> = (0..100)
        .map(|number| {
            registry.register_skill(ME, &Layer::Official, "a", format!("version {number}"))
        })
        .collect();
    calls.reverse();
    let mut moments = Vec::new();
    for call in calls {
        moments.push(call.await.unwrap());
    }
    assert!(moments.is_sorted_by(|later, earlier| later > earlier));
    assert_eq!(text(&registry, "iii://a").await, "version 99");
}

#[tokio::test]
async fn a_write_whose_future_is_dropped_is_carried_out() {
    let (_, registry) = on_faulty_store();
    drop(registry.register_skill(ME, &Layer::Official, "a", "x".into()));
    registry.register_skill(ME, &Layer::Official, "b", "y".into()).await.unwrap();
    assert_eq!(text(&registry, "iii://a").await, "x");
}

#[tokio::test]
async fn invalid_input_does_not_reach_the_store() {
    let (store, registry) = on_faulty_store();
    store.full.store(true, Ordering::SeqCst);
    for (error, code) in [
        (
            registry.register_skill(ME, &Layer::Official, "A", "x".into()).await.unwrap_err(),
            "invalid_input",
        ),
        (
            registry.register_skill(ME, &Layer::Official, "a", String::new()).await.unwrap_err(),
            "invalid_input",
        ),
        (registry.remove_skill(ME, &Layer::Official, "a b").await.unwrap_err(), "invalid_input"),
        (
            registry.register_prompt(ME, &Layer::Official, "p", prompt("")).await.unwrap_err(),
            "invalid_input",
        ),
        (
            registry
                .register_prompt(ME, &Layer::Official, "p", prompt("state::get"))
                .await
                .unwrap_err(),
            "reserved_function",
        ),
    ] {
        assert_eq!(error.code().as_str(), code, "{error}");
    }
}

#[tokio::test]
async fn a_failed_commit_changes_nothing_and_notifies_nobody() {
    let (store, registry) = on_faulty_store();
    registry.register_skill(ME, &Layer::Official, "a", "# Kept".into()).await.unwrap();
    let before = registry.catalog();
    let mut changes = registry.changes();
    let mut state = registry.state().changes();
    store.full.store(true, Ordering::SeqCst);
    let set = || registry.state().set(ME, "s".into(), "k".into(), "1".into());
    let failures = [
        registry.register_skill(ME, &Layer::Official, "a", "# Lost".into()).await.unwrap_err(),
        registry.register_skill(ME, &Layer::Official, "b", "# Lost".into()).await.unwrap_err(),
        registry.remove_skill(ME, &Layer::Official, "a").await.unwrap_err(),
        registry.register_prompt(ME, &Layer::Official, "p", prompt("a::b")).await.unwrap_err(),
        set().await.unwrap_err(),
    ];
    for error in failures {
        assert_eq!(error.code().as_str(), "store_full", "{error}");
        assert!(error.hint().is_some());
    }
    assert!(Arc::ptr_eq(&before, &registry.catalog()), "the catalog is the same one");
    assert_eq!(text(&registry, "iii://a").await, "# Kept");
    assert!(state.try_next().is_none());

    // Writes resume when the store has room again.
    store.full.store(false, Ordering::SeqCst);
    registry.register_skill(ME, &Layer::Official, "b", "# B".into()).await.unwrap();
    let change = changes.next().await.unwrap().unwrap();
    assert_eq!((&*change.key.id, change.revision), ("b", 2), "nothing before it was announced");
    set().await.unwrap();
    assert!(state.try_next().is_some() && state.try_next().is_none());
}

#[tokio::test]
async fn a_missing_body_is_a_store_error() {
    let (store, registry) = on_faulty_store();
    registry.register_skill(ME, &Layer::Official, "a", "x".into()).await.unwrap();
    store.without_blobs.store(true, Ordering::SeqCst);
    let error = registry.read("iii://a").await.unwrap_err();
    assert_eq!(error.code().as_str(), "corrupt_entry");
    assert_eq!(
        error.to_string(),
        "skill a (official) is corrupt: its body is missing from the store"
    );
    store.without_blobs.store(false, Ordering::SeqCst);
    assert_eq!(text(&registry, "iii://a").await, "x", "a failure is not remembered");
    store.without_blobs.store(true, Ordering::SeqCst);
    assert_eq!(text(&registry, "iii://a").await, "x", "a success is");
}

#[tokio::test]
async fn an_unreadable_store_fails_to_open() {
    let (store, registry) = on_faulty_store();
    registry.register_skill(ME, &Layer::Official, "a", "x".into()).await.unwrap();
    store.unreadable.store(true, Ordering::SeqCst);
    let error = registry.read("iii://a").await.unwrap_err();
    assert_eq!(error.code().as_str(), "store_error", "{error}");
    let error = Registry::open(store, None, RegistryConfig::default()).unwrap_err();
    assert_eq!(error.code().as_str(), "store_error", "{error}");
}

#[tokio::test]
async fn a_closed_registry_finishes_queued_writes_and_accepts_no_more() {
    let (_, registry) = on_faulty_store();
    let queued: Vec<_> = (0..200)
        .map(|number| {
            registry.register_skill(ME, &Layer::Official, &format!("s{number}"), "x".into())
        })
        .collect();
    let closing = Arc::clone(&registry);
    tokio::task::spawn_blocking(move || closing.close()).await.unwrap();
    for write in queued {
        write.await.unwrap();
    }
    for error in [
        registry.register_skill(ME, &Layer::Official, "late", "x".into()).await.unwrap_err(),
        registry.remove_skill(ME, &Layer::Official, "s0").await.unwrap_err(),
        registry.state().delete(ME, "s".into(), "k".into()).await.unwrap_err(),
    ] {
        assert!(matches!(error, RegistryError::Closed), "{error}");
        assert_eq!(error.code().as_str(), "shutting_down");
    }
    assert_eq!(text(&registry, "iii://s0").await, "x", "reading goes on");
    registry.close();
}

#[tokio::test]
async fn sections_and_prompts_without_a_bus_are_an_error() {
    let (_, registry) = on_faulty_store();
    registry.register_prompt(ME, &Layer::Official, "p", prompt("a::b")).await.unwrap();
    for error in [
        registry.read("iii://x/a::b").await.unwrap_err(),
        registry.render_prompt("p", Value::Null).await.unwrap_err(),
    ] {
        assert!(matches!(&error, RegistryError::NoBus { function_id } if function_id == "a::b"));
        assert_eq!(error.code().as_str(), "no_bus");
        assert!(error.hint().unwrap().contains("skills serve"));
    }
}

#[tokio::test]
async fn a_dropped_bus_is_an_error_and_not_a_panic() {
    let (bus, registry) = on_fake_bus(Ok(json!("x")));
    assert_eq!(text(&registry, "iii://x/a::b").await, "x");
    drop(bus);
    let error = registry.read("iii://x/a::b").await.unwrap_err();
    assert!(matches!(error, RegistryError::Closed), "{error}");
}

#[tokio::test]
async fn a_handler_receives_its_arguments_and_timeout() {
    let (bus, registry) = on_fake_bus(Ok(json!("hi")));
    registry.register_prompt(ME, &Layer::Official, "p", prompt("a::b")).await.unwrap();
    registry.read("iii://x/a::section").await.unwrap();
    registry.render_prompt("p", Value::Null).await.unwrap();
    let rendered = registry.render_prompt("p", json!({ "to": "ann" })).await.unwrap();
    assert_eq!(rendered.description.as_deref(), Some("Does it."));
    let timeout = Duration::from_millis(70);
    let expected =
        [("a::section", json!({})), ("a::b", json!({})), ("a::b", json!({ "to": "ann" }))];
    let expected = expected.map(|(id, data)| (id.to_owned(), data, timeout));
    assert_eq!(*bus.calls.lock().unwrap(), expected);
}

#[tokio::test]
async fn each_handler_failure_has_a_code_and_names_the_handler() {
    let after = Duration::from_millis(70);
    let function_id = "a::b".to_owned();
    for (error, code, words) in [
        (CallError::NotFound(function_id.clone()), "handler_not_registered", "is not registered"),
        (CallError::Stopped(function_id.clone()), "handler_disconnected", "disconnected"),
        (
            CallError::Timeout { function_id: function_id.clone(), after },
            "handler_timeout",
            "timed out after 70 ms",
        ),
        (CallError::remote("E1", "broken"), "handler_failed", "failed: broken (E1)"),
        (CallError::PayloadTooLarge("large".into()), "handler_failed", "(payload_too_large)"),
        (CallError::Congested(function_id.clone()), "handler_failed", "(channel_send_failed)"),
    ] {
        let (_bus, registry) = on_fake_bus(Err(error));
        let error = registry.read("iii://x/a::b").await.unwrap_err();
        assert_eq!(error.code().as_str(), code, "{error}");
        assert!(error.to_string().starts_with("a::b "), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn the_registry_works_through_its_trait() {
    let (_bus, registry) = on_fake_bus(Ok(json!("hi")));
    let skills: Arc<dyn SkillRegistry> = registry;
    let registered_at =
        skills.register_skill(Tier::Official, "a", "# A\n\nText.".into()).await.unwrap();
    skills.register_prompt(Tier::Official, "p", prompt("a::b")).await.unwrap();
    let rows = skills.skills().await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].title.as_str(), rows[0].description.as_deref()), ("A", Some("Text.")));
    assert_eq!((rows[0].bytes, &rows[0].registered_at), (10, &registered_at));
    let prompts = skills.prompts().await.unwrap();
    assert_eq!((prompts[0].name.as_str(), prompts[0].arguments.len()), ("p", 1));
    assert_eq!(skills.read("iii://a").await.unwrap().into_text(), "# A\n\nText.");
    assert_eq!(skills.render_prompt("p", Value::Null).await.unwrap().messages.len(), 1);
    assert!(skills.remove_skill(Tier::Official, "a").await.unwrap());
    assert!(!skills.remove_skill(Tier::Official, "a").await.unwrap());
    assert!(skills.remove_prompt(Tier::Official, "p").await.unwrap());
    let error = skills.read("iii://a").await.unwrap_err();
    assert_eq!(error.code().as_str(), "not_found");
}

#[tokio::test]
async fn stored_entries_survive_reopening() {
    let store = Arc::new(MemoryStore::new());
    let open = || Registry::open(store.clone(), None, RegistryConfig::default()).unwrap();
    let registry = open();
    let first = registry.register_skill(ME, &Layer::Official, "a", "# A".into()).await.unwrap();
    registry.register_skill(ME, &Layer::Official, "b", "# B".into()).await.unwrap();
    registry.remove_skill(ME, &Layer::Official, "b").await.unwrap();
    let revision = registry.catalog().revision();
    drop(registry);
    let registry = open();
    assert_eq!(registry.catalog().revision(), revision, "a removal counts");
    assert_eq!(registry.catalog().skill("a").unwrap().registered_at, first);
    assert!(
        registry.register_skill(ME, &Layer::Official, "a", "# A".into()).await.unwrap() > first
    );
}

#[tokio::test]
async fn a_bundle_is_read_file_by_file_and_as_a_whole() {
    let (_, registry) = on_faulty_store();
    let png = Bytes::from_static(b"\x89PNG\r\n\x00\xff");
    let files = vec![
        ("references/a b.md".parse().unwrap(), Bytes::from("# Deeper")),
        ("assets/logo.png".parse().unwrap(), png.clone()),
    ];
    let bundle = Bundle::new("# Root".to_owned(), files).unwrap();
    registry.register_bundle("t", &Layer::Official, "s", bundle.clone()).await.unwrap();
    assert_eq!(text(&registry, "iii://s").await, "# Root");
    for uri in ["iii://s/references/a b.md", "iii://s/references/a%20b.md"] {
        let resource = registry.read(uri).await.unwrap();
        assert_eq!(
            (resource.mime_type.as_str(), resource.text()),
            ("text/markdown", Some("# Deeper")),
            "{uri:?}"
        );
    }
    let logo = registry.read("iii://s/assets/logo.png").await.unwrap();
    assert_eq!((logo.mime_type.as_str(), &logo.body, logo.text()), ("image/png", &png, None));
    let error = registry.read("iii://s/references/none.md").await.expect_err("not there");
    assert_eq!(error.code().as_str(), "invalid_uri");
    let whole = read_bundle(&*registry, "s").await.unwrap();
    assert_eq!(whole, bundle);
}

#[tokio::test]
async fn stored_files_with_refused_paths_are_readable_but_not_bundled() {
    let (_, registry) = on_faulty_store();
    let stored = |path: &str| (BundlePath::from_stored(path).unwrap(), Bytes::from("stored"));
    let old = [".git/config", "nul.txt", "a::b", "docs/a.md"].map(stored);
    let bundle = Bundle::new("# Root".to_owned(), old.into()).unwrap();
    registry.register_bundle("t", &Layer::Official, "s", bundle).await.unwrap();
    // A stored document wins over a function of that name.
    for path in [".git/config", "nul.txt", "a::b", "docs/a.md"] {
        assert_eq!(text(&registry, &format!("iii://s/{path}")).await, "stored", "{path}");
    }
    let whole = read_bundle(&*registry, "s").await.unwrap();
    let paths: Vec<&str> = whole.meta().files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["SKILL.md", "docs/a.md"]);
    let catalog = registry.catalog();
    let left_out = unwritable_files(&catalog.skill("s").unwrap().meta);
    assert_eq!(
        left_out.map(|(path, _)| path).collect::<Vec<_>>(),
        [".git/config", "a::b", "nul.txt"]
    );
}
