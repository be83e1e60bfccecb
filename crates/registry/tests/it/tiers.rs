//! The three tiers of a registry: visibility, notifications and damage.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::json;
use skills_core::{
    Caller, Coded as _, Digest, Layer, PromptDefinition, Tier, ToolMeta, User, tool::ManifestSource,
};
use skills_registry::{
    ChangeEvent, OwnedChangeEvent, OwnedChangeEvents, Registry, RegistryConfig, SkillRegistry, Tool,
};
use skills_store::{MemoryStore, SqliteStore};

use crate::support::on_faulty_store;

const ME: &str = "test";

fn open() -> Arc<Registry> {
    Registry::open(Arc::new(MemoryStore::new()), None, RegistryConfig::default()).unwrap()
}

fn user(uid: &str) -> Caller {
    Caller::User(User { owner: uid.parse().unwrap(), key: Digest::of(uid.as_bytes()) })
}

fn layer(uid: &str) -> Layer {
    Layer::Private(uid.parse().unwrap())
}

async fn text(registry: &Registry, caller: &Caller, uri: &str) -> Result<String, String> {
    let read = registry.read_as(caller, uri).await;
    read.map(|resource| resource.into_text()).map_err(|error| error.code().as_str().to_owned())
}

#[tokio::test]
async fn a_private_copy_shadows_others_and_every_copy_is_addressable() {
    let registry = open();
    for (layer, body) in
        [(Layer::Market, "market"), (Layer::Official, "official"), (layer("ann"), "private")]
    {
        registry.register_skill(ME, &layer, "a", body.to_owned()).await.unwrap();
    }
    let ann = user("ann");
    assert_eq!(text(&registry, &ann, "iii://a").await.unwrap(), "private");
    for caller in [Caller::Anonymous, user("bob")] {
        assert_eq!(text(&registry, &caller, "iii://a").await.unwrap(), "official", "{caller:?}");
        assert_eq!(
            text(&registry, &caller, "skill://private/a").await.unwrap_err(),
            "not_found",
            "{caller:?}"
        );
    }
    for tier in Tier::ALL {
        for uri in [format!("skill://{tier}/a"), format!("skill://{tier}/a/SKILL.md")] {
            assert_eq!(text(&registry, &ann, &uri).await.unwrap(), tier.as_str(), "{uri:?}");
        }
    }
    assert_eq!(text(&registry, &ann, "skill://market/a/x.md").await.unwrap_err(), "not_found");
    // Removing the copies uncovers them one by one.
    for (caller, tier, left) in
        [(&ann, layer("ann"), "official"), (&ann, Layer::Official, "market")]
    {
        assert!(registry.remove_skill(ME, &tier, "a").await.unwrap(), "{left:?}");
        assert_eq!(text(&registry, caller, "iii://a").await.unwrap(), left, "{left:?}");
    }
}

#[tokio::test]
async fn a_bundle_named_like_a_tier_keeps_its_addresses() {
    let registry = open();
    let files = vec![("a/SKILL.md".parse().unwrap(), "a file".into())];
    let bundle = skills_agent_skills::Bundle::new("# Market".to_owned(), files).unwrap();
    registry.register_bundle(ME, &Layer::Official, "market", bundle).await.unwrap();
    registry.register_skill(ME, &Layer::Market, "a", "a skill".to_owned()).await.unwrap();
    let anyone = Caller::Anonymous;
    assert_eq!(text(&registry, &anyone, "skill://market/a/SKILL.md").await.unwrap(), "a file");
    assert_eq!(text(&registry, &anyone, "skill://market/a").await.unwrap(), "a skill");
    // Published ids cannot imitate tier addresses.
    for id in ["private", "official", "market", "uniskill_private"] {
        let write = registry.register_skill(ME, &Layer::Market, id, "x".to_owned());
        assert_eq!(write.await.unwrap_err().code().as_str(), "invalid_input", "{id}");
    }
}

