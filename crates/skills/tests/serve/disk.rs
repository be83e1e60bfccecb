//! A data directory that cannot be made, may not be written to, or is full.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;
use skills_testkit::{Server, Worker, program, run};

use crate::support::{BINARY, Home, ids, read, register};

#[test]
fn a_data_directory_under_a_file_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let ran = run(&mut Server::command(BINARY, &file.join("data")));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("cannot create the data directory"), "{}", ran.stderr);
    assert!(ran.stderr.contains(file.to_str().unwrap()), "{}", ran.stderr);
    assert!(ran.stderr.contains("\nhint: "), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), "x");
}

#[test]
fn a_file_that_is_no_store_is_explained_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("skills.db");
    fs::write(&file, "my novel").unwrap();
    let ran = run(&mut Server::command(BINARY, dir.path()));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("not an SQLite database"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), "my novel");
}

/// `skills serve` as a user who is not root, for whom permissions count.
fn serve_as_nobody(home: &Path, data: &Path) -> Command {
    let is_root = fs::metadata(home).unwrap().uid() == 0;
    if !is_root {
        return Server::command(BINARY, data);
    }
    // Everyone may enter here; where the program was built, perhaps not.
    let binary = home.join("skills");
    fs::copy(BINARY, &binary).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(home, fs::Permissions::from_mode(0o755)).unwrap();
    let available = run(program("sh").args(["-c", "command -v setpriv"])).code == Some(0);
    assert!(available, "root needs setpriv for this test: apt-get install util-linux");
    let serve = Server::command(binary.to_str().unwrap(), data);
    let mut command = program("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(serve.get_program()).args(serve.get_args());
    command
}

#[test]
fn a_data_directory_without_write_permission_is_explained_and_left_alone() {
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
    home: Home,
    /// With which error.
    code: &'static str,
    /// What takes up space there, as seen from outside.
    ballast: Option<PathBuf>,
}

impl SmallDisk {
    #[cfg(target_os = "linux")]
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let serve = Server::command(BINARY, &dir.path().join("data"));
        let wrap = |wrapper: &[&str], script: &str| {
            let mut command = program(wrapper[0]);
            command.args(&wrapper[1..]).args(["bash", "-c", script]).arg(dir.path());
            command.arg(serve.get_program()).args(serve.get_args());
            command
        };
        // A file system that only this server and its shell see, and that goes with them.
        let alone = ["unshare", "--map-root-user", "--mount"];
        let mount = "mount -t tmpfs -o size=4m tmpfs \"$0\"";
        let can_mount =
            run(program(alone[0]).args(&alone[1..]).args(["bash", "-c", mount]).arg(dir.path()))
                .code
                == Some(0);
        if can_mount {
            let script = format!("{mount} && head -c 2M /dev/zero >\"$0/ballast\" && exec \"$@\"");
            let server = Server::spawn(&mut wrap(&alone, &script));
            let root = PathBuf::from(format!("/proc/{}/root", server.pid()));
            let ballast = root.join(dir.path().strip_prefix("/").unwrap()).join("ballast");
            return Self {
                home: Home::of(server, dir),
                code: "store_full",
                ballast: Some(ballast),
            };
        }
        // Where nothing may be mounted, a limit on the size of files does much the same.
        eprintln!("no tmpfs can be mounted here: RLIMIT_FSIZE stands in for a full disk");
        let script = "trap '' XFSZ; ulimit -f 2048; exec \"$@\"";
        let server = Server::spawn(&mut wrap(&["env"], script));
        Self { home: Home::of(server, dir), code: "store_error", ballast: None }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_is_an_error_for_the_writer_and_nothing_worse() {
    let SmallDisk { home, code, ballast } = SmallDisk::new();
    let (worker, reader) = (home.worker().await, home.worker().await);
    let mut heard = reader.collect("me::heard").await;
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

    // All that was acknowledged is there and nothing else, also for others.
    let expected: Vec<String> = (0..stored).map(|number| format!("s{number:03}")).collect();
    assert_eq!(ids(&reader).await, expected);
    for number in 0..stored {
        assert!(read(&reader, &format!("iii://s{number:03}")).await == body(number), "{number}");
    }
    // Nothing was announced that did not happen.
    for id in &expected {
        assert_eq!(skills_testkit::next(&mut heard).await["id"], *id);
    }
    assert!(heard.try_recv().is_err());

    let Some(ballast) = ballast else { return };
    fs::remove_file(ballast).unwrap();
    register(&worker, "after", "there is room again").await;
    assert_eq!(read(&reader, "iii://after").await, "there is room again");
    assert_eq!(skills_testkit::next(&mut heard).await["id"], "after");
}

#[tokio::test]
async fn data_that_vanishes_under_a_running_server_is_an_error_and_no_end() {
    let home = Home::new();
    let worker = home.worker().await;
    register(&worker, "a", "x").await;
    fs::remove_dir_all(home.data_dir()).unwrap();
    // Whatever becomes of the write, it is answered, and the server goes on.
    let _ = worker.call("skills::register", json!({ "id": "b", "skill": "y" })).await;
    let other = Worker::connect(&home.server.url).await;
    assert!(ids(&other).await.contains(&"a".to_owned()));
}
