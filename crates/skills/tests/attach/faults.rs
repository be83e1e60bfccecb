//! A stream of writes through 200 rounds of random faults, and a model of what must be left.
//!
//! The model knows of each skill what was acknowledged last. A write without an acknowledgement may or may
//! not have happened, perhaps much later; its skill is not written to again, so that there are just two
//! things that can be left of it.
//!
//! A write through the registry is announced just once. Writes of others are announced as far as they are
//! seen one by one; several during one loss of the connection may be announced as one. So the events of a
//! skill are checked by their number, which has an upper and a lower bound, and by where they end.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use skills_testkit::{CallFailure, Random, Worker};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    attached::{Attached, eventually, serves, subscriber},
    engine::{Engine, record, state},
    proxy::{Proxy, Side, Weather},
    support::{ids, read},
};

const ROUNDS: usize = 200;
const WRITERS: usize = 16;
/// Who has no answer after this has none.
const PATIENCE: Duration = Duration::from_secs(4);
/// What has not been announced by then never is.
const SETTLED: Duration = Duration::from_secs(15);
/// Nothing gets through, so there is nothing to be seen.
const TOO_LONG: Duration = Duration::from_secs(180);

/// What is known of one skill; `None` is a skill that is not there.
#[derive(Debug, Default)]
pub(crate) struct Subject {
    acknowledged: Option<String>,
    /// A write whose end is not known.
    open: Option<Option<String>>,
    puts: usize,
    removals: usize,
    /// Those of them that the registry has acknowledged: none of their events may be missing.
    our_puts: usize,
    our_removals: usize,
}

impl Subject {
    fn may_be(&self, found: Option<&String>) -> bool {
        found == self.acknowledged.as_ref()
            || self.open.as_ref().is_some_and(|open| found == open.as_ref())
    }
}

pub(crate) type Model = BTreeMap<String, Subject>;

/// How a write ended.
enum End {
    Done(Value),
    Nothing,
    Unknown,
}

fn end(answer: Result<Result<Value, CallFailure>, tokio::time::error::Elapsed>) -> End {
    match answer {
        Ok(Ok(answer)) => End::Done(answer),
        // Nobody was there to do it, or to be asked.
        Ok(Err(failure)) if ["function_not_found", "not_connected"].contains(&&*failure.code) => {
            End::Nothing
        }
        Ok(Err(_)) | Err(_) => End::Unknown,
    }
}

pub(crate) struct Writers {
    /// Its connection is lost with the engine; then there is another.
    worker: Mutex<Arc<Worker>>,
    random: Mutex<Random>,
    stop: AtomicBool,
    acknowledged: AtomicUsize,
    /// Those of them that went through the process under test.
    ours: AtomicUsize,
}

impl Writers {
    pub(crate) fn new(worker: Worker, random: Random) -> Arc<Self> {
        Arc::new(Self {
            worker: Mutex::new(Arc::new(worker)),
            random: Mutex::new(random),
            stop: AtomicBool::new(false),
            acknowledged: AtomicUsize::new(0),
            ours: AtomicUsize::new(0),
        })
    }

    /// Lets all of them write from now on.
    pub(crate) fn start(self: &Arc<Self>) -> Vec<JoinHandle<Model>> {
        let writer = |number| {
            let writers = Arc::clone(self);
            tokio::spawn(async move { writers.write(number).await })
        };
        (0..WRITERS).map(writer).collect()
    }

    /// Has them stop, and returns what they have done.
    pub(crate) async fn finish(&self, tasks: Vec<JoinHandle<Model>>) -> Model {
        self.stop.store(true, Ordering::SeqCst);
        let mut model = Model::new();
        for task in tasks {
            model.extend(task.await.unwrap());
        }
        model
    }

    pub(crate) fn go_on_with(&self, worker: Worker) {
        *self.worker.lock().unwrap() = Arc::new(worker);
    }

    /// How many writes the process under test has acknowledged.
    pub(crate) fn ours(&self) -> usize {
        self.ours.load(Ordering::SeqCst)
    }

    fn below(&self, end: usize) -> usize {
        self.random.lock().unwrap().below(end)
    }

    /// Writes to skills of its own, one write at a time, until it is told to stop.
    async fn write(&self, writer: usize) -> Model {
        let mut model = Model::new();
        let mut present: Vec<String> = Vec::new();
        let mut number = 0;
        while !self.stop.load(Ordering::SeqCst) {
            number += 1;
            let id = if present.len() < 4 || self.below(4) == 0 {
                format!("w{writer}-{number}")
            } else {
                present.swap_remove(self.below(present.len()))
            };
            let subject = model.entry(id.clone()).or_default();
            let is_open = self.one(&id, number, subject).await;
            if !is_open {
                present.push(id);
            }
        }
        model
    }

