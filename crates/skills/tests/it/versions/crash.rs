//! Random changes of versions on the real binary, with restarts and kills. The model is a plain list of versions.
//!
//! One change at a time is in flight. When the server is killed during one, the stored state must be that before it or that
//! after it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use skills_testkit::{Random, SEED_VARIABLE, Worker};

use crate::support::{TestServer, read};

const ROUNDS: usize = 8;
const CHANGES: usize = 12;
const IDS: [&str; 3] = ["a", "b", "c"];
const LABELS: [&str; 2] = ["stable", "canary"];
/// Newest versions of an entry that a collection keeps.
const KEPT: usize = 3;

/// State of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    content: usize,
    is_yanked: bool,
    is_collected: bool,
}

/// Versions of one skill, oldest first, and its labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Skill {
    versions: Vec<Version>,
    labels: BTreeMap<&'static str, usize>,
    is_present: bool,
}

impl Skill {
    /// Returns the newest version up to a number that is neither yanked nor collected.
    fn newest_up_to(&self, number: usize) -> Option<usize> {
        let is_servable = |version: &Version| !version.is_yanked && !version.is_collected;
        (1..=number).rev().find(|number| is_servable(&self.versions[number - 1]))
    }

    fn served(&self) -> Option<usize> {
        let last = self.labels.get("stable").copied().unwrap_or(self.versions.len());
        self.newest_up_to(last).filter(|_| self.is_present)
    }

    fn collect(&mut self) {
        let count = self.versions.len();
        // Versions with a label, the newest, and those that these addresses read if theirs is yanked.
        let mut kept: BTreeSet<usize> = self.labels.values().copied().chain([count]).collect();
        if self.is_present {
            let read: Vec<_> =
                kept.iter().filter_map(|number| self.newest_up_to(*number)).collect();
            kept.extend(read);
        }
        for number in 1..=count {
            let is_kept = number + KEPT > count || kept.contains(&number);
            self.versions[number - 1].is_collected |= !is_kept;
        }
    }
}

type Model = BTreeMap<&'static str, Skill>;

