//! PostgreSQL in a temporary folder, as an unprivileged user, with its default durability; and `pgbench` on it.

use std::{
    fs,
    net::TcpListener,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

/// How to get what the benchmark needs.
pub(crate) const INSTALL: &str = "sudo apt-get install postgresql postgresql-contrib";

/// Running server of PostgreSQL. Dropping it stops it.
pub(crate) struct Postgres {
    programs: PathBuf,
    folder: TempDir,
    /// User and group of the server, if this process is root.
    account: Option<(u32, u32)>,
    port: u16,
}

impl Postgres {
    /// Starts a server; `None` if PostgreSQL 15 or newer is not installed.
    pub(crate) fn start() -> Option<Self> {
        let programs = newest_programs()?;
        let folder = tempfile::tempdir().unwrap();
        let account = is_root().then(unprivileged_account).flatten();
        if let Some((user, group)) = account {
            chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Self { programs, folder, account, port };
        server.run("initdb", &["-D", "data", "-A", "trust", "-U", "skills", "-E", "UTF8"]);
        let settings = server.folder.path().join("data/postgresql.conf");
        let mut text = fs::read_to_string(&settings).unwrap();
        text.push_str(&format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nmax_connections = 150\n\
             unix_socket_directories = '{}'\n",
            server.folder.path().display()
        ));
        fs::write(&settings, text).unwrap();
        server.run("pg_ctl", &["-D", "data", "-l", "log", "-w", "start"]);
        server.run("createdb", &[&server.connection(), &["skills"][..]].concat());
        Some(server)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL of a schema, through a port of this machine.
    pub(crate) fn url(&self, port: u16, schema: &str) -> String {
        let base = format!("postgres://skills@127.0.0.1:{port}/skills?sslmode=disable");
        skills_testkit::in_schema(&base, schema)
    }

    /// Runs a statement and returns its rows as text.
    pub(crate) fn sql(&self, text: &str) -> String {
        let arguments = ["-d", "skills", "-qXAt", "-c", text];
        self.run("psql", &[&self.connection(), &arguments[..]].concat())
    }

    /// Returns the rate of transactions of one insert each, of a number of clients.
    pub(crate) fn inserts(&self, clients: usize, bytes: usize, seconds: f64) -> f64 {
        self.sql("CREATE TABLE IF NOT EXISTS reference (id bigserial PRIMARY KEY, body text)");
        let script = self.folder.path().join("insert.sql");
        let insert = "INSERT INTO reference (body) VALUES";
        fs::write(&script, format!("{insert} ('{}');\n", "x".repeat(bytes))).unwrap();
        let (clients, seconds) = (clients.to_string(), format!("{:.0}", seconds.max(1.0)));
        let script = script.to_str().unwrap();
        let arguments =
            ["-n", "-M", "prepared", "-c", &clients, "-j", "1", "-T", &seconds, "-f", script];
        let arguments = [&arguments[..], &self.connection(), &["skills"]].concat();
        let printed = self.run("pgbench", &arguments);
        let line = printed.lines().find(|line| line.starts_with("tps = ")).unwrap();
        line.split_whitespace().nth(2).unwrap().parse().unwrap()
    }

    fn connection(&self) -> [&str; 4] {
        // The port is in the environment of every command.
        ["-h", "127.0.0.1", "-U", "skills"]
    }

    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let mut path = self.programs.join(program);
        if !path.exists() {
            path = program.into();
        }
        let log = fs::File::create(self.folder.path().join("output")).unwrap();
        let mut command = Command::new(&path);
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("PGPORT", self.port.to_string());
        // A server in the background keeps its output open.
        command.stdout(log.try_clone().unwrap()).stderr(log);
        if let Some((user, group)) = self.account {
            command.uid(user).gid(group);
        }
        let status = command.status().unwrap();
        let printed = fs::read_to_string(self.folder.path().join("output")).unwrap();
        assert!(status.success(), "{program}: {printed}");
        printed
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.run("pg_ctl", &["-D", "data", "-m", "immediate", "stop"]);
    }
}

fn newest_programs() -> Option<PathBuf> {
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<f64>().ok();
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = installed
        .filter_map(|entry| Some((version(&entry.path())?, entry.path().join("bin"))))
        .filter(|(version, bin)| *version >= 15.0 && bin.join("initdb").exists())
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let folders = std::env::var_os("PATH").unwrap_or_default();
    newest.map(|(_, bin)| bin).or_else(|| {
        std::env::split_paths(&folders).find(|folder| {
            ["initdb", "pg_ctl", "pgbench"].iter().all(|name| folder.join(name).exists())
        })
    })
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns user and group of `postgres`, or else of `nobody`.
fn unprivileged_account() -> Option<(u32, u32)> {
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |name: &str| {
        let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2);
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    };
    find("postgres").or_else(|| find("nobody"))
}
