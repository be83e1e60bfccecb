//! Cost of the contract in attached mode, compared with bare calls through the same bus.
//!
//! The project's own hub with its `state::*` functions plays an engine of version 0.23 in this process: Nagle's algorithm
//! is on and `tcp-nodelay` is not declared. The binary is attached to it as a worker.
//!
//! - Reads are measured alternately with an echo worker that speaks the protocol by hand and returns the same result.
//!   The first read of a skill fetches its body from the state, which is one call more, and has no target.
//! - Registrations are measured alternately with a bare `state::set` of the same body and the echo of its result, then
//!   with several callers at once.
//!
//! `cargo bench --bench attached` prints Markdown; `BENCH_SECONDS` sets the time of one series (default 1.5). Words after
//! `--` choose sections: reads, alone, together, instances. `SKILLS_BIN` names another worker binary. A missed target
//! makes the run fail.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

#[allow(dead_code, reason = "shared with the other benchmark")]
mod support;

use std::{
    process::ExitCode,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use skills_bus::{Bus, EngineMode, Hub, HubConfig};
use skills_registry::{Registry, RegistryConfig};
use skills_store::{MemoryStore, Store as _};
use skills_testkit::{DEADLINE, Process, program};
use support::{Caller, Echo, Registration, Report, Samples, in_turn, populate, series_seconds};
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_util::sync::CancellationToken;

/// The peers use the allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Worker binary: the one built with this, unless `SKILLS_BIN` names another.
static WORKER: LazyLock<String> = LazyLock::new(|| {
    std::env::var("SKILLS_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_skills").to_owned())
});

const BODY: usize = 2000;
const DATASETS: [usize; 3] = [10, 1000, 10_000];
/// Most time of a read, in echoes by hand.
const READ_TARGET: f64 = 1.2;
/// Most time of a registration, in a bare `state::set` and an echo.
const REGISTER_TARGET: f64 = 1.8;
const CALLERS: [usize; 4] = [1, 4, 16, 64];
/// Least rate of 16 callers, in the rate of one.
const RATE_TARGET: f64 = 5.0;
/// Bound of all percentiles in microseconds: a message that waits for a delayed acknowledgement takes 40 ms.
const STALL: f64 = 35_000.0;

