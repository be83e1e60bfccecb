//! `skills`: registry of skills and prompts for AI agents.

use std::{io::IsTerminal as _, process::ExitCode, time::Duration};

use skills::{
    Failure,
    cli::{Cli, LogFormat},
};
use tokio::runtime::Runtime;
use tracing_subscriber::{
    EnvFilter, Layer as _,
    filter::{FilterExt as _, LevelFilter, filter_fn},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

/// Large answers consist of many small allocations, whose pages the C library's allocator would return to the system after
/// each answer.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Longest wait for blocking tasks at exit.
const EXIT_TIMEOUT: Duration = Duration::from_millis(100);

/// Target of the events of failed commits, whose error the caller gets.
const WRITER: &str = "skills_registry::writer";

fn main() -> ExitCode {
    let cli = match Cli::parse_arguments() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let json = cli.is_json();
    if json {
        skills::use_json_stderr();
    }
    start_log(if json { LogFormat::Json } else { cli.log_format }, cli.is_service());
    match start(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(json);
            ExitCode::FAILURE
        }
    }
}

fn start(cli: Cli) -> Result<(), Failure> {
    let cli = cli.with_environment()?;
    let runtime = Runtime::new()?;
    let ran = runtime.block_on(skills::run(cli));
    runtime.shutdown_timeout(EXIT_TIMEOUT);
    ran
}

/// Starts logging to stderr, at level WARN unless `RUST_LOG` is set; stdout is for answers. A command that ends with its
/// error does not log it, too.
fn start_log(format: LogFormat, is_service: bool) {
    let filter =
        EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).from_env_lossy();
    // Repeated messages of libraries are dropped unless RUST_LOG is set: we log them once, or tell the client.
    let is_detailed = std::env::var_os(EnvFilter::DEFAULT_ENV).is_some();
    let is_wanted = filter_fn(move |event| {
        let is_repeated = !is_service && event.target() == WRITER;
        is_detailed || !(is_repeated || skills_mcp::is_noise(event) || skills_acp::is_noise(event))
    });
    // One combined filter with a level: a disabled event then costs one comparison.
    let filter = filter.and(is_wanted.with_max_level_hint(LevelFilter::TRACE));
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // Reported on stderr, which would panic if that is closed or on a full disk.
        .log_internal_errors(false);
    let log = match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => log.json().boxed(),
    };
    tracing_subscriber::registry().with(log.with_filter(filter)).init();
}
