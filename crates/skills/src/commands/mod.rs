//! One module per command, and the dispatch to them.

mod accounts;
mod acp;
mod add;
mod backup;
mod collections;
mod connect_client;
mod doctor;
mod doctor_search;
mod export;
mod help;
mod import;
mod init;
pub(crate) mod keyspace;
mod lock;
mod mcp;
mod prompts;
mod remove;
mod search;
mod skills;
mod sources;
mod status;
mod suggestions;
mod sync;
mod validate;
mod versions;

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use clap::CommandFactory as _;
use skills_client_setup::ServerCommand;
use skills_core::{Code, Debounce, EntryKind};
use skills_execution::ParseAllowanceError;
use skills_http::Access;
use skills_registry::SkillRegistry;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    Failure, attach,
    cli::{
        Cli, CollectionCommand, Command, DoctorArgs, DoctorCommand, PromptCommand, ServeArgs,
        Target,
    },
    config::{Config, Purpose},
    connect, data_dir,
    database::Database,
    default_bus::{DEFAULT_ADDRESS, DefaultBus},
    environment,
    manifest::manifest,
    output, process_limits,
    serve::{Options, Server},
    token_rules::TokenUse,
};

/// Text for a user who starts the program without a command, and without an engine.
const INTRODUCTION: &str = "\
skills is a registry of skills and prompts for AI agents. Without a command it is a worker of an
iii engine, and waits for one at ws://127.0.0.1:49134. Without an engine, press Ctrl-C and run one of

  skills add PATH        register folders with a SKILL.md
  skills connect CLIENT  make an MCP client use them
  skills serve           run a server, with HTTP and a bus for workers
  skills help            list all commands
";

/// Default address of HTTP: the port of the Model Drive Protocol.
const DEFAULT_HTTP: &str = "127.0.0.1:47372";

/// Debounce of commands that watch files or a registry: a bundle of many files is one change.
const WATCH_DEBOUNCE: Debounce =
    Debounce::until_quiet(Duration::from_millis(75), Duration::from_secs(1));

