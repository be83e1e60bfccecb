//! A stream of writes through 200 rounds of random network faults, checked against a model.
//!
//! The model holds the last acknowledged write of each skill. An unacknowledged write may or may not have happened,
//! perhaps much later. Its skill is not written again, so that only two final states are possible.
//!
//! A write through the registry notifies exactly once. External writes notify as far as they are seen one by one;
//! several during one disconnect may notify as one. So the events of a skill are checked by their number, which has
//! an upper and a lower bound, and by the last one.

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

use crate::support::{
    attached::{AttachedWorker, subscriber, wait_until_serving},
    engine::{EngineOptions, TestEngine, record, state},
    ids,
    proxy::{NetworkCondition, Proxy, Side},
    read,
    wait::eventually,
};

const ROUNDS: usize = 200;
const WRITERS: usize = 16;
/// Timeout of a write.
const PATIENCE: Duration = Duration::from_secs(4);
/// Time after which a missing notification counts as lost.
const SETTLED: Duration = Duration::from_secs(45);
/// Upper bound of a run; beyond it no write gets through.
const TOO_LONG: Duration = Duration::from_secs(900);

/// Model of one skill; `None` is an absent skill.
#[derive(Debug, Default)]
pub(crate) struct SkillModel {
    acknowledged: Option<String>,
    /// Write with unknown outcome.
    open: Option<Option<String>>,
    puts: usize,
    removals: usize,
    /// Writes acknowledged by the registry: none of their events may be missing.
    our_puts: usize,
    our_removals: usize,
}

impl SkillModel {
    fn allows(&self, found: Option<&String>) -> bool {
        found == self.acknowledged.as_ref()
            || self.open.as_ref().is_some_and(|open| found == open.as_ref())
    }
}

pub(crate) type Model = BTreeMap<String, SkillModel>;

/// Outcome of a write.
enum WriteOutcome {
    Done(Value),
    Nothing,
    Unknown,
}

fn outcome_of(
    answer: Result<Result<Value, CallFailure>, tokio::time::error::Elapsed>,
) -> WriteOutcome {
    match answer {
        Ok(Ok(answer)) => WriteOutcome::Done(answer),
        // No worker served the call, so it had no effect.
        Ok(Err(failure)) if ["function_not_found", "not_connected"].contains(&&*failure.code) => {
            WriteOutcome::Nothing
        }
        Ok(Err(_)) | Err(_) => WriteOutcome::Unknown,
    }
}

pub(crate) struct Writers {
    /// Reconnects when the engine restarts.
    worker: Mutex<Arc<Worker>>,
    random: Mutex<Random>,
    stop: AtomicBool,
    acknowledged: AtomicUsize,
    /// Writes through the process under test.
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

    /// Starts all writers.
    pub(crate) fn start(self: &Arc<Self>) -> Vec<JoinHandle<Model>> {
        let writer = |number| {
            let writers = Arc::clone(self);
            tokio::spawn(async move { writers.write(number).await })
        };
        (0..WRITERS).map(writer).collect()
    }

    /// Stops the writers and returns their merged model.
    pub(crate) async fn finish(&self, tasks: Vec<JoinHandle<Model>>) -> Model {
        self.stop.store(true, Ordering::SeqCst);
        let mut model = Model::new();
        for task in tasks {
            model.extend(task.await.unwrap());
        }
        model
    }

    pub(crate) fn reconnect_with(&self, worker: Worker) {
        *self.worker.lock().unwrap() = Arc::new(worker);
    }

    /// Returns the number of writes acknowledged by the process under test.
    pub(crate) fn ours(&self) -> usize {
        self.ours.load(Ordering::SeqCst)
    }

    fn below(&self, end: usize) -> usize {
        self.random.lock().unwrap().below(end)
    }

    /// Writes to its own skills, one write at a time, until told to stop.
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
            let is_open = self.write_once(&id, number, subject).await;
            if !is_open {
                present.push(id);
            }
        }
        model
    }

    /// Makes one write and returns whether its outcome is unknown.
    async fn write_once(&self, id: &str, number: usize, subject: &mut SkillModel) -> bool {
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
        match outcome_of(timeout(PATIENCE, worker.call(function, data)).await) {
            WriteOutcome::Done(answer) => {
                self.acknowledged.fetch_add(1, Ordering::SeqCst);
                let is_ours = function.starts_with("skills");
                self.ours.fetch_add(usize::from(is_ours), Ordering::SeqCst);
                subject.our_puts += usize::from(is_ours && after.is_some());
                subject.our_removals += usize::from(is_ours && answer["removed"] == true);
                subject.acknowledged = after;
            }
            WriteOutcome::Nothing => {
                *counted -= 1;
                // The service is away for a while; pause so that external writes are noticed, too.
                sleep(Duration::from_millis(20)).await;
            }
            WriteOutcome::Unknown => {
                subject.open = Some(after);
                return true;
            }
        }
        // Limits the rate.
        sleep(Duration::from_millis(5)).await;
        false
    }
}

const FAULTS_WITHOUT_A_BREAK: usize = 14;
const ALL_FAULTS: usize = 19;

/// Returns whether the first so many faults include one that breaks connections.
const fn can_break(faults: usize) -> bool {
    faults > FAULTS_WITHOUT_A_BREAK
}