const LISTINGS: [(&str, &str, &str); 3] = [
    ("skills::list", "skills::list", "{}"),
    ("skills::resources-list", "skills::resources-list", "{}"),
    ("iii://skills", "skills::resources-read", r#"{"uri":"iii://skills"}"#),
];

/// Measures a part and reports it.
type Section = fn(&mut Report);

/// The engine and the attached worker.
struct AttachedSetup {
    url: String,
    worker: Option<Process>,
    store: Arc<MemoryStore>,
    registry: Arc<Registry>,
    shutdown: CancellationToken,
    _runtime: Runtime,
    _dir: tempfile::TempDir,
}

impl AttachedSetup {
    fn start() -> Self {
        let store = Arc::new(MemoryStore::new());
        let registry = Registry::open(store.clone(), None, RegistryConfig::default()).unwrap();
        Self::on_state(store, registry)
    }

    /// Starts another engine over the same state, with its own worker.
    fn sharing_state(&self) -> Self {
        Self::on_state(Arc::clone(&self.store), Arc::clone(&self.registry))
    }

    fn on_state(store: Arc<MemoryStore>, registry: Arc<Registry>) -> Self {
        let runtime = Runtime::new().unwrap();
        let shutdown = CancellationToken::new();
        let (state, stop) = (Arc::clone(&registry), shutdown.clone());
        let address = runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let engine_mode = EngineMode::V0_23;
            let hub = Hub::new(HubConfig { engine_mode, ..HubConfig::default() });
            let bus: Arc<dyn Bus> = Arc::new(hub.clone());
            skills_worker::state::serve(&bus, &state);
            tokio::spawn(async move {
                let _bus = bus;
                hub.serve(listener, stop).await
            });
            address
        });
        let dir = tempfile::tempdir().unwrap();
        let url = format!("ws://{address}");
        let mut command = program(&WORKER);
        command.current_dir(dir.path()).args(["--url", &url]);
        let worker = Some(Process::start(&mut command));
        let setup = Self { url, worker, store, registry, shutdown, _runtime: runtime, _dir: dir };
        setup.wait("skills::resources-read");
        setup
    }

    /// Waits until a function is served.
    fn wait(&self, function_id: &str) {
        let mut caller = Caller::connect(&self.url);
        let started = Instant::now();
        while !caller.call("engine::functions::list", "{}").contains(function_id) {
            assert!(started.elapsed() < DEADLINE, "{function_id} is not served");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for AttachedSetup {
    fn drop(&mut self) {
        drop(self.worker.take());
        self.shutdown.cancel();
    }
}

fn main() -> ExitCode {
    let mut report = Report::new();
    report.machine();
    // Skips the option that Cargo adds.
    let chosen: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let sections: [(&str, Section); 4] = [
        ("reads", reads),
        ("alone", register_alone),
        ("together", register_together),
        ("instances", instances),
    ];
    for (name, run) in sections {
        if chosen.is_empty() || chosen.iter().any(|word| word == name) {
            run(&mut report);
        }
    }
    report.finish()
}

/// Target: a read costs little more than an echo by hand.
fn reads(report: &mut Report) {
    report.section("Reads", &["call", "skills", "result", "call", "echo by hand", "ratio"]);
    for skills in DATASETS {
        let setup = AttachedSetup::start();
        populate(&setup.url, skills, BODY);
        assert_eq!(setup.store.state_size("skills").unwrap().0, skills as u64);
        let echo = Echo::start(&setup.url);
        let mut bench =
            Bench { report: &mut *report, caller: Caller::connect(&setup.url), echo, skills };
        for (name, function, payload) in LISTINGS {
            bench.measure(name, function, true, &|_| payload.to_owned());
        }
        let payload = |number| format!(r#"{{"uri":"iii://skill-{number}"}}"#);
        let function = "skills::resources-read";
        if skills == DATASETS[2] {
            bench.measure("iii://{id}, for the first time", function, false, &payload);
        }
        for number in 0..skills {
            bench.caller.call(function, &payload(number));
        }
        bench.measure("iii://{id}", function, true, &payload);
    }
}

/// Target: a registration is one state call and the answer to its caller.
fn register_alone(report: &mut Report) {
    report.section("skills::register, one caller", &["register", "state::set", "echo", "ratio"]);
    let setup = AttachedSetup::start();
    let echo = Echo::start(&setup.url);
    let registration = Registration::of_bytes(BODY);
    let mut caller = Caller::connect(&setup.url);
    echo.returns(caller.call("skills::register", &registration.numbered("skill", 0)));
    let mut number = 0;
    let mut input = |id: &str| {
        number += 1;
        registration.numbered(id, number)
    };
    let [register, set, echo] = {
        let mut register = |caller: &mut Caller| {
            drop(caller.call("skills::register", &input("skill")));
        };
        let value = registration.numbered("bare", 0);
        let set_input = format!(r#"{{"scope":"bench","key":"bare","value":{value}}}"#);
        in_turn(
            &mut caller,
            [
                &mut register,
                &mut |caller: &mut Caller| drop(caller.call("state::set", &set_input)),
                &mut |caller: &mut Caller| drop(caller.call("bench::echo", &value)),
            ],
        )
    };
    let ratio = register.median() / (set.median() + echo.median());
    report.row(&[register.to_string(), set.to_string(), echo.to_string(), format!("{ratio:.2}")]);
    report.check(
        &format!("a registration takes at most {REGISTER_TARGET} x a state::set and an echo"),
        ratio <= REGISTER_TARGET,
        &format!("{ratio:.2} x"),
    );
}

/// Targets: the rate grows with the callers, and no message waits for an acknowledgement.
fn register_together(report: &mut Report) {
    let header = ["callers", "registrations/s", "median", "p90", "p99", "state::set/s"];
    report.section("skills::register, several callers", &header);
    let setup = AttachedSetup::start();
    let registration = Registration::of_bytes(BODY);
    let mut rates = Vec::new();
    for callers in CALLERS {
        let register = |caller: &mut Caller, id: &str, number: usize| {
            drop(caller.call("skills::register", &registration.numbered(id, number)));
        };
        let set = |caller: &mut Caller, id: &str, number: usize| {
            let value = registration.numbered(id, number);
            let input = format!(r#"{{"scope":"bench","key":"{id}","value":{value}}}"#);
            drop(caller.call("state::set", &input));
        };
        let (samples, rate) = together(&setup.url, callers, &register);
        let (_, bare_rate) = together(&setup.url, callers, &set);
        let percentiles = [0.5, 0.9, 0.99].map(|quantile| samples.quantile(quantile));
        let [median, p90, p99] = percentiles.map(|us| format!("{us:.0} us"));
        report.row(&[
            callers.to_string(),
            format!("{rate:.0}"),
            median,
            p90,
            p99.clone(),
            format!("{bare_rate:.0}"),
        ]);
        let is_flowing = percentiles.iter().all(|us| *us < STALL);
        report.check(
            &format!("no percentile of {callers} callers is near 40 ms"),
            is_flowing,
            &format!("p99 {p99}"),
        );
        rates.push(rate);
    }
    let [one, _, sixteen, many] = rates[..] else { return };
    let growth = sixteen / one;
    report.check(
        &format!("16 callers register {RATE_TARGET} x as fast as one"),
        growth >= RATE_TARGET,
        &format!("{growth:.1} x"),
    );
    report.check(
        "64 callers register at least as fast as 16",
        many >= sixteen,
        &format!("{:.2} x", many / sixteen),
    );
}

/// Runs callers at once, each with ids of its own. Returns their samples and the calls per second.
fn together(
    url: &str,
    callers: usize,
    call: &(impl Fn(&mut Caller, &str, usize) + Sync),
) -> (Samples, f64) {
    let mut connections: Vec<_> = (0..callers).map(|_| Caller::connect(url)).collect();
    let started = Instant::now();
    let deadline = started + Duration::from_secs_f64(series_seconds());
    let mut samples = Samples::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = connections
            .iter_mut()
            .enumerate()
            .map(|(caller, connection)| {
                let id = format!("caller-{caller}");
                scope.spawn(move || {
                    let mut samples = Samples::default();
                    while Instant::now() < deadline {
                        let number = samples.len();
                        samples.time(|| call(connection, &id, number));
                    }
                    samples
                })
            })
            .collect();
        for thread in threads {
            samples.extend(thread.join().unwrap());
        }
    });
    let rate = samples.len() as f64 / started.elapsed().as_secs_f64();
    (samples, rate)
}

/// Target: a write through one instance is listed by another on the same state within a second.
fn instances(report: &mut Report) {
    const WRITES: usize = 20;
    report.section("Two instances on one state", &["writes", "until the other lists it"]);
    let first = AttachedSetup::start();
    let second = first.sharing_state();
    let mut callers = [&first, &second].map(|setup| Caller::connect(&setup.url));
    let mut samples = Samples::default();
    for number in 0..WRITES {
        let id = format!("skill-{number}");
        let input = format!(r##"{{"id":"{id}","skill":"# {number}"}}"##);
        callers[number % 2].call("skills::register", &input);
        let reader = &mut callers[(number + 1) % 2];
        let row = format!(r#""{id}""#);
        samples.time(|| {
            let started = Instant::now();
            while !reader.call("skills::list", "{}").contains(&row) {
                assert!(started.elapsed() < DEADLINE, "{id} is not listed");
            }
        });
    }
    report.row(&[WRITES.to_string(), samples.to_string()]);
    let median = samples.median() / 1e3;
    report.check(
        "a write is listed by another instance within 1 s",
        median < 1000.0,
        &format!("{median:.1} ms"),
    );
}

struct Bench<'a> {
    report: &'a mut Report,
    caller: Caller,
    echo: Echo,
    skills: usize,
}

impl Bench<'_> {
    fn measure(
        &mut self,
        name: &str,
        function: &str,
        has_target: bool,
        payload: &dyn Fn(usize) -> String,
    ) {
        let skills = self.skills;
        let result = self.caller.call(function, &payload(0));
        let size = result.len();
        self.echo.returns(result);
        let mut turn = 0;
        let [call, by_hand] = in_turn(
            &mut self.caller,
            [
                &mut |caller: &mut Caller| {
                    turn += 7;
                    drop(caller.call(function, &payload(turn % skills)));
                },
                &mut |caller: &mut Caller| drop(caller.call("bench::echo", "{}")),
            ],
        );
        let ratio = call.median() / by_hand.median();
        self.report.row(&[
            name.to_owned(),
            skills.to_string(),
            format!("{:.1} kB", size as f64 / 1e3),
            call.to_string(),
            by_hand.to_string(),
            format!("{ratio:.2}"),
        ]);
        if has_target {
            self.report.check(
                &format!("{name} at {skills} skills within {READ_TARGET} x of its echo"),
                ratio <= READ_TARGET,
                &format!("{ratio:.2} x"),
            );
        }
    }
}
