//! No command prints the token of a bus, which its URL may have.

use std::fs;

use skills_testkit::{CommandOutput, program, run};

use crate::support::{BINARY, TestServer};

const TOKEN: &str = "s3cret-token-of-the-bus";

fn assert_absent(ran: &CommandOutput, arguments: &[&str]) {
    for stream in [&ran.stdout, &ran.stderr] {
        assert!(!stream.contains(TOKEN), "{arguments:?} prints the token: {stream}");
    }
}

#[test]
fn commands_do_not_print_the_token_of_a_bus_url() {
    let server = TestServer::with_args(&["--token", TOKEN]);
    let dir = tempfile::tempdir().unwrap();
    let document = dir.path().join("a.md");
    fs::write(&document, "# A\n").unwrap();
    fs::write(dir.path().join("kv.jsonl"), "{}\n").unwrap();
    let commands: [&[&str]; 22] = [
        &["status"],
        &["doctor"],
        &["add", "a.md"],
        &["list"],
        &["list", "--all"],
        &["search", "a"],
        &["show", "a"],
        &["show", "a", "--explain"],
        &["read", "iii://a"],
        &["update"],
        &["update", "a"],
        &["export", "a", "out"],
        &["export", "--kv"],
        &["sync", "synced"],
        &["prompt", "list"],
        &["prompt", "get", "absent"],
        &["prompt", "add", "p", "--function", "a::b", "--description", "P."],
        &["import", "kv.jsonl"],
        &["key", "list"],
        &["secret", "list", "--uid", "ann"],
        &["remove", "a", "--yes"],
        &["remove", "absent", "--yes"],
    ];
    let reachable = format!("{}/?token={TOKEN}", server.process.url);
    let refused = format!("{}/?token={TOKEN}-not", server.process.url);
    // Port 1 is reserved, and no server is there.
    let unreachable = format!("ws://127.0.0.1:1/?token={TOKEN}");
    let run_with = |url: &str, arguments: &[&str]| {
        let mut command = program(BINARY);
        command.args(["--verbose", "--url", url]).args(arguments).current_dir(dir.path());
        command.env("HOME", dir.path());
        run(&mut command)
    };
    for arguments in commands {
        assert_absent(&run_with(&reachable, arguments), arguments);
        let is_import = arguments.contains(&"import") || arguments.contains(&"--kv");
        if !is_import {
            let json = [arguments, &["--json"]].concat();
            assert_absent(&run_with(&reachable, &json), &json);
        }
    }
    let answer = run_with(&reachable, &["status", "--json"]);
    assert!(answer.stdout.contains(&server.process.url), "{}", answer.stdout);
    for url in [&refused, &unreachable] {
        for arguments in [&["list"] as &[&str], &["status", "--json"], &["doctor"]] {
            assert_absent(&run_with(url, arguments), arguments);
        }
    }
}
