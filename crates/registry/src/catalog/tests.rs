//! Tests of views and snapshots.

use proptest::prelude::*;
use skills_core::{Coded as _, Digest, EntryKey, PromptDefinition, Timestamp, User};
use skills_store::EntryContent;

use super::*;

/// A catalog of skills of one document.
pub(crate) fn catalog_with_documents<B: AsRef<str>>(skills: &[(&str, B)]) -> Catalog {
    let skills = skills.iter().zip(1..);
    let changes = skills
        .map(|((id, body), revision)| change(revision, Layer::Official, id, Some(body.as_ref())));
    Catalog::default().with(&changes.collect::<Vec<_>>())
}

pub(crate) fn change(revision: u64, layer: Layer, id: &str, body: Option<&str>) -> Change {
    let meta = |body: &str| skills_agent_skills::skill_meta(body).unwrap();
    let key = EntryKey { kind: EntryKind::Skill, layer, id: id.into() };
    put(revision, key, body.map(|body| EntryContent::Skill(meta(body))))
}

fn put(revision: u64, key: EntryKey, content: Option<EntryContent>) -> Change {
    let at = Timestamp::from_micros(i64::try_from(revision).unwrap());
    Change::without_history(revision, at, "t".into(), key, content.map(Arc::new))
}

pub(crate) fn private(uid: &str) -> Layer {
    Layer::Private(uid.parse().unwrap())
}

fn user(uid: &str) -> Caller {
    Caller::User(User { owner: uid.parse().unwrap(), key: Digest::of(uid.as_bytes()) })
}

fn titles(catalog: &Catalog) -> Vec<&str> {
    catalog.skills().iter().map(|skill| skill.title()).collect()
}

#[test]
fn a_snapshot_does_not_see_later_changes() {
    let empty = Catalog::default();
    let one = empty.with(&[change(1, Layer::Official, "a", Some("# A"))]);
    let none = one.with(&[change(2, Layer::Official, "a", None)]);
    assert!(empty.skill("a").is_none());
    assert_eq!(one.skill("a").unwrap().title(), "A");
    assert!(none.skill("a").is_none());
    assert_eq!((one.revision(), none.revision()), (1, 2));
}

#[test]
fn official_comes_before_market_and_private_is_not_public() {
    let ann = private("ann");
    let catalog = Catalog::default().with(&[
        change(1, Layer::Market, "b", Some("# market b")),
        change(2, Layer::Market, "a", Some("# market a")),
        change(3, Layer::Official, "b", Some("# official b")),
        change(4, ann, "c", Some("# private c")),
    ]);
    assert_eq!(titles(&catalog), ["market a", "official b"]);
    assert_eq!(catalog.skill("b").unwrap().title(), "official b");
    assert!(catalog.skill("c").is_none());
}

#[test]
fn the_index_lists_title_and_description() {
    let catalog = Catalog::default().with(&[
        change(1, Layer::Official, "b", Some("# The [B]\n\nDoes b.")),
        change(2, Layer::Official, "a", Some("text only")),
        change(3, Layer::Official, "c", Some("# C")),
    ]);
    assert_eq!(
        &*catalog.index(),
        "# Skills\n\n- [a](iii://a): text only\n- [The B](iii://b): Does b.\n- [C](iii://c)\n"
    );
    assert!(Catalog::default().index().contains("No skills are registered"));
}

#[test]
fn callers_without_private_entries_share_a_view() {
    let catalog = Arc::new(Catalog::default().with(&[
        change(1, Layer::Official, "a", Some("# official a")),
        change(2, private("ann"), "a", Some("# private a")),
    ]));
    let ann = catalog.view_for(&user("ann"));
    assert!(Arc::ptr_eq(&catalog, &catalog.view_for(&Caller::Anonymous)));
    assert!(Arc::ptr_eq(&catalog, &catalog.view_for(&user("bob"))));
    assert!(Arc::ptr_eq(&ann, &catalog.view_for(&user("ann"))), "a view is cached");
    assert_eq!((titles(&catalog), titles(&ann)), (vec!["official a"], vec!["private a"]));
    // Also from the view of another owner.
    assert_eq!(titles(&ann.view_for(&user("bob"))), ["official a"]);
    let gone = Arc::new(catalog.with(&[change(3, private("ann"), "a", None)]));
    assert!(Arc::ptr_eq(&gone, &gone.view_for(&user("ann"))));
    assert_eq!(gone.data.layers.len(), 1, "an owner without entries is forgotten");
}

