//! `skills`: one registry for the skills and prompts that agents use.

use std::{io::IsTerminal as _, process::ExitCode, time::Duration};

use clap::Parser as _;
use skills::{Failure, cli::Cli};
use skills_bus::engine::log::is_noise;
use tokio::runtime::Runtime;
use tracing_subscriber::{
    EnvFilter, Layer as _,
    filter::{LevelFilter, filter_fn},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

/// Large answers are trees of small pieces for a moment, and the C library's allocator gives their pages back
/// to the system after each of them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long what blocks may take to end after all else has.
const LAST_MOMENTS: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let cli = Cli::parse().with_environment();
    start_log();
    let json = cli.wants_json();
    let ran = Runtime::new().map_err(Failure::from).and_then(|runtime| {
        let ran = runtime.block_on(skills::run(cli));
        runtime.shutdown_timeout(LAST_MOMENTS);
        ran
    });
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(json);
            ExitCode::FAILURE
        }
    }
}

/// Quiet by default, and never on stdout: that belongs to the answer.
fn start_log() {
    let filter =
        EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).from_env_lossy();
    // What libraries repeat is said once by us, or to the client; who asks for more gets all of it.
    let is_detailed = std::env::var_os(EnvFilter::DEFAULT_ENV).is_some();
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_filter(filter)
        .with_filter(filter_fn(move |event| {
            let is_noise =
                is_noise(event) || skills_mcp::is_noise(event) || skills_acp::is_noise(event);
            is_detailed || !is_noise
        }));
    tracing_subscriber::registry().with(log).init();
}
