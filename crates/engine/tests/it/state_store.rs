//! Content in the state of an engine: external writes appear, own writes have the shape of the replaced worker, each
//! change notifies once.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Value, json};
use skills_agent_skills::Bundle;
use skills_core::{Caller, Coded as _, EntryKind, Layer, PromptDefinition, Tier, Timestamp};
use skills_engine::EventBuffer;
use skills_registry::{
    HistoryRequest, LabelRequest, LogRequest, PublishRequest, SkillRegistry,
    live::{
        LiveClient, LiveDocument, LiveError, LiveHost, LiveOperation, LivePrompt, LiveSkill,
        LiveUpdate,
    },
};

use crate::state_bus::{Fixture, StateBus, TIMEOUT, attach, in_time, next, skill};

#[tokio::test(flavor = "multi_thread")]
async fn records_of_the_replaced_worker_are_read_with_and_without_paging() {
    for pages in [true, false] {
        let bus = Arc::new(StateBus::default());
        bus.pages.store(pages, Ordering::SeqCst);
        for number in 0..7 {
            let id = format!("s{number}");
            bus.write("skills", &id, skill(&id, "# T\n\nText", "2026-01-01T00:00:00Z"));
        }
        bus.write("skills", "odd", json!("not an object"));
        bus.write("skills", "alias", skill("s1", "# other", ""));
        bus.write("prompts", "p", json!({"name": "p", "description": "d", "function_id": "a::b"}));
        let fixture = attach(bus).await;
        let known = fixture.ids();
        assert_eq!(known.len(), 7, "pages {pages}: {known:?}");
        assert_eq!(fixture.registry.catalog().prompts().len(), 1, "{pages:?}");
        assert_eq!(fixture.body("s3").await, "# T\n\nText", "{pages:?}");
        assert_eq!(fixture.bus.scope("skills").len(), 9, "what is not ours is never deleted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_written_in_the_shape_of_the_replaced_worker() {
    let fixture = attach(Arc::default()).await;
    let at =
        fixture.registry.register_skill("t", &Layer::Official, "a", "# A".into()).await.unwrap();
    assert_eq!(fixture.bus.scope("skills")["a"], skill("a", "# A", &at.to_string()));
    let definition =
        PromptDefinition { description: "d".into(), arguments: vec![], function_id: "a::b".into() };
    let at =
        fixture.registry.register_prompt("t", &Layer::Official, "p", definition).await.unwrap();
    assert_eq!(
        fixture.bus.scope("prompts")["p"],
        json!({"name": "p", "description": "d", "arguments": [], "function_id": "a::b",
            "registered_at": at.to_string()})
    );
    assert!(fixture.registry.remove_skill("t", &Layer::Official, "a").await.unwrap());
    assert!(!fixture.registry.remove_skill("t", &Layer::Official, "a").await.unwrap());
    assert!(fixture.bus.scope("skills").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_holds_only_official_entries() {
    let fixture = attach(Arc::default()).await;
    fixture.registry.register_skill("t", &Layer::Official, "a", "# A".into()).await.unwrap();
    for layer in [Layer::Market, Layer::Private("ann".parse().unwrap())] {
        let write = fixture.registry.register_skill("t", &layer, "a", "# B".into());
        let error = write.await.unwrap_err();
        assert_eq!(error.code().as_str(), "unsupported", "{layer:?}");
        assert!(error.to_string().contains("store: embedded"), "{error}");
        let error = fixture.registry.remove_skill("t", &layer, "a").await.unwrap_err();
        assert_eq!(error.code().as_str(), "unsupported", "{layer:?}");
    }
    assert_eq!(fixture.body("a").await, "# A");
}

#[tokio::test(flavor = "multi_thread")]
async fn listing_makes_no_state_calls() {
    let fixture = attach(Arc::default()).await;
    for number in 0..50 {
        let write = fixture.registry.register_skill(
            "t",
            &Layer::Official,
            &format!("s{number}"),
            "# T".into(),
        );
        write.await.unwrap();
    }
    fixture.bus.calls.lock().unwrap().clear();
    assert_eq!(fixture.ids().len(), 50);
    fixture.registry.read("iii://skills").await.unwrap();
    assert_eq!(*fixture.bus.calls.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn external_writes_notify_once_and_own_writes_not_again() {
    let fixture = attach(Arc::default()).await;
    let mut feed = fixture.registry.changes();
    let at =
        fixture.registry.register_skill("t", &Layer::Official, "mine", "# M".into()).await.unwrap();
    assert_eq!(next(&mut feed).await, ("mine".into(), true));
    // The event of our own write carries nothing new.
    let echo = serde_json::from_value(json!({
        "scope": "skills", "key": "mine", "old_value": null,
        "new_value": skill("mine", "# M", &at.to_string()),
    }));
    fixture.follower.push(&echo.unwrap());
    for (body, moment) in [("# 1", "2026-01-01T00:00:01Z"), ("# 2", "2026-01-01T00:00:02Z")] {
        let event = fixture.bus.write("skills", "theirs", skill("theirs", body, moment));
        fixture.follower.push(&event);
        // A later recheck would see both writes as one, so wait here.
        assert_eq!(next(&mut feed).await, ("theirs".into(), true), "{body:?}");
        fixture.follower.push(&event);
    }
    fixture.follower.push(&fixture.bus.write("skills", "theirs", Value::Null));
    assert_eq!(next(&mut feed).await, ("theirs".into(), false));
    fixture.registry.register_skill("t", &Layer::Official, "last", "# L".into()).await.unwrap();
    assert_eq!(next(&mut feed).await, ("last".into(), true), "nothing was announced twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn reordered_events_converge_to_the_stored_state() {
    let fixture = attach(Arc::default()).await;
    let first = fixture.bus.write("skills", "a", skill("a", "# 1", "2026-01-01T00:00:01Z"));
    let second = fixture.bus.write("skills", "a", skill("a", "# 2", "2026-01-01T00:00:02Z"));
    let mut feed = fixture.registry.changes();
    fixture.follower.push(&second);
    fixture.follower.push(&first);
    next(&mut feed).await;
    let sentinel = fixture.registry.register_skill("t", &Layer::Official, "z", "# Z".into());
    sentinel.await.unwrap();
    assert_eq!(fixture.registry.catalog().skill("a").unwrap().title(), "2");
}

/// An own write may overtake an event and make it look like the next change.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_event_does_not_notify_again() {
    let fixture = attach(Arc::default()).await;
    let mut feed = fixture.registry.changes();
    let theirs = fixture.bus.write("skills", "a", skill("a", "# 1", "2026-01-01T00:00:01Z"));
    fixture.registry.register_skill("t", &Layer::Official, "a", "# 2".into()).await.unwrap();
    assert!(fixture.registry.remove_skill("t", &Layer::Official, "a").await.unwrap());
    assert_eq!(next(&mut feed).await, ("a".into(), true));
    assert_eq!(next(&mut feed).await, ("a".into(), false));
    // The event reports a creation, but the entry is gone again.
    fixture.follower.push(&theirs);
    fixture.registry.register_skill("t", &Layer::Official, "last", "# L".into()).await.unwrap();
    assert_eq!(next(&mut feed).await, ("last".into(), true));
    assert_eq!(fixture.ids(), ["last"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_event_after_a_comparison_does_not_notify_again() {
    let fixture = attach(Arc::default()).await;
    let mut feed = fixture.registry.changes();
    let put = fixture.bus.write("skills", "a", skill("a", "# 1", "2026-01-01T00:00:01Z"));
    assert_eq!(fixture.follower.resync().await.unwrap(), 1);
    let removed = fixture.bus.write("skills", "a", Value::Null);
    assert_eq!(fixture.follower.resync().await.unwrap(), 1);
    assert_eq!(next(&mut feed).await, ("a".into(), true));
    assert_eq!(next(&mut feed).await, ("a".into(), false));
    fixture.follower.push(&put);
    fixture.follower.push(&removed);
    // From here on events are trusted again.
    fixture.follower.push(&fixture.bus.write(
        "skills",
        "a",
        skill("a", "# 2", "2026-01-01T00:00:02Z"),
    ));
    assert_eq!(next(&mut feed).await, ("a".into(), true));
    fixture.registry.register_skill("t", &Layer::Official, "last", "# L".into()).await.unwrap();
    assert_eq!(next(&mut feed).await, ("last".into(), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_not_yet_in_the_catalog_can_be_removed() {
    let fixture = attach(Arc::default()).await;
    let mut feed = fixture.registry.changes();
    let event = fixture.bus.write("skills", "a", skill("a", "# A", "2026-01-01T00:00:00Z"));
    assert!(fixture.registry.remove_skill("t", &Layer::Official, "a").await.unwrap());
    assert!(fixture.bus.scope("skills").is_empty());
    assert_eq!(next(&mut feed).await, ("a".into(), false));
    fixture.follower.push(&event);
    // Foreign records are left unchanged.
    fixture.bus.write("skills", "odd", json!("not an object"));
    assert!(!fixture.registry.remove_skill("t", &Layer::Official, "odd").await.unwrap());
    assert_eq!(fixture.bus.scope("skills").len(), 1);
    fixture.registry.register_skill("t", &Layer::Official, "last", "# L".into()).await.unwrap();
    assert_eq!(next(&mut feed).await, ("last".into(), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_during_the_initial_read_are_rechecked_afterwards() {
    let fixture = attach(Arc::default()).await;
    let buffer = EventBuffer::default();
    let mut feed = fixture.registry.changes();
    buffer.push(fixture.bus.write("skills", "a", skill("a", "# A", "2026-01-01T00:00:00Z")));
    buffer.forward_to(&fixture.follower);
    assert_eq!(next(&mut feed).await, ("a".into(), true));
    buffer.push(fixture.bus.write("skills", "b", skill("b", "# B", "2026-01-01T00:00:00Z")));
    assert_eq!(next(&mut feed).await, ("b".into(), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_record_read_is_retried_until_it_succeeds() {
    let fixture = attach(Arc::default()).await;
    fixture.registry.register_skill("t", &Layer::Official, "a", "# 1".into()).await.unwrap();
    let mut feed = fixture.registry.changes();
    // The event of the own write is pending, so another event causes a recheck.
    let event = fixture.bus.write("skills", "a", skill("a", "# 2", "2027-01-01T00:00:00Z"));
    fixture.bus.down.store(true, Ordering::SeqCst);
    fixture.bus.calls.lock().unwrap().clear();
    fixture.follower.push(&event);
    while fixture.bus.calls.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    fixture.bus.down.store(false, Ordering::SeqCst);
    assert_eq!(next(&mut feed).await, ("a".into(), true));
    assert_eq!(fixture.body("a").await, "# 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_compared_after_a_lost_connection() {
    let fixture = attach(Arc::default()).await;
    for id in ["kept", "changed", "removed"] {
        fixture.registry.register_skill("t", &Layer::Official, id, "# T".into()).await.unwrap();
    }
    let mut feed = fixture.registry.changes();
    fixture.bus.write("skills", "changed", skill("changed", "# New", "2027-01-01T00:00:00Z"));
    fixture.bus.write("skills", "added", skill("added", "# A", "2027-01-01T00:00:00Z"));
    fixture.bus.write("skills", "removed", Value::Null);
    assert_eq!(fixture.follower.resync().await.unwrap(), 3);
    let mut received = vec![next(&mut feed).await, next(&mut feed).await, next(&mut feed).await];
    received.sort();
    let expected = [("added", true), ("changed", true), ("removed", false)];
    assert_eq!(received, expected.map(|(id, there)| (id.to_owned(), there)));
    assert_eq!(fixture.follower.resync().await.unwrap(), 0);
    assert_eq!(fixture.body("changed").await, "# New");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_just_replaced_body_is_read_in_its_new_version() {
    let fixture = attach(Arc::default()).await;
    fixture.registry.register_skill("t", &Layer::Official, "a", "# Old".into()).await.unwrap();
    // The event is still pending.
    fixture.bus.write("skills", "a", skill("a", "# New", "2027-01-01T00:00:00Z"));
    assert_eq!(fixture.body("a").await, "# New");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_too_large_to_list_is_read_key_by_key() {
    let bus = Arc::new(StateBus::default());
    bus.write("skills", "a", skill("a", "# A", "2026-01-01T00:00:00Z"));
    bus.too_large.store(true, Ordering::SeqCst);
    let fixture = attach(bus).await;
    assert!(fixture.ids().is_empty());
    assert_eq!(fixture.body("a").await, "# A");
    assert_eq!(fixture.ids(), ["a"]);
    let error = fixture.registry.read("iii://nothing").await.unwrap_err();
    assert_eq!(error.code().as_str(), "not_found");
}

/// Host that has every requested skill and prompt.
struct FakeClients;

#[async_trait]
impl LiveHost for FakeClients {
    fn has_clients(&self) -> bool {
        true
    }

    fn answer_timeout(&self) -> Duration {
        TIMEOUT
    }

    async fn read(&self, _: &str, _: &str) -> Result<Option<LiveDocument>, LiveError> {
        let media_type = "text/markdown".to_owned();
        Ok(Some(LiveDocument { media_type, body: "live".into() }))
    }

    async fn render(&self, _: &str, _: &str, _: Value) -> Result<Value, LiveError> {
        Ok(json!({ "content": "live" }))
    }

    async fn call_operation(
        &self,
        _: &Caller,
        _: LiveOperation,
        _: serde_json::Map<String, Value>,
    ) -> Result<Value, skills_registry::RegistryError> {
        Ok(Value::Null)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_entry_never_overrides_a_stored_entry_not_yet_in_the_catalog() {
    let bus = Arc::new(StateBus::default());
    bus.too_large.store(true, Ordering::SeqCst);
    let fixture = attach(bus).await;
    let clients: Arc<dyn LiveHost> = Arc::new(FakeClients);
    fixture.registry.attach_live_host(Arc::downgrade(&clients));
    let here = LiveUpdate::Connected(LiveClient {
        id: "desk".parse().unwrap(),
        order: 1,
        since: Timestamp::from_micros(1),
        skills: vec![LiveSkill { path: "/a/skill.md".to_owned(), ..LiveSkill::default() }],
        prompts: vec![LivePrompt { path: "/p/prompt.md".to_owned(), ..LivePrompt::default() }],
    });
    fixture.registry.update_live(vec![here]).await.unwrap();
    let prompt = json!({
        "name": "desk-p", "description": "d", "function_id": "a::b",
        "registered_at": "2026-01-01T00:00:00Z",
    });
    fixture.bus.write("prompts", "desk-p", prompt);
    fixture.bus.calls.lock().unwrap().clear();
    // The function cannot be called here, but the stored prompt is the one resolved.
    let error = fixture.registry.render_prompt("desk-p", json!({})).await.unwrap_err();
    assert_eq!(error.code().as_str(), "no_bus");
    fixture.bus.calls.lock().unwrap().clear();
    for _ in 0..5 {
        let read = fixture.registry.read("iii://desk/a/skill.md").await.unwrap();
        assert_eq!(read.into_text(), "live");
    }
    let looks = fixture.bus.called("state::get");
    assert!((1..5).contains(&looks), "{looks}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_connection_writes_fail_and_listings_work() {
    let fixture = attach(Arc::default()).await;
    fixture.registry.register_skill("t", &Layer::Official, "a", "# A".into()).await.unwrap();
    fixture.bus.down.store(true, Ordering::SeqCst);
    let mut feed = fixture.registry.changes();
    let error = fixture
        .registry
        .register_skill("t", &Layer::Official, "b", "# B".into())
        .await
        .unwrap_err();
    assert_eq!(error.code().as_str(), "not_connected");
    assert_eq!(fixture.ids(), ["a"]);
    assert!(fixture.follower.resync().await.is_err());
    fixture.bus.down.store(false, Ordering::SeqCst);
    fixture.registry.register_skill("t", &Layer::Official, "c", "# C".into()).await.unwrap();
    assert_eq!(next(&mut feed).await, ("c".into(), true), "what failed was not announced");
}

/// Registry on a state that cannot be listed, with three known skills.
async fn unlistable() -> Fixture {
    let bus = Arc::new(StateBus::default());
    bus.too_large.store(true, Ordering::SeqCst);
    for id in ["a", "b", "c"] {
        bus.write("skills", id, skill(id, "# T", "2026-01-01T00:00:00Z"));
    }
    let fixture = attach(bus).await;
    for id in ["a", "b", "c"] {
        fixture.body(id).await;
    }
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_stops_at_the_first_unreadable_record() {
    let fixture = unlistable().await;
    let gate = fixture.bus.gate("state::get");
    fixture.bus.calls.lock().unwrap().clear();
    let (follower, bus) = (fixture.follower.clone(), fixture.bus.clone());
    let compared = tokio::spawn(async move { follower.resync().await });
    bus.until_called("state::get", 1).await;
    bus.down.store(true, Ordering::SeqCst);
    gate.add_permits(100);
    assert!(in_time(compared).await.unwrap().is_err());
    assert_eq!(bus.called("state::get"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_read_key_by_key_after_a_failed_comparison() {
    let fixture = unlistable().await;
    fixture.bus.write("skills", "d", skill("d", "# D", "2026-01-01T00:00:00Z"));
    fixture.bus.down.store(true, Ordering::SeqCst);
    assert!(fixture.follower.resync().await.is_err());
    fixture.bus.down.store(false, Ordering::SeqCst);
    assert_eq!(fixture.body("d").await, "# D");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_waits_for_no_read_of_the_state() {
    let fixture = unlistable().await;
    let gate = fixture.bus.gate("state::get");
    fixture.bus.calls.lock().unwrap().clear();
    let mut readers = Vec::new();
    for number in 0..5 {
        let registry = fixture.registry.clone();
        readers.push(tokio::spawn(async move { registry.read(&format!("iii://x{number}")).await }));
    }
    fixture.bus.until_called("state::get", 5).await;
    let write = fixture.registry.register_skill("t", &Layer::Official, "mine", "# M".into());
    in_time(write).await.unwrap();
    gate.add_permits(100);
    for reader in readers {
        assert_eq!(in_time(reader).await.unwrap().unwrap_err().code().as_str(), "not_found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_proceed_between_the_pages_of_a_comparison() {
    let bus = Arc::new(StateBus::default());
    bus.pages.store(true, Ordering::SeqCst);
    for number in 0..6 {
        let id = format!("s{number}");
        bus.write("skills", &id, skill(&id, "# T", "2026-01-01T00:00:00Z"));
    }
    let fixture = attach(bus).await;
    let gate = fixture.bus.gate("state::list_entries");
    fixture.bus.calls.lock().unwrap().clear();
    fixture.bus.write("skills", "s5", Value::Null);
    let mut feed = fixture.registry.changes();
    let follower = fixture.follower.clone();
    let compared = tokio::spawn(async move { follower.resync().await });
    fixture.bus.until_called("state::list_entries", 1).await;
    // These removals shift the next page, because this state pages by count.
    let removed = fixture.registry.remove_skill("t", &Layer::Official, "s0");
    gate.add_permits(1);
    assert!(in_time(removed).await.unwrap());
    let written = fixture.registry.register_skill("t", &Layer::Official, "a", "# A".into());
    let removed = fixture.registry.remove_skill("t", &Layer::Official, "s1");
    gate.add_permits(1);
    in_time(written).await.unwrap();
    assert!(in_time(removed).await.unwrap());
    gate.add_permits(100);
    assert_eq!(in_time(compared).await.unwrap().unwrap(), 1, "only s5 is gone");
    assert_eq!(fixture.ids(), ["a", "s2", "s3", "s4"]);
    let mut received = Vec::new();
    for _ in 0..4 {
        received.push(next(&mut feed).await);
    }
    received.sort();
    let expected = [("a", true), ("s0", false), ("s1", false), ("s5", false)];
    assert_eq!(received, expected.map(|(id, there)| (id.to_owned(), there)));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_events_of_one_record_are_rechecked_a_few_times() {
    let fixture = attach(Arc::default()).await;
    // The event of the own write is pending, so other events cause rechecks.
    fixture.registry.register_skill("t", &Layer::Official, "a", "# 0".into()).await.unwrap();
    let gate = fixture.bus.gate("state::get");
    fixture.bus.calls.lock().unwrap().clear();
    let mut feed = fixture.registry.changes();
    for number in 1..=100 {
        let moment = format!("2027-01-01T00:00:{:02}Z", number % 60);
        let body = format!("# {number}");
        fixture.follower.push(&fixture.bus.write("skills", "a", skill("a", &body, &moment)));
    }
    fixture.bus.until_called("state::get", 1).await;
    gate.add_permits(100);
    assert_eq!(next(&mut feed).await, ("a".into(), true));
    assert_eq!(fixture.registry.catalog().skill("a").unwrap().title(), "100");
    // Nothing notifies again, and events are trusted from here on.
    fixture.follower.push(&fixture.bus.write(
        "skills",
        "b",
        skill("b", "# B", "2027-01-01T00:00:00Z"),
    ));
    assert_eq!(next(&mut feed).await, ("b".into(), true));
    let looks = fixture.bus.called("state::get");
    assert!(looks <= 5, "{looks} looks");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_keeps_no_history_and_says_which_store_does() {
    let fixture = attach(Arc::default()).await;
    let skills = &*fixture.registry;
    skills.register_skill("t", &Layer::Official, "a", "# A".into()).await.unwrap();
    let history = HistoryRequest { id: "a".into(), tier: None, limit: None, after: None };
    let label = LabelRequest {
        id: "a".into(),
        tier: None,
        label: "stable".parse().unwrap(),
        version: Some("1".parse().unwrap()),
        expected: None,
    };
    let message = PublishRequest { message: Some("why".into()), expected_version: None };
    let bundle = Bundle::new("# B".to_owned(), vec![]).unwrap();
    let errors = [
        SkillRegistry::history(skills, EntryKind::Skill, &history).await.err(),
        SkillRegistry::set_label(skills, EntryKind::Skill, &label).await.err(),
        SkillRegistry::log(skills, &LogRequest::default()).await.err(),
        SkillRegistry::read(skills, "iii://a@1").await.err(),
        SkillRegistry::publish_bundle(skills, Tier::Official, "a", bundle, message).await.err(),
    ];
    for error in errors.into_iter().map(Option::unwrap) {
        assert_eq!(error.code().as_str(), "unsupported", "{error}");
        assert!(error.to_string().contains("store: embedded"), "{error}");
    }
    assert_eq!(fixture.body("a").await, "# A");
    assert!(skills.catalog().skill("a").unwrap().heads.is_none());
    let error = skills.read("iii://missing").await.unwrap_err();
    assert_eq!(error.code().as_str(), "not_found");
}
