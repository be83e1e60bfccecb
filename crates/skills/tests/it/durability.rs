//! Acknowledged writes survive a crash completely; unacknowledged ones are stored completely or not at all.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    pin::Pin,
    time::Duration,
};

use serde_json::{Value, json};
use skills_testkit::{CallFailure, Random, SEED_VARIABLE, ServerProcess, Worker};

use crate::support::{BINARY, TestServer, ids, read, register};

const ROUNDS: usize = 50;
/// Calls in flight at any time.
const IN_FLIGHT: usize = 48;

type CallResult = Result<Value, CallFailure>;

/// One write. Its body can be recognized and rebuilt from its number.
#[derive(Clone, Debug)]
enum Op {
    Put { id: String, number: usize },
    Remove { id: String },
}

impl Op {
    fn id(&self) -> &str {
        match self {
            Self::Put { id, .. } | Self::Remove { id } => id,
        }
    }

    fn start(&self, worker: &Worker) -> Pin<Box<dyn Future<Output = CallResult> + Send>> {
        match self {
            Self::Put { id, number } => {
                let data = json!({ "id": id, "skill": body(id, *number) });
                Box::pin(worker.start("skills::register", &data))
            }
            Self::Remove { id } => {
                Box::pin(worker.start("skills::unregister", &json!({ "id": id })))
            }
        }
    }
}

/// Builds a body from one line up to a few database pages.
fn body(id: &str, number: usize) -> String {
    let line = format!("{id} {number}\n");
    let lines = if number.is_multiple_of(7) { 1200 } else { 1 + number % 40 };
    format!("# {id}\n\nVersion {number} of {id}.\n\n{}end {number}", line.repeat(lines))
}

/// Registered skills: id and number of the body.
type State = BTreeMap<String, usize>;

fn apply(state: &mut State, op: &Op) {
    match op {
        Op::Put { id, number } => state.insert(id.clone(), *number),
        Op::Remove { id } => state.remove(id),
    };
}

struct CrashTest {
    random: Random,
    /// Counter that makes bodies and new ids unique.
    numbers: usize,
    /// Writes known to be stored.
    state: State,
    /// Timestamps that the server acknowledged, by number.
    moments: BTreeMap<usize, String>,
    acknowledged: usize,
    /// Writes that were stored without an acknowledgement.
    unheard: usize,
}

impl CrashTest {
    fn next_op(&mut self) -> Op {
        self.numbers += 1;
        let number = self.numbers;
        // A few ids that are overwritten and removed all the time, and new ids.
        let known = || format!("hot-{}", number % 11);
        match self.random.below(10) {
            0..5 => Op::Put { id: format!("new-{number}"), number },
            5..8 => Op::Put { id: known(), number },
            _ => Op::Remove { id: known() },
        }
    }

    /// Writes as fast as possible until the server is killed. Returns all writes and the number of acknowledged
    /// ones.
    async fn write_until_killed(&mut self, server: ServerProcess) -> (Vec<Op>, usize) {
        let worker = Worker::connect(&server.url).await;
        let die_after = self.random.below(400);
        let pause = Duration::from_micros(u64::try_from(self.random.below(3000)).unwrap());
        let mut server = Some(server);
        let mut killing = None;
        let (mut asked, mut waiting) = (Vec::new(), VecDeque::new());
        let mut acknowledged = 0;
        loop {
            while waiting.len() < IN_FLIGHT {
                let op = self.next_op();
                waiting.push_back((op.clone(), op.start(&worker)));
                asked.push(op);
            }
            if acknowledged >= die_after
                && let Some(server) = server.take()
            {
                // Writes continue meanwhile, so the kill hits any point of the server's work.
                killing = Some(tokio::spawn(async move {
                    tokio::time::sleep(pause).await;
                    tokio::task::spawn_blocking(move || server.kill()).await.unwrap();
                }));
            }
            let Some((op, call)) = waiting.pop_front() else { break };
            match call.await {
                Ok(answer) => {
                    acknowledged += 1;
                    if let Op::Put { number, .. } = op {
                        let moment = answer["registered_at"].as_str().unwrap().to_owned();
                        self.moments.insert(number, moment);
                    }
                }
                Err(failure) => {
                    assert_eq!(failure.code, "gone", "{op:?}: {failure:?}");
                    break;
                }
            }
        }
        killing.expect("the connection was lost before the server was killed").await.unwrap();
        (asked, acknowledged)
    }

