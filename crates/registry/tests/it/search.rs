//! Search in a registry: freshness, tiers, isolation of users, live entries and bad input.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use serde_json::json;
use skills_agent_skills::Bundle;
use skills_core::{
    Caller, Coded as _, Digest, Layer, PromptArgument, PromptDefinition, Tier, Timestamp, ToolMeta,
    User, tool::ManifestSource,
};
use skills_registry::{
    Registry, RegistryConfig, Tool,
    live::{LiveClient, LivePrompt, LiveSkill, LiveUpdate},
    search::{HitKind, KindFilter, SearchField, SearchPage, SearchRequest},
};
use skills_store::MemoryStore;

use crate::support::on_faulty_store;

pub(crate) const ME: &str = "test";

pub(crate) fn open() -> Arc<Registry> {
    Registry::open(Arc::new(MemoryStore::new()), None, RegistryConfig::default()).unwrap()
}

pub(crate) fn user(uid: &str) -> Caller {
    Caller::User(User { owner: uid.parse().unwrap(), key: Digest::of(uid.as_bytes()) })
}

pub(crate) fn private(uid: &str) -> Layer {
    Layer::Private(uid.parse().unwrap())
}

pub(crate) async fn register(registry: &Registry, layer: &Layer, id: &str, body: &str) {
    registry.register_skill(ME, layer, id, body.to_owned()).await.unwrap();
}

pub(crate) async fn page(registry: &Registry, caller: &Caller, query: &str) -> SearchPage {
    registry.search_as(caller, SearchRequest::new(query)).await.unwrap()
}

pub(crate) async fn found(registry: &Registry, caller: &Caller, query: &str) -> Vec<String> {
    page(registry, caller, query).await.results.into_iter().map(|result| result.id).collect()
}

#[tokio::test]
async fn an_acknowledged_write_is_found_and_a_replaced_text_is_not() {
    let registry = open();
    let anyone = Caller::Anonymous;
    assert!(found(&registry, &anyone, "quokka").await.is_empty());
    register(&registry, &Layer::Official, "zoo", "# Zoo\n\nAbout animals.\n\nThe quokka smiles.")
        .await;
    let page = page(&registry, &anyone, "quokkas").await;
    let [result] = &page.results[..] else { panic!("{page:?}") };
    assert_eq!((result.id.as_str(), result.uri.as_deref()), ("zoo", Some("iii://zoo")));
    assert_eq!((result.kind, result.tier), (HitKind::Skill, Some(Tier::Official)));
    assert_eq!(result.snippet, "…The **quokka** smiles.");
    assert_eq!(result.matched[0].field, SearchField::Body);
    assert!(result.score > 0.0 && !page.indexing && page.next.is_none());
    register(&registry, &Layer::Official, "zoo", "# Zoo\n\nAbout plants.").await;
    assert!(found(&registry, &anyone, "quokka").await.is_empty());
    assert_eq!(found(&registry, &anyone, "plants").await, ["zoo"]);
    registry.remove_skill(ME, &Layer::Official, "zoo").await.unwrap();
    assert!(found(&registry, &anyone, "zoo").await.is_empty());
}