#[test]
fn the_number_of_cached_views_is_bounded() {
    let owners: Vec<String> =
        (0..MAX_CACHED_VIEWS * 2).map(|number| format!("u{number}")).collect();
    let changes = owners.iter().zip(1..);
    let changes = changes.map(|(uid, revision)| change(revision, private(uid), "a", Some("# A")));
    let catalog = Arc::new(Catalog::default().with(&changes.collect::<Vec<_>>()));
    for uid in &owners {
        assert!(catalog.view_for(&user(uid)).skill("a").is_some());
    }
    assert_eq!(catalog.views.get().unwrap().lock().len(), MAX_CACHED_VIEWS);
}

#[test]
fn an_explanation_names_the_tier_and_the_shadowed_entries() {
    let catalog = Arc::new(Catalog::default().with(&[
        change(1, Layer::Market, "weather", Some("# market")),
        change(2, Layer::Official, "uniskill_weather", Some("# official")),
        change(3, private("ann"), "uniskill_weather", Some("# private")),
    ]));
    let place = |tier, id: &str| ExplainedLayer { tier, id: id.to_owned() };
    let long = "uniskill_weather";
    let ann = catalog.view_for(&user("ann"));
    let explained = ann.explain(&user("ann"), "weather");
    assert_eq!(explained.answer, Some(place(Tier::Private, long)));
    assert_eq!(explained.shadows, [place(Tier::Official, long), place(Tier::Market, "weather")]);
    assert_eq!(explained.tried, [place(Tier::Private, "weather"), place(Tier::Private, long)]);
    let everyone = catalog.explain(&Caller::Anonymous, "weather");
    assert_eq!(everyone.answer, Some(place(Tier::Official, long)));
    assert_eq!(everyone.shadows, [place(Tier::Market, "weather")]);
    assert!(everyone.tried.iter().all(|place| place.tier != Tier::Private));
    let nothing = catalog.explain(&user("bob"), "no");
    assert_eq!((nothing.answer, nothing.tried.len()), (None, 6), "bob's layer was tried too");
    assert_eq!(ann.skill_in(Tier::Market, "weather").unwrap().title(), "market");
    assert_eq!(ann.skill_in(Tier::Official, "weather").unwrap().title(), "official");
    assert!(catalog.skill_in(Tier::Private, "weather").is_none());
    // What is shadowed by way of the prefix would not answer to the id that a list shows.
    assert_eq!(titles(&ann), ["private"]);
}

#[test]
fn a_corrupt_entry_shadows_and_its_error_names_the_tier() {
    let (kind, reason) = (EntryKind::Skill, "missing field `files`".to_owned());
    let key = EntryKey { kind, layer: Layer::Official, id: "a".into() };
    let corrupt = put(2, key, Some(EntryContent::Corrupt { kind, reason }));
    let catalog =
        Catalog::default().with(&[change(1, Layer::Market, "a", Some("# market a")), corrupt]);
    let error = catalog.readable_skill(None, "a").unwrap_err();
    assert_eq!(error.code().as_str(), "corrupt_entry");
    assert!(error.to_string().contains("a (official)"), "{error}");
    assert_eq!(catalog.readable_skill(Some(Tier::Market), "a").unwrap().title(), "market a");
    assert_eq!((catalog.skills().len(), catalog.skill_count()), (1, 1));
}

/// Tier (0 is ann's, 3 is bob's), id, and whether it comes or goes.
fn steps() -> impl Strategy<Value = Vec<(u8, String, bool)>> {
    prop::collection::vec((0..4_u8, "[ab_]{1,4}", prop::bool::weighted(0.8)), 0..40)
}

