//! What the contract costs attached to an engine, beside a bare echo through the same bus.
//!
//! The engine is played by the project's own hub with its `state::*` functions, in this process; the binary
//! is attached to it as a worker. Each call is measured in turn with an echo whose result is the same, served
//! by another process that is attached in the same way. That is the target's reference. A second echo speaks
//! the protocol by hand and passes on the text as it is: it tells what the SDK costs, which reads and writes
//! every payload as a tree, and nothing depends on it.
//!
//! A skill's first read fetches its body from the state, which is one call more, and later ones do not: both
//! are measured, and the target is that of the later ones.
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
    process::{Command, ExitCode},
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

/// The echo is to have what the binary has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WORKER: &str = env!("CARGO_BIN_EXE_skills");

const BODY: usize = 2000;
const DATASETS: [usize; 3] = [10, 1000, 10_000];
const TARGET: f64 = 1.3;

/// Makes this program the echo on the bus that it names.
const ECHO_OF: &str = "SKILLS_BENCH_ECHO_OF";

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
    _runtime: Runtime,
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
        let site = Self { url, worker, store, shutdown, _runtime: runtime, _home: home };
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

    /// An echo worker that is attached as the binary is: this program once more.
    fn attached_echo(&self) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(ECHO_OF, &self.url);
        let echo = Process::start(&mut command);
        self.wait("bench::attached-echo");
        echo
    }
}

/// Serves the echo until it is killed.
fn echo(url: String) -> ! {
    let runtime = Runtime::new().unwrap();
    let _here = runtime.enter();
    let config = EngineConfig { url, name: "echo".to_owned(), ..EngineConfig::default() };
    let bus = EngineBus::connect(config).unwrap();
    let kept = Arc::new(Mutex::new(Json::null()));
    let spec = |id: &str| FunctionSpec { id: id.to_owned(), ..FunctionSpec::default() };
    let result = Arc::clone(&kept);
    let returns = move |call: Call| {
        *result.lock().unwrap() = call.data;
        std::future::ready(Ok::<_, CallError>(Json::null()))
    };
    bus.register_function(spec("bench::returns"), Arc::new(returns));
    let answer =
        move |_: Call| std::future::ready(Ok::<_, CallError>(kept.lock().unwrap().clone()));
    bus.register_function(spec("bench::attached-echo"), Arc::new(answer));
    loop {
        std::thread::park();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.worker.take());
        self.shutdown.cancel();
    }
}

fn main() -> ExitCode {
    if let Ok(url) = std::env::var(ECHO_OF) {
        echo(url);
    }
    let mut report = Report::new();
    report.machine();
    let header = ["call", "skills", "result", "call", "echo", "ratio", "by hand", "ratio"];
    report.section("Attached", &header);
    for skills in DATASETS {
        let site = Site::start();
        populate(&site.url, skills, BODY);
        assert_eq!(site.store.state_size("skills").unwrap().0, skills as u64);
        let _attached_echo = site.attached_echo();
        let echo = Echo::start(&site.url);
        let mut bench =
            Bench { report: &mut report, caller: Caller::connect(&site.url), echo, skills };
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
    report.finish()
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
        self.caller.call("bench::returns", &result);
        self.echo.returns(result);
        let mut turn = 0;
        let [call, attached, by_hand] = in_turn(
            &mut self.caller,
            [
                &mut |caller: &mut Caller| {
                    turn += 7;
                    drop(caller.call(function, &payload(turn % skills)));
                },
                &mut |caller: &mut Caller| drop(caller.call("bench::attached-echo", "{}")),
                &mut |caller: &mut Caller| drop(caller.call("bench::echo", "{}")),
            ],
        );
        let ratio = call.median() / attached.median();
        self.report.row(&[
            name.to_owned(),
            skills.to_string(),
            format!("{:.1} kB", size as f64 / 1e3),
            call.to_string(),
            attached.to_string(),
            format!("{ratio:.2}"),
            by_hand.to_string(),
            format!("{:.2}", call.median() / by_hand.median()),
        ]);
        if has_target {
            self.report.check(
                &format!("{name} at {skills} skills within {TARGET} x of its echo"),
                ratio <= TARGET,
                &format!("{ratio:.2} x"),
            );
        }
    }
}