#[tokio::test]
async fn files_tools_prompts_and_live_entries_are_found_and_marked() {
    let registry = open();
    let anyone = Caller::Anonymous;
    let files = vec![("scripts/rotate_pages.py".parse().unwrap(), Bytes::from_static(b"x"))];
    let bundle = Bundle::new("# Paper\n\nSheets.".to_owned(), files).unwrap();
    registry.register_bundle(ME, &Layer::Official, "paper", bundle).await.unwrap();
    let tool = Tool {
        body: "# Forecast\n\nCalls a service.".to_owned(),
        source: "{}".to_owned(),
        meta: ToolMeta {
            source: ManifestSource::new("{}", "application/json").unwrap(),
            name: None,
            emoji: None,
            tags: vec!["meteorology".to_owned()],
            description: Some("Sky report".to_owned()),
            parameters: json!({ "type": "object", "properties": { "postal_code": {} } }),
            credits_per_call: None,
        },
    };
    registry.register_tool(ME, &Layer::Market, "forecast", tool).await.unwrap();
    let prompt = PromptDefinition {
        description: "Greet a colleague".to_owned(),
        arguments: vec![PromptArgument {
            name: "nickname".to_owned(),
            description: None,
            required: false,
        }],
        function_id: "w::greet".to_owned(),
    };
    registry.register_prompt(ME, &Layer::Official, "hello", prompt).await.unwrap();
    let client = LiveClient {
        id: "desk".parse().unwrap(),
        order: 1,
        since: Timestamp::from_micros(1),
        skills: vec![LiveSkill {
            path: "/window/skill.md".to_owned(),
            title: Some("Window".to_owned()),
            description: Some("Arranges panes".to_owned()),
        }],
        prompts: vec![LivePrompt {
            path: "/tidy/prompt.md".to_owned(),
            description: Some("Tidies panes".to_owned()),
            arguments: vec![],
        }],
    };
    registry.update_live(vec![LiveUpdate::Connected(client)]).await.unwrap();
    for (query, id, kind, live) in [
        ("rotate", "paper", HitKind::Skill, None),
        ("postal code", "forecast", HitKind::Tool, None),
        ("meteorology", "forecast", HitKind::Tool, None),
        ("sky report", "forecast", HitKind::Tool, None),
        ("nickname", "hello", HitKind::Prompt, None),
        ("arranges panes", "desk/window/skill.md", HitKind::Skill, Some("desk")),
        ("tidies kind:live kind:prompt", "desk-tidy", HitKind::Prompt, Some("desk")),
        ("tag:meteorology", "forecast", HitKind::Tool, None),
        ("kind:prompt colleague", "hello", HitKind::Prompt, None),
    ] {
        let page = page(&registry, &anyone, query).await;
        let first = page.results.first().unwrap_or_else(|| panic!("{query}: {page:?}"));
        let shown = (first.id.as_str(), first.kind, first.live.as_deref());
        assert_eq!(shown, (id, kind, live), "{query}");
        assert_eq!(first.tier.is_none(), live.is_some(), "{query}");
    }
    let request = SearchRequest { kind: Some(KindFilter::Live), ..SearchRequest::new("panes") };
    let page = registry.search_as(&anyone, request).await.unwrap();
    assert_eq!(page.results.len(), 2);
    registry.update_live(vec![LiveUpdate::Disconnected("desk".parse().unwrap())]).await.unwrap();
    assert!(found(&registry, &anyone, "arranges").await.is_empty());
}

#[tokio::test]
async fn a_search_finds_what_names_resolve_to_and_a_tier_shows_its_own_copy() {
    let registry = open();
    let ann = user("ann");
    register(&registry, &Layer::Market, "notes", "# Notes\n\nTakes notes, market.").await;
    register(&registry, &Layer::Official, "notes", "# Notes\n\nTakes notes, official.").await;
    register(&registry, &private("ann"), "notes", "# Notes\n\nTakes notes, mine.").await;
    for (caller, tier) in [(&ann, Tier::Private), (&Caller::Anonymous, Tier::Official)] {
        let page = page(&registry, caller, "takes notes").await;
        let [result] = &page.results[..] else { panic!("{page:?}") };
        assert_eq!((result.tier, result.uri.as_deref()), (Some(tier), Some("iii://notes")));
    }
    for (query, tier, uri) in [
        ("notes tier:market", Some(Tier::Market), Some("skill://market/notes")),
        ("notes tier:official", Some(Tier::Official), Some("skill://official/notes")),
        ("notes tier:private", Some(Tier::Private), Some("iii://notes")),
    ] {
        let page = page(&registry, &ann, query).await;
        let [result] = &page.results[..] else { panic!("{query}: {page:?}") };
        assert_eq!((result.tier, result.uri.as_deref()), (tier, uri), "{query}");
    }
    let request = SearchRequest { tier: Some(Tier::Private), ..SearchRequest::new("notes") };
    assert!(registry.search_as(&Caller::Anonymous, request).await.unwrap().results.is_empty());
}