fn layer(number: u8) -> Layer {
    [private("ann"), Layer::Official, Layer::Market, private("bob")][usize::from(number)].clone()
}

proptest! {
    #[test]
    fn the_catalog_resolves_like_the_model(
        steps in steps(), prefix in "[ab_]{0,2}", name in "[ab_]{1,4}", is_ann: bool,
    ) {
        let prefix: Prefix = prefix.parse().unwrap();
        let mut stored = std::collections::BTreeSet::new();
        let mut catalog = Catalog::from(CatalogData::new(prefix.clone()));
        for ((number, id, comes), revision) in steps.into_iter().zip(1..) {
            let body = format!("# {number} {id}");
            catalog = catalog.with(&[change(revision, layer(number), &id, comes.then_some(&*body))]);
            if comes { stored.insert((number, id)) } else { stored.remove(&(number, id)) };
        }
        let caller = if is_ann { user("ann") } else { Caller::Anonymous };
        let catalog = Arc::new(catalog).view_for(&caller);

        // The model.
        let tiers = if is_ann { 0..3 } else { 1..3_u8 };
        let long = format!("{prefix}{name}");
        let names = if prefix.as_str().is_empty() || name.starts_with(prefix.as_str()) { vec![&name] } else { vec![&name, &long] };
        let hits: Vec<String> = tiers.clone().flat_map(|tier| names.iter().map(move |id| (tier, id.to_string())))
            .filter(|key| stored.contains(key)).map(|(tier, id)| format!("{tier} {id}")).collect();

        prop_assert_eq!(catalog.skill(&name).map(|row| row.title()), hits.first().map(String::as_str));
        let explained = catalog.explain(&caller, &name);
        let places = explained.answer.iter().chain(&explained.shadows);
        let found: Vec<String> = places.map(|place| format!("{} {}", place.tier as u8, place.id)).collect();
        prop_assert_eq!(found, hits);

        // Lists are those that answer to their ids, and all there are.
        let all: Vec<_> = catalog.layered_after(None).collect();
        let mut seen: Vec<_> = stored.iter().filter(|(tier, _)| tiers.contains(tier)).collect();
        seen.sort_by_key(|(tier, id)| (id.clone(), *tier));
        let seen: Vec<String> = seen.iter().map(|(tier, id)| format!("{tier} {id}")).collect();
        prop_assert_eq!(all.iter().map(|row| row.title()).collect::<Vec<_>>(), seen);
        let answering = all.iter().filter(|row| Arc::ptr_eq(row, catalog.skill(&row.id).unwrap()));
        let answering: Vec<&str> = answering.map(|row| row.title()).collect();
        prop_assert_eq!(&answering, &titles(&catalog));
        prop_assert_eq!(catalog.skill_count(), answering.len());
        if let Some(row) = all.first() {
            let rest: Vec<_> = catalog.layered_after(Some((&row.id, row.tier))).collect();
            prop_assert_eq!(rest.len(), all.len() - 1);
        }
    }
}

#[test]
fn prompts_resolve_as_skills_do() {
    let prompt = |revision, layer, name: &str, description: &str| {
        let definition = PromptDefinition {
            description: description.to_owned(),
            arguments: vec![],
            function_id: "a::b".to_owned(),
        };
        let key = EntryKey { kind: EntryKind::Prompt, layer, id: name.into() };
        put(revision, key, Some(EntryContent::Prompt(definition)))
    };
    let catalog = Arc::new(Catalog::default().with(&[
        prompt(1, Layer::Market, "uniskill_mail", "market"),
        prompt(2, Layer::Official, "mail", "official"),
        prompt(3, private("ann"), "mail", "private"),
    ]));
    let ann = catalog.view_for(&user("ann"));
    assert_eq!(catalog.prompt("mail").unwrap().definition.description, "official");
    assert_eq!(ann.prompt("mail").unwrap().definition.description, "private");
    assert_eq!((catalog.prompts().len(), ann.prompts().len()), (2, 2));
}