/// Runs the command of a parsed command line.
///
/// # Errors
/// When the command fails, as a sentence with a code and a hint.
pub async fn run(cli: Cli) -> Result<(), Failure> {
    let Cli { manifest: is_manifest, target, config, headers, command, log_format: _ } = cli;
    if is_manifest {
        return Ok(output::json(&manifest())?);
    }
    let given = target.clone();
    let load_for = |purpose| -> Result<Config, Failure> {
        let mut config = Config::load(config.as_deref(), purpose)?;
        config.database = Database::of_target(&given, config.database)?;
        if purpose == Purpose::Server && config.database.is_none() && config.max_stale.is_some() {
            tracing::warn!("store.max_stale has no effect without a database");
        }
        Ok(config)
    };
    let load = || load_for(Purpose::Command);
    let open = async || connect::open(&target, &load()?, false).await;
    match command {
        None => attach(target, &headers, load_for(Purpose::Server)?).await,
        Some(Command::Serve(args)) => serve(args, target, load_for(Purpose::Server)?).await,
        Some(Command::Help { topic }) => help::run(&topic),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "skills", &mut script);
            Ok(output::text(&String::from_utf8_lossy(&script))?)
        }
        Some(Command::Add(args)) => add::run(args, target, &load()?).await,
        Some(Command::Update(args)) => lock::update(args, &target, &load()?).await,
        Some(Command::Lock(args)) => lock::write(args, &target, &load()?).await,
        Some(Command::Install(args)) => lock::install(args, &load()?).await,
        Some(Command::Verify(args)) => lock::verify(&args),
        Some(Command::Outdated(args)) => lock::outdated(args, &load()?).await,
        Some(Command::Export(args)) => export::run(args, &target, &load()?).await,
        Some(Command::Import(args)) => import::run(args, &target, &load()?).await,
        Some(Command::Store { command }) => backup::copy(command).await,
        Some(Command::Backup(args)) => backup::back_up(args, &target, &load()?).await,
        Some(Command::Restore(args)) => backup::restore(args, &target, &load()?).await,
        Some(Command::Sync(args)) => sync::run(args, target, &load()?).await,
        Some(Command::Validate(args)) => validate::run(&args),
        Some(Command::Init(args)) => init::run(&args),
        Some(Command::Connect(args)) => connect_client::run(&args, &target, &load()?),
        Some(Command::Status { format }) => status::run(&target, &load()?, format).await,
        Some(Command::Doctor(DoctorArgs { command: None, format })) => {
            doctor::run(&target, config.as_deref(), format).await
        }
        Some(Command::Doctor(DoctorArgs { command: Some(command), .. })) => {
            let DoctorCommand::Search { misses, format } = command;
            if misses {
                return doctor_search::misses(&target, &load()?, format).await;
            }
            doctor_search::routing(&*open().await?, format).await
        }
        Some(Command::Key { command }) => accounts::keys::run(command, &target, &load()?).await,
        Some(Command::Secret { command }) => accounts::secrets::run(command, &target, &load()?),
        Some(Command::Collection { command }) => {
            let is_new = matches!(command, CollectionCommand::Create(_));
            let registry = connect::open(&target, &load()?, is_new).await?;
            collections::run(&*registry, command).await
        }
        Some(Command::Source { command }) => sources::run(command, target, &load()?).await,
        Some(Command::Mcp { profile }) => mcp::run(profile, &target, &load()?).await,
        Some(Command::Acp { skills_update }) => acp::run(skills_update, &target, &load()?).await,
        Some(Command::List { all, tier, format }) => {
            let registry = open().await?;
            let list = skills::list(&*registry, all, tier.map(Into::into), format);
            with_row_warnings(&*registry, list).await
        }
        Some(Command::Search(args)) => {
            let registry = open().await?;
            with_row_warnings(&*registry, search::run(&*registry, args)).await
        }
        Some(Command::Index(args)) => {
            let registry = open().await?;
            with_row_warnings(&*registry, search::index(&*registry, args)).await
        }
        Some(Command::Show { id, explain, tier, format }) => {
            let registry = open().await?;
            let show = skills::show(&*registry, &id, tier.map(Into::into), explain, format);
            let shown = with_row_warnings(&*registry, show).await;
            suggestions::for_skill(&*registry, &id, shown).await
        }
        Some(Command::Read { uri, format }) => {
            let registry = open().await?;
            let read = skills::read(&*registry, &uri, format).await;
            suggestions::for_skill(&*registry, &uri, read).await
        }
        Some(Command::Remove(args)) => remove::run(&*open().await?, args).await,
        Some(Command::Version(command)) => {
            versions::run(&*open().await?, EntryKind::Skill, command).await
        }
        Some(Command::Log(args)) => versions::log::run(args, &target, &load()?).await,
        Some(Command::Gc(args)) => versions::gc::run(args, &target, &load()?).await,
        Some(Command::Prompt { command: PromptCommand::Version(command) }) => {
            versions::run(&*open().await?, EntryKind::Prompt, command).await
        }
        Some(Command::Prompt { command: PromptCommand::List { format } }) => {
            let registry = open().await?;
            with_row_warnings(&*registry, prompts::list(&*registry, format)).await
        }
        Some(Command::Prompt { command: PromptCommand::Add(args) }) => {
            let registry = connect::open(&target, &load()?, true).await?;
            prompts::add(&*registry, args).await
        }
        Some(Command::Prompt { command: PromptCommand::Get { name, arguments, format } }) => {
            let arguments = prompts::parse_arguments(&arguments)?;
            let registry = open().await?;
            let rendered = prompts::get(&*registry, &name, arguments, format).await;
            suggestions::for_prompt(&*registry, &name, rendered).await
        }
    }
}

/// Returns the command of MCP clients that the console shows; `None` if it is switched off.
fn console_command(config: &Config, target: &Target) -> Result<Option<ServerCommand>, Failure> {
    config.console.then(|| connect_client::server_command(target, config)).transpose()
}

