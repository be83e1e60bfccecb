//! The one-time link of a server without a token: printed by `skills status`, kept private, in no log.

use std::{fs, os::unix::fs::MetadataExt as _};

use skills_testkit::{Request, ServerProcess, program, run};

use crate::support::BINARY;

#[test]
fn the_one_time_link_is_shown_to_the_user_of_the_server_alone() {
    if skills_testkit::needs_embedded_store("a server on a database has no server.json") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let file = data.join("console-link");
    let server = ServerProcess::start(BINARY, &data);
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let link = || fs::read_to_string(&file).unwrap();
    let first = link();
    let status = |arguments: &[&str]| {
        let mut command = program(BINARY);
        run(command.arg("--data-dir").arg(&data).arg("status").args(arguments)).stdout
    };
    assert!(status(&[]).contains(&first), "{}", status(&[]));
    assert!(!status(&["--json"]).contains("/ui/link/"), "programs keep what they read");
    let path = first
        .strip_prefix("http://")
        .and_then(|it| it.strip_prefix(&*server.http.replace("http://", "")))
        .unwrap_or_else(|| panic!("{first}"));
    assert_eq!(Request::get(path).send(&server.http).status, 303);
    assert!(link() != first && status(&[]).contains(&link()));
    let (code, _, output) = server.stop();
    assert_eq!(code, Some(0), "{output}");
    assert!(!output.contains("/ui/link/") && !file.exists(), "{output}");
    let server = ServerProcess::start_with(BINARY, &data, &["--token", "s3cret-of-16-bytes"]);
    assert!(!file.exists(), "a server with a token has none");
    drop(server);
}
