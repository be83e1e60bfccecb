//! Content in the state of an engine: what others write appears, ours is written in their shape, each
//! change is announced once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use skills_bus::{
    Activation, Bus, CallError, Function, FunctionSpec, Json, ObserverSink, TriggerProvider,
    TriggerTypeSpec,
};
use skills_core::{Caller, Layer, PromptDefinition, Timestamp};
use skills_registry::{
    ChangeFeed, Registry, RegistryConfig, StateStore,
    live::{
        LiveClient, LiveDocument, LiveError, LivePrompt, LiveSkill, LiveSource, LiveUpdate,
        Question,
    },
    state_store::{
        Place, Scopes,
        sync::{Ear, Event, Follower},
    },
};
use tokio::sync::Semaphore;

const TIMEOUT: Duration = Duration::from_secs(5);

/// A bus with a state worker and nothing else.
#[derive(Default)]
struct StateBus {
    scopes: Mutex<Map<String, Value>>,
    calls: Mutex<Vec<String>>,
    /// Whether the worker knows `state::list_entries`.
    pages: AtomicBool,
    /// Whether a whole scope is too much for one message.
    too_large: AtomicBool,
    down: AtomicBool,
    /// Functions that answer as often as they are allowed to, and wait until then.
    gates: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl StateBus {
    fn gate(&self, function_id: &str) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.gates.lock().unwrap().insert(function_id.to_owned(), gate.clone());
        gate
    }

