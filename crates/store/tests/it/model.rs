//! Random changes against a model that is a plain list of versions, on all stores, with reopening.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use skills_core::{Digest, EntryKind, Label, VersionSelector};
use skills_store::{
    Batch, BatchError, Effect, EntryContent, FoundVersion, MemoryStore, PublishOptions, Removal,
    Retention, SqliteStore, Store, VersionMutation,
};

use crate::{
    contract::{at, key, put},
    postgres::TestDatabase,
    versions::on_version,
};

/// Ids of the entries; all of them may have the same bodies.
const IDS: [&str; 2] = ["a", "b"];

#[derive(Debug, Clone)]
enum Step {
    Put { id: usize, body: u8, expected: Option<u64> },
    Remove { id: usize },
    Label { id: usize, label: usize, version: Option<u64>, expected: Option<u64> },
    Yank { id: usize, version: Withdrawn },
    Unyank { id: usize, version: Withdrawn },
    Purge { id: usize, version: Withdrawn },
    Rollback { id: usize, version: u64 },
    Collect { keep: u64 },
    Reopen,
}

/// Address of a version to yank, unyank or purge.
#[derive(Debug, Clone, Copy)]
enum Withdrawn {
    Number(u64),
    Latest,
    Label(usize),
}

impl Withdrawn {
    fn selector(self) -> VersionSelector {
        match self {
            Self::Number(number) => VersionSelector::Number(number),
            Self::Latest => VersionSelector::Latest,
            Self::Label(label) => VersionSelector::Name(LABELS[label].to_owned()),
        }
    }
}

const LABELS: [&str; 2] = ["stable", "canary"];

fn step() -> impl Strategy<Value = Step> {
    let id = || 0..IDS.len();
    let version = || 1..8_u64;
    let withdrawn = || {
        prop_oneof![
            4 => version().prop_map(Withdrawn::Number),
            1 => Just(Withdrawn::Latest),
            1 => (0..LABELS.len()).prop_map(Withdrawn::Label),
        ]
    };
    prop_oneof![
        8 => (id(), 0..5_u8, prop::option::weighted(0.2, 0..5_u64))
            .prop_map(|(id, body, expected)| Step::Put { id, body, expected }),
        1 => id().prop_map(|id| Step::Remove { id }),
        4 => (id(), 0..2_usize, prop::option::weighted(0.8, version()), prop::option::weighted(0.2, 0..5_u64))
            .prop_map(|(id, label, version, expected)| Step::Label { id, label, version, expected }),
        3 => (id(), withdrawn()).prop_map(|(id, version)| Step::Yank { id, version }),
        2 => (id(), withdrawn()).prop_map(|(id, version)| Step::Unyank { id, version }),
        1 => (id(), withdrawn()).prop_map(|(id, version)| Step::Purge { id, version }),
        2 => (id(), version()).prop_map(|(id, version)| Step::Rollback { id, version }),
        1 => (0..4_u64).prop_map(|keep| Step::Collect { keep }),
        1 => Just(Step::Reopen),
    ]
}

/// Version of the model.
#[derive(Debug, Clone, Default)]
struct Version {
    body: u8,
    is_yanked: bool,
    is_purged: bool,
    is_collected: bool,
}

impl Version {
    fn is_servable(&self) -> bool {
        !self.is_yanked && !self.is_purged && !self.is_collected
    }
}

/// Entry of the model: versions in order, the first is number 1.
#[derive(Debug, Clone, Default)]
struct Model {
    versions: Vec<Version>,
    labels: BTreeMap<&'static str, u64>,
    is_present: bool,
}

impl Model {
    fn get(&self, number: u64) -> Option<&Version> {
        self.versions.get(number as usize - 1)
    }

    fn get_mut(&mut self, number: u64) -> &mut Version {
        &mut self.versions[number as usize - 1]
    }

    fn newest(&self, limit: u64) -> Option<u64> {
        (1..=limit.min(self.versions.len() as u64))
            .rev()
            .find(|number| self.versions[*number as usize - 1].is_servable())
    }

    fn served(&self) -> Option<u64> {
        let limit = self.labels.get("stable").copied().unwrap_or(u64::MAX);
        self.is_present.then(|| self.newest(limit)).flatten()
    }

    /// Registers content. A rollback to the content of a yanked newest version is a new version, a registration is not.
    fn put(&mut self, body: u8, is_rollback: bool) {
        let is_same = |last: &Version| {
            last.body == body && !last.is_purged && !(is_rollback && last.is_yanked)
        };
        if !self.is_present || !self.versions.last().is_some_and(is_same) {
            self.versions.push(Version { body, ..Version::default() });
        }
        self.is_present = true;
    }

