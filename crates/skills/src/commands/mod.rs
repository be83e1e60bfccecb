//! What each command does.

mod acp;
mod add;
mod export;
mod import;
mod keyspace;
mod mcp;
mod people;
mod prompts;
mod skills;
mod sync;
mod validate;

use clap::CommandFactory as _;
use skills_http::Access;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    Failure, attach,
    cli::{Cli, Command, Serve, Target, environment},
    config::Config,
    connect::{self, DEFAULT_DATA_DIR},
    exempt::BadExempt,
    manifest::manifest,
    output,
    serve::{Options, Server},
    system,
};

/// The port of iii.
const DEFAULT_BUS: &str = "127.0.0.1:49134";
/// The port of the Model Drive Protocol.
const DEFAULT_HTTP: &str = "127.0.0.1:47372";

/// Runs what the command line asks for.
///
/// # Errors
/// What to tell the person who asked.
pub async fn run(cli: Cli) -> Result<(), Failure> {
    let Cli { manifest: wants_manifest, target, config, headers, command } = cli;
    if wants_manifest {
        return Ok(output::json(&manifest())?);
    }
    let load = || Config::load(config.as_deref());
    match command {
        None => attach(target, &headers, load()).await,
        Some(Command::Serve(options)) => serve(options, target, load()).await,
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "skills", &mut script);
            Ok(output::text(&String::from_utf8_lossy(&script))?)
        }
        Some(Command::Add(options)) => add::run(options, target, &load()).await,
        Some(Command::Export(options)) => export::run(options, &target, &load()).await,
        Some(Command::Import(options)) => import::run(options, &target, &load()).await,
        Some(Command::Sync(options)) => sync::run(options, target, &load()).await,
        Some(Command::Validate(options)) => validate::run(&options),
        Some(Command::Key { command }) => people::keys::run(command, &target),
        Some(Command::Secret { command }) => people::secrets::run(command, &target, &load().prefix),
        Some(Command::Mcp { profile }) => mcp::run(profile, &target, &load()).await,
        Some(Command::Acp { skills_update }) => acp::run(skills_update, &target, &load()).await,
        Some(Command::Prompt { command }) => prompts::run(command, &target, &load()).await,
        Some(command) => skills::run(command, &target, &load()).await,
    }
}

#[expect(clippy::print_stderr, reason = "the one thing a server says unasked")]
async fn serve(options: Serve, target: Target, mut config: Config) -> Result<(), Failure> {
    let Serve { bus, http, allow_host, allow_origin, allow_upstream, mdp_token } = options;
    for origin in allow_upstream {
        let origin = origin.parse().map_err(|error: BadExempt| {
            Failure::new("bad_origin", error.to_string()).hint("it is given to --allow-upstream")
        })?;
        config.execution.allow_upstream.push(origin);
    }
    set_mdp_token(&mut config, mdp_token);
    system::prepare();
    let token = target.token.filter(|token| !token.is_empty());
    let data_dir = target.data_dir.unwrap_or_else(|| DEFAULT_DATA_DIR.into());
    let mut access = access(&config);
    access.token = access.token.or_else(|| token.clone());
    if !allow_host.is_empty() {
        access.hosts = allow_host;
    }
    if !allow_origin.is_empty() {
        access.origins = allow_origin;
    }
    // Before anybody is told that it serves: whoever is may ask it to stop.
    let shutdown = CancellationToken::new();
    stop_on_signal(shutdown.clone())?;
    let server = Server::start(Options {
        bus: bus.unwrap_or_else(|| DEFAULT_BUS.to_owned()),
        http: http.unwrap_or_else(|| DEFAULT_HTTP.to_owned()),
        data_dir,
        token,
        access,
        config,
    })
    .await?;
    eprintln!("{}", server.banner()?);
    server.run(shutdown).await
}

/// Who may ask over HTTP, as environment and file say.
fn access(config: &Config) -> Access {
    let token = environment("SKILLS_HTTP_TOKEN").or_else(|| config.http_token.clone());
    Access {
        hosts: config.allow_host.clone(),
        origins: config.allow_origin.clone(),
        token: token.filter(|token| !token.is_empty()),
        ..Access::default()
    }
}

/// A flag comes before the environment, that before the file.
fn set_mdp_token(config: &mut Config, flag: Option<String>) {
    let flag = flag.filter(|token| !token.is_empty());
    let set = flag.or_else(|| environment("SKILLS_MDP_TOKEN"));
    config.mdp.token = set.or_else(|| config.mdp.token.take());
}

/// Runs as a worker of the engine that is named.
async fn attach(target: Target, headers: &[String], mut config: Config) -> Result<(), Failure> {
    set_mdp_token(&mut config, None);
    system::prepare();
    let header = |header: &String| match header.split_once('=') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err(Failure::new("bad_header", "--header takes name=value")),
    };
    let headers = headers.iter().map(header).collect::<Result<_, _>>()?;
    let name = environment("III_WORKER_NAME").unwrap_or_else(|| env!("CARGO_PKG_NAME").to_owned());
    let engine = connect::engine(&target, connect::url(&target), name, headers);
    let data_dir = target.data_dir.unwrap_or_else(|| DEFAULT_DATA_DIR.into());
    let shutdown = CancellationToken::new();
    stop_on_signal(shutdown.clone())?;
    let access = access(&config);
    attach::run(attach::Options { engine, data_dir, access, config }, shutdown).await
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
