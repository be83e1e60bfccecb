//! Filters, pages and the index page of a search, where they meet tiers, live clients and prompts.

use std::sync::Arc;

use futures_util::future::join_all;
use skills_core::{Caller, Coded as _, Layer, PromptDefinition, Tier, Timestamp};
use skills_registry::{
    Registry,
    live::{LiveClient, LiveSkill, LiveUpdate},
    search::{HitKind, SearchRequest, estimate_tokens},
};

use crate::search::{ME, found, open, page, private, register, user};

fn prompt(description: &str) -> PromptDefinition {
    PromptDefinition {
        description: description.to_owned(),
        arguments: vec![],
        function_id: "w::f".to_owned(),
    }
}

async fn connect(registry: &Registry, client: &str, description: &str) {
    let client = LiveClient {
        id: client.parse().unwrap(),
        order: 1,
        since: Timestamp::from_micros(1),
        skills: vec![LiveSkill {
            path: "/window/skill.md".to_owned(),
            title: None,
            description: Some(description.to_owned()),
        }],
        prompts: vec![],
    };
    registry.update_live(vec![LiveUpdate::Connected(client)]).await.unwrap();
}

/// Fills a registry with more official skills than a search keeps, which all match better than the others.
async fn crowded() -> Arc<Registry> {
    let registry = open();
    for chunk in 0..41 {
        let registrations = (0..100).map(|number| {
            let id = format!("ledger-{}", chunk * 100 + number);
            let registry = &registry;
            async move {
                let body = "# Ledger\n\nKeeps a ledger.".to_owned();
                registry.register_skill(ME, &Layer::Official, &id, body).await.unwrap();
            }
        });
        join_all(registrations).await;
    }
    register(&registry, &Layer::Market, "other", "# Other\n\nText.\n\nLast, a ledger.").await;
    connect(&registry, "desk", "Shows windows, and one ledger").await;
    registry
}

#[tokio::test]
async fn filters_find_what_many_better_matches_outrank() {
    let registry = crowded().await;
    let anyone = Caller::Anonymous;
    for query in ["ledger tier:market", "ledger -tier:official -kind:live"] {
        assert_eq!(found(&registry, &anyone, query).await, ["other"], "{query}");
    }
    for query in ["ledger kind:live", "ledger -tier:official -tier:market"] {
        assert_eq!(found(&registry, &anyone, query).await, ["desk/window/skill.md"], "{query}");
    }
    let mut request = SearchRequest { limit: Some(95), ..SearchRequest::new("ledger") };
    let mut results = Vec::new();
    loop {
        let page = registry.search_as(&anyone, request.clone()).await.unwrap();
        results.extend(page.results.into_iter().map(|result| result.id));
        let Some(next) = page.next else { break };
        request.cursor = Some(next);
    }
    let count = results.len();
    results.sort();
    results.dedup();
    assert_eq!((count, results.len()), (1000, 1000));
}

#[tokio::test]
async fn shadowed_prompts_are_found_in_their_tier() {
    let registry = open();
    for (layer, text) in
        [(Layer::Market, "Greets, market."), (Layer::Official, "Greets, official.")]
    {
        registry.register_prompt(ME, &layer, "hello", prompt(text)).await.unwrap();
    }
    for (query, tier) in [
        ("greets", Tier::Official),
        ("greets tier:official", Tier::Official),
        ("greets tier:market", Tier::Market),
    ] {
        let page = page(&registry, &Caller::Anonymous, query).await;
        let [result] = &page.results[..] else { panic!("{query}: {page:?}") };
        assert_eq!((result.kind, result.tier), (HitKind::Prompt, Some(tier)), "{query}");
        let text = format!("Greets, {tier}.");
        assert_eq!(result.description.as_deref(), Some(text.as_str()), "{query}");
    }
    assert!(found(&registry, &Caller::Anonymous, "greets -tier:official").await.is_empty());
}