    /// One write; tells whether its end is not known.
    async fn one(&self, id: &str, number: usize, subject: &mut Subject) -> bool {
        let body = format!("# {id}\n\nVersion {number}");
        let (function, data, after) = match self.below(6) {
            0 => ("skills::unregister", json!({ "id": id }), None),
            1 => ("state::delete", json!({ "scope": "skills", "key": id }), None),
            2 | 3 => {
                let value = record(id, &body);
                let data = json!({ "scope": "skills", "key": id, "value": value });
                ("state::set", data, Some(body))
            }
            _ => ("skills::register", json!({ "id": id, "skill": body }), Some(body)),
        };
        let worker = Arc::clone(&self.worker.lock().unwrap());
        if !worker.is_connected() {
            sleep(Duration::from_millis(20)).await;
            return false;
        }
        let counted = if after.is_some() { &mut subject.puts } else { &mut subject.removals };
        *counted += 1;
        match end(timeout(PATIENCE, worker.call(function, data)).await) {
            End::Done(answer) => {
                self.acknowledged.fetch_add(1, Ordering::SeqCst);
                let is_ours = function.starts_with("skills");
                self.ours.fetch_add(usize::from(is_ours), Ordering::SeqCst);
                subject.our_puts += usize::from(is_ours && after.is_some());
                subject.our_removals += usize::from(is_ours && answer["removed"] == true);
                subject.acknowledged = after;
            }
            End::Nothing => {
                *counted -= 1;
                // Nobody is there for a while; the others are to be heard of, too.
                sleep(Duration::from_millis(20)).await;
            }
            End::Unknown => {
                subject.open = Some(after);
                return true;
            }
        }
        // A stream, not a flood.
        sleep(Duration::from_millis(5)).await;
        false
    }
}

const FAULTS_WITHOUT_A_BREAK: usize = 14;
const ALL_FAULTS: usize = 19;

/// One round of bad weather. The first faults break no connection.
async fn round(proxy: &Proxy, fault: usize, lasts: Duration) {
    match fault {
        0..8 => {
            proxy.set(Weather::Slow(lasts / 20));
            sleep(lasts).await;
        }
        8..FAULTS_WITHOUT_A_BREAK => {
            proxy.set(Weather::Blackhole);
            sleep(lasts).await;
        }
        14 => {
            proxy.set(Weather::Blackhole);
            sleep(lasts).await;
            proxy.cut();
        }
        15 => {
            proxy.open(false);
            proxy.cut();
            sleep(lasts).await;
            proxy.open(true);
        }
        16 | 17 => {
            proxy.half_close(if fault == 16 { Side::Worker } else { Side::Engine });
            sleep(lasts).await;
        }
        _ => {
            proxy.cut();
            sleep(lasts).await;
        }
    }
    proxy.set(Weather::Fine);
}

/// The bodies in the state, by id.
async fn stored(worker: &Worker) -> BTreeMap<String, String> {
    let body = |value: &Value| value["skill"].as_str().unwrap().to_owned();
    let entries = state(worker, "skills").await;
    entries.into_iter().map(|(key, value)| (key, body(&value))).collect()
}

/// Waits until the catalog is what the state is, and checks both with the model. Returns the bodies by id.
pub(crate) async fn agree_with(
    model: &Model,
    worker: &Worker,
    seed: u64,
) -> BTreeMap<String, String> {
    serves(worker).await;
    eventually("the catalog is the state", async || {
        let left: Vec<String> = stored(worker).await.into_keys().collect();
        worker.call("skills::list", json!({})).await.is_ok() && ids(worker).await == left
    })
    .await;
    let left = stored(worker).await;
    for (id, subject) in model {
        let found = left.get(id);
        assert!(subject.may_be(found), "seed {seed}: {id} is {found:?}, not {subject:?}");
    }
    for (id, body) in &left {
        assert!(model.contains_key(id), "seed {seed}: nobody wrote {id}");
        assert_eq!(&read(worker, &format!("iii://{id}")).await, body, "seed {seed}");
    }
    left
}

/// What a subscriber heard, by id and in order; `true` is a registration.
type Heard = BTreeMap<String, Vec<bool>>;