    /// Compares the stored skills with the writes.
    async fn check(&mut self, worker: &Worker, asked: &[Op], acknowledged: usize) {
        let seed = format!("{SEED_VARIABLE}={}", self.random.seed);
        let list = worker.ok("skills::list", json!({})).await;
        let rows: BTreeMap<&str, &Value> = list["skills"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| (row["id"].as_str().unwrap(), row))
            .collect();

        // Bodies of every id this round touched: complete, and among the written ones.
        let mut found: BTreeMap<String, Option<usize>> = BTreeMap::new();
        for id in asked.iter().map(Op::id).collect::<BTreeSet<_>>() {
            let Some(row) = rows.get(id) else {
                found.insert(id.to_owned(), None);
                continue;
            };
            let text = read(worker, &format!("iii://{id}")).await;
            let number = text.rsplit(' ').next().and_then(|number| number.parse().ok());
            let number = number.unwrap_or_else(|| panic!("torn body of {id} ({seed}): {text:?}"));
            assert!(text == body(id, number), "torn body of {id} ({seed}): {text:?}");
            assert_eq!(row["bytes"], text.len(), "{id} ({seed})");
            if let Some(moment) = self.moments.get(&number) {
                assert_eq!(row["registered_at"].as_str(), Some(moment.as_str()), "{id} ({seed})");
            }
            found.insert(id.to_owned(), Some(number));
        }

        // Writes of one connection are stored in order, so the stored state is that of some prefix, which includes
        // all acknowledged writes.
        asked[..acknowledged].iter().for_each(|op| apply(&mut self.state, op));
        let matches =
            |state: &State| found.iter().all(|(id, number)| state.get(id) == number.as_ref());
        let mut unheard = 0;
        let mut rest = asked[acknowledged..].iter();
        while !matches(&self.state) {
            let Some(op) = rest.next() else {
                panic!("what is stored is no prefix of what was asked for ({seed}): {found:?}");
            };
            apply(&mut self.state, op);
            unheard += 1;
        }
        let expected: Vec<&str> = self.state.keys().map(String::as_str).collect();
        assert_eq!(rows.keys().copied().collect::<Vec<_>>(), expected, "{seed}");
        self.acknowledged += acknowledged;
        self.unheard += unheard;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_crashes_lose_no_acknowledged_write_and_tear_none() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut crash = CrashTest {
        random: Random::new(),
        numbers: 0,
        state: State::new(),
        moments: BTreeMap::new(),
        acknowledged: 0,
        unheard: 0,
    };
    let mut server = ServerProcess::start(BINARY, &data);
    for _ in 0..ROUNDS {
        let (asked, acknowledged) = crash.write_until_killed(server).await;
        server = ServerProcess::start(BINARY, &data);
        let worker = Worker::connect(&server.url).await;
        crash.check(&worker, &asked, acknowledged).await;
    }
    // Writes that survived one crash survive later ones.
    let worker = Worker::connect(&server.url).await;
    for (id, number) in &crash.state {
        assert!(read(&worker, &format!("iii://{id}")).await == body(id, *number), "{id}");
    }
    let CrashTest { acknowledged, unheard, state, .. } = &crash;
    eprintln!("{acknowledged} acknowledged, {unheard} stored unheard, {} skills", state.len());
    assert!(*acknowledged > ROUNDS * 50, "only {acknowledged} writes: this shows nothing");
}

#[tokio::test]
async fn a_clean_stop_keeps_everything() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let registered_at = register(&worker, "a", "# A\n").await;
    register(&worker, "gone", "x").await;
    worker.ok("skills::unregister", json!({ "id": "gone" })).await;
    let prompt = json!({
        "name": "p", "description": "d", "function_id": "x::y",
        "arguments": [{ "name": "to", "required": true }],
    });
    worker.ok("prompts::register", prompt).await;
    worker.ok("state::set", json!({ "scope": "s", "key": "k", "value": { "n": [1, "é"] } })).await;
    let mut before = Vec::new();
    let all = ["skills::list", "skills::resources-list", "prompts::list", "prompts::mcp-list"];
    for function_id in all {
        before.push(worker.ok(function_id, json!({})).await);
    }
    drop(worker);

    let server = server.restart();
    let worker = server.worker().await;
    for (function_id, before) in all.into_iter().zip(before) {
        assert_eq!(worker.ok(function_id, json!({})).await, before, "{function_id}");
    }
    assert_eq!(read(&worker, "iii://a").await, "# A\n");
    let value = worker.ok("state::get", json!({ "scope": "s", "key": "k" })).await;
    assert_eq!(value, json!({ "n": [1, "é"] }));
    assert!(register(&worker, "a", "# A\n").await > registered_at);
}

#[tokio::test]
async fn queued_writes_are_stored_or_refused_on_shutdown() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let start = |number: usize| {
        let data = json!({ "id": format!("s{number}"), "skill": "x".repeat(10_000) });
        worker.start("skills::register", &data)
    };
    let mut calls = (0..500).map(start).collect::<VecDeque<_>>();
    calls.pop_front().unwrap().await.unwrap();
    server.process.signal("TERM");
    let mut stored = BTreeSet::from(["s0".to_owned()]);
    for (number, call) in calls.into_iter().enumerate() {
        match call.await {
            Ok(_) => {
                stored.insert(format!("s{}", number + 1));
            }
            Err(failure) => assert!(["shutting_down", "gone"].contains(&failure.code.as_str())),
        }
    }
    let server = server.restart_when_stopped(|| {});
    let there = BTreeSet::from_iter(ids(&server.worker().await).await);
    assert!(stored.is_subset(&there), "{:?}", stored.difference(&there));
}
