//! What each command does.

mod prompts;
mod skills;

use clap::CommandFactory as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    Failure,
    cli::{Cli, Command, Serve, Target},
    config::Config,
    connect::DEFAULT_DATA_DIR,
    manifest::manifest,
    output,
    serve::{Options, Server},
};

/// Runs what the command line asks for.
///
/// # Errors
/// What to tell the person who asked.
pub async fn run(cli: Cli) -> Result<(), Failure> {
    let Cli { manifest: wants_manifest, target, config, command } = cli;
    if wants_manifest {
        return Ok(output::json(&manifest())?);
    }
    let load = || Config::load(config.as_deref());
    match command {
        None => Err(Failure::new(
            "not_available",
            "attaching to an iii engine is not part of this version",
        )
        .hint("`skills serve` runs a bus of its own; `skills --help` lists the commands")),
        Some(Command::Serve(options)) => serve(options, target, load()).await,
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "skills", &mut script);
            Ok(output::text(&String::from_utf8_lossy(&script))?)
        }
        Some(Command::Prompt { command }) => prompts::run(command, &target, &load()).await,
        Some(command) => skills::run(command, &target, &load()).await,
    }
}

#[expect(clippy::print_stderr, reason = "the one thing a server says unasked")]
async fn serve(options: Serve, target: Target, config: Config) -> Result<(), Failure> {
    let server = Server::start(Options {
        bus: options.bus,
        http: options.http,
        data_dir: target.data_dir.unwrap_or_else(|| DEFAULT_DATA_DIR.into()),
        token: target.token.filter(|token| !token.is_empty()),
        config,
    })
    .await?;
    eprintln!("{}", server.banner()?);
    let shutdown = CancellationToken::new();
    stop_on_signal(shutdown.clone())?;
    server.run(shutdown).await
}

/// The first signal asks everyone to finish; the second does not ask.
fn stop_on_signal(shutdown: CancellationToken) -> Result<(), Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        for stop in [
            &mut (|| shutdown.cancel()) as &mut (dyn FnMut() + Send),
            &mut (|| std::process::exit(130)),
        ] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            stop();
        }
    });
    Ok(())
}