async fn serve(args: ServeArgs, target: Target, mut config: Config) -> Result<(), Failure> {
    let ServeArgs { bus, http, allow_host, allow_origin, allow_upstream, mdp_token, no_console } =
        args;
    config.console &= !no_console;
    let console = console_command(&config, &target)?;
    for origin in allow_upstream {
        let origin = origin.parse().map_err(|error: ParseAllowanceError| {
            Failure::new(Code::BadOrigin, error.to_string()).hint("correct --allow-upstream")
        })?;
        config.execution.allow_upstream.push(origin);
    }
    resolve_mdp_token(&mut config, mdp_token)?;
    process_limits::prepare();
    let data_dir = data_dir::locate(&target)?;
    let token = target.token;
    let mut access = http_access(&config)?;
    access.token = access.token.or_else(|| token.clone());
    if !allow_host.is_empty() {
        access.hosts = allow_host;
    }
    if !allow_origin.is_empty() {
        access.origins = allow_origin;
    }
    // Before the banner, so that a signal sent after it is handled.
    let shutdown = CancellationToken::new();
    stop_on_signal(shutdown.clone())?;
    let start = Server::start(Options {
        bus: bus.unwrap_or_else(|| DEFAULT_ADDRESS.to_string()),
        http: http.unwrap_or_else(|| DEFAULT_HTTP.to_owned()),
        data_dir,
        token,
        access,
        console,
        config,
    });
    // A server that waits for its database can be stopped too.
    let server = tokio::select! {
        server = start => server?,
        () = shutdown.cancelled() => return Ok(()),
    };
    output::error_line(&server.banner()?);
    server.run(shutdown).await
}

/// Runs a command on a registry and then warns about its rejected rows.
async fn with_row_warnings<T>(registry: &dyn SkillRegistry, command: impl Future<Output = T>) -> T {
    let result = command.await;
    warn_about_rejected_rows(registry);
    result
}

/// Warns about rows of a remote registry that were dropped because they break its rules.
fn warn_about_rejected_rows(skills: &dyn SkillRegistry) {
    let rejected = skills.rejected_rows();
    for row in rejected.rows() {
        let sentence =
            format!("{} {:?} of the registry: {}", row.kind.as_str(), row.id, row.reason);
        output::notice("ignored", &output::plain(&sentence));
    }
    let count = rejected.count(EntryKind::Skill) + rejected.count(EntryKind::Prompt);
    let more = count - rejected.rows().len();
    if more > 0 {
        output::notice("ignored", &format!("{more} more rows of the registry"));
    }
}

/// Returns the access rules of HTTP from the environment and the configuration file.
fn http_access(config: &Config) -> Result<Access, Failure> {
    let token = environment::token("SKILLS_HTTP_TOKEN", TokenUse::Required)?;
    Ok(Access {
        hosts: config.allow_host.clone(),
        origins: config.allow_origin.clone(),
        token: token.or_else(|| config.http_token.clone()),
        ..Access::default()
    })
}

/// Sets the MDP token: the flag precedes the environment, which precedes the file.
fn resolve_mdp_token(config: &mut Config, flag: Option<String>) -> Result<(), Failure> {
    let (name, variable) = ("--mdp-token", "SKILLS_MDP_TOKEN");
    let token = environment::flag_or_token(name, flag, variable, TokenUse::Required)?;
    config.mdp.token = token.or_else(|| config.mdp.token.take());
    Ok(())
}

/// Runs as a worker of an iii engine.
async fn attach(target: Target, headers: &[String], mut config: Config) -> Result<(), Failure> {
    resolve_mdp_token(&mut config, None)?;
    process_limits::prepare();
    connect::require_explicit_engine(&target)?;
    if io::stderr().is_terminal()
        && !connect::is_explicit(&target)
        && DefaultBus::without_credentials(&target)?.dial().await.is_err()
    {
        output::error_line(INTRODUCTION);
    }
    let header = |header: &String| match header.split_once('=') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err(Failure::new(Code::BadHeader, "--header is not NAME=VALUE")),
    };
    let headers = headers.iter().map(header).collect::<Result<_, _>>()?;
    let name =
        environment::text("III_WORKER_NAME")?.unwrap_or_else(|| env!("CARGO_PKG_NAME").to_owned());
    let engine = connect::engine(&target, connect::url(&target), name, headers)?;
    let data_dir = data_dir::locate(&target)?;
    let shutdown = CancellationToken::new();
    stop_on_signal(shutdown.clone())?;
    let access = http_access(&config)?;
    let console = console_command(&config, &target)?;
    attach::run(attach::Options { engine, data_dir, access, console, config }, shutdown).await
}

/// Starts a graceful shutdown on the first SIGINT or SIGTERM and exits on the second.
fn stop_on_signal(shutdown: CancellationToken) -> Result<(), Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        next().await;
        shutdown.cancel();
        next().await;
        std::process::exit(130);
    });
    Ok(())
}