/// Runs one round of faults. The first kinds break no connection.
async fn round(proxy: &Proxy, fault: usize, lasts: Duration) {
    match fault {
        0..8 => {
            proxy.set(NetworkCondition::Slow(lasts / 20));
            sleep(lasts).await;
        }
        8..FAULTS_WITHOUT_A_BREAK => {
            proxy.set(NetworkCondition::Blackhole);
            sleep(lasts).await;
        }
        14 => {
            proxy.set(NetworkCondition::Blackhole);
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
    proxy.set(NetworkCondition::Fine);
}

/// Returns the bodies in the state by id.
async fn stored(worker: &Worker) -> BTreeMap<String, String> {
    let body = |value: &Value| value["skill"].as_str().unwrap().to_owned();
    let entries = state(worker, "skills").await;
    entries.into_iter().map(|(key, value)| (key, body(&value))).collect()
}

/// Waits until catalog and state agree, checks both against the model, and returns the bodies by id.
pub(crate) async fn wait_until_consistent(
    model: &Model,
    worker: &Worker,
    seed: u64,
) -> BTreeMap<String, String> {
    wait_until_serving(worker).await;
    eventually("the catalog is the state", async || {
        let left: Vec<String> = stored(worker).await.into_keys().collect();
        worker.call("skills::list", json!({})).await.is_ok() && ids(worker).await == left
    })
    .await;
    let left = stored(worker).await;
    for (id, subject) in model {
        let found = left.get(id);
        assert!(subject.allows(found), "seed {seed}: {id} is {found:?}, not {subject:?}");
    }
    for (id, body) in &left {
        assert!(model.contains_key(id), "seed {seed}: nobody wrote {id}");
        assert_eq!(&read(worker, &format!("iii://{id}")).await, body, "seed {seed}");
    }
    left
}

/// Events of a subscriber by id, in order; `true` is a registration.
type ReceivedEvents = BTreeMap<String, Vec<bool>>;

/// Returns the skills whose last event does not match their final state.
fn skills_with_wrong_last_event(
    received: &ReceivedEvents,
    model: &Model,
    left: &BTreeMap<String, String>,
) -> Vec<String> {
    let ended_well = |id: &&String| {
        let last = received.get(*id).and_then(|events| events.last());
        last.copied().unwrap_or(false) == left.contains_key(*id)
    };
    model.keys().filter(|id| !ended_well(id)).cloned().collect()
}

/// Result of a run.
struct RunOutcome {
    seed: u64,
    model: Model,
    /// Bodies in the state by id, which the catalog equals.
    left: BTreeMap<String, String>,
    received: ReceivedEvents,
}

/// Runs the writers through a number of rounds on a random engine, checks catalog and state, and returns the events.
/// Faults are numbered as in [`round`].
async fn run(rounds: usize, faults: usize, lost_answers: Option<usize>) -> RunOutcome {
    let mut random = Random::new();
    let seed = random.seed;
    let mut engines = Vec::from(EngineOptions::all());
    let (name, options) = engines.swap_remove(random.below(engines.len()));
    eprintln!("{}={seed}, engine {name}", skills_testkit::SEED_VARIABLE);
    let engine = TestEngine::with_options(EngineOptions { lost_answers, ..options }).await;
    let proxy = Proxy::start(engine.address).await;
    let mut attached = AttachedWorker::spawn(&proxy.url(), "state_timeout_ms: 1000");
    let worker = engine.worker().await;
    wait_until_serving(&worker).await;
    let (_subscriber, mut events) = subscriber(&engine).await;

    let writers = Writers::new(engine.worker().await, random);
    let tasks = writers.start();
    let started = Instant::now();
    let mut number = 0;
    // A busy machine needs more rounds for enough writes.
    while number < rounds || writers.ours() < rounds / 2 {
        let acknowledged = writers.ours();
        assert!(
            started.elapsed() < TOO_LONG,
            "seed {seed}: {acknowledged} writes in {number} rounds"
        );
        number += 1;
        let lasts = Duration::from_millis(60 + writers.below(120) as u64);
        // The SDK reconnects after two seconds, so most rounds keep the connection.
        let is_break = can_break(faults) && writers.below(16) == 0;
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

    // The network works again.
    let left = wait_until_consistent(&model, &worker, seed).await;

    let mut received = ReceivedEvents::new();
    let settled = Instant::now();
    eventually("the events have come", async || {
        while let Ok(event) = events.try_recv() {
            let id = event["id"].as_str().unwrap().to_owned();
            received.entry(id).or_default().push(event["op"] == "register");
        }
        skills_with_wrong_last_event(&received, &model, &left).is_empty()
            || settled.elapsed() > SETTLED
    })
    .await;
    RunOutcome { seed, model, left, received }
}

/// Checks that no event is duplicated, none of our own is missing, and the last one of each skill matches its final
/// state.
fn check_events(outcome: &RunOutcome) {
    let RunOutcome { seed, model, left, received } = outcome;
    let unfinished = skills_with_wrong_last_event(received, model, left);
    assert!(unfinished.is_empty(), "seed {seed}: of {}, {unfinished:?}", model.len());
    for (id, subject) in model {
        let events = received.get(id).map_or(&[][..], Vec::as_slice);
        let puts = events.iter().filter(|event| **event).count();
        let removals = events.len() - puts;
        let fits = (subject.our_puts..=subject.puts).contains(&puts)
            && (subject.our_removals..=subject.removals).contains(&removals);
        assert!(fits, "seed {seed}: {id} {events:?} of {subject:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_or_stalled_network_loses_and_duplicates_nothing() {
    let outcome = run(ROUNDS / 4, FAULTS_WITHOUT_A_BREAK, None).await;
    check_events(&outcome);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_rounds_of_network_faults_lose_and_duplicate_nothing() {
    let outcome = run(ROUNDS, ALL_FAULTS, None).await;
    check_events(&outcome);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_of_the_state_lose_and_duplicate_nothing() {
    let outcome = run(ROUNDS / 4, FAULTS_WITHOUT_A_BREAK, Some(40)).await;
    check_events(&outcome);
}
