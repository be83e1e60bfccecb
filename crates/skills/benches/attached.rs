//! What the contract costs attached to an engine, beside a bare echo through the same engine.
//!
//! The engine is played by the project's own hub with its `state::*` functions, in this process; the binary
//! is attached to it as a worker. Each call is measured in turn with an echo worker's call on the same hub
//! whose result is the same JSON text, so both take the same way: caller, hub, worker, hub, caller.
//! That echo is the target's reference. A second one, served through the SDK as the binary is, tells how
//! much of the difference is the SDK; nothing depends on it.
//!
//! A skill's first read fetches its body from the state, later ones do not: both are measured.
//!
//! `cargo bench --bench attached` prints Markdown; `BENCH_SECONDS` sets how long one series may take
//! (default 1.5). A target that is missed makes the run fail.

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
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use skills_bus::{
    Bus, Call, CallError, EngineBus, EngineConfig, FunctionSpec, Hub, HubConfig, Json,
};
use skills_registry::{Registry, RegistryConfig};
use skills_store::{MemoryStore, Store as _};
use skills_testkit::{DEADLINE, Process, program};
use support::{Caller, Echo, Report, in_turn, populate};
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_util::sync::CancellationToken;

const WORKER: &str = env!("CARGO_BIN_EXE_skills");

const BODY: usize = 2000;
const DATASETS: [usize; 3] = [10, 1000, 10_000];
const TARGET: f64 = 1.3;

const LISTINGS: [(&str, &str, &str); 3] = [
    ("skills::list", "skills::list", "{}"),
    ("skills::resources-list", "skills::resources-list", "{}"),
    ("iii://skills", "skills::resources-read", r#"{"uri":"iii://skills"}"#),
];

/// The engine and the worker that is attached to it.
struct Site {
    url: String,
    worker: Option<Process>,
    store: Arc<MemoryStore>,
    shutdown: CancellationToken,
    runtime: Runtime,
    _home: tempfile::TempDir,
}

impl Site {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let store = Arc::new(MemoryStore::new());
        let shutdown = CancellationToken::new();
        let (registered, stop) = (Arc::clone(&store), shutdown.clone());
        let address = runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let hub = Hub::new(HubConfig::default());
            let bus: Arc<dyn Bus> = Arc::new(hub.clone());
            let registry = Registry::open(registered, None, RegistryConfig::default()).unwrap();
            skills_worker::state::serve(&bus, &registry);
            tokio::spawn(async move {
                let _bus = bus;
                hub.serve(listener, stop).await
            });
            address
        });
        let home = tempfile::tempdir().unwrap();
        let url = format!("ws://{address}");
        let mut command = program(WORKER);
        command.current_dir(home.path()).args(["--url", &url]);
        let worker = Some(Process::start(&mut command));
        let site = Self { url, worker, store, shutdown, runtime, _home: home };
        site.wait("skills::resources-read");
        site
    }

    /// Until a function is served.
    fn wait(&self, function_id: &str) {
        let mut caller = Caller::connect(&self.url);
        let started = Instant::now();
        while !caller.call("engine::functions::list", "{}").contains(function_id) {
            assert!(started.elapsed() < DEADLINE, "{function_id} is not served");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// An echo worker on the SDK.
    fn sdk_echo(&self) -> SdkEcho {
        let result = Arc::new(Mutex::new(Json::null()));
        let answers = Arc::clone(&result);
        let config = EngineConfig {
            url: self.url.clone(),
            name: "sdk-echo".to_owned(),
            ..EngineConfig::default()
        };
        let _here = self.runtime.enter();
        let bus = EngineBus::connect(config).unwrap();
        let spec = FunctionSpec { id: "bench::sdk-echo".to_owned(), ..FunctionSpec::default() };
        let function =
            move |_: Call| std::future::ready(Ok::<_, CallError>(answers.lock().unwrap().clone()));
        bus.register_function(spec, Arc::new(function));
        self.wait("bench::sdk-echo");
        SdkEcho { _bus: bus, result }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.worker.take());
        self.shutdown.cancel();
    }
}

/// A function `bench::sdk-echo` that answers what it was told to.
struct SdkEcho {
    _bus: EngineBus,
    result: Arc<Mutex<Json>>,
}

fn main() -> ExitCode {
    let mut report = Report::new();
    report.machine();
    let header = ["call", "skills", "result", "call", "echo", "ratio", "SDK echo", "ratio"];
    report.section("Attached", &header);
    for skills in DATASETS {
        let site = Site::start();
        populate(&site.url, skills, BODY);
        assert_eq!(site.store.state_size("skills").unwrap().0, skills as u64);
        let echoes = (Echo::start(&site.url), site.sdk_echo());
        let mut bench =
            Bench { report: &mut report, caller: Caller::connect(&site.url), echoes, skills };
        for (name, function, payload) in LISTINGS {
            bench.measure(name, function, &|_| payload.to_owned());
        }
        let payload = |number| format!(r#"{{"uri":"iii://skill-{number}"}}"#);
        let function = "skills::resources-read";
        bench.measure("iii://{id}, any", function, &payload);
        for number in 0..skills {
            bench.caller.call(function, &payload(number));
        }
        bench.measure("iii://{id}, read before", function, &payload);
    }
    report.finish()
}

struct Bench<'a> {
    report: &'a mut Report,
    caller: Caller,
    echoes: (Echo, SdkEcho),
    skills: usize,
}

impl Bench<'_> {
    fn measure(&mut self, name: &str, function: &str, payload: &dyn Fn(usize) -> String) {
        let skills = self.skills;
        let result = self.caller.call(function, &payload(0));
        let size = result.len();
        *self.echoes.1.result.lock().unwrap() = serde_json::from_str(&result).unwrap();
        self.echoes.0.returns(result);
        let mut turn = 0;
        let [call, echoed, through_sdk] = in_turn(
            &mut self.caller,
            [
                &mut |caller: &mut Caller| {
                    turn += 7;
                    drop(caller.call(function, &payload(turn % skills)));
                },
                &mut |caller: &mut Caller| drop(caller.call("bench::echo", "{}")),
                &mut |caller: &mut Caller| drop(caller.call("bench::sdk-echo", "{}")),
            ],
        );
        let ratio = call.median() / echoed.median();
        self.report.row(&[
            name.to_owned(),
            skills.to_string(),
            format!("{:.1} kB", size as f64 / 1e3),
            call.to_string(),
            echoed.to_string(),
            format!("{ratio:.2}"),
            through_sdk.to_string(),
            format!("{:.2}", call.median() / through_sdk.median()),
        ]);
        self.report.check(
            &format!("{name} at {skills} skills within {TARGET} x of its echo"),
            ratio <= TARGET,
            &format!("{ratio:.2} x"),
        );
    }
}
