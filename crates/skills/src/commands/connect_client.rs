//! `connect`: prints or writes the settings that make an MCP client use this registry.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use skills_client_setup::{
    CLIENTS, Client, INSTALLERS, InstallTarget, Installer, KEY_PLACEHOLDER, NAME_PLACEHOLDER,
    ServerCommand,
};
use skills_core::Code;
use uuid::Uuid;

use crate::{
    Failure,
    cli::{ConnectArgs, OutputFormat, Target},
    config::Config,
    connect, data_dir,
    database::Database,
    environment, output, server_file,
};

/// Unchanged lines that a difference shows around changed ones.
const CONTEXT_LINES: usize = 3;
/// Tab in a difference.
const TAB: &str = "    ";
/// Largest settings file that is edited.
const MAX_BYTES: u64 = 16 << 20;
/// Most backups of one file.
const MAX_BACKUPS: usize = 1000;

pub(super) fn run(args: &ConnectArgs, target: &Target, config: &Config) -> Result<(), Failure> {
    let Some(name) = args.client.as_deref() else { return list(args.format) };
    let install = install_lines(args, target, config, name)?;
    if !CLIENTS.iter().any(|client| client.name == name)
        && let Some((installer, lines)) = &install
        && !args.write
    {
        return print_install(installer, lines, args.format);
    }
    let homes = Homes::from_environment()?;
    let client = CLIENTS.iter().find(|client| client.name == name).ok_or_else(|| {
        Failure::new(Code::BadArgument, format!("unknown client {name}"))
            .hint("list the clients with `skills connect --list`")
    })?;
    let command = server_command(target, config)?;
    let is_password_left_out = |database: &Database| {
        database.has_password() && command.arguments.contains(&database.argument().to_owned())
    };
    if config.database.as_ref().is_some_and(is_password_left_out) {
        output::notice(
            "note",
            "the password is not written: set PGPASSWORD in the client's environment",
        );
    }
    if target.key.is_some() {
        output::notice(
            "note",
            "the key is not written: set SKILLS_KEY in the client's environment",
        );
    }
    if args.write {
        return write(client, &homes, &command, args.format);
    }
    print(client, &homes, &command, install.as_ref(), args.format)
}

/// Installer of a client, and its lines.
type InstallLines = (&'static Installer, Vec<String>);

/// Returns the lines of a client's installer, if it has one.
fn install_lines(
    args: &ConnectArgs,
    target: &Target,
    config: &Config,
    name: &str,
) -> Result<Option<InstallLines>, Failure> {
    let Some(installer) = Installer::find(name) else { return Ok(None) };
    let server = match (&args.server, &config.public_url) {
        (Some(server), _) => {
            let is_web = server.starts_with("https://") || server.starts_with("http://");
            let is_plain =
                |c: char| !c.is_whitespace() && !c.is_control() && !"'\"\\$`@".contains(c);
            if !is_web || !server.chars().all(is_plain) {
                let message = "--server is not the URL of a server without credentials";
                return Err(Failure::new(Code::BadArgument, message)
                    .hint("give one such as https://skills.example.com"));
            }
            server.clone()
        }
        (None, Some(url)) => url.to_string(),
        (None, None) => {
            // The server of the directory has another registry than the database.
            let running = match config.database {
                None => server_file::addresses(&data_dir::locate(target)?),
                Some(_) => None,
            };
            let address = running.map(|(_, http)| http.to_string());
            format!("http://{}", address.unwrap_or_else(|| super::DEFAULT_HTTP.to_owned()))
        }
    };
    let key = target.key.as_deref().map(|key| if args.show_key { key } else { KEY_PLACEHOLDER });
    let (skill, id) = (NAME_PLACEHOLDER, NAME_PLACEHOLDER);
    let lines = installer.lines(InstallTarget { server: &server, skill, id, key });
    Ok(Some((installer, lines)))
}

fn print_install(
    installer: &Installer,
    lines: &[String],
    format: OutputFormat,
) -> Result<(), Failure> {
    if format.json {
        return Ok(output::json(&json!({ "client": installer.name, "install": lines }))?);
    }
    output::line(&format!("Run this to install a skill with {}:\n", installer.title))?;
    lines.iter().try_for_each(|line| output::line(line))?;
    Ok(output::line(&format!("\n{}", installer.note))?)
}

/// Directories that settings files are in.
struct Homes {
    home: PathBuf,
    config_home: Option<PathBuf>,
}

impl Homes {
    fn from_environment() -> Result<Self, Failure> {
        let home = environment::path("HOME").ok_or_else(|| {
            Failure::new(Code::NoHome, "HOME is not set").hint("set HOME to your home directory")
        })?;
        Ok(Self { home, config_home: environment::path("XDG_CONFIG_HOME") })
    }

    fn settings_path(&self, client: &Client) -> Option<PathBuf> {
        client.settings_path(&self.home, self.config_home.as_deref())
    }
}

/// Returns the command by which a client starts this program on the registry of a target. It has no password.
pub(super) fn server_command(target: &Target, config: &Config) -> Result<ServerCommand, Failure> {
    let program = std::env::current_exe()?.display().to_string();
    let mut arguments = vec!["mcp".to_owned()];
    if let Some(url) = connect::explicit_bus(target) {
        arguments.extend(["--url".to_owned(), url]);
    } else if let Some(database) = &config.database {
        let file = config.path.as_deref().filter(|_| target.store.is_none());
        arguments.extend(match file {
            Some(file) => {
                let file = std::path::absolute(file)?;
                ["--config".to_owned(), file.display().to_string()]
            }
            None => ["--store".to_owned(), database.argument().to_owned()],
        });
    } else if !data_dir::is_found_everywhere(target) {
        let dir = std::path::absolute(data_dir::locate(target)?)?;
        arguments.extend(["--data-dir".to_owned(), dir.display().to_string()]);
    }
    Ok(ServerCommand { program, arguments })
}

/// Set-up of a client on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetupState {
    /// The client was not found.
    Absent,
    /// The client is installed.
    Found,
    /// The client has an entry for this program.
    Connected,
}

