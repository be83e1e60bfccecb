//! Data directories that cannot be created, are read-only, or full.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;
use skills_testkit::{CommandOutput, ServerProcess, Worker, program, run};

use crate::support::{BINARY, TestServer, ids, read, register, wait::eventually};

#[test]
fn a_data_directory_below_a_file_is_reported() {
    if skills_testkit::needs_embedded_store("is about the folder of the file") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let ran = run(&mut ServerProcess::command(BINARY, &file.join("data")));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("cannot create the data directory"), "{}", ran.stderr);
    assert!(ran.stderr.contains(file.to_str().unwrap()), "{}", ran.stderr);
    assert!(ran.stderr.contains("\nhint: "), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), "x");
}

#[test]
fn a_file_that_is_no_store_is_reported_and_left_unchanged() {
    if skills_testkit::needs_embedded_store("damages the file") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("skills.db");
    fs::write(&file, "my novel").unwrap();
    let ran = run(&mut ServerProcess::command(BINARY, dir.path()));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("not an SQLite database"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), "my novel");
}

/// Builds a `skills serve` command for a user who is not root, for whom permissions count.
fn serve_as_nobody(home: &Path, data: &Path) -> Command {
    let is_root = fs::metadata(home).unwrap().uid() == 0;
    if !is_root {
        return ServerProcess::command(BINARY, data);
    }
    // Every user may enter this folder; the build folder perhaps not.
    let binary = home.join("skills");
    // Another process copies it: a test that starts a process meanwhile would inherit the file, open for writing, and
    // a program that is open for writing cannot be executed.
    assert_eq!(run(program("cp").arg(BINARY).arg(&binary)).code, Some(0));
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(home, fs::Permissions::from_mode(0o755)).unwrap();
    let available = run(program("sh").args(["-c", "command -v setpriv"])).code == Some(0);
    assert!(available, "root needs setpriv for this test: apt-get install util-linux");
    let serve = ServerProcess::command(binary.to_str().unwrap(), data);
    let mut command = program("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(serve.get_program()).args(serve.get_args());
    command
}

#[test]
fn a_data_directory_without_write_permission_is_reported_and_left_unchanged() {
    if skills_testkit::needs_embedded_store("is about permissions of the file") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    fs::create_dir(&data).unwrap();
    for filled in [false, true] {
        if filled {
            fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
            fs::write(home.path().join("a.md"), "# A").unwrap();
            let file = home.path().join("a.md");
            let mut add = program(BINARY);
            let ran = run(add.arg("--data-dir").arg(&data).arg("add").arg(file));
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        }
        fs::set_permissions(&data, fs::Permissions::from_mode(0o555)).unwrap();
        let before = files(&data);
        if filled {
            for (file, _) in &before {
                fs::set_permissions(file, fs::Permissions::from_mode(0o444)).unwrap();
            }
        }
        let ran = run(&mut serve_as_nobody(home.path(), &data));
        assert_eq!(ran.code, Some(1), "filled: {filled}");
        assert!(ran.stderr.contains("cannot write to"), "{}", ran.stderr);
        assert!(ran.stderr.contains("ermission denied"), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint: check that the directory exists"), "{}", ran.stderr);
        assert_eq!(files(&data), before, "filled: {filled}");
    }
}

fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    files.sort();
    files
}

/// A server whose writes fail after a few megabytes.
struct SmallDisk {
    server: TestServer,
    /// Error code of failed writes.
    code: &'static str,
    /// File that takes up the space, as seen from outside.
    ballast: Option<PathBuf>,
}

impl SmallDisk {
    #[cfg(target_os = "linux")]
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let serve = ServerProcess::command(BINARY, &dir.path().join("data"));
        let wrap = |wrapper: &[&str], script: &str| {
            let mut command = program(wrapper[0]);
            command.args(&wrapper[1..]).args(["bash", "-c", script]).arg(dir.path());
            command.arg(serve.get_program()).args(serve.get_args());
            command
        };
        // A file system visible to this server only, which ends with it.
        let alone = ["unshare", "--map-root-user", "--mount"];
        let mount = "mount -t tmpfs -o size=4m tmpfs \"$0\"";
        let can_mount =
            run(program(alone[0]).args(&alone[1..]).args(["bash", "-c", mount]).arg(dir.path()))
                .code
                == Some(0);
        if can_mount {
            let script = format!("{mount} && head -c 2M /dev/zero >\"$0/ballast\" && exec \"$@\"");
            let server = ServerProcess::spawn(&mut wrap(&alone, &script));
            let root = PathBuf::from(format!("/proc/{}/root", server.pid()));
            let ballast = root.join(dir.path().strip_prefix("/").unwrap()).join("ballast");
            return Self {
                server: TestServer::from_parts(server, dir),
                code: "store_full",
                ballast: Some(ballast),
            };
        }
        // Without permission to mount, a file size limit replaces the full disk.
        eprintln!("no tmpfs can be mounted here: RLIMIT_FSIZE stands in for a full disk");
        let script = "trap '' XFSZ; ulimit -f 2048; exec \"$@\"";
        let server = ServerProcess::spawn(&mut wrap(&["env"], script));
        Self { server: TestServer::from_parts(server, dir), code: "store_error", ballast: None }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_fails_only_writes() {
    if skills_testkit::needs_embedded_store("fills the disk of the file") {
        return;
    }
    let SmallDisk { server, code, ballast } = SmallDisk::new();
    let (worker, reader) = (server.worker().await, server.worker().await);
    let mut received = reader.collect("me::heard").await;
    reader.subscribe("skills::on-change", "me::heard", json!({})).await;
    let body = |number: usize| format!("{number:03} ").repeat(25_000);
    let mut stored = 0;
    let failure = loop {
        let data = json!({ "id": format!("s{stored:03}"), "skill": body(stored) });
        match worker.call("skills::register", data).await {
            Ok(_) => stored += 1,
            Err(failure) => break failure,
        }
        assert!(stored < 200, "the disk does not get full");
    };
    assert_eq!(failure.code, code, "{}", failure.message);
    assert!(stored > 3, "only {stored} fitted");
    if code == "store_full" {
        assert!(failure.message.contains("no space left"), "{}", failure.message);
        assert!(failure.message.contains("free some space"), "{}", failure.message);
    }

    // Exactly the acknowledged writes are stored, also for other readers.
    let expected: Vec<String> = (0..stored).map(|number| format!("s{number:03}")).collect();
    assert_eq!(ids(&reader).await, expected);
    for number in 0..stored {
        assert!(read(&reader, &format!("iii://s{number:03}")).await == body(number), "{number}");
    }
    // Failed writes did not notify.
    for id in &expected {
        assert_eq!(skills_testkit::next(&mut received).await["id"], *id);
    }
    assert!(received.try_recv().is_err());

    let Some(ballast) = ballast else { return };
    fs::remove_file(ballast).unwrap();
    register(&worker, "after", "there is room again").await;
    assert_eq!(read(&reader, "iii://after").await, "there is room again");
    assert_eq!(skills_testkit::next(&mut received).await["id"], "after");
}

/// Runs a script on a file system of its own, whose space is taken up by `disk/ballast`. `None` where tmpfs cannot be
/// mounted.
#[cfg(target_os = "linux")]
fn run_on_full_disk(dir: &Path, script: &str) -> Option<CommandOutput> {
    let alone = |script: &str| {
        let mut command = program("unshare");
        command.args(["--map-root-user", "--mount", "bash", "-c", script, BINARY]);
        run(command.current_dir(dir))
    };
    let mount = "mount -t tmpfs -o size=256k tmpfs disk";
    if alone(mount).code != Some(0) {
        eprintln!("no tmpfs can be mounted here");
        return None;
    }
    let fill = "head -c 1M /dev/zero >disk/ballast 2>/dev/null";
    Some(alone(&format!("{mount} && {{ {fill}; {script}; }}")))
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_at_start_is_named_and_works_again_later() {
    if skills_testkit::needs_embedded_store("fills the disk of the file") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("disk")).unwrap();
    fs::write(dir.path().join("a.md"), "# A\n").unwrap();
    for (case, command, code) in [
        ("serve", "serve --bus 127.0.0.1:0 --http 127.0.0.1:0", "error: "),
        ("add", "add a.md --json", "store_full"),
        ("key", "key create --uid ann --json", "vault_full"),
    ] {
        // Room for some files and not for others, in steps of a page.
        for free_pages in [0, 1, 2, 4, 8] {
            let script = format!(
                "truncate -s -{}k disk/ballast; \"$0\" --data-dir disk/data {command}; echo \"status $?\"; \
                 rm disk/ballast; \"$0\" --data-dir disk/data add a.md",
                4 * free_pages
            );
            let Some(ran) = run_on_full_disk(dir.path(), &script) else { return };
            let context = format!("{case} with {free_pages} free pages: {ran:?}");
            assert!(ran.stdout.starts_with("status 1\n"), "{context}");
            assert!(ran.stderr.contains("no space left on the disk of disk/data"), "{context}");
            assert!(ran.stderr.contains("free some space"), "{context}");
            assert!(ran.stderr.contains(code), "{context}");
            // What a failed start has left behind is in nobody's way.
            assert!(ran.stdout.ends_with("registered iii://a (4 B)\n"), "{context}");
            assert_eq!(ran.code, Some(0), "{context}");
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_whose_log_cannot_be_written_serves() {
    if skills_testkit::needs_embedded_store(
        "reaches the server through the socket in its data directory",
    ) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let serve = ServerProcess::command(BINARY, &dir.path().join("data"));
    let mut command = program("bash");
    command.args(["-c", "exec \"$0\" \"$@\" 2>/dev/full"]);
    command.arg(serve.get_program()).args(serve.get_args());
    let mut command = tokio::process::Command::from(command);
    let _server = command.env("RUST_LOG", "debug").kill_on_drop(true).spawn().unwrap();
    // Its addresses are not printed, so it is reached through its data directory.
    let data = dir.path().join("data");
    eventually("the server answers", async || {
        let mut status = program(BINARY);
        status.arg("--data-dir").arg(&data).args(["status", "--json"]);
        let ran = run(&mut status);
        ran.code == Some(0) && ran.stdout.contains("another process")
    })
    .await;
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error_and_no_panic() {
    for (arguments, stream, code) in [
        ("--help", ">", 0),
        ("add --help", ">", 0),
        ("help errors", ">", 1),
        ("completions bash", ">", 1),
        ("list --nonsense", "2>", 2),
        ("show nothing --data-dir nowhere", "2>", 1),
        ("show nothing --data-dir nowhere --json", "2>", 1),
    ] {
        let script = format!("\"$0\" {arguments} {stream}/dev/full");
        let ran = run(program("bash").args(["-c", &script, BINARY]));
        assert_eq!(ran.code, Some(code), "{arguments} {stream}: {ran:?}");
        assert!(!ran.stderr.contains("panicked"), "{arguments} {stream}: {ran:?}");
    }
}

#[tokio::test]
async fn deleting_the_data_of_a_running_server_does_not_end_it() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "a", "x").await;
    // The server may create a file while the directory is being emptied.
    eventually("the data directory is gone", async || {
        fs::remove_dir_all(server.data_dir()).is_ok() || !server.data_dir().exists()
    })
    .await;
    // The write is answered in any case, and the server keeps running.
    let _ = worker.call("skills::register", json!({ "id": "b", "skill": "y" })).await;
    let other = Worker::connect(&server.process.url).await;
    assert!(ids(&other).await.contains(&"a".to_owned()));
}
