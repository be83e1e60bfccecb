//! Work that requests cause, on the accounts of their clients.

use std::sync::Arc;

use bytes::Bytes;
use skills_agent_skills::Bundle;
use skills_core::{
    Caller, Coded as _, EntryKind, Layer, MemoryBudget, WorkAccount, WorkAccounts, WorkKind,
    work::client_share,
};
use skills_registry::{
    Registry, RegistryConfig, RegistryError,
    diff::{ComparedSkill, VersionDiff, diff_skills},
    search::SearchRequest,
};
use skills_store::{MemoryStore, Store};

/// Skill with a text of so many bytes.
fn bundle(text: &str, bytes: usize) -> Bundle<Bytes> {
    let text = text.repeat(bytes / text.len());
    Bundle::new("# T\n".to_owned(), vec![("a.md".parse().unwrap(), text.into())]).unwrap()
}

/// Registry with two versions of a skill.
async fn with_versions(store: Arc<dyn Store>) -> Arc<Registry> {
    let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
    for text in ["one\n", "two\n"] {
        let bundle = bundle(text, 500_000);
        registry.register_bundle("t", &Layer::Official, "alpha", bundle).await.unwrap();
    }
    registry
}

async fn diff(registry: &Registry) -> Result<VersionDiff, RegistryError> {
    let kind = EntryKind::Skill;
    let key = registry.entry_key(&Caller::Anonymous, kind, None, "alpha").await?;
    registry.diff(&key, &"1".parse()?, &"2".parse()?).await
}

#[tokio::test]
async fn a_difference_reserves_its_files_and_the_work_on_them() {
    let registry = with_versions(Arc::new(MemoryStore::new())).await;
    // Enough for the lookup of a version.
    let accounts = WorkAccounts::new(MemoryBudget::new(8 << 20));
    let refused = accounts.open().scope(diff(&registry)).await.unwrap_err();
    assert_eq!(refused.code().as_str(), "overloaded");
    assert_eq!(accounts.memory().reserved(), 0);
    let accounts = WorkAccounts::new(MemoryBudget::default());
    let difference = accounts.open().scope(diff(&registry)).await.unwrap();
    assert_eq!(difference.files.len(), 1);
    assert_eq!(accounts.memory().reserved(), 0);
}

/// Takes all compute permits of an account.
async fn occupy(account: &WorkAccount) -> Vec<skills_core::work::WorkPermit> {
    const KIND: WorkKind = WorkKind::compute("test");
    let permits = std::thread::available_parallelism().map_or(1, usize::from) * 2;
    let mut taken = Vec::new();
    for _ in 0..client_share(permits.max(8)) {
        taken.push(account.permit(KIND, 0).await.unwrap());
    }
    taken
}

#[tokio::test]
async fn differences_and_searches_of_one_client_wait_for_its_own_permits_alone() {
    let registry = with_versions(Arc::new(MemoryStore::new())).await;
    let accounts = WorkAccounts::new(MemoryBudget::default());
    let (busy, other) = (accounts.open(), accounts.open());
    let permits = occupy(&busy).await;
    let work = || {
        let registry = Arc::clone(&registry);
        async move {
            let side = |text: &str| ComparedSkill::from_bundle(&bundle(text, 1000));
            let difference = diff(&registry).await?;
            let compared = diff_skills(side("one\n"), side("two\n")).await?;
            let found = registry.search_as(&Caller::Anonymous, SearchRequest::new("alpha")).await?;
            Ok::<_, RegistryError>((
                difference.files.len(),
                compared.files.len(),
                found.results.len(),
            ))
        }
    };
    let waiting = tokio::spawn(busy.scope(work()));
    assert_eq!(other.scope(work()).await.unwrap(), (1, 1, 1));
    assert!(!waiting.is_finished());
    drop(permits);
    assert_eq!(waiting.await.unwrap().unwrap(), (1, 1, 1));
}
