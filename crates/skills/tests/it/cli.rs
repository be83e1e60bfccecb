//! The command line: results on stdout, errors with a hint on stderr, and exit codes for scripts.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use skills_testkit::{CommandOutput, ServerProcess, program, run, run_with_input};

use crate::support::{BINARY, TestServer, free_address, ids, is_timestamp, keys, read, register};

/// Builds a `skills` command in a directory without a configuration file or data.
fn command(arguments: &[&str]) -> Command {
    let mut command = program(BINARY);
    command.args(arguments).current_dir(std::env::temp_dir());
    command
}

fn skills(arguments: &[&str]) -> CommandOutput {
    let ran = run(&mut command(arguments));
    assert!(!format!("{ran:?}").contains("\\u{1b}"), "colours without a terminal: {ran:?}");
    ran
}

/// Runs a command that must succeed without warnings, and returns its output.
fn answer(arguments: &[&str]) -> String {
    let ran = skills(arguments);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    ran.stdout
}

fn json_answer(arguments: &[&str]) -> Value {
    serde_json::from_str(&answer(&[arguments, &["--json"]].concat())).unwrap()
}

/// Runs a command that must fail without output, and returns its error text.
fn error_text(arguments: &[&str]) -> String {
    let ran = skills(arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{arguments:?}: {}", ran.stderr);
    assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
    ran.stderr
}

/// Runs a command with `--json` that must fail, and returns its error object.
fn error_json(arguments: &[&str]) -> Value {
    let ran = skills(&[arguments, &["--json"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{arguments:?}: {}", ran.stderr);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(keys(&error), ["error"]);
    error["error"].clone()
}

/// Runs all commands against an empty target.
fn check_all_commands(target: &[&str], dir: &Path) {
    let at = |arguments: &[&'static str]| [target, arguments].concat();
    let file = dir.join("my-tool.md");
    fs::write(&file, "# My tool\n\nDoes things.\n").unwrap();
    let file = file.to_str().unwrap();

    let add = |more: &[&'static str]| [target, &["add", file], more].concat();
    assert_eq!(answer(&add(&[])), "registered iii://my-tool (24 B)\n");
    let added = json_answer(&add(&["--id", "a"]))["skills"][0].take();
    assert_eq!(
        keys(&added),
        ["bytes", "files", "id", "path", "registered_at", "served", "status", "version"]
    );
    assert_eq!((&added["id"], &added["status"]), (&json!("a"), &json!("added")));

    let list = json_answer(&at(&["list"]));
    let rows = list["skills"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(
        rows[0],
        json!({
            "id": "a", "tier": "official", "title": "My tool", "description": "Does things.",
            "bytes": 24, "registered_at": added["registered_at"],
        })
    );
    assert_eq!(rows[1]["id"], "my-tool");
    let table = answer(&at(&["ls"]));
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[0].starts_with("ID  "), "{table}");
    assert!(lines[1].starts_with("a  ") && lines[1].ends_with("Does things."), "{table}");

    let shown = answer(&at(&["show", "my-tool"]));
    assert!(shown.contains("iii://my-tool") && shown.contains("24 B"), "{shown}");
    assert!(shown.ends_with("\n\n# My tool\n\nDoes things.\n"), "{shown}");
    let shown = json_answer(&at(&["show", "a"]));
    assert_eq!(shown["skill"], "# My tool\n\nDoes things.\n");
    assert_eq!((&shown["uri"], &shown["title"]), (&json!("iii://a"), &json!("My tool")));
    assert!(is_timestamp(&shown["registered_at"]));

    assert_eq!(answer(&at(&["read", "iii://a"])), "# My tool\n\nDoes things.\n");
    assert_eq!(
        json_answer(&at(&["read", "iii://a"])),
        json!({
            "uri": "iii://a", "mimeType": "text/markdown", "text": "# My tool\n\nDoes things.\n",
        })
    );
    assert_eq!(
        answer(&at(&["read", "iii://skills"])),
        "# Skills\n\n- [My tool](iii://a): Does things.\n- [My tool](iii://my-tool): Does things.\n"
    );

    let ran = skills(&at(&["remove", "a", "b"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "removed iii://a (official)\n"));
    assert!(ran.stderr.contains("skill not found: b"), "{}", ran.stderr);
    assert_eq!(
        json_answer(&at(&["rm", "my-tool"])),
        json!({ "skills": [{ "id": "my-tool", "removed": true, "tier": "official" }] })
    );
    let ran = skills(&at(&["rm", "my-tool", "--json"]));
    assert_eq!(ran.code, Some(1));
    let removed: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(removed, json!({ "skills": [{ "id": "my-tool", "removed": false }] }));
    assert_eq!(json_answer(&at(&["list"])), json!({ "skills": [] }));
    assert!(answer(&at(&["list"])).contains("No skills are registered"));
    assert_eq!(json_answer(&at(&["prompt", "list"])), json!({ "prompts": [] }));
    assert!(answer(&at(&["prompt", "list"])).contains("No prompts are registered"));

    // Errors have the same messages against servers and data directories.
    for (arguments, code, words) in [
        (["show", "nobody"], "not_found", "skill not found: nobody"),
        (["show", "NOBODY"], "invalid_input", "lowercase"),
        (["read", "iii://a/b/c"], "invalid_uri", "more than one path segment"),
        (["read", "iii://a/state::get"], "reserved_function", "internal namespace"),
        (["remove", "a b"], "invalid_input", "lowercase"),
    ] {
        let arguments = at(&arguments);
        assert!(error_text(&arguments).contains(words), "{arguments:?}");
        let error = error_json(&arguments);
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
    }
    assert!(error_text(&at(&["read", "a"])).contains("hint: did you mean iii://a?"));
    let error = error_json(&at(&["prompt", "get", "nobody"]));
    assert_eq!(error["code"], "not_found");
    assert!(error_text(&at(&["prompt", "get", "p", "novalue"])).contains("is not name=value"));
}

/// Checks two tiers of one id against an empty target.
fn check_tiers(target: &[&str], dir: &Path) {
    let at = |arguments: &[&'static str]| [target, arguments].concat();
    let file = dir.join("tool.md");
    let file = file.to_str().unwrap();
    for tier in ["market", "official"] {
        fs::write(file, format!("# {tier}\n")).unwrap();
        answer(&[target, &["add", file, "--tier", tier]].concat());
    }
    assert_eq!(answer(&at(&["read", "iii://tool"])), "# official\n");
    assert_eq!(answer(&at(&["read", "skill://market/tool"])), "# market\n");
    let rows = json_answer(&at(&["list", "--all"]));
    let tiers: Vec<&Value> =
        rows["skills"].as_array().unwrap().iter().map(|row| &row["tier"]).collect();
    assert_eq!(tiers, ["official", "market"]);
    let shown = json_answer(&at(&["show", "tool", "--explain"]));
    assert_eq!(shown["shadows"], json!([{ "tier": "market", "id": "tool" }]));
    assert_eq!(shown["tried"], json!([{ "tier": "official", "id": "tool" }]));
    let explained = answer(&at(&["show", "tool", "--explain"]));
    assert!(explained.contains("market:tool") && explained.contains("official"), "{explained}");
    let error = error_json(&[target, &["add", file, "--tier", "private"]].concat());
    assert_eq!(error["code"], "key_needed", "{error}");
    let error = error_json(&at(&["list", "--key", "us-nobody"]));
    assert_eq!(error["code"], "unknown_key", "{error}");
    assert!(!error.to_string().contains("us-nobody"), "{error}");
    answer(&at(&["remove", "tool"]));
    assert_eq!(answer(&at(&["read", "iii://tool"])), "# market\n");
    answer(&at(&["remove", "tool", "--tier", "market"]));
    assert_eq!(error_json(&at(&["read", "iii://tool"]))["code"], "not_found");
}

#[test]
fn every_command_works_against_a_running_server() {
    let server = TestServer::new();
    check_all_commands(&["--url", &server.process.url], server.dir());
    check_tiers(&["--url", &server.process.url], server.dir());
}

#[test]
fn every_command_works_against_a_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    check_all_commands(&["--data-dir", data.to_str().unwrap()], dir.path());
    check_tiers(&["--data-dir", data.to_str().unwrap()], dir.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_are_listed_and_rendered_by_their_workers() {
    let server = TestServer::new();
    let worker = server.worker().await;
    worker.serve("mail::prompt", |data| Some(Ok(json!(format!("Dear {},", data["to"]))))).await;
    let turns = json!({ "messages": [
        { "role": "user", "content": { "type": "text", "text": "one" } },
        { "role": "assistant", "content": { "type": "image", "data": "" } },
    ] });
    worker.serve("mail::turns", move |_| Some(Ok(turns.clone()))).await;
    for (name, function_id) in [("mail", "mail::prompt"), ("turns", "mail::turns")] {
        let prompt = json!({
            "name": name, "description": "Writes a mail.", "function_id": function_id,
            "arguments": [{ "name": "to", "required": true }, { "name": "cc" }],
        });
        worker.ok("prompts::register", prompt).await;
    }
    let url = server.process.url.clone();
    let at = |arguments: &[&'static str]| [&["--url", url.as_str()], arguments].concat();

    let table = answer(&at(&["prompt", "list"]));
    assert!(table.contains("to [cc]") && table.contains("mail::prompt"), "{table}");
    let list = json_answer(&at(&["prompt", "ls"]));
    let row = &list["prompts"][0];
    assert_eq!(keys(row), ["arguments", "description", "function_id", "name", "registered_at"]);
    assert_eq!(row["arguments"][0], json!({ "name": "to", "required": true }));

    assert_eq!(answer(&at(&["prompt", "get", "mail", "to=Ann=B"])), "Dear \"Ann=B\",\n");
    let rendered = json_answer(&at(&["prompt", "get", "mail", "to=Ann"]));
    let content = json!({ "type": "text", "text": "Dear \"Ann\"," });
    assert_eq!(
        rendered,
        json!({
            "description": "Writes a mail.", "messages": [{ "role": "user", "content": content }],
        })
    );
    let turns = answer(&at(&["prompt", "get", "turns"]));
    assert!(turns.starts_with("[user]\none\n\n[assistant]\n{"), "{turns}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sections_need_a_server_and_are_read_through_it() {
    let server = TestServer::new();
    let worker = server.worker().await;
    worker.serve("demo::guide", |_| Some(Ok(json!({ "a": 1 })))).await;
    let url = server.process.url.clone();
    let uri = "iii://demo/demo::guide";
    assert_eq!(answer(&["--url", &url, "read", uri]), "{\n  \"a\": 1\n}");
    let shown = json_answer(&["--url", &url, "read", uri]);
    assert_eq!(shown["mimeType"], "application/json");
    drop(worker);
    let data = server.data_dir();
    drop(server.process);
    let error = error_json(&["--data-dir", data.to_str().unwrap(), "read", uri]);
    assert_eq!(error["code"], "no_bus");
    assert!(error["hint"].as_str().unwrap().contains("skills serve"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skill_can_be_read_from_standard_input() {
    let server = TestServer::new();
    let url = server.process.url.clone();
    let add = |more: &[&'static str], input: &[u8]| {
        let arguments = [&["--url", url.as_str(), "add", "-"], more].concat();
        run_with_input(&mut command(&arguments), input)
    };
    let ran = add(&["--id", "piped"], "# Grüße\r\n".as_bytes());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let worker = server.worker().await;
    assert_eq!(read(&worker, "iii://piped").await, "# Grüße\r\n");
    for (more, input, words) in [
        (&[] as &[&'static str], b"x" as &[u8], "--id"),
        (&["--id", "b"], b"", "skill must be non-empty"),
        (&["--id", "b"], b"ab\xff\xfe", "not UTF-8 text (byte 2)"),
        (&["--id", "b"], &b"x".repeat(262_145), "too large"),
        (&["--id", "b"], &"é".repeat(200_000).into_bytes(), "too large"),
    ] {
        let ran = add(more, input);
        assert_eq!(ran.code, Some(1), "{words}");
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
    assert_eq!(ids(&worker).await, ["piped"]);
}

#[test]
fn a_file_that_cannot_be_added_changes_nothing() {
    if skills_testkit::needs_embedded_store("expects that no file is created") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("binary.md"), b"# ok\n\xc3\x28").unwrap();
    fs::write(path("My Tool.md"), "# x").unwrap();
    let data = path("data");
    for (file, words) in [
        ("binary.md", "not UTF-8 text (byte 5)"),
        ("My Tool.md", "hint: set one with --id"),
        ("absent.md", "cannot read"),
        (".", "there is no SKILL.md"),
    ] {
        let text = error_text(&["--data-dir", &data, "add", &path(file)]);
        assert!(text.contains(words), "{text}");
        assert!(!Path::new(&data).exists(), "{file}: a store was made");
    }
    let ok = path("My Tool.md");
    assert_eq!(
        answer(&["--data-dir", &data, "add", &ok, "--id", "tool"]),
        "registered iii://tool (3 B)\n"
    );
}

#[test]
fn a_store_in_use_by_a_process_that_does_not_serve_it_is_reported() {
    if skills_testkit::needs_embedded_store("locks the file") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let target = ["--data-dir", data, "add", "-", "--id", "a"];
    run_with_input(&mut command(&target), b"# A");
    let lock = fs::File::open(dir.path().join("skills.lock")).unwrap();
    lock.lock().unwrap();
    let error = error_json(&["--data-dir", data, "list"]);
    assert_eq!(error["code"], "store_in_use");
    let ran = run(&mut ServerProcess::command(BINARY, dir.path()));
    assert!(ran.stderr.contains("in use by another process"), "a server too: {}", ran.stderr);
}

/// Runs a command in a network namespace without listeners.
fn run_without_network(arguments: &[&str], dir: &Path) -> CommandOutput {
    let mut alone = program("unshare");
    alone.args(["--map-root-user", "--net", BINARY]).args(arguments).current_dir(dir);
    let isolated = run(program("unshare").args(["--map-root-user", "--net", "true"]));
    if isolated.code == Some(0) {
        return run(&mut alone);
    }
    // Without permission for namespaces, the default port must happen to be free.
    run(program(BINARY).args(arguments).current_dir(dir))
}

#[test]
fn without_a_server_or_data_the_error_has_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run_without_network(&["list"], dir.path());
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("no server answers"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("\nhint: register skills with `skills add PATH`"),
        "{}",
        ran.stderr
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn a_missing_data_directory_or_server_is_reported() {
    if skills_testkit::needs_embedded_store("expects that an empty data directory has no store") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let absent = dir.path().join("absent");
    let target = ["--data-dir", absent.to_str().unwrap(), "list"];
    let text = error_text(&target);
    assert!(text.contains("absent has no store") && text.contains("--data-dir"), "{text}");
    assert!(!absent.exists());
    let url = format!("ws://{}", free_address());
    let error = error_json(&["--url", &url, "list"]);
    assert_eq!(error["code"], "unreachable");
    assert!(error["message"].as_str().unwrap().contains(&url), "{error}");
    for url in ["nonsense", "http://127.0.0.1:1", "ws://"] {
        let error = error_json(&["--url", url, "list"]);
        assert_eq!(error["code"], "bad_url", "{error}");
    }
}

#[test]
fn the_environment_selects_the_registry_and_a_flag_overrides_it() {
    if skills_testkit::needs_embedded_store("expects that an empty data directory has no store") {
        return;
    }
    let server = TestServer::new();
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other");
    let ran = |variable: &str, value: &str, arguments: &[&str]| {
        let mut command = command(arguments);
        run(command.env(variable, value))
    };
    for variable in ["III_URL", "III_ENGINE_URL"] {
        let ran = ran(variable, &server.process.url, &["list", "--json"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
    let ran = ran("SKILLS_DATA_DIR", other.to_str().unwrap(), &["list"]);
    assert!(ran.stderr.contains("other"), "{}", ran.stderr);
    let mut command = command(&["--url", &server.process.url, "list"]);
    let ran = run(command.env("SKILLS_DATA_DIR", &other).env("III_URL", "ws://127.0.0.1:1"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[tokio::test]
async fn a_server_with_a_token_requires_it() {
    let server = TestServer::with_args(&["--token", "s3cret-of-16-bytes"]);
    let url = server.process.url.as_str();
    let error = error_json(&["--url", url, "list"]);
    assert_eq!(error["code"], "unauthorized");
    assert!(error["hint"].as_str().unwrap().contains("III_TOKEN"), "{error}");
    error_json(&["--url", url, "--token", "wrong", "list"]);
    json_answer(&["--url", url, "--token", "s3cret-of-16-bytes", "list"]);
    let ran = run(command(&["--url", url, "list"]).env("III_TOKEN", "s3cret-of-16-bytes"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn a_usage_error_exits_with_code_2() {
    for arguments in [
        &["frobnicate"] as &[&str],
        &["list", "--frobnicate"],
        &["show"],
        &["remove"],
        &["prompt"],
        &["completions", "tcsh"],
    ] {
        let ran = skills(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ran.stderr.contains("Usage:") || ran.stderr.contains("--help"), "{}", ran.stderr);
    }
}

#[test]
fn help_lists_every_command_and_option() {
    let help = answer(&["--help"]);
    for command in
        ["serve", "list", "show", "read", "add", "export", "remove", "prompt", "completions"]
    {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
        assert!(answer(&[command, "--help"]).contains("Usage: skills"), "{command}");
    }
    for option in ["--url", "--data-dir", "--token", "--config", "--manifest", "--version"] {
        assert!(help.contains(option), "{option}: {help}");
    }
    let serve = answer(&["serve", "--help"]);
    assert!(serve.contains("127.0.0.1:49134") && serve.contains("127.0.0.1:47372"), "{serve}");
    assert!(answer(&["prompt", "--help"]).contains("\n  get "));
}

#[test]
fn the_version_is_the_package_version() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(answer(&["--version"]), format!("skills {version}\n"));
    let manifest: Value = serde_json::from_str(&answer(&["--manifest"])).unwrap();
    assert_eq!(
        keys(&manifest),
        ["default_config", "description", "name", "supported_targets", "version"]
    );
    assert_eq!((&manifest["name"], &manifest["version"]), (&json!("skills"), &json!(version)));
    assert_eq!(
        manifest["default_config"],
        json!({ "scopes": { "skills": "skills", "prompts": "prompts" }, "state_timeout_ms": 10000 })
    );
    assert!(manifest["supported_targets"][0].as_str().unwrap().contains('-'), "{manifest}");
}

#[test]
fn completions_contain_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = answer(&["completions", shell]);
        for word in ["serve", "prompt", "data-dir"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn an_invalid_setting_is_reported_and_the_server_starts() {
    for (config, words) in [
        ("state_timeout_ms: soon\n", "state_timeout_ms"),
        ("scopes: {skills: [1]}\n", "scopes.skills"),
        ("colour: red\n", "colour"),
    ] {
        let server = TestServer::with_config(config);
        let said = server.process.stderr.contents();
        assert!(said.contains("WARN"), "{said}");
        assert!(said.contains("config.yaml") && said.contains(words), "{said}");
        assert!(!said.contains('\u{1b}'), "colours without a terminal: {said:?}");
    }
}

#[test]
fn the_configuration_file_of_the_working_directory_is_the_default() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.yaml"), "here: 1\n").unwrap();
    fs::write(dir.path().join("other.yaml"), "there: 1\n").unwrap();
    let start = |arguments: &[&str], variable: Option<&str>| {
        let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
        if let Some(path) = variable {
            command.env("III_CONFIG", path);
        }
        let server = ServerProcess::spawn(command.args(arguments).current_dir(dir.path()));
        server.stderr.contents()
    };
    let said = start(&[], None);
    assert!(said.contains("config.yaml: it has no setting of this program"), "{said}");
    for said in [start(&["--config", "other.yaml"], None), start(&[], Some("other.yaml"))] {
        assert!(said.contains("other.yaml:1:1: there is not a setting"), "{said}");
        assert!(!said.contains("config.yaml"), "{said}");
    }
}

#[tokio::test]
async fn the_log_level_controls_what_a_server_prints() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("c.yaml");
    fs::write(&config, "colour: red\n").unwrap();
    let start = |filter: Option<&str>| {
        let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
        command.arg("--config").arg(&config);
        if let Some(filter) = filter {
            command.env("RUST_LOG", filter);
        }
        ServerProcess::spawn(&mut command)
    };
    for (filter, warns, debugs) in
        [(None, true, false), (Some("off"), false, false), (Some("debug"), true, true)]
    {
        let server = start(filter);
        let worker = skills_testkit::Worker::connect(&server.url).await;
        register(&worker, "a", "# A").await;
        let stdout = server.stdout.clone();
        let (code, _, said) = server.stop();
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(said.contains("WARN"), warns, "{filter:?}: {said}");
        assert_eq!(said.contains("DEBUG"), debugs, "{filter:?}: {said}");
        assert_eq!(stdout.contents(), "", "stdout belongs to answers");
        if !debugs {
            let rest = said.lines().filter(|line| !line.contains("WARN")).count();
            assert_eq!(rest, 7, "only the banner: {said}");
        }
    }
}

#[test]
fn untrusted_text_cannot_control_the_terminal() {
    let server = TestServer::new();
    let file = server.dir().join("evil.md");
    fs::write(&file, "# \u{1b}[31mred\u{7}\n\n\u{1b}]0;title\u{7}text\n").unwrap();
    let target = ["--url", server.process.url.as_str()];
    answer(&[&target as &[&str], &["add", file.to_str().unwrap()]].concat());
    let list = answer(&[&target as &[&str], &["list"]].concat());
    assert!(!list.contains('\u{1b}') && !list.contains('\u{7}'), "{list:?}");
}