#[tokio::test]
async fn a_view_reads_lists_and_writes_as_its_caller() {
    let registry = open();
    let skills: Arc<dyn SkillRegistry> = registry.clone();
    let ann = skills.clone().view(&user("ann")).unwrap();
    let error = skills.register_bundle(Tier::Private, "a", bundle("x")).await.unwrap_err();
    assert_eq!(error.code().as_str(), "key_needed");
    ann.register_bundle(Tier::Private, "a", bundle("# Mine")).await.unwrap();
    ann.register_bundle(Tier::Market, "uniskill_b", bundle("# B")).await.unwrap();
    let ids = |rows: Vec<skills_registry::SkillInfo>| -> Vec<String> {
        rows.into_iter().map(|row| format!("{} {}", row.tier.unwrap(), row.id)).collect()
    };
    assert_eq!(ids(ann.skills().await.unwrap()), ["private a", "market uniskill_b"]);
    assert_eq!(ids(skills.skills().await.unwrap()), ["market uniskill_b"]);
    assert_eq!(ann.read("iii://b").await.unwrap().into_text(), "# B", "found with the prefix");
    assert!(ann.read("iii://skills").await.unwrap().into_text().contains("[Mine](iii://a)"));
    assert!(!skills.read("iii://skills").await.unwrap().into_text().contains("Mine"));
    assert_eq!(ann.explain("b").await.unwrap().answer.unwrap().id, "uniskill_b");
    let stored = registry.catalog();
    assert!(stored.stored_skill(&layer("ann"), "a").is_some());
    assert_eq!(stored.stored_skills().count(), 2);
    assert!(!skills.remove_skill(Tier::Official, "a").await.unwrap());
    assert!(ann.remove_skill(Tier::Private, "a").await.unwrap());
}

fn bundle(body: &str) -> skills_agent_skills::Bundle<bytes::Bytes> {
    skills_agent_skills::Bundle::new(body.to_owned(), vec![]).unwrap()
}

#[tokio::test]
async fn prompts_resolve_through_the_tiers() {
    let registry = open();
    let prompt = || PromptDefinition {
        description: "d".to_owned(),
        arguments: vec![],
        function_id: "a::b".to_owned(),
    };
    registry.register_prompt(ME, &layer("ann"), "p", prompt()).await.unwrap();
    let render = async |caller: &Caller| {
        let rendered = registry.render_prompt_as(caller, "p", json!({})).await;
        rendered.unwrap_err().code().as_str().to_owned()
    };
    assert_eq!(render(&user("ann")).await, "no_bus", "it was found, and there is nobody to call");
    assert_eq!(render(&user("bob")).await, "not_found");
    assert_eq!(render(&Caller::Anonymous).await, "not_found");
    assert!(registry.remove_prompt(ME, &layer("ann"), "p").await.unwrap());
}

#[tokio::test]
async fn private_changes_notify_only_their_owner() {
    let registry = open();
    let ann = registry.view_for(&user("ann"));
    let mut feeds: Vec<_> = [
        Arc::new(ann) as Arc<dyn SkillRegistry>,
        Arc::new(registry.view_for(&user("bob"))),
        registry.clone(),
    ]
    .map(|skills| skills.changes())
    .into();
    registry.register_skill(ME, &layer("ann"), "uniskill_a", "x".to_owned()).await.unwrap();
    registry.register_skill(ME, &Layer::Official, "b", "y".to_owned()).await.unwrap();
    let received = async |number: usize, feeds: &mut Vec<skills_registry::ChangeEvents>| {
        let mut received = vec![];
        while received.last() != Some(&ChangeEvent::Skill("b".into())) {
            let next = tokio::time::timeout(Duration::from_secs(30), feeds[number].next());
            received.push(next.await.unwrap().unwrap());
        }
        received
    };
    let skill = |id: &str| ChangeEvent::Skill(id.into());
    // The name without the prefix resolves to it too.
    assert_eq!(received(0, &mut feeds).await, [skill("uniskill_a"), skill("a"), skill("b")]);
    assert_eq!(received(1, &mut feeds).await, [skill("b")]);
    assert_eq!(received(2, &mut feeds).await, [skill("b")]);
    assert!(feeds[2].next().now_or_never().is_none());
}

#[tokio::test]
async fn events_of_all_callers_have_the_owner_who_may_see_them() {
    let registry = open();
    let ann: Arc<dyn SkillRegistry> = Arc::new(registry.view_for(&user("ann")));
    let mut all = SkillRegistry::changes_by_owner(&*registry);
    let mut of_ann = ann.changes_by_owner();
    registry.register_skill(ME, &layer("bob"), "b", "x".to_owned()).await.unwrap();
    registry.register_skill(ME, &layer("ann"), "a", "x".to_owned()).await.unwrap();
    registry.register_skill(ME, &Layer::Official, "o", "y".to_owned()).await.unwrap();
    let skill = |owner: Option<&str>, id: &str| OwnedChangeEvent {
        owner: owner.map(|owner| owner.parse().unwrap()),
        event: ChangeEvent::Skill(id.into()),
    };
    let next = async |events: &mut OwnedChangeEvents| {
        tokio::time::timeout(Duration::from_secs(30), events.next()).await.unwrap().unwrap()
    };
    for expected in [skill(Some("bob"), "b"), skill(Some("ann"), "a"), skill(None, "o")] {
        assert_eq!(next(&mut all).await, expected);
    }
    // The view of one caller has no others to tell apart.
    for expected in [skill(None, "a"), skill(None, "o")] {
        assert_eq!(next(&mut of_ann).await, expected);
    }
}