    /// Returns the version that a withdrawal is about, whatever its state.
    fn withdrawn(&self, version: Withdrawn) -> Option<u64> {
        let number = match version {
            Withdrawn::Number(number) => Some(number),
            Withdrawn::Latest => self.is_present.then_some(self.versions.len() as u64),
            Withdrawn::Label(label) => self.labels.get(LABELS[label]).copied(),
        };
        number.filter(|number| self.get(*number).is_some())
    }

    /// Returns the version that a reader of a content digest gets.
    fn with_body(&self, body: u8) -> Option<u64> {
        let numbers = (1..=self.versions.len() as u64).zip(&self.versions);
        let rank = |version: &Version| (version.is_servable(), !version.is_collected);
        let found = numbers.filter(|(_, version)| version.body == body);
        found.max_by_key(|(number, version)| (rank(version), *number)).map(|(number, _)| number)
    }

    /// Returns whether a version can be labelled or rolled back to.
    fn is_usable(&self, number: u64) -> bool {
        self.get(number).is_some_and(Version::is_servable)
    }

    fn has_content(&self, number: u64) -> bool {
        self.get(number).is_some_and(|version| !version.is_purged && !version.is_collected)
    }

    fn collect(&mut self, keep: u64) -> u64 {
        let latest = self.versions.len() as u64;
        let mut protected: BTreeSet<u64> = self.labels.values().copied().collect();
        protected.extend(self.served());
        protected.insert(latest);
        if self.is_present {
            let labels: Vec<u64> = self.labels.values().copied().collect();
            protected.extend(labels.into_iter().filter_map(|label| self.newest(label)));
            protected.extend(self.newest(latest));
        }
        let (mut newer, mut collected) = (0, 0);
        for number in (1..=latest).rev() {
            if !self.has_content(number) {
                continue;
            }
            if newer >= keep && !protected.contains(&number) {
                self.get_mut(number).is_collected = true;
                collected += 1;
            }
            newer += 1;
        }
        collected
    }

    /// Applies a step to the entry. Returns whether it is accepted.
    fn apply(&mut self, step: &Step) -> bool {
        match *step {
            Step::Put { body, expected, .. } => {
                let current = if self.is_present { self.versions.len() as u64 } else { 0 };
                let is_expected = expected.is_none_or(|expected| expected == current);
                if is_expected {
                    self.put(body, false);
                }
                is_expected
            }
            Step::Remove { .. } => {
                self.is_present = false;
                self.labels.clear();
                true
            }
            Step::Label { label, version, expected, .. } => {
                let label = LABELS[label];
                let current = self.labels.get(label).copied();
                let is_expected =
                    expected.is_none_or(|expected| expected == current.unwrap_or_default());
                let is_allowed = match version {
                    Some(version) => self.is_usable(version),
                    None => current.is_some() || expected.is_some(),
                };
                if !self.is_present || !is_expected || !is_allowed {
                    return false;
                }
                match version {
                    Some(version) => drop(self.labels.insert(label, version)),
                    None => drop(self.labels.remove(label)),
                }
                true
            }
            Step::Yank { version, .. } | Step::Unyank { version, .. } => {
                let version = self.withdrawn(version).filter(|version| self.has_content(*version));
                if let Some(version) = version {
                    self.get_mut(version).is_yanked = matches!(step, Step::Yank { .. });
                }
                version.is_some()
            }
            Step::Purge { version, .. } => {
                let is_kept = |version: &u64| self.get(*version).is_some_and(|v| !v.is_collected);
                let version = self.withdrawn(version).filter(is_kept);
                if let Some(version) = version {
                    self.get_mut(version).is_purged = true;
                    self.get_mut(version).is_yanked = true;
                }
                version.is_some()
            }
            Step::Rollback { version, .. } => {
                let body = self.get(version).filter(|version| version.is_servable());
                let body = body.map(|version| version.body);
                if let Some(body) = body {
                    self.put(body, true);
                }
                body.is_some()
            }
            Step::Collect { .. } | Step::Reopen => true,
        }
    }
}

fn text(body: u8) -> String {
    format!("# Body {body}\n")
}

