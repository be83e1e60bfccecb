//! Tests that change limits of their process run in a child process, so that they do not affect the others.

use std::{env, process::Command};

/// Set in the child.
const IN_CHILD: &str = "SKILLS_TEST_IN_CHILD";

/// Runs a test of this binary in a process of its own and checks that it passes. Returns `false` inside that
/// process, where the caller goes on with the test.
pub(crate) fn ran_in_child(test: &str) -> bool {
    if env::var_os(IN_CHILD).is_some() {
        return false;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(IN_CHILD, "1");
    let output = command.output().unwrap();
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("1 passed"), "{test} is no test: {stdout}");
    true
}