    fn called(&self, function_id: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|called| *called == function_id).count()
    }

    async fn until_called(&self, function_id: &str, times: usize) {
        let called = async {
            while self.called(function_id) < times {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TIMEOUT, called).await.unwrap();
    }

    fn scope(&self, name: &str) -> Map<String, Value> {
        let scopes = self.scopes.lock().unwrap();
        scopes.get(name).and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// What another worker does, and the event that tells of it.
    fn write(&self, scope: &str, key: &str, value: Value) -> Event {
        let mut scopes = self.scopes.lock().unwrap();
        let values = scopes.entry(scope).or_insert_with(|| json!({})).as_object_mut().unwrap();
        let old = match &value {
            Value::Null => values.remove(key),
            value => values.insert(key.to_owned(), value.clone()),
        };
        serde_json::from_value(json!({
            "type": "state", "scope": scope, "key": key,
            "old_value": old.unwrap_or_default(), "new_value": value,
        }))
        .unwrap()
    }

    fn answer(&self, function_id: &str, data: &Value) -> Result<Value, CallError> {
        let (scope, key) =
            (data["scope"].as_str().unwrap_or_default(), data["key"].as_str().unwrap_or_default());
        let values = self.scope(scope);
        match function_id {
            "state::get" => Ok(values.get(key).cloned().unwrap_or_default()),
            "state::set" => {
                self.write(scope, key, data["value"].clone());
                Ok(json!({ "old_value": null, "new_value": data["value"] }))
            }
            "state::delete" => {
                self.write(scope, key, Value::Null);
                Ok(values.get(key).cloned().unwrap_or_default())
            }
            "state::list" if self.too_large.load(Ordering::SeqCst) => {
                Err(CallError::remote("payload_too_large", "too much"))
            }
            "state::list" => Ok(values.values().cloned().collect()),
            "state::list_entries" if self.pages.load(Ordering::SeqCst) => {
                let start: usize = data["cursor"].as_str().map_or(0, |at| at.parse().unwrap());
                let entries: Vec<_> = values.iter().skip(start).take(2).collect();
                let next = start + entries.len();
                let done = next >= values.len();
                let cursor = (!done).then(|| next.to_string());
                Ok(json!({ "entries": entries, "next_cursor": cursor, "done": done }))
            }
            other => Err(CallError::NotFound(other.to_owned())),
        }
    }
}

#[async_trait::async_trait]
impl Bus for StateBus {
    fn register_function(&self, _: FunctionSpec, _: Arc<dyn Function>) {}

    fn register_trigger_type(&self, _: TriggerTypeSpec, _: Arc<dyn TriggerProvider>) {}

    fn register_observable(&self, _: FunctionSpec, _: Arc<dyn ObserverSink>) {}

    async fn call(&self, function_id: &str, data: Json, _: Duration) -> Result<Json, CallError> {
        self.calls.lock().unwrap().push(function_id.to_owned());
        let gate = self.gates.lock().unwrap().get(function_id).cloned();
        if let Some(gate) = gate {
            gate.acquire().await.unwrap().forget();
        }
        if self.down.load(Ordering::SeqCst) {
            return Err(CallError::Disconnected(function_id.to_owned()));
        }
        self.answer(function_id, &data.parse().unwrap()).map(|value| Json::from(&value))
    }

    async fn notify(&self, _: &str, _: Json, _: Option<Activation>) -> Result<(), CallError> {
        Ok(())
    }
}

struct Home {
    bus: Arc<StateBus>,
    registry: Arc<Registry>,
    follower: Follower,
}

async fn attach(bus: Arc<StateBus>) -> Home {
    let (shared, runtime) = (bus.clone() as Arc<dyn Bus>, tokio::runtime::Handle::current());
    let scopes = Scopes { skills: "skills".into(), prompts: "prompts".into() };
    let store = Arc::new(StateStore::new(shared, Place::Own, scopes, TIMEOUT, runtime));
    let stand = store.clone();
    let open = move || Registry::open(stand, None, RegistryConfig::default());
    let registry = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
    Home { bus, follower: Follower::new(registry.clone(), store), registry }
}

fn skill(id: &str, body: &str, registered_at: &str) -> Value {
    json!({ "id": id, "skill": body, "registered_at": registered_at })
}

impl Home {
    fn ids(&self) -> Vec<String> {
        self.registry.catalog().skills().iter().map(|row| row.id.to_string()).collect()
    }

    async fn body(&self, id: &str) -> String {
        let resource = self.registry.read(&format!("iii://{id}")).await.unwrap();
        resource.into_text()
    }
}

async fn next(feed: &mut ChangeFeed) -> (String, bool) {
    let change = tokio::time::timeout(TIMEOUT, feed.next()).await.unwrap().unwrap().unwrap();
    (change.key.id.to_string(), change.content.is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_other_worker_stored_is_there_with_and_without_pages() {
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
        let home = attach(bus).await;
        let known = home.ids();
        assert_eq!(known.len(), 7, "pages {pages}: {known:?}");
        assert_eq!(home.registry.catalog().prompts().len(), 1);
        assert_eq!(home.body("s3").await, "# T\n\nText");
        assert_eq!(home.bus.scope("skills").len(), 9, "what is not ours is never deleted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ours_is_written_in_the_shape_of_the_other_worker() {
    let home = attach(Arc::default()).await;
    let at = home.registry.register_skill("t", "a", "# A".into()).await.unwrap();
    assert_eq!(home.bus.scope("skills")["a"], skill("a", "# A", &at.to_string()));
    let definition =
        PromptDefinition { description: "d".into(), arguments: vec![], function_id: "a::b".into() };
    let at = home.registry.register_prompt("t", "p", definition).await.unwrap();
    assert_eq!(
        home.bus.scope("prompts")["p"],
        json!({"name": "p", "description": "d", "arguments": [], "function_id": "a::b",
            "registered_at": at.to_string()})
    );
    assert!(home.registry.remove_skill("t", "a").await.unwrap());
    assert!(!home.registry.remove_skill("t", "a").await.unwrap());
    assert!(home.bus.scope("skills").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_holds_official_entries_alone() {
    let home = attach(Arc::default()).await;
    home.registry.register_skill("t", "a", "# A".into()).await.unwrap();
    for layer in [Layer::Market, Layer::Private("ann".parse().unwrap())] {
        let write = home.registry.register_skill_in("t", &layer, "a", "# B".into());
        let error = write.await.unwrap_err();
        assert_eq!(error.code(), "unsupported");
        assert!(error.to_string().contains("store: embedded"), "{error}");
        let error = home.registry.remove_skill_in("t", &layer, "a").await.unwrap_err();
        assert_eq!(error.code(), "unsupported");
    }
    assert_eq!(home.body("a").await, "# A");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_costs_no_call() {
    let home = attach(Arc::default()).await;
    for number in 0..50 {
        let write = home.registry.register_skill("t", &format!("s{number}"), "# T".into());
        write.await.unwrap();
    }
    home.bus.calls.lock().unwrap().clear();
    assert_eq!(home.ids().len(), 50);
    home.registry.read("iii://skills").await.unwrap();
    assert_eq!(*home.bus.calls.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_write_is_announced_once_and_ours_not_again() {
    let home = attach(Arc::default()).await;
    let mut feed = home.registry.changes();
    let at = home.registry.register_skill("t", "mine", "# M".into()).await.unwrap();
    assert_eq!(next(&mut feed).await, ("mine".into(), true));
    // The event of our own write, which tells nothing new.
    let echo = serde_json::from_value(json!({
        "scope": "skills", "key": "mine", "old_value": null,
        "new_value": skill("mine", "# M", &at.to_string()),
    }));
    home.follower.hear(&echo.unwrap());
    for (body, moment) in [("# 1", "2026-01-01T00:00:01Z"), ("# 2", "2026-01-01T00:00:02Z")] {
        let event = home.bus.write("skills", "theirs", skill("theirs", body, moment));
        home.follower.hear(&event);
        // Before the next write: a look that comes later would see both as one.
        assert_eq!(next(&mut feed).await, ("theirs".into(), true));
        home.follower.hear(&event);
    }
    home.follower.hear(&home.bus.write("skills", "theirs", Value::Null));
    assert_eq!(next(&mut feed).await, ("theirs".into(), false));
    home.registry.register_skill("t", "last", "# L".into()).await.unwrap();
    assert_eq!(next(&mut feed).await, ("last".into(), true), "nothing was announced twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_overtake_each_other_end_at_the_truth() {
    let home = attach(Arc::default()).await;
    let first = home.bus.write("skills", "a", skill("a", "# 1", "2026-01-01T00:00:01Z"));
    let second = home.bus.write("skills", "a", skill("a", "# 2", "2026-01-01T00:00:02Z"));
    let mut feed = home.registry.changes();
    home.follower.hear(&second);
    home.follower.hear(&first);
    next(&mut feed).await;
    let sentinel = home.registry.register_skill("t", "z", "# Z".into());
    sentinel.await.unwrap();
    assert_eq!(home.registry.catalog().skill("a").unwrap().title(), "2");
}

/// What an event tells of may have been overtaken by what we did ourselves, and look like the next change.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_late_announces_nothing_again() {
    let home = attach(Arc::default()).await;
    let mut feed = home.registry.changes();
    let theirs = home.bus.write("skills", "a", skill("a", "# 1", "2026-01-01T00:00:01Z"));
    home.registry.register_skill("t", "a", "# 2".into()).await.unwrap();
    assert!(home.registry.remove_skill("t", "a").await.unwrap());
    assert_eq!(next(&mut feed).await, ("a".into(), true));
    assert_eq!(next(&mut feed).await, ("a".into(), false));
    // It tells that there was nothing and then something, and now there is nothing again.
    home.follower.hear(&theirs);
    home.registry.register_skill("t", "last", "# L".into()).await.unwrap();
    assert_eq!(next(&mut feed).await, ("last".into(), true));
    assert_eq!(home.ids(), ["last"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_comparison_has_announced_its_late_event_does_not() {
    let home = attach(Arc::default()).await;
    let mut feed = home.registry.changes();
    let put = home.bus.write("skills", "a", skill("a", "# 1", "2026-01-01T00:00:01Z"));
    assert_eq!(home.follower.resync().await.unwrap(), 1);
    let removed = home.bus.write("skills", "a", Value::Null);
    assert_eq!(home.follower.resync().await.unwrap(), 1);
    assert_eq!(next(&mut feed).await, ("a".into(), true));
    assert_eq!(next(&mut feed).await, ("a".into(), false));
    home.follower.hear(&put);
    home.follower.hear(&removed);
    // From here on events are taken at their word again.
    home.follower.hear(&home.bus.write("skills", "a", skill("a", "# 2", "2026-01-01T00:00:02Z")));
    assert_eq!(next(&mut feed).await, ("a".into(), true));
    home.registry.register_skill("t", "last", "# L".into()).await.unwrap();
    assert_eq!(next(&mut feed).await, ("last".into(), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_that_nobody_has_heard_of_yet_can_be_removed() {
    let home = attach(Arc::default()).await;
    let mut feed = home.registry.changes();
    let event = home.bus.write("skills", "a", skill("a", "# A", "2026-01-01T00:00:00Z"));
    assert!(home.registry.remove_skill("t", "a").await.unwrap());
    assert!(home.bus.scope("skills").is_empty());
    assert_eq!(next(&mut feed).await, ("a".into(), false));
    home.follower.hear(&event);
    // What is not ours is left alone.
    home.bus.write("skills", "odd", json!("not an object"));
    assert!(!home.registry.remove_skill("t", "odd").await.unwrap());
    assert_eq!(home.bus.scope("skills").len(), 1);
    home.registry.register_skill("t", "last", "# L".into()).await.unwrap();
    assert_eq!(next(&mut feed).await, ("last".into(), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_before_everything_was_read_is_looked_at_afterwards() {
    let home = attach(Arc::default()).await;
    let ear = Ear::default();
    let mut feed = home.registry.changes();
    ear.hear(home.bus.write("skills", "a", skill("a", "# A", "2026-01-01T00:00:00Z")));
    ear.follow(&home.follower);
    assert_eq!(next(&mut feed).await, ("a".into(), true));
    ear.hear(home.bus.write("skills", "b", skill("b", "# B", "2026-01-01T00:00:00Z")));
    assert_eq!(next(&mut feed).await, ("b".into(), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_could_not_be_read_is_looked_at_until_it_can() {
    let home = attach(Arc::default()).await;
    home.registry.register_skill("t", "a", "# 1".into()).await.unwrap();
    let mut feed = home.registry.changes();
    // Its own event has not come, so another one is a reason to look.
    let event = home.bus.write("skills", "a", skill("a", "# 2", "2027-01-01T00:00:00Z"));
    home.bus.down.store(true, Ordering::SeqCst);
    home.bus.calls.lock().unwrap().clear();
    home.follower.hear(&event);
    while home.bus.calls.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    home.bus.down.store(false, Ordering::SeqCst);
    assert_eq!(next(&mut feed).await, ("a".into(), true));
    assert_eq!(home.body("a").await, "# 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_lost_connection_everything_is_compared() {
    let home = attach(Arc::default()).await;
    for id in ["kept", "changed", "removed"] {
        home.registry.register_skill("t", id, "# T".into()).await.unwrap();
    }
    let mut feed = home.registry.changes();
    home.bus.write("skills", "changed", skill("changed", "# New", "2027-01-01T00:00:00Z"));
    home.bus.write("skills", "added", skill("added", "# A", "2027-01-01T00:00:00Z"));
    home.bus.write("skills", "removed", Value::Null);
    assert_eq!(home.follower.resync().await.unwrap(), 3);
    let mut heard = vec![next(&mut feed).await, next(&mut feed).await, next(&mut feed).await];
    heard.sort();
    let expected = [("added", true), ("changed", true), ("removed", false)];
    assert_eq!(heard, expected.map(|(id, there)| (id.to_owned(), there)));
    assert_eq!(home.follower.resync().await.unwrap(), 0);
    assert_eq!(home.body("changed").await, "# New");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_was_replaced_a_moment_ago_is_read_as_it_is_now() {
    let home = attach(Arc::default()).await;
    home.registry.register_skill("t", "a", "# Old".into()).await.unwrap();
    // The event has not come yet.
    home.bus.write("skills", "a", skill("a", "# New", "2027-01-01T00:00:00Z"));
    assert_eq!(home.body("a").await, "# New");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_too_large_to_list_is_found_key_by_key() {
    let bus = Arc::new(StateBus::default());
    bus.write("skills", "a", skill("a", "# A", "2026-01-01T00:00:00Z"));
    bus.too_large.store(true, Ordering::SeqCst);
    let home = attach(bus).await;
    assert!(home.ids().is_empty());
    assert_eq!(home.body("a").await, "# A");
    assert_eq!(home.ids(), ["a"]);
    let error = home.registry.read("iii://nothing").await.unwrap_err();
    assert_eq!(error.code(), "not_found");
}

/// Has every skill and every prompt that is asked for.
struct Clients;

#[async_trait]
impl LiveSource for Clients {
    fn answer_within(&self) -> Duration {
        TIMEOUT
    }

    async fn read(&self, _: &str, _: &str) -> Result<Option<LiveDocument>, LiveError> {
        let media_type = "text/markdown".to_owned();
        Ok(Some(LiveDocument { media_type, body: "live".into() }))
    }

    async fn render(&self, _: &str, _: &str, _: Value) -> Result<Value, LiveError> {
        Ok(json!({ "content": "live" }))
    }

    async fn ask(&self, _: &Caller, _: Question) -> Result<Value, LiveError> {
        Ok(Value::Null)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_client_overrides_nothing_that_is_not_known_yet() {
    let bus = Arc::new(StateBus::default());
    bus.too_large.store(true, Ordering::SeqCst);
    let home = attach(bus).await;
    let clients: Arc<dyn LiveSource> = Arc::new(Clients);
    home.registry.set_live_source(Arc::downgrade(&clients));
    let here = LiveUpdate::Here(LiveClient {
        id: "desk".parse().unwrap(),
        order: 1,
        since: Timestamp::from_micros(1),
        skills: vec![LiveSkill { path: "/a/skill.md".to_owned(), ..LiveSkill::default() }],
        prompts: vec![LivePrompt { path: "/p/prompt.md".to_owned(), ..LivePrompt::default() }],
    });
    home.registry.set_live(vec![here]).await.unwrap();
    let prompt = json!({
        "name": "desk-p", "description": "d", "function_id": "a::b",
        "registered_at": "2026-01-01T00:00:00Z",
    });
    home.bus.write("prompts", "desk-p", prompt);
    home.bus.calls.lock().unwrap().clear();
    // The function behind it cannot be called here, but it is what is asked.
    let error = home.registry.render_prompt("desk-p", json!({})).await.unwrap_err();
    assert_eq!(error.code(), "no_bus");
    home.bus.calls.lock().unwrap().clear();
    for _ in 0..5 {
        let read = home.registry.read("iii://desk/a/skill.md").await.unwrap();
        assert_eq!(read.into_text(), "live");
    }
    let looks = home.bus.called("state::get");
    assert!((1..5).contains(&looks), "{looks}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_connection_writes_fail_and_listings_go_on() {
    let home = attach(Arc::default()).await;
    home.registry.register_skill("t", "a", "# A".into()).await.unwrap();
    home.bus.down.store(true, Ordering::SeqCst);
    let mut feed = home.registry.changes();
    let error = home.registry.register_skill("t", "b", "# B".into()).await.unwrap_err();
    assert_eq!(error.code(), "not_connected");
    assert_eq!(home.ids(), ["a"]);
    assert!(home.follower.resync().await.is_err());
    home.bus.down.store(false, Ordering::SeqCst);
    home.registry.register_skill("t", "c", "# C".into()).await.unwrap();
    assert_eq!(next(&mut feed).await, ("c".into(), true), "what failed was not announced");
}

async fn in_time<T>(awaited: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, awaited).await.unwrap()
}

/// A registry on a state with three skills that cannot be listed, all of which are known.
async fn unlistable() -> Home {
    let bus = Arc::new(StateBus::default());
    bus.too_large.store(true, Ordering::SeqCst);
    for id in ["a", "b", "c"] {
        bus.write("skills", id, skill(id, "# T", "2026-01-01T00:00:00Z"));
    }
    let home = attach(bus).await;
    for id in ["a", "b", "c"] {
        home.body(id).await;
    }
    home
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_ends_with_the_first_record_that_cannot_be_read() {
    let home = unlistable().await;
    let gate = home.bus.gate("state::get");
    home.bus.calls.lock().unwrap().clear();
    let (follower, bus) = (home.follower.clone(), home.bus.clone());
    let compared = tokio::spawn(async move { follower.resync().await });
    bus.until_called("state::get", 1).await;
    bus.down.store(true, Ordering::SeqCst);
    gate.add_permits(100);
    assert!(in_time(compared).await.unwrap().is_err());
    assert_eq!(bus.called("state::get"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_comparison_that_failed_records_are_still_found_key_by_key() {
    let home = unlistable().await;
    home.bus.write("skills", "d", skill("d", "# D", "2026-01-01T00:00:00Z"));
    home.bus.down.store(true, Ordering::SeqCst);
    assert!(home.follower.resync().await.is_err());
    home.bus.down.store(false, Ordering::SeqCst);
    assert_eq!(home.body("d").await, "# D");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_waits_for_one_look_at_most() {
    let home = unlistable().await;
    let gate = home.bus.gate("state::get");
    home.bus.calls.lock().unwrap().clear();
    let mut readers = Vec::new();
    for number in 0..5 {
        let registry = home.registry.clone();
        readers.push(tokio::spawn(async move { registry.read(&format!("iii://x{number}")).await }));
    }
    home.bus.until_called("state::get", 1).await;
    let write = home.registry.register_skill("t", "mine", "# M".into());
    gate.add_permits(1);
    in_time(write).await.unwrap();
    assert!(home.bus.called("state::get") <= 2, "most of the looks still wait");
    gate.add_permits(100);
    for reader in readers {
        assert_eq!(in_time(reader).await.unwrap().unwrap_err().code(), "not_found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_pass_between_the_pages_of_a_comparison() {
    let bus = Arc::new(StateBus::default());
    bus.pages.store(true, Ordering::SeqCst);
    for number in 0..6 {
        let id = format!("s{number}");
        bus.write("skills", &id, skill(&id, "# T", "2026-01-01T00:00:00Z"));
    }
    let home = attach(bus).await;
    let gate = home.bus.gate("state::list_entries");
    home.bus.calls.lock().unwrap().clear();
    home.bus.write("skills", "s5", Value::Null);
    let mut feed = home.registry.changes();
    let follower = home.follower.clone();
    let compared = tokio::spawn(async move { follower.resync().await });
    home.bus.until_called("state::list_entries", 1).await;
    // These move what the next page begins with: this state counts.
    let removed = home.registry.remove_skill("t", "s0");
    gate.add_permits(1);
    assert!(in_time(removed).await.unwrap());
    let written = home.registry.register_skill("t", "a", "# A".into());
    let removed = home.registry.remove_skill("t", "s1");
    gate.add_permits(1);
    in_time(written).await.unwrap();
    assert!(in_time(removed).await.unwrap());
    gate.add_permits(100);
    assert_eq!(in_time(compared).await.unwrap().unwrap(), 1, "only s5 is gone");
    assert_eq!(home.ids(), ["a", "s2", "s3", "s4"]);
    let mut heard = Vec::new();
    for _ in 0..4 {
        heard.push(next(&mut feed).await);
    }
    heard.sort();
    let expected = [("a", true), ("s0", false), ("s1", false), ("s5", false)];
    assert_eq!(heard, expected.map(|(id, there)| (id.to_owned(), there)));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_events_of_a_record_that_has_to_be_looked_at_cost_few_looks() {
    let home = attach(Arc::default()).await;
    // Its own event has not come, so others are a reason to look.
    home.registry.register_skill("t", "a", "# 0".into()).await.unwrap();
    let gate = home.bus.gate("state::get");
    home.bus.calls.lock().unwrap().clear();
    let mut feed = home.registry.changes();
    for number in 1..=100 {
        let moment = format!("2027-01-01T00:00:{:02}Z", number % 60);
        let body = format!("# {number}");
        home.follower.hear(&home.bus.write("skills", "a", skill("a", &body, &moment)));
    }
    home.bus.until_called("state::get", 1).await;
    gate.add_permits(100);
    assert_eq!(next(&mut feed).await, ("a".into(), true));
    assert_eq!(home.registry.catalog().skill("a").unwrap().title(), "100");
    // Nothing of it is announced again, and events are taken at their word from here on.
    home.follower.hear(&home.bus.write("skills", "b", skill("b", "# B", "2027-01-01T00:00:00Z")));
    assert_eq!(next(&mut feed).await, ("b".into(), true));
    let looks = home.bus.called("state::get");
    assert!(looks <= 5, "{looks} looks");
}