#[tokio::test]
async fn skills_are_found_by_their_allowed_tools() {
    let registry = open();
    for (id, tools) in [("gitter", "Bash(git:*), Read"), ("reader", "Read"), ("other", "WebFetch")]
    {
        let body = format!(
            "---\nname: {id}\ndescription: Works with repositories.\nallowed-tools: {tools}\n---\n# {id}\n"
        );
        register(&registry, &Layer::Official, id, &body).await;
    }
    let anyone = Caller::Anonymous;
    for (query, expected) in [
        ("tool:Bash", vec!["gitter"]),
        ("tool:bash", vec!["gitter"]),
        ("tool:Bash(git:*)", vec!["gitter"]),
        ("tool:Bash(npm:*)", vec![]),
        ("tool:Read", vec!["gitter", "reader"]),
        ("repositories tool:read -tool:bash", vec!["reader"]),
        ("repositories -tool:read", vec!["other"]),
        ("tool:Bash tool:WebFetch", vec!["gitter", "other"]),
    ] {
        let mut ids = found(&registry, &anyone, query).await;
        ids.sort();
        assert_eq!(ids, expected, "{query}");
    }
}

#[tokio::test]
async fn the_index_page_lists_each_skill_once_and_no_prompt() {
    let registry = open();
    register(&registry, &Layer::Official, "mailer", "# Mailer\n\nSends letters.").await;
    register(&registry, &Layer::Market, "mailer", "# Mailer\n\nSends letters, market.").await;
    register(&registry, &Layer::Official, "stamps", "# Stamps\n\nSells stamps.").await;
    let text = "Writes birthday letters";
    registry.register_prompt(ME, &Layer::Official, "stamps", prompt(text)).await.unwrap();
    let read = async |uri: &str| registry.read(uri).await.map(|resource| resource.into_text());
    let titles = |page: &str| -> Vec<String> {
        let lines = page.lines().filter_map(|line| line.strip_prefix("- ["));
        lines.map(|line| line.split(']').next().unwrap().to_owned()).collect()
    };
    for (query, expected) in [
        ("letters", ["Mailer", "Stamps"]),
        // A prompt of this name matches, the skill does not.
        ("birthday", ["Mailer", "Stamps"]),
        // The listed skill is the official one, which the query excludes.
        ("letters+tier:market", ["Mailer", "Stamps"]),
        ("stamps", ["Stamps", "Mailer"]),
    ] {
        let page = read(&format!("iii://skills?q={query}")).await.unwrap();
        assert_eq!(titles(&page), expected, "{query}: {page}");
        assert!(!page.contains("market"), "{page}");
    }
    let long = format!("iii://skills?q=a&{}=1", "x".repeat(5000));
    let refused = read(&long).await.unwrap_err();
    assert_eq!(refused.code().as_str(), "invalid_uri");
    let message = refused.to_string();
    assert!(message.contains("budget") && message.len() < 300, "{message}");
}

#[tokio::test]
async fn the_index_page_fits_its_budget() {
    let registry = open();
    for number in 0..30 {
        let body = format!("# Skill {number}\n\n{}", "Handles letters. ".repeat(number % 7 + 1));
        register(&registry, &Layer::Official, &format!("skill-{number}"), &body).await;
    }
    let mut shown = 0;
    for budget in (20..700).step_by(13) {
        let uri = format!("iii://skills?q=letters&budget={budget}");
        let page = registry.read(&uri).await.unwrap().into_text();
        assert!(estimate_tokens(&page) <= budget, "{budget}: {page}");
        let lines = page.lines().filter(|line| line.starts_with("- [")).count();
        assert!(lines >= shown, "{budget}: {page}");
        assert_eq!(lines < 30, page.contains("do not fit"), "{budget}: {page}");
        shown = lines;
    }
    assert!(shown > 15, "{shown}");
    let all = registry.read("iii://skills?budget=100000").await.unwrap().into_text();
    let exact = format!("iii://skills?budget={}", estimate_tokens(&all) + 40);
    assert_eq!(registry.read(&exact).await.unwrap().into_text(), all);
}

#[tokio::test]
async fn excluded_tiers_show_what_the_others_resolve_to() {
    let registry = open();
    let ann = user("ann");
    register(&registry, &Layer::Official, "notes", "# Notes\n\nTakes notes.").await;
    register(&registry, &private("ann"), "notes", "# Notes\n\nTakes notes, mine.").await;
    register(&registry, &private("ann"), "memo", "# Memo\n\nTakes notes too.").await;
    // A shadowed copy is not what its name reads.
    assert!(found(&registry, &ann, "takes notes -tier:private").await.is_empty());
    let mut ids = found(&registry, &ann, "takes notes -tier:official").await;
    ids.sort();
    assert_eq!(ids, ["memo", "notes"]);
    assert_eq!(found(&registry, &Caller::Anonymous, "takes notes -tier:private").await, ["notes"]);
}
