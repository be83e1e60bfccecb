//! `skills`: one registry for the skills and prompts that agents use.

use std::{io::IsTerminal as _, process::ExitCode};

use clap::Parser as _;
use skills::cli::Cli;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    // Quiet by default, and never on stdout: that belongs to the answer.
    let filter =
        EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();

    let json = cli.wants_json();
    match skills::run(cli).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(json);
            ExitCode::FAILURE
        }
    }
}