/// A change of the versions.
#[derive(Debug, Clone)]
enum Change {
    Publish { id: &'static str, content: usize },
    Remove { id: &'static str },
    Label { id: &'static str, label: &'static str, version: Option<usize> },
    Rollback { id: &'static str, to: usize },
    Yank { id: &'static str, version: usize, undo: bool },
    Collect,
}

impl Change {
    fn call(&self) -> (&'static str, Value) {
        match self {
            Self::Publish { id, content } => {
                ("skills::register", json!({ "id": id, "skill": body(*content) }))
            }
            Self::Remove { id } => ("skills::unregister", json!({ "id": id })),
            Self::Label { id, label, version } => {
                ("skills::label", json!({ "id": id, "label": label, "version": version }))
            }
            Self::Rollback { id, to } => ("skills::rollback", json!({ "id": id, "to": to })),
            Self::Yank { id, version, undo } => (
                "skills::yank",
                json!({ "id": id, "version": version, "reason": "r", "undo": undo }),
            ),
            Self::Collect => ("skills::gc", json!({ "versions": KEPT })),
        }
    }

    fn apply(&self, model: &mut Model) {
        let add = |skill: &mut Skill, content| {
            skill.is_present = true;
            skill.versions.push(Version { content, is_yanked: false, is_collected: false });
        };
        match self {
            Self::Publish { id, content } => add(model.entry(id).or_default(), *content),
            Self::Remove { id } => {
                let skill = model.entry(id).or_default();
                skill.is_present = false;
                skill.labels.clear();
            }
            Self::Label { id, label, version } => {
                let labels = &mut model.entry(id).or_default().labels;
                match version {
                    Some(version) => _ = labels.insert(label, *version),
                    None => _ = labels.remove(label),
                }
            }
            Self::Rollback { id, to } => {
                let skill = model.entry(id).or_default();
                add(skill, skill.versions[to - 1].content);
            }
            Self::Yank { id, version, undo } => {
                model.entry(id).or_default().versions[version - 1].is_yanked = !undo;
            }
            Self::Collect => model.values_mut().for_each(Skill::collect),
        }
    }
}

fn body(content: usize) -> String {
    format!("# Content {content}\n\n{}", "A line of text.\n".repeat(1 + content % 300))
}

/// Makes a change that the registry accepts.
fn random_change(random: &mut Random, model: &Model, contents: &mut usize) -> Change {
    loop {
        let id = IDS[random.below(IDS.len())];
        let empty = Skill::default();
        let skill = model.get(id).unwrap_or(&empty);
        let number = 1 + random.below(skill.versions.len().max(1));
        let version = skill.versions.get(number - 1).filter(|_| skill.is_present);
        let is_usable = version.is_some_and(|it| !it.is_yanked && !it.is_collected);
        let label = LABELS[random.below(LABELS.len())];
        match random.below(12) {
            0..4 => {
                *contents += 1;
                return Change::Publish { id, content: *contents };
            }
            4 if skill.is_present => return Change::Remove { id },
            5..7 if is_usable => return Change::Label { id, label, version: Some(number) },
            7 if skill.labels.contains_key(label) => {
                return Change::Label { id, label, version: None };
            }
            8 if is_usable && number < skill.versions.len() => {
                // The newest version has other content: no two publications share theirs.
                let newest = skill.versions.last().map(|it| it.content);
                if newest != version.map(|it| it.content) {
                    return Change::Rollback { id, to: number };
                }
            }
            9 | 10 => match version {
                Some(version) if !version.is_collected => {
                    return Change::Yank { id, version: number, undo: version.is_yanked };
                }
                _ => {}
            },
            11 => return Change::Collect,
            _ => {}
        }
    }
}

/// Reads the state of one skill from the server. Versions that `like` has collected are taken from there: the history may
/// leave them out.
async fn observe(worker: &Worker, id: &'static str, like: &Skill) -> Result<Skill, String> {
    if like.versions.is_empty() {
        return Ok(Skill::default());
    }
    let page = worker.call("skills::history", json!({ "id": id, "limit": 500 })).await;
    let page = page.map_err(|failure| format!("{id}: {failure:?}"))?;
    let rows = page["data"].as_array().unwrap();
    let mut skill = Skill { versions: like.versions.clone(), ..Skill::default() };
    let mut served = None;
    for row in rows {
        let number = usize::try_from(row["version"].as_u64().unwrap()).unwrap();
        for label in row["labels"].as_array().unwrap() {
            let label = LABELS.into_iter().find(|known| label == known).unwrap();
            skill.labels.insert(label, number);
        }
        if row["served"] == true {
            served = Some(number);
        }
        let Some(version) = skill.versions.get_mut(number - 1) else {
            return Err(format!("{id} has version {number}"));
        };
        version.is_yanked = row["yanked"].is_string();
    }
    let newest = rows.first().map_or(0, |row| row["version"].as_u64().unwrap());
    if newest != like.versions.len() as u64 {
        return Err(format!("the newest version of {id} is {newest}, not {}", like.versions.len()));
    }
    for (number, version) in skill.versions.iter_mut().enumerate().map(|(at, it)| (at + 1, it)) {
        let uri = format!("iii://{id}@{number}");
        match worker.call("skills::resources-read", json!({ "uri": uri })).await {
            Ok(answer) => {
                let text = answer["contents"][0]["text"].as_str().unwrap();
                if text != body(version.content) {
                    return Err(format!("{uri} reads {text:?}"));
                }
                version.is_collected = false;
            }
            Err(failure) if failure.code == "collected" => version.is_collected = true,
            Err(failure) => return Err(format!("{uri}: {failure:?}")),
        }
    }
    let list = worker.ok("skills::list", json!({})).await;
    let is_listed = list["skills"].as_array().unwrap().iter().any(|row| row["id"] == id);
    if is_listed != served.is_some() || served != like.served() {
        return Err(format!("{id} serves {served:?}, listed: {is_listed}"));
    }
    if let Some(served) = served {
        let text = read(worker, &format!("iii://{id}")).await;
        if text != body(skill.versions[served - 1].content) {
            return Err(format!("iii://{id} reads {text:?}"));
        }
    }
    // An entry without a version to serve cannot be told from a removed one.
    skill.is_present = like.is_present;
    Ok(skill)
}

/// Compares the server with a model.
async fn difference(worker: &Worker, model: &Model) -> Option<String> {
    for (id, expected) in model {
        match observe(worker, id, expected).await {
            Ok(seen) if seen == *expected => {}
            Ok(seen) => return Some(format!("{id}: {seen:?} instead of {expected:?}")),
            Err(reason) => return Some(reason),
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_survive_restarts_and_kills_like_a_list_of_versions() {
    let mut random = Random::new();
    let seed = format!("{SEED_VARIABLE}={}", random.seed);
    let (mut model, mut contents) = (Model::new(), 0);
    let mut server = TestServer::new();
    for round in 0..ROUNDS {
        let worker = server.worker().await;
        for _ in 0..CHANGES {
            let change = random_change(&mut random, &model, &mut contents);
            let (function, data) = change.call();
            let answer = worker.call(function, data).await;
            assert!(answer.is_ok(), "{change:?} ({seed}): {answer:?}");
            change.apply(&mut model);
        }
        let found = difference(&worker, &model).await;
        assert_eq!(found, None, "before round {round} ends ({seed})");
        if round % 4 == 3 {
            drop(worker);
            server = server.restart();
        } else {
            let change = random_change(&mut random, &model, &mut contents);
            let (function, data) = change.call();
            let pending = worker.start(function, &data);
            // The kill hits any point of the server's work on the change.
            for _ in 0..random.below(200) {
                tokio::task::yield_now().await;
            }
            server = tokio::task::block_in_place(|| server.crash());
            let is_acknowledged = pending.await.is_ok();
            let mut after = model.clone();
            change.apply(&mut after);
            let worker = server.worker().await;
            let is_applied = difference(&worker, &after).await;
            if is_applied.is_none() {
                model = after;
            } else {
                assert!(!is_acknowledged, "{change:?} was lost ({seed}): {is_applied:?}");
            }
            // A collection is not atomic: what it removed stays removed, and the next one goes on.
            if matches!(change, Change::Collect) && is_applied.is_some() {
                let (function, data) = change.call();
                worker.ok(function, data).await;
                change.apply(&mut model);
            }
        }
        let worker = server.worker().await;
        assert_eq!(difference(&worker, &model).await, None, "after round {round} ({seed})");
    }
    assert!(contents > ROUNDS, "only {contents} publications: this shows nothing");
}