impl SetupState {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "not found",
            Self::Found => "found",
            Self::Connected => "connected",
        }
    }
}

/// A client, its settings file and its set-up.
pub(super) type ClientRow = (&'static Client, Option<PathBuf>, SetupState);

/// Returns the settings file of each client, and whether it is set up.
pub(super) fn states() -> Result<Vec<ClientRow>, Failure> {
    let homes = Homes::from_environment()?;
    let row = |client: &'static Client| {
        let path = homes.settings_path(client);
        let state = path.as_deref().map_or(SetupState::Absent, |path| state(client, path, &homes));
        (client, path, state)
    };
    Ok(CLIENTS.iter().map(row).collect())
}

fn state(client: &Client, path: &Path, homes: &Homes) -> SetupState {
    let text = read(path).ok().flatten().unwrap_or_default();
    // A file directly in the home directory says nothing about its folder.
    let has_folder = path.parent().is_some_and(|dir| dir != homes.home && dir.is_dir());
    if client.settings.is_some_and(|settings| settings.format.has_server(&text)) {
        SetupState::Connected
    } else if has_folder || path.exists() {
        SetupState::Found
    } else {
        SetupState::Absent
    }
}

fn list(format: OutputFormat) -> Result<(), Failure> {
    let states = states()?;
    if format.json {
        let row = |(client, path, state): &ClientRow| {
            json!({
                "client": client.name, "title": client.title, "state": state.as_str(),
                "path": path.as_ref().map(|path| path.display().to_string()),
            })
        };
        let rows: Vec<Value> = states.iter().map(row).collect();
        let installers: Vec<&str> = INSTALLERS.iter().map(|installer| installer.name).collect();
        return Ok(output::json(&json!({ "clients": rows, "installers": installers }))?);
    }
    let row = |(client, path, state): &ClientRow| {
        let path = path.as_ref().map_or_else(|| "-".to_owned(), |path| output::path(path));
        vec![client.name.to_owned(), client.title.to_owned(), state.as_str().to_owned(), path]
    };
    let rows: Vec<_> = states.iter().map(row).collect();
    Ok(output::table(&["CLIENT", "PRODUCT", "STATE", "SETTINGS"], &rows)?)
}

fn print(
    client: &Client,
    homes: &Homes,
    command: &ServerCommand,
    install: Option<&InstallLines>,
    format: OutputFormat,
) -> Result<(), Failure> {
    let path = homes.settings_path(client);
    let document = client.settings.map(|settings| settings.format.document(command));
    let setup = client.setup_line(command);
    if format.json {
        return Ok(output::json(&json!({
            "client": client.name,
            "path": path.map(|path| path.display().to_string()),
            "settings": document,
            "command": setup,
            "install": install.map(|(_, lines)| lines),
        }))?);
    }
    if let Some(setup) = &setup {
        output::line(&format!("Run this to connect {}:\n\n{setup}\n", client.title))?;
    }
    if let (Some(path), Some(document)) = (path, document) {
        let or = if setup.is_some() { "Or add this to" } else { "Add this to" };
        output::line(&format!("{or} {}:\n", output::path(&path)))?;
        output::line(&document)?;
        output::line(&format!("`skills connect {} --write` does it.", client.name))?;
    }
    if let Some((installer, lines)) = install {
        output::line("")?;
        print_install(installer, lines, format)?;
    }
    Ok(())
}

