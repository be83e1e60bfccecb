use std::path::Path;

use skills_testkit::{program, run};

use super::{answer, put, put_bundles, skills, text};
use crate::support::{Home, ids, read};

/// Archives made by the tools that people use.
fn pack(tool: &[&str], dir: &Path) {
    let ran = run(program(tool[0]).args(&tool[1..]).current_dir(dir));
    assert_eq!(ran.code, Some(0), "{tool:?}: {}", ran.stderr);
}

const ZIP: &str =
    "import shutil, sys; shutil.make_archive(sys.argv[1], 'zip', sys.argv[2], sys.argv[3])";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archives_of_one_and_of_many() {
    let home = Home::new();
    let target = ["--url", home.server.url.as_str(), "add"];
    let dir = home.dir().join("folder");
    put_bundles(&dir, &["one", "two", "three"]);
    // Not into the folder that is packed: tar minds when that changes under its hands.
    pack(&["tar", "czf", "../many.tar.gz", "."], &dir);
    pack(&["tar", "czf", "../single.tgz", "-C", "one", "."], &dir);
    pack(&["python3", "-c", ZIP, "../wrapped", ".", "two"], &dir);
    let file = |name: &str| home.dir().join(name).to_str().unwrap().to_owned();

    let said = answer(&[&target as &[&str], &[&file("single.tgz")]].concat());
    assert!(said.starts_with("registered iii://one (3 files, "), "{said}");
    let said = answer(&[&target as &[&str], &[&file("wrapped.zip")]].concat());
    assert!(said.starts_with("registered iii://two (3 files, "), "{said}");
    let said = answer(&[&target as &[&str], &[&file("many.tar.gz")]].concat());
    assert!(said.ends_with("added 1, changed 0, unchanged 2, failed 0\n"), "{said}");
    let worker = home.worker().await;
    assert_eq!(ids(&worker).await, ["one", "three", "two"]);
    let notes = read(&worker, "iii://three/references/deep/notes.md").await;
    assert_eq!(notes, "# Notes of three\n");
}

#[test]
fn an_archive_that_leads_outside_is_refused_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    put_bundles(dir.path(), &["one"]);
    put(dir.path(), "evil", "x");
    let transform = "--transform=s,^evil$,../../evil,";
    pack(&["tar", "czf", "evil.tar.gz", "-P", transform, "one", "evil"], dir.path());
    let archive = dir.path().join("evil.tar.gz");
    let data = dir.path().join("data");
    let ran = skills(&["--data-dir", text(&data), "add", text(&archive)]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("\"../../evil\""), "{}", ran.stderr);
    assert!(!data.exists());
}
