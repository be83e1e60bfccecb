//! `doctor`: checks the set-up of this machine and prints a hint for each problem.

use std::{
    env, fs, io,
    net::TcpListener,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use anstyle::{AnsiColor, Style};
use serde_json::json;
use skills_bus::address::without_query;
use skills_core::Code;
use skills_registry::RegistryError;

use super::{DEFAULT_HTTP, connect_client, status};
use crate::{
    Failure,
    blocking::blocking,
    cli::{OutputFormat, Target},
    composition::open_store,
    config::{Config, Purpose},
    connect, data_dir,
    database::Database,
    default_bus::{DEFAULT_ADDRESS, DefaultBus, DefaultBusError},
    environment, output,
    registry_socket::{self, StoreAccess},
    server_file,
};

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Ok,
    /// Something that may surprise the user.
    Warning,
    /// Something that does not work.
    Problem,
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }

    fn style(self) -> Style {
        Style::new().bold().fg_color(Some(match self {
            Self::Ok => AnsiColor::Green.into(),
            Self::Warning => AnsiColor::Yellow.into(),
            Self::Problem => AnsiColor::Red.into(),
        }))
    }
}

/// A check and its result.
#[derive(Debug)]
struct Check {
    name: &'static str,
    outcome: Outcome,
    message: String,
    hint: Option<String>,
}

impl Check {
    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, outcome: Outcome::Ok, message: message.into(), hint: None }
    }

    fn warning(name: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { outcome: Outcome::Warning, hint: Some(hint.into()), ..Self::ok(name, message) }
    }

    fn problem(name: &'static str, failure: Failure) -> Self {
        Self { outcome: Outcome::Problem, hint: failure.hint, ..Self::ok(name, failure.message) }
    }
}

pub(super) async fn run(
    target: &Target,
    config: Option<&Path>,
    format: OutputFormat,
) -> Result<(), Failure> {
    let dir = data_dir::locate(target)?;
    let served = server_file::addresses(&dir);
    let (configuration, configured) = check_config(config);
    let mut checks = vec![check_program(), configuration];
    if let Some(url) = connect::explicit_bus(target) {
        checks.push(check_bus(target, &url).await);
    } else {
        checks.extend(check_directory(&dir));
        let database = Database::of_target(target, configured)?;
        checks.push(check_store(&dir, database.as_ref()).await);
        let bus = DEFAULT_ADDRESS.to_string();
        let mut bus_port = check_port("bus port", &bus, "--bus", served.map(|it| it.0));
        if bus_port.outcome == Outcome::Warning
            && let Err(refusal @ DefaultBusError::OtherUser { .. }) =
                DefaultBus::without_credentials(target)?.dial().await
        {
            bus_port.message = format!("{refusal}; commands do not use it");
        }
        checks.push(bus_port);
        checks.push(check_port("HTTP port", DEFAULT_HTTP, "--http", served.map(|it| it.1)));
    }
    checks.extend(check_clients());
    print(&checks, format)?;
    match checks.iter().filter(|check| check.outcome == Outcome::Problem).count() {
        0 => Ok(()),
        count => {
            let message = format!("{} found", output::counted(count, "problem"));
            Err(Failure::new(Code::ProblemsFound, message))
        }
    }
}

fn print(checks: &[Check], format: OutputFormat) -> Result<(), Failure> {
    if format.json {
        let row = |check: &Check| {
            let Check { name, outcome, message, hint } = check;
            let mut row = json!({ "check": name, "outcome": outcome.as_str(), "message": message });
            if let Some(hint) = hint {
                row["hint"] = json!(hint);
            }
            row
        };
        let rows: Vec<_> = checks.iter().map(row).collect();
        return Ok(output::json(&json!({ "checks": rows }))?);
    }
    for Check { name, outcome, message, hint } in checks {
        let (style, outcome) = (outcome.style(), outcome.as_str());
        output::line(&format!("{style}{outcome:8}{style:#} {name}: {}", output::plain(message)))?;
        if let Some(hint) = hint {
            output::line(&format!("         hint: {}", output::plain(hint)))?;
        }
    }
    Ok(())
}

/// Checks that `skills` on the `PATH` is this program: others have the same name.
fn check_program() -> Check {
    const NAME: &str = "program";
    let (Ok(ours), path) = (env::current_exe(), env::var_os("PATH").unwrap_or_default()) else {
        return Check::ok(NAME, env!("CARGO_PKG_VERSION"));
    };
    let ours = fs::canonicalize(&ours).unwrap_or(ours);
    let is_program = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let found = env::split_paths(&path).map(|dir| dir.join("skills")).find(is_program);
    let shown = output::path(&ours);
    match found {
        None => Check::warning(
            NAME,
            format!("{shown} is not on the PATH"),
            format!("add its folder to PATH, or use the full path {shown}"),
        ),
        Some(found) if fs::canonicalize(&found).is_ok_and(|found| found == ours) => {
            Check::ok(NAME, format!("{shown}, version {}", env!("CARGO_PKG_VERSION")))
        }
        Some(found) => Check::warning(
            NAME,
            format!("`skills` on the PATH is another program: {}", output::path(&found)),
            format!("put the folder of {shown} first in PATH, or use the full path"),
        ),
    }
}