fn write(
    client: &Client,
    homes: &Homes,
    command: &ServerCommand,
    format: OutputFormat,
) -> Result<(), Failure> {
    let (Some(settings), Some(path)) = (client.settings, homes.settings_path(client)) else {
        let message = format!("{} has no settings file", client.title);
        return Err(Failure::new(Code::BadArgument, message)
            .hint(format!("see the command with `skills connect {}`", client.name)));
    };
    // The target of a link is edited: settings are often kept in a repository of dot files.
    let path = fs::canonicalize(&path).unwrap_or(path);
    let shown = output::path(&path);
    let before = read(&path)?;
    let text = before.as_deref().unwrap_or_default();
    let after = settings.format.edit(text, command).map_err(|error| {
        Failure::new(Code::Unreadable, format!("{shown} was not changed: {error}"))
            .hint(format!("add the lines of `skills connect {}` with an editor", client.name))
    })?;
    let is_changed = text != after;
    let mut backup = None;
    if is_changed {
        check_writable(&path)?;
        if !format.json {
            print_difference(text, &after)?;
        }
        backup = before.is_some().then(|| back_up(&path)).transpose()?;
        replace(&path, &after)?;
    }
    if format.json {
        return Ok(output::json(&json!({
            "client": client.name,
            "path": path.display().to_string(),
            "changed": is_changed,
            "backup": backup.map(|backup| backup.display().to_string()),
        }))?);
    }
    output::line(&match (is_changed, backup) {
        (false, _) => format!("{} is connected already: {shown}", client.title),
        (true, None) => format!("connected {}: {shown}", client.title),
        (true, Some(backup)) => {
            format!("connected {}: {shown} (backup: {})", client.title, output::path(&backup))
        }
    })?;
    Ok(output::line(client.note)?)
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::new(Code::Unreadable, format!("cannot read {}: {error}", output::path(path)))
    };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(&error)),
        Ok(metadata) if !metadata.is_file() => return Err(unreadable(&"not a regular file")),
        Ok(metadata) if metadata.len() > MAX_BYTES => return Err(unreadable(&"too large")),
        Ok(_) => {}
    }
    fs::read_to_string(path).map(Some).map_err(|error| unreadable(&error))
}

/// Copies a file beside itself and returns the path of the copy.
fn back_up(path: &Path) -> Result<PathBuf, Failure> {
    for number in 0..MAX_BACKUPS {
        let mut name = path.as_os_str().to_owned();
        name.push(if number == 0 { ".bak".to_owned() } else { format!(".bak.{number}") });
        let backup = PathBuf::from(name);
        if backup.exists() {
            continue;
        }
        // Also copies the permissions: settings may hold credentials.
        fs::copy(path, &backup).map_err(|error| unwritable(&backup, &error))?;
        return Ok(backup);
    }
    let message = format!("{} has too many backups", output::path(path));
    Err(Failure::new(Code::Io, message).hint("remove old backups"))
}

fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Code::Unwritable, format!("cannot write {}: {error}", output::path(path)))
        .hint("check the permissions of the file and its folder, and the space on the disk")
}

/// Refuses a file that nobody may write. Replacing it would succeed if its folder is writable.
fn check_writable(path: &Path) -> Result<(), Failure> {
    if fs::metadata(path).is_ok_and(|metadata| metadata.permissions().readonly()) {
        return Err(unwritable(path, &"the file is read-only"));
    }
    Ok(())
}

/// Replaces a file atomically and keeps its permissions.
fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).map_err(|error| unwritable(dir, &error))?;
    let mode = fs::metadata(path).map_or(0o600, |metadata| metadata.permissions().mode());
    let draft = dir.join(format!(".{}", Uuid::new_v4().simple()));
    let written = fs::write(&draft, text)
        .and_then(|()| fs::set_permissions(&draft, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&draft, path));
    if let Err(error) = written {
        let _ = fs::remove_file(&draft);
        return Err(unwritable(path, &error));
    }
    Ok(())
}

/// Prints the changed lines with some lines around them. An edit changes one region of a file.
fn print_difference(before: &str, after: &str) -> Result<(), Failure> {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.lines().collect(), after.lines().collect());
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let start = before.iter().zip(&after).take_while(same).count();
    let rest = before[start..].iter().rev().zip(after[start..].iter().rev());
    let end = rest.take_while(same).count();
    let (before_end, after_end) = (before.len() - end, after.len() - end);
    let (red, green) = (AnsiColor::Red.on_default(), AnsiColor::Green.on_default());
    let plain = Style::new();
    let context_start = start.saturating_sub(CONTEXT_LINES);
    let context_end = (before_end + CONTEXT_LINES).min(before.len());
    let lines = before[context_start..start].iter().map(|line| (plain, ' ', line));
    let lines = lines.chain(before[start..before_end].iter().map(|line| (red, '-', line)));
    let lines = lines.chain(after[start..after_end].iter().map(|line| (green, '+', line)));
    let lines = lines.chain(before[before_end..context_end].iter().map(|line| (plain, ' ', line)));
    for (style, sign, line) in lines {
        let line = output::plain(&line.replace('\t', TAB));
        output::line(&format!("{style}{sign} {line}{style:#}"))?;
    }
    Ok(output::line("")?)
}
