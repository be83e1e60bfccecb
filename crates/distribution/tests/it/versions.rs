//! Versions and labels of one skill as refs.

use skills_core::{Caller, EntryKey, EntryKind, Layer};
use skills_registry::LabelRequest;

use crate::support::{Objects, Site};

const ANYONE: Caller = Caller::Anonymous;

fn key() -> EntryKey {
    EntryKey { kind: EntryKind::Skill, layer: Layer::Official, id: "a".into() }
}

async fn label(site: &Site, label: &str, version: Option<u64>) {
    let request = LabelRequest {
        id: "a".to_owned(),
        tier: None,
        label: label.parse().unwrap(),
        version: version.map(skills_core::VersionSelector::Number),
        expected: None,
    };
    site.registry.set_label("t", &key(), &request).await.unwrap();
}

async fn text_at(site: &Site, id: &str) -> String {
    let mut objects = Objects::default();
    let want = format!("want {id}");
    site.fetch(&ANYONE, "skill/a", &[&want, "deepen 1", "done"], &mut objects).await;
    let (_, bytes) = &objects.files(id)["skills/a/SKILL.md"];
    String::from_utf8_lossy(bytes).lines().last().unwrap().to_owned()
}

#[tokio::test]
async fn versions_are_tags_and_labels_are_branches() {
    let site = Site::new();
    site.put(&Layer::Official, "a", "one").await;
    site.put(&Layer::Official, "a", "two").await;
    label(&site, "stable", Some(1)).await;
    // Not served: the plain id reads the stable version.
    site.put(&Layer::Official, "a", "three").await;
    label(&site, "beta", Some(3)).await;
    let refs = site.refs(&ANYONE, "skill/a").await;
    let names: Vec<&str> = refs.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "HEAD",
            "refs/heads/beta",
            "refs/heads/main",
            "refs/heads/stable",
            "refs/tags/v1",
            "refs/tags/v2",
            "refs/tags/v3"
        ]
    );
    for (name, text) in [
        ("refs/heads/main", "one"),
        ("refs/heads/stable", "one"),
        ("refs/heads/beta", "three"),
        ("refs/tags/v1", "one"),
        ("refs/tags/v2", "two"),
        ("refs/tags/v3", "three"),
    ] {
        assert_eq!(text_at(&site, &refs[name]).await, text, "{name}");
    }
    label(&site, "beta", None).await;
    assert!(!site.refs(&ANYONE, "skill/a").await.contains_key("refs/heads/beta"));
    // Other views have the branch alone.
    assert_eq!(site.refs(&ANYONE, "all").await.len(), 2);
    let fresh = Site::of(std::sync::Arc::clone(&site.registry));
    assert_eq!(fresh.refs(&ANYONE, "skill/a").await, site.refs(&ANYONE, "skill/a").await);
}

#[tokio::test]
async fn a_removed_skill_keeps_its_history() {
    let site = Site::new();
    site.put(&Layer::Official, "a", "one").await;
    site.registry.remove_skill("t", &Layer::Official, "a").await.unwrap();
    let (main, objects) = site.clone_view(&ANYONE, "skill/a").await;
    assert_eq!(objects.log(&main).len(), 2);
    assert!(!objects.files(&main).contains_key("skills/a/SKILL.md"));
    assert!(site.refs(&ANYONE, "skill/a").await.contains_key("refs/tags/v1"));
}