/// Pages of every caller who must not notice private entries of `bob`.
async fn answers(registry: &Registry) -> Vec<SearchPage> {
    let queries = [
        "budget",
        "secret plans",
        "alpha",
        "alph",
        "alhpa",
        "plan budget report",
        "omega",
        "roadmap",
        "p",
        "kind:skill",
        "",
        "quarterly budgte",
        "\"annual report\"",
        "report -budget",
        "ci pipeline",
        "continuous integration",
        "zzzz",
        "roadmpa",
    ];
    let mut pages = Vec::new();
    for caller in [Caller::Anonymous, user("ann")] {
        for query in queries {
            for limit in [3, 50] {
                let request = SearchRequest { limit: Some(limit), ..SearchRequest::new(query) };
                pages.push(registry.search_as(&caller, request).await.unwrap());
            }
        }
    }
    pages
}

#[tokio::test]
async fn private_entries_of_others_change_no_answer() {
    let (with, without) = (open(), open());
    for registry in [&with, &without] {
        for (layer, id, body) in [
            (Layer::Official, "alpha", "# Alpha\n\nPlans the quarterly budget."),
            (Layer::Official, "annual", "# Annual\n\nWrites the annual report and the budget."),
            (Layer::Market, "pipeline", "# Pipeline\n\nRuns continuous integration (CI) jobs."),
            (private("ann"), "plans", "# Plans\n\nMy roadmap and budget."),
        ] {
            register(registry, &layer, id, body).await;
        }
    }
    for (number, id) in
        ["alpha", "alphabet", "omega", "plan-b", "roadmap", "annual-x"].iter().enumerate()
    {
        let body = format!(
            "# {id}\n\nSecret plans {number}: budget budget omega. Roadmap of corporate integration (CI)."
        );
        register(&with, &private("bob"), id, &body).await;
    }
    assert_eq!(answers(&with).await, answers(&without).await);
    let bob = user("bob");
    assert!(found(&with, &bob, "omega").await.contains(&"omega".to_owned()));
}

#[tokio::test]
async fn a_search_for_a_model_leaves_out_and_keeps_the_order() {
    let registry = open();
    for number in 0..12 {
        let flag = if number % 3 == 0 { "disable-model-invocation: true\n" } else { "" };
        let body = format!(
            "---\nname: n{number}\ndescription: Sorts mail {}.\n{flag}---\n# N\n",
            "mail ".repeat(number)
        );
        register(&registry, &Layer::Official, &format!("mail-{number}"), &body).await;
    }
    let request =
        |for_model| SearchRequest { limit: Some(50), for_model, ..SearchRequest::new("mail") };
    let ids =
        |page: SearchPage| page.results.into_iter().map(|result| result.id).collect::<Vec<_>>();
    let all = ids(registry.search_as(&Caller::Anonymous, request(false)).await.unwrap());
    let offered = ids(registry.search_as(&Caller::Anonymous, request(true)).await.unwrap());
    let hidden = ["mail-0", "mail-3", "mail-6", "mail-9"];
    let expected: Vec<String> =
        all.iter().filter(|id| !hidden.contains(&id.as_str())).cloned().collect();
    assert_eq!((all.len(), offered), (12, expected));
}

