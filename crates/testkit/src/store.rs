//! The store of the programs under test: `SKILLS_TEST_STORE` moves every data directory to a PostgreSQL.
//!
//! A data directory stands for one registry, so each gets a schema of its own in that database, named after the test
//! process and the path. The program creates it as it would any other; it is dropped when the folder of the test is gone.
//! A command that names its store, or a registry behind a bus, is left alone.

use std::{
    collections::hash_map::DefaultHasher,
    env,
    ffi::OsStr,
    fs,
    hash::{Hash as _, Hasher as _},
    path::{Path, PathBuf},
    process::Command,
    sync::{LazyLock, mpsc},
    thread,
    time::Duration,
};

use tokio_postgres::{Client, NoTls};

/// Variable with the URL of a PostgreSQL for the stores of all tests.
pub const STORE_VARIABLE: &str = "SKILLS_TEST_STORE";
/// Variable with the file to which [`needs_embedded_store`] appends.
const EMBEDDED_LOG_VARIABLE: &str = "SKILLS_TEST_EMBEDDED_LOG";
/// Start of the name of every schema, before the process id.
const PREFIX: &str = "test_";
/// Pause between two looks for folders that are gone.
const SWEEP_PERIOD: Duration = Duration::from_millis(500);

/// Returns the URL of the PostgreSQL that holds the stores of all tests, if there is one.
pub fn shared_store() -> Option<String> {
    env::var(STORE_VARIABLE).ok().filter(|url| !url.is_empty())
}

/// Returns whether a test cannot run because it is about the file of the embedded store, and the stores are in
/// PostgreSQL. Its name and the reason are printed, and recorded for the list that `interop/run postgres` compares.
///
/// # Panics
/// If the record cannot be written.
pub fn needs_embedded_store(reason: &str) -> bool {
    if shared_store().is_none() {
        return false;
    }
    let test = thread::current().name().unwrap_or("?").to_owned();
    let line = format!("{test}: {reason}\n");
    print!("needs the embedded store: {line}");
    if let Some(path) = env::var_os(EMBEDDED_LOG_VARIABLE) {
        use std::io::Write as _;
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        // One write, so that lines of several processes do not mix.
        file.write_all(line.as_bytes()).unwrap();
    }
    true
}

/// Sets the store of a command with a data directory, if the stores of all tests are in PostgreSQL.
pub fn select_store(command: &mut Command) {
    let Some(base) = shared_store() else { return };
    let Some(data_dir) = data_dir(command) else { return };
    let url = url_of(&base, &data_dir);
    // The flag of a data directory precedes the variable of a store.
    if command.get_args().any(|argument| argument == OsStr::new("--data-dir")) {
        command.args(["--store", &url]);
    } else {
        command.env("SKILLS_STORE", url);
    }
}

/// Returns the URL of the store that stands for a data directory, if the stores of all tests are in PostgreSQL.
pub fn store_url(data_dir: &Path) -> Option<String> {
    Some(url_of(&shared_store()?, &absolute(data_dir)))
}

/// Runs statements in the PostgreSQL that holds the stores of all tests.
///
/// # Panics
/// If it refuses.
pub async fn execute_sql(sql: &str) {
    let (client, connection) =
        tokio_postgres::connect(&shared_store().unwrap(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
}

fn url_of(base: &str, data_dir: &Path) -> String {
    let schema = schema_of(data_dir);
    let url = in_schema(base, &schema);
    // Without a sweeper the schema stays until the next run.
    let _ = SWEEPER.send((test_folder(data_dir), schema));
    url
}

/// Returns the URL of a schema in the database of a URL.
pub fn in_schema(base: &str, schema: &str) -> String {
    let separator = if base.contains('?') { '&' } else { '?' };
    format!("{base}{separator}options=-c%20search_path%3D{schema}")
}

/// Returns the absolute data directory of a command whose store the caller left open.
fn data_dir(command: &Command) -> Option<PathBuf> {
    let arguments: Vec<_> = command.get_args().collect();
    let is_set = |name: &str| {
        command.get_envs().any(|(key, value)| key == OsStr::new(name) && value.is_some())
    };
    let has = |flag: &str| arguments.iter().any(|argument| *argument == OsStr::new(flag));
    if has("--store") || has("--url") || has("copy") || is_set("SKILLS_STORE") || is_set("III_URL")
    {
        return None;
    }
    let flag = arguments.iter().position(|argument| *argument == OsStr::new("--data-dir"));
    let variable = command.get_envs().find(|(key, _)| *key == OsStr::new("SKILLS_DATA_DIR"));
    let path = match flag {
        Some(at) => *arguments.get(at + 1)?,
        None => variable?.1?,
    };
    let folder = match command.get_current_dir() {
        Some(folder) => folder.to_owned(),
        None => env::current_dir().ok()?,
    };
    Some(absolute(&folder.join(path)))
}

/// Resolves links in the part of a path that exists.
fn absolute(path: &Path) -> PathBuf {
    if let Ok(resolved) = path.canonicalize() {
        return resolved;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => absolute(parent).join(name),
        _ => path.to_owned(),
    }
}

fn schema_of(data_dir: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    data_dir.hash(&mut hasher);
    format!("{PREFIX}{}_{:016x}", std::process::id(), hasher.finish())
}

/// Returns the folder below that for temporary files, which the test removes in the end.
fn test_folder(data_dir: &Path) -> PathBuf {
    let temporary = absolute(&env::temp_dir());
    match data_dir.strip_prefix(&temporary).ok().and_then(|rest| rest.components().next()) {
        Some(first) => temporary.join(first),
        None => data_dir.to_owned(),
    }
}

/// Thread that drops the schemas of folders that are gone, and those of earlier test processes.
static SWEEPER: LazyLock<mpsc::Sender<(PathBuf, String)>> = LazyLock::new(|| {
    let (sender, added) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        if let Err(error) = runtime.block_on(async {
            let url = shared_store().unwrap_or_default();
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
            tokio::spawn(connection);
            drop_orphans(&client).await?;
            sweep(&client, &added).await
        }) {
            eprintln!("schemas of tests are not dropped: {error}");
        }
    });
    sender
});

async fn drop_orphans(client: &Client) -> Result<(), tokio_postgres::Error> {
    let sql = "SELECT nspname::text FROM pg_namespace WHERE starts_with(nspname, $1)";
    for row in client.query(sql, &[&PREFIX]).await? {
        let schema: String = row.get(0);
        let process = schema[PREFIX.len()..].split('_').next().unwrap_or_default();
        if !Path::new("/proc").join(process).exists() {
            drop_schema(client, &schema).await?;
        }
    }
    Ok(())
}

async fn sweep(
    client: &Client,
    added: &mpsc::Receiver<(PathBuf, String)>,
) -> Result<(), tokio_postgres::Error> {
    let mut known: Vec<(PathBuf, String)> = Vec::new();
    loop {
        thread::sleep(SWEEP_PERIOD);
        for new in added.try_iter() {
            if !known.contains(&new) {
                known.push(new);
            }
        }
        let (left, gone): (Vec<_>, Vec<_>) = known.into_iter().partition(|(dir, _)| dir.exists());
        known = left;
        for (_, schema) in gone {
            drop_schema(client, &schema).await?;
        }
    }
}

async fn drop_schema(client: &Client, schema: &str) -> Result<(), tokio_postgres::Error> {
    client.batch_execute(&format!("DROP SCHEMA IF EXISTS \"{schema}\" CASCADE")).await
}
