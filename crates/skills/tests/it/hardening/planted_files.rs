//! Pipes and links in place of files neither stop a command nor lead it to files elsewhere.

use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, symlink},
    path::Path,
    process::Command,
};

use skills_testkit::{CommandOutput, program, run};

use crate::support::BINARY;

fn skills(dir: &Path, arguments: &[&str]) -> CommandOutput {
    run(program(BINARY).args(arguments).current_dir(dir))
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn write_skill(dir: &Path) {
    fs::create_dir_all(dir.join("good")).unwrap();
    let text = "---\nname: good\ndescription: Good. Use when asked.\n---\n# Good\n";
    fs::write(dir.join("good/SKILL.md"), text).unwrap();
}

#[test]
fn a_pipe_or_a_device_named_as_a_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    write_skill(dir.path());
    make_pipe(&dir.path().join("pipe"));
    fs::create_dir(dir.path().join("folder")).unwrap();
    fs::copy(dir.path().join("good/SKILL.md"), dir.path().join("folder/SKILL.md")).unwrap();
    make_pipe(&dir.path().join("folder/pipe"));
    let added = skills(dir.path(), &["--data-dir", "data", "add", "good"]);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    for arguments in [
        &["--data-dir", "data", "add", "pipe"][..],
        &["--data-dir", "data", "add", "/dev/zero"],
        &["--data-dir", "data", "add", "folder"],
        &["--data-dir", "data", "add", "good", "pipe"],
        &["--data-dir", "data", "import", "pipe"],
        &["--data-dir", "data", "import", "/dev/zero"],
        &["--data-dir", "data", "diff", "good", "pipe"],
        &["--data-dir", "new", "restore", "pipe"],
        &["validate", "pipe"],
        &["validate", "/dev/zero"],
    ] {
        let ran = skills(dir.path(), arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}: {}", ran.stderr);
        let is_named =
            ran.stderr.contains("not a regular file") || ran.stderr.contains("not a file");
        assert!(is_named, "{arguments:?}: {}", ran.stderr);
    }
    let kind = fs::symlink_metadata(dir.path().join("pipe")).unwrap().file_type();
    assert!(kind.is_fifo(), "it is not replaced");
}

#[test]
fn lines_are_still_imported_from_a_pipe_that_the_shell_opens() {
    let dir = tempfile::tempdir().unwrap();
    let script = "printf '' | \"$0\" --data-dir data import /dev/stdin";
    let ran = run(program("sh").args(["-c", script, BINARY]).current_dir(dir.path()));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn links_planted_in_a_data_directory_create_no_file_elsewhere() {
    if skills_testkit::needs_embedded_store("opens the files of a data directory") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    write_skill(dir.path());
    let sources =
        format!("sources: [{{name: acme, from: {}, tier: market}}]", dir.path().display());
    fs::write(dir.path().join("c.yaml"), sources).unwrap();
    let (add, key, source) = (
        &["add", "good"][..],
        &["key", "create", "--uid", "ann", "--tier", "FREE"][..],
        &["--config", "c.yaml", "source", "sync"][..],
    );
    for (name, arguments) in [
        ("skills.db", add),
        ("skills.lock", add),
        ("skills.db-wal", add),
        ("skills.db-shm", add),
        ("vault.sqlite", key),
        ("vault.sqlite-wal", key),
        ("vault.sqlite-shm", key),
        ("sources/acme.lock", source),
        ("sources", source),
    ] {
        let (data, target) = (dir.path().join("data"), dir.path().join("victim"));
        fs::create_dir_all(data.join(name).parent().unwrap()).unwrap();
        symlink(&target, data.join(name)).unwrap();
        let run = || skills(dir.path(), &[&["--data-dir", "data"], arguments].concat());
        let ran = run();
        assert_eq!(ran.code, Some(1), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(name), "{name}: {}", ran.stderr);
        assert!(!target.exists(), "{name}");
        if !name.ends_with("sources") {
            fs::write(&target, "mine").unwrap();
            assert_eq!(run().code, Some(1), "{name}");
            assert_eq!(fs::read(&target).unwrap(), b"mine", "{name}");
            fs::remove_file(&target).unwrap();
        }
        fs::remove_file(data.join(name)).unwrap();
        let ran = run();
        assert_eq!(ran.code, Some(0), "{name}, without the link: {}", ran.stderr);
        fs::remove_dir_all(data).unwrap();
    }
}

#[test]
fn pipes_planted_in_a_data_directory_stop_no_command() {
    if skills_testkit::needs_embedded_store("opens the files of a data directory") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    write_skill(dir.path());
    let key = &["key", "create", "--uid", "ann", "--tier", "FREE"][..];
    for (name, arguments) in
        [("skills.db", &["add", "good"][..]), ("skills.lock", &["list"]), ("vault.sqlite", key)]
    {
        let data = dir.path().join("data");
        fs::create_dir_all(&data).unwrap();
        make_pipe(&data.join(name));
        // Without it the command would not open the store.
        if arguments == ["list"] {
            fs::write(data.join("skills.db"), "").unwrap();
        }
        let ran = skills(dir.path(), &[&["--data-dir", "data"], arguments].concat());
        assert_eq!(ran.code, Some(1), "{name}: {}", ran.stderr);
        let reason = format!("{name}: it is not a regular file");
        assert!(ran.stderr.contains(&reason), "{name}: {}", ran.stderr);
        fs::remove_dir_all(data).unwrap();
    }
}
