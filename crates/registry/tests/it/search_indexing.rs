//! The search index behind a registry: entries that cannot be analyzed, purged texts, and the log of misses.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::json;
use skills_core::{Caller, Digest, EntryKind, Layer};
use skills_registry::{
    Registry, RegistryConfig, SkillRegistry,
    search::{SearchConfig, SearchMissLog, SearchRequest},
};
use skills_store::MemoryStore;

use crate::{
    search::{found, open, register},
    support::on_faulty_store,
};

#[tokio::test]
async fn an_entry_that_makes_the_indexer_panic_is_found_by_its_metadata() {
    let (store, registry) = on_faulty_store();
    let anyone = Caller::Anonymous;
    let body = "# Lantern\n\nGives light.\n\nBurns kerosene.";
    *store.panics_on_blob.lock().unwrap() = Some(Digest::of(body.as_bytes()));
    register(&registry, &Layer::Official, "good", "# Good\n\nText.\n\nAlso kerosene.").await;
    register(&registry, &Layer::Official, "bad", body).await;
    let request = SearchRequest::new("kerosene");
    let page = registry.search_as(&anyone, request).await.unwrap();
    assert!(!page.indexing);
    let ids: Vec<&str> = page.results.iter().map(|result| result.id.as_str()).collect();
    assert_eq!(ids, ["good"]);
    assert_eq!(found(&registry, &anyone, "lantern gives light").await, ["bad"]);
    register(&registry, &Layer::Official, "later", "# Later\n\nMore kerosene.").await;
    assert_eq!(found(&registry, &anyone, "kerosene").await.len(), 2);
}

#[tokio::test]
async fn a_purged_text_leaves_the_memory_of_the_index() {
    let registry = open();
    let anyone = Caller::Anonymous;
    let words: String = (0..9000).map(|number: u32| format!("w{}x ", number * 7919)).collect();
    register(&registry, &Layer::Official, "leak", &format!("# Leak\n\nSecret.\n\n{words}")).await;
    for number in 0..5 {
        register(&registry, &Layer::Official, &format!("s{number}"), "# S\n\nSmall.").await;
    }
    assert_eq!(found(&registry, &anyone, "w7919x").await, ["leak"]);
    register(&registry, &Layer::Official, "leak", "# Leak\n\nFixed.").await;
    assert!(found(&registry, &anyone, "w7919x").await.is_empty());
    let before = registry.search_index().memory();
    let purge = json!({ "id": "leak", "version": 1, "reason": "leak", "purge": true });
    let purge = serde_json::from_value(purge).unwrap();
    SkillRegistry::yank(&*registry, EntryKind::Skill, &purge).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while registry.search_index().memory() + words.len() / 2 > before {
        assert!(Instant::now() < deadline, "{before} {}", registry.search_index().memory());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(found(&registry, &anyone, "fixed").await, ["leak"]);
}

#[derive(Debug, Default)]
struct Misses(Mutex<Vec<String>>);

impl SearchMissLog for Misses {
    fn record(&self, _: &Caller, query: &str) {
        self.0.lock().unwrap().push(query.to_owned());
    }
}

#[tokio::test]
async fn only_searches_that_find_nothing_are_logged() {
    let misses = Arc::new(Misses::default());
    let log: Arc<dyn SearchMissLog> = misses.clone();
    let search = SearchConfig { misses: Some(log), ..SearchConfig::default() };
    let config = RegistryConfig { search, ..RegistryConfig::default() };
    let registry = Registry::open(Arc::new(MemoryStore::new()), None, config).unwrap();
    let body = "---\nname: a\ndescription: Sorts mail.\ndisable-model-invocation: true\n---\n# A\n";
    register(&registry, &Layer::Official, "a", body).await;
    for request in [
        SearchRequest::new("mail"),
        SearchRequest { for_model: true, ..SearchRequest::new("mail") },
        SearchRequest { unlogged: true, ..SearchRequest::new("subm") },
        SearchRequest::new("submarine"),
        SearchRequest { for_model: true, ..SearchRequest::new("periscope") },
    ] {
        registry.search_as(&Caller::Anonymous, request).await.unwrap();
    }
    assert_eq!(*misses.0.lock().unwrap(), ["submarine", "periscope"]);
}