/// Applies a step to a store. Returns whether it is accepted.
fn apply(store: &dyn Store, step: &Step) -> Result<Effect, BatchError> {
    let number = VersionSelector::Number;
    let mutation = match *step {
        Step::Put { id, body, expected } => {
            let skills_store::Mutation::Put { layer, id, content, blobs, .. } =
                put(IDS[id], &text(body))
            else {
                unreachable!()
            };
            let options = PublishOptions { expected_version: expected, ..Default::default() };
            skills_store::Mutation::Put { layer, id, content, blobs, options }
        }
        Step::Remove { id } => skills_store::Mutation::Remove(key(EntryKind::Skill, IDS[id])),
        Step::Label { id, label, version, expected } => {
            let label: Label = LABELS[label].parse().unwrap();
            let version = version.map(number);
            let change = VersionMutation::SetLabel { label, version, expected };
            on_version(key(EntryKind::Skill, IDS[id]), change)
        }
        Step::Yank { id, version } => {
            let change = VersionMutation::Yank { version: version.selector(), reason: "r".into() };
            on_version(key(EntryKind::Skill, IDS[id]), change)
        }
        Step::Unyank { id, version } => {
            let change = VersionMutation::Unyank { version: version.selector() };
            on_version(key(EntryKind::Skill, IDS[id]), change)
        }
        Step::Purge { id, version } => {
            let change = VersionMutation::Purge { version: version.selector(), reason: "r".into() };
            on_version(key(EntryKind::Skill, IDS[id]), change)
        }
        Step::Rollback { id, version } => {
            let options = PublishOptions::default();
            let change = VersionMutation::Rollback { to: number(version), options };
            on_version(key(EntryKind::Skill, IDS[id]), change)
        }
        Step::Collect { .. } | Step::Reopen => return Ok(Effect::Nothing),
    };
    let batch = Batch::new("t", vec![mutation]);
    store.commit(vec![batch], at(1)).unwrap().remove(0).map(|mut effects| effects.remove(0))
}

/// Collects as a registry does: in small pages, each from the last entry on.
fn collect(store: &dyn Store, keep: u64) -> (u64, u64) {
    let retention = Retention { versions: Some(keep), age: None };
    let (mut versions, mut bytes, mut from) = (0, 0, None);
    loop {
        let expired = store.expired(&retention, at(1), from.as_ref(), 2).unwrap();
        from = expired.versions.last().map(|(key, _)| key.clone());
        let change = |version| VersionMutation::Collect { version };
        let mutations: Vec<_> =
            expired.versions.into_iter().map(|(key, n)| on_version(key, change(n))).collect();
        let batch = Batch::new("gc", mutations);
        for effect in store.commit(vec![batch], at(1)).unwrap().remove(0).unwrap() {
            let Effect::Erased { bytes: freed, .. } = effect else { panic!("{effect:?}") };
            versions += 1;
            bytes += freed;
        }
        if !expired.has_more {
            return (versions, bytes);
        }
    }
}