#[tokio::test]
async fn pages_follow_each_other_without_gaps() {
    let registry = open();
    for number in 0..25 {
        let body = format!("# Skill {number}\n\nHandles invoices of kind {number}.");
        register(&registry, &Layer::Official, &format!("invoice-{number}"), &body).await;
    }
    let all = SearchRequest { limit: Some(100), ..SearchRequest::new("invoices") };
    let all = registry.search_as(&Caller::Anonymous, all).await.unwrap();
    assert_eq!((all.results.len(), &all.next), (25, &None));
    let mut request = SearchRequest { limit: Some(7), ..SearchRequest::new("invoices") };
    let mut paged = Vec::new();
    loop {
        let page = registry.search_as(&Caller::Anonymous, request.clone()).await.unwrap();
        paged.extend(page.results);
        match page.next {
            Some(next) => request.cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(paged, all.results);
    request.query = "other".to_owned();
    let error = registry.search_as(&Caller::Anonymous, request).await.unwrap_err();
    assert_eq!(error.code().as_str(), "invalid_cursor");
}

#[tokio::test]
async fn a_text_that_cannot_be_read_is_indexed_later() {
    let (store, registry) = on_faulty_store();
    let anyone = Caller::Anonymous;
    assert!(found(&registry, &anyone, "anything").await.is_empty());
    store.unreadable.store(true, Ordering::SeqCst);
    register(&registry, &Layer::Official, "a", "# Lantern\n\nLight.\n\nKerosene.").await;
    assert_eq!(found(&registry, &anyone, "lantern").await, ["a"]);
    assert!(found(&registry, &anyone, "kerosene").await.is_empty());
    store.unreadable.store(false, Ordering::SeqCst);
    register(&registry, &Layer::Official, "b", "# B\n\nOther.").await;
    assert_eq!(found(&registry, &anyone, "kerosene").await, ["a"]);
}

#[tokio::test]
async fn the_index_page_has_the_most_relevant_skills_first_and_fits_the_budget() {
    let registry = open();
    for (id, body) in [
        ("aaa", "# Gardening\n\nPlants trees."),
        ("mmm", "# Invoices\n\nWrites invoices."),
        ("zzz", "# Cooking\n\nBakes bread."),
    ] {
        register(&registry, &Layer::Official, id, body).await;
    }
    let read = async |uri: &str| registry.read(uri).await.map(|resource| resource.into_text());
    let page = read("iii://skills?q=write+an%20invoice").await.unwrap();
    assert!(page.starts_with("# Skills\n\n- [Invoices](iii://mmm)"), "{page}");
    assert!(page.contains("iii://aaa") && page.contains("iii://zzz"));
    let page = read("iii://skills?q=bread&budget=32").await.unwrap();
    assert!(page.contains("iii://zzz") && !page.contains("iii://aaa"), "{page}");
    assert!(page.ends_with("2 more skills do not fit the budget; search for others.\n"), "{page}");
    assert_eq!(read("iii://skills?nonsense=1").await.unwrap_err().code().as_str(), "invalid_uri");
}

#[tokio::test]
async fn bad_queries_are_answered() {
    let registry = open();
    register(&registry, &Layer::Official, "a", "# Alpha\n\nText.").await;
    let terms: String = (0..10_000).map(|number| format!("term{number} ")).collect();
    for query in [
        String::new(),
        "   ".to_owned(),
        "the of and".to_owned(),
        ".*+?^${}()|[]\\".to_owned(),
        "a\0b\u{1}".to_owned(),
        "\u{202e}\u{feff}".to_owned(),
        "x".repeat(100_000),
        terms,
        "\"".repeat(5_000),
        "-a ".repeat(5_000),
        "tag: kind: tier: tool:".to_owned(),
        String::from_utf8_lossy(&[0xff, 0xfe, b'a']).into_owned(),
    ] {
        let page = page(&registry, &Caller::Anonymous, &query).await;
        assert!(page.results.len() <= 1 && !page.indexing, "{query:.40}");
    }
    assert_eq!(found(&registry, &Caller::Anonymous, "").await, ["a"]);
    assert!(found(&registry, &Caller::Anonymous, "alpha -text").await.is_empty());
}