#[tokio::test]
async fn a_damaged_entry_is_reported_with_its_tier_and_not_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let open = || -> Arc<Registry> {
        let store = SqliteStore::open(dir.path()).unwrap();
        Registry::open(Arc::new(store), None, RegistryConfig::default()).unwrap()
    };
    let registry = open();
    registry.register_skill(ME, &Layer::Market, "a", "market".to_owned()).await.unwrap();
    registry.register_skill(ME, &Layer::Official, "a", "official".to_owned()).await.unwrap();
    registry.register_skill(ME, &Layer::Official, "b", "fine".to_owned()).await.unwrap();
    drop(registry);
    let database = rusqlite::Connection::open(dir.path().join("skills.db")).unwrap();
    let sql = "UPDATE version SET content = '{}' WHERE entry =
                   (SELECT number FROM entry WHERE tier = 'official' AND id = 'a')";
    assert_eq!(database.execute(sql, []).unwrap(), 1);
    drop(database);

    let registry = open();
    let error = registry.read("iii://a").await.unwrap_err();
    assert_eq!(error.code().as_str(), "corrupt_entry");
    assert!(error.to_string().starts_with("skill a (official) is corrupt"), "{error}");
    assert_eq!(registry.read("iii://a/x::y").await.unwrap_err().code().as_str(), "corrupt_entry");
    let anyone = Caller::Anonymous;
    assert_eq!(text(&registry, &anyone, "skill://market/a").await.unwrap(), "market");
    assert_eq!(text(&registry, &anyone, "iii://b").await.unwrap(), "fine");
    let ids: Vec<String> =
        registry.catalog().skills().iter().map(|row| row.id.to_string()).collect();
    assert_eq!(ids, ["a", "b"], "it is listed, and said to be corrupt");
    registry.register_skill(ME, &Layer::Official, "a", "mended".to_owned()).await.unwrap();
    assert_eq!(text(&registry, &anyone, "iii://a").await.unwrap(), "mended");
}

#[tokio::test]
async fn a_missing_body_does_not_fall_through_to_the_tier_below() {
    let (store, registry) = on_faulty_store();
    registry.register_skill(ME, &Layer::Market, "a", "market".to_owned()).await.unwrap();
    registry.register_skill(ME, &layer("ann"), "a", "private".to_owned()).await.unwrap();
    store.without_blobs.store(true, Ordering::SeqCst);
    let error = registry.read_as(&user("ann"), "iii://a").await.unwrap_err();
    assert_eq!(error.code().as_str(), "corrupt_entry");
    assert!(error.to_string().contains("a (private)"), "{error}");
}

fn tool(source: &str) -> Tool {
    let meta = ToolMeta {
        source: ManifestSource::new("other", "application/json").unwrap(),
        name: Some("Global Weather".to_owned()),
        emoji: Some("🌤".to_owned()),
        tags: vec!["weather".to_owned()],
        description: Some("Tells the weather.".to_owned()),
        parameters: json!({"type": "object"}),
        credits_per_call: Some(1.into()),
    };
    Tool {
        body: "# Global Weather\n\nTells the weather.".to_owned(),
        source: source.to_owned(),
        meta,
    }
}

#[tokio::test]
async fn a_tools_manifest_is_not_readable() {
    let registry = open();
    let source = r#"{"id":"uniskill_weather"}"#;
    let write = registry.register_tool(ME, &layer("ann"), "uniskill_weather", tool(source));
    write.await.unwrap();
    let catalog = registry.catalog_for(&user("ann"));
    let row = catalog.skill("weather").unwrap();
    assert_eq!((row.tier, row.meta.files.len()), (Tier::Private, 1));
    assert_eq!(row.meta.tool.as_ref().unwrap().source.digest, Digest::of(source.as_bytes()));
    assert_eq!(registry.manifest_text(row).await.unwrap(), source);
    assert!(text(&registry, &user("ann"), "iii://weather").await.unwrap().contains("Tells"));
    registry.register_skill(ME, &Layer::Official, "plain", "x".to_owned()).await.unwrap();
    let catalog = registry.catalog();
    let error = registry.manifest_text(catalog.skill("plain").unwrap()).await.unwrap_err();
    assert_eq!(error.code().as_str(), "not_a_tool");
    let empty = registry.register_tool(ME, &Layer::Official, "t", tool("")).await;
    assert_eq!(empty.unwrap_err().code().as_str(), "invalid_input");
}