fn check(store: &dyn Store, models: &[Model; 2]) -> Result<(), TestCaseError> {
    let (entries, withdrawn) = (store.entries().unwrap(), store.withdrawn().unwrap());
    for (id, model) in IDS.iter().zip(models) {
        let key = key(EntryKind::Skill, id);
        let is_withdrawn = model.is_present && model.served().is_none();
        prop_assert_eq!(withdrawn.contains(&key), is_withdrawn);
        let page = store.versions(&key, None, 100).unwrap();
        let listed: Vec<u64> = page.versions.iter().map(|version| version.number).collect();
        let expected: Vec<u64> = (1..=model.versions.len() as u64)
            .rev()
            .filter(|number| model.get(*number).is_some_and(|version| !version.is_collected))
            .collect();
        prop_assert_eq!(page.count, expected.len() as u64);
        prop_assert_eq!(listed, expected);
        prop_assert_eq!(page.served, model.served());
        prop_assert_eq!(page.is_present, model.is_present);
        let labels: BTreeMap<&str, u64> =
            page.labels.iter().map(|(label, number)| (label.as_str(), *number)).collect();
        prop_assert_eq!(&labels, &model.labels);
        let entry = entries.iter().find(|entry| entry.key == key);
        let served = entry.and_then(|entry| entry.heads.as_ref()).map(|heads| heads.served);
        prop_assert_eq!(served, model.served());
        let read = |text: &str| match store.version(&key, &text.parse().unwrap()).unwrap() {
            FoundVersion::Found { version, .. } => Some(version.number),
            FoundVersion::AllYanked | FoundVersion::Missing => None,
        };
        let newest = model.newest(u64::MAX).filter(|_| model.is_present);
        prop_assert_eq!(read("latest"), newest);
        for label in LABELS {
            let number = model.labels.get(label).and_then(|number| model.newest(*number));
            prop_assert_eq!(read(label), number, "{}", label);
        }
        for body in 0..5 {
            let line = format!("SKILL.md\0{}\n", Digest::of(text(body).as_bytes()));
            let address = format!("sha256:{:.13}", Digest::of(line.as_bytes()).to_string());
            prop_assert_eq!(read(&address), model.with_body(body), "body {}", body);
        }
        for (number, version) in (1..).zip(&model.versions) {
            let found = store.version(&key, &VersionSelector::Number(number)).unwrap();
            let FoundVersion::Found { version: info, content } = found else {
                panic!("version {number} is missing")
            };
            let removal = match (version.is_purged, version.is_collected) {
                (true, _) => Some(Removal::Purged),
                (_, true) => Some(Removal::Collected),
                _ => None,
            };
            prop_assert_eq!(info.removal, removal);
            prop_assert_eq!(info.yanked.is_some(), version.is_yanked);
            prop_assert_eq!(content.is_some(), removal.is_none());
            if let Some(EntryContent::Skill(meta)) = content.as_deref() {
                let body = store.blob(&meta.root().unwrap().digest).unwrap();
                prop_assert_eq!(body.unwrap(), text(version.body));
            }
        }
    }
    // A blob is stored for as long as a version has it.
    for body in 0..5 {
        let is_used = models.iter().any(|model| {
            (1..=model.versions.len() as u64)
                .any(|n| model.has_content(n) && model.get(n).is_some_and(|v| v.body == body))
        });
        let is_stored = store.blob(&Digest::of(text(body).as_bytes())).unwrap().is_some();
        prop_assert_eq!(is_stored, is_used, "body {}", body);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn all_stores_behave_like_a_list_of_versions(steps in prop::collection::vec(step(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        let mut sqlite = SqliteStore::open(dir.path()).unwrap();
        let memory = MemoryStore::new();
        let database = TestDatabase::new();
        let postgres = database.as_ref().map(TestDatabase::open);
        let postgres = postgres.as_ref().map(|store| store as &dyn Store);
        let mut models: [Model; 2] = Default::default();
        for step in &steps {
            match step {
                Step::Reopen => {
                    drop(sqlite);
                    sqlite = SqliteStore::open(dir.path()).unwrap();
                }
                Step::Collect { keep } => {
                    let retention = Retention { versions: Some(*keep), age: None };
                    let size = sqlite.expired_size(&retention, at(1)).unwrap();
                    prop_assert_eq!(size, memory.expired_size(&retention, at(1)).unwrap());
                    let expected: u64 = models.iter_mut().map(|model| model.collect(*keep)).sum();
                    for store in [&sqlite as &dyn Store, &memory].into_iter().chain(postgres) {
                        prop_assert_eq!(store.expired_size(&retention, at(1)).unwrap(), size);
                        prop_assert_eq!(collect(store, *keep), (expected, size.bytes));
                    }
                    while sqlite.release_space().unwrap() {}
                }
                Step::Put { id, .. } | Step::Remove { id } | Step::Label { id, .. }
                | Step::Yank { id, .. } | Step::Unyank { id, .. } | Step::Purge { id, .. }
                | Step::Rollback { id, .. } => {
                    let before = models[*id].served();
                    let is_accepted = models[*id].apply(step);
                    let after = models[*id].served();
                    let effects = [apply(&sqlite, step), apply(&memory, step)];
                    prop_assert_eq!(&effects[0], &effects[1], "{:?}", step);
                    if let Some(postgres) = postgres {
                        prop_assert_eq!(&effects[0], &apply(postgres, step), "{:?}", step);
                    }
                    prop_assert_eq!(effects[0].is_ok(), is_accepted, "{:?}: {:?}", step, effects[0]);
                    // A change that affects what is served says so, and no other does.
                    if let Ok(Effect::Changed(change) | Effect::Erased { change, .. }) = &effects[0] {
                        let is_put = matches!(step, Step::Put { .. } | Step::Rollback { .. });
                        let is_served = is_put && change.action.version() == after;
                        prop_assert_eq!(change.affects_served, before != after || is_served);
                        prop_assert_eq!(change.is_served(), after.is_some());
                    } else {
                        prop_assert_eq!(before, after);
                    }
                }
            }
            prop_assert_eq!(sqlite.revision().unwrap(), memory.revision().unwrap());
        }
        check(&sqlite, &models)?;
        check(&memory, &models)?;
        if let Some(postgres) = postgres {
            check(postgres, &models)?;
            prop_assert_eq!(postgres.changes(0, 1000).unwrap(), sqlite.changes(0, 1000).unwrap());
        }
        drop(sqlite);
        check(&SqliteStore::open(dir.path()).unwrap(), &models)?;
    }
}