/// Which skills' events do not end where the skill did.
fn unfinished(heard: &Heard, model: &Model, left: &BTreeMap<String, String>) -> Vec<String> {
    let ended_well = |id: &&String| {
        let last = heard.get(*id).and_then(|events| events.last());
        last.copied().unwrap_or(false) == left.contains_key(*id)
    };
    model.keys().filter(|id| !ended_well(id)).cloned().collect()
}

/// What a run left to look at.
struct Outcome {
    seed: u64,
    model: Model,
    /// The bodies in the state, by id; the catalog has the same.
    left: BTreeMap<String, String>,
    heard: Heard,
}

/// Runs the writers through a number of rounds, checks what the catalog and the state have come to, and
/// returns what was heard. Faults are numbered as in [`round`].
async fn run(rounds: usize, faults: usize) -> Outcome {
    let random = Random::new();
    let seed = random.seed;
    eprintln!("{}={seed}", skills_testkit::SEED_VARIABLE);
    let engine = Engine::start().await;
    let proxy = Proxy::before(engine.address).await;
    let mut attached = Attached::spawn(&proxy.url(), "state_timeout_ms: 1000");
    let worker = engine.worker().await;
    serves(&worker).await;
    let (_subscriber, mut events) = subscriber(&engine).await;

    let writers = Writers::new(engine.worker().await, random);
    let tasks = writers.start();
    let started = Instant::now();
    let mut number = 0;
    // A machine that is busy with other things needs more of them for a stream of writes.
    while number < rounds || writers.ours() < rounds / 2 {
        let so_far = writers.ours();
        assert!(started.elapsed() < TOO_LONG, "seed {seed}: {so_far} writes in {number} rounds");
        number += 1;
        let lasts = Duration::from_millis(60 + writers.below(120) as u64);
        // The SDK takes two seconds to come back, so most rounds are to find it connected.
        let is_break = faults > FAULTS_WITHOUT_A_BREAK && writers.below(16) == 0;
        let first = if is_break { FAULTS_WITHOUT_A_BREAK } else { 0 };
        let count = if is_break { faults } else { FAULTS_WITHOUT_A_BREAK } - first;
        round(&proxy, first + writers.below(count), lasts).await;
    }
    let model = writers.finish(tasks).await;
    let open = model.values().filter(|subject| subject.open.is_some()).count();
    let acknowledged = writers.acknowledged.load(Ordering::SeqCst);
    eprintln!(
        "{number} rounds in {:.0?}: {acknowledged} writes acknowledged ({} ours) to {} skills, {open} not",
        started.elapsed(),
        writers.ours(),
        model.len(),
    );
    assert!(attached.is_running(), "seed {seed}");

    // Fine weather.
    let left = agree_with(&model, &worker, seed).await;

    let mut heard = Heard::new();
    let settled = Instant::now();
    eventually("the events have come", async || {
        while let Ok(event) = events.try_recv() {
            let id = event["id"].as_str().unwrap().to_owned();
            heard.entry(id).or_default().push(event["op"] == "register");
        }
        unfinished(&heard, &model, &left).is_empty() || settled.elapsed() > SETTLED
    })
    .await;
    Outcome { seed, model, left, heard }
}

/// There is no event too many, and none of ours is missing.
fn events_are_as_many_as_they_should_be(outcome: &Outcome) {
    let Outcome { seed, model, heard, .. } = outcome;
    for (id, subject) in model {
        let events = heard.get(id).map_or(&[][..], Vec::as_slice);
        let puts = events.iter().filter(|event| **event).count();
        let removals = events.len() - puts;
        let fits = (subject.our_puts..=subject.puts).contains(&puts)
            && (subject.our_removals..=subject.removals).contains(&removals);
        assert!(fits, "seed {seed}: {id} {events:?} of {subject:?}");
    }
}

/// The last event of each skill tells whether it is there.
fn events_end_where_the_skills_did(outcome: &Outcome) {
    let Outcome { seed, model, left, heard } = outcome;
    let unfinished = unfinished(heard, model, left);
    assert!(unfinished.is_empty(), "seed {seed}: of {}, {unfinished:?}", model.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_is_slow_or_stands_still_loses_and_doubles_nothing() {
    let outcome = run(ROUNDS / 4, FAULTS_WITHOUT_A_BREAK).await;
    events_are_as_many_as_they_should_be(&outcome);
    events_end_where_the_skills_did(&outcome);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_rounds_of_a_network_that_breaks_lose_and_double_nothing() {
    let outcome = run(ROUNDS, ALL_FAULTS).await;
    events_are_as_many_as_they_should_be(&outcome);
    events_end_where_the_skills_did(&outcome);
}