/// Checks the configuration. Returns the database that it names.
fn check_config(path: Option<&Path>) -> (Check, Option<Database>) {
    const NAME: &str = "configuration";
    match Config::load(path, Purpose::Server) {
        Ok(config) => {
            let shown = path.map_or_else(|| "config.yaml, if it exists".to_owned(), output::path);
            (Check::ok(NAME, shown), config.database)
        }
        Err(error) => (Check::problem(NAME, error.into()), None),
    }
}

async fn check_bus(target: &Target, url: &str) -> Check {
    let token = target.token.as_deref();
    let connected = skills_bus::BusClient::connect(url, token, connect::CONNECT_TIMEOUT).await;
    match connected {
        Ok(client) => match status::query_degraded(&client).await {
            None => Check::ok("bus", format!("{} answers", without_query(url))),
            Some(degraded) => {
                let message = format!("{} is {degraded}", without_query(url));
                let hint = "see the log of the server";
                Check::problem("bus", Failure::new(Code::StoreUnavailable, message).hint(hint))
            }
        },
        Err(error) => Check::problem("bus", error.into()),
    }
}

fn check_directory(dir: &Path) -> Option<Check> {
    const NAME: &str = "data directory";
    let shown = output::path(dir);
    let metadata = match fs::metadata(dir) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Some(Check::ok(NAME, format!("{shown} is created when something is stored")));
        }
        Err(error) => {
            let failure = Failure::new(Code::StoreIo, format!("cannot read {shown}: {error}"));
            let hint = "check the permissions of the directory, or give another with --data-dir";
            return Some(Check::problem(NAME, failure.hint(hint)));
        }
    };
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        let message = format!("{shown} belongs to another user");
        let hint = "run the command as that user, or give another directory with --data-dir";
        return Some(Check::warning(NAME, message, hint));
    }
    if metadata.mode() & 0o022 != 0 {
        let message = format!("other users can write to {shown}");
        return Some(Check::warning(NAME, message, format!("run: chmod go-w {shown}")));
    }
    Some(Check::ok(NAME, shown))
}

/// Checks the store by opening it, or through the process that has it open.
async fn check_store(dir: &Path, database: Option<&Database>) -> Check {
    const NAME: &str = "store";
    if let Some(database) = database {
        return match check_database(database).await {
            Ok(()) => Check::ok(NAME, format!("{database} answers and accepts writes")),
            Err(failure) => Check::problem(NAME, failure),
        };
    }
    match data_dir::has_store(dir) {
        Ok(true) => {}
        Ok(false) => return Check::ok(NAME, "there is none yet"),
        Err(failure) => return Check::problem(NAME, failure),
    }
    match registry_socket::access(dir, async || open_store(dir, &Config::default()).await).await {
        Ok(StoreAccess::Opened(_)) => Check::ok(NAME, "its structure is intact"),
        Ok(StoreAccess::Served(_)) => Check::ok(NAME, "a process serves it"),
        Err(failure) => Check::problem(NAME, failure),
    }
}

async fn check_database(database: &Database) -> Result<(), Failure> {
    let store = database.open().await?;
    Ok(blocking(move || store.check_writable()).await?.map_err(RegistryError::from)?)
}

/// Checks that a port is free, or used by the server of the data directory.
fn check_port(
    name: &'static str,
    address: &str,
    flag: &str,
    server: Option<std::net::SocketAddr>,
) -> Check {
    if server.is_some_and(|server| server.to_string() == address) {
        return Check::ok(name, format!("the server of the data directory listens on {address}"));
    }
    match TcpListener::bind(address) {
        Ok(_) => Check::ok(name, format!("{address} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Check::warning(
            name,
            format!("another process listens on {address}"),
            format!("serve on another port: skills serve {flag} 127.0.0.1:0"),
        ),
        Err(error) => Check::warning(
            name,
            format!("cannot listen on {address}: {error}"),
            format!("serve on another address with {flag}"),
        ),
    }
}

/// Lists the MCP clients of this machine.
fn check_clients() -> Option<Check> {
    const NAME: &str = "MCP clients";
    environment::path("HOME")?;
    let states = connect_client::states().ok()?;
    let names = |wanted| {
        let names = states.iter().filter(move |(.., state)| *state == wanted);
        names.map(|(client, ..)| client.name).collect::<Vec<_>>()
    };
    let connected = names(connect_client::SetupState::Connected);
    let found = names(connect_client::SetupState::Found);
    Some(match (connected.as_slice(), found.as_slice()) {
        ([], []) => Check::ok(NAME, "none found"),
        ([], [first, ..]) => Check::warning(
            NAME,
            format!("found, not connected: {}", found.join(", ")),
            format!("connect one: skills connect {first} --write"),
        ),
        (_, []) => Check::ok(NAME, format!("connected: {}", connected.join(", "))),
        _ => Check::ok(
            NAME,
            format!("connected: {}; not connected: {}", connected.join(", "), found.join(", ")),
        ),
    })
}
