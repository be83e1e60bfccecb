//! `skills connect`: the settings of MCP clients.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use serde_json::Value;
use skills_testkit::{CommandOutput, program, run};
use tempfile::TempDir;

use crate::support::{BINARY, mcp_clients::Pipe};

struct Home {
    dir: TempDir,
}

impl Home {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn connect(&self, arguments: &[&str]) -> CommandOutput {
        self.connect_with(arguments, "")
    }

    /// Runs the command with the URL of a store in its environment; an empty one counts as none.
    fn connect_with(&self, arguments: &[&str], store: &str) -> CommandOutput {
        let mut command = program(BINARY);
        command.env("SKILLS_STORE", store).env_remove("PGPASSWORD");
        command.arg("connect").args(arguments).current_dir(self.dir.path());
        command.env("HOME", self.dir.path()).env_remove("XDG_DATA_HOME");
        run(command.env_remove("XDG_CONFIG_HOME"))
    }

    fn answer(&self, arguments: &[&str]) -> String {
        let ran = self.connect(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        ran.stdout
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.answer(&[arguments, &["--json"]].concat())).unwrap()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }
}

/// Returns all clients with the paths of their settings files.
fn clients(home: &Home) -> Vec<(String, Option<PathBuf>)> {
    let list = home.json(&["--list"]);
    let row = |row: &Value| {
        (row["client"].as_str().unwrap().to_owned(), row["path"].as_str().map(PathBuf::from))
    };
    list["clients"].as_array().unwrap().iter().map(row).collect()
}

/// Returns the command of the entry for this program, wherever the client has it.
fn entry(path: &Path) -> (String, Vec<String>) {
    let text = fs::read_to_string(path).unwrap();
    if path.extension().is_some_and(|extension| extension == "toml") {
        let value = |key: &str| {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap();
            serde_json::from_str::<Value>(line.split_once(" = ").unwrap().1).unwrap()
        };
        assert!(text.contains("[mcp_servers.skills]\n"), "{text}");
        return (
            value("command").as_str().unwrap().to_owned(),
            serde_json::from_value(value("args")).unwrap(),
        );
    }
    let settings: Value = serde_json::from_str(&text).unwrap();
    let mut servers = settings.as_object().unwrap().values();
    let entry = servers.find_map(|servers| servers.get("skills")).unwrap();
    (
        entry["command"].as_str().unwrap().to_owned(),
        serde_json::from_value(entry["args"].clone()).unwrap(),
    )
}

#[tokio::test]
async fn every_client_is_set_up_with_a_command_that_serves_mcp() {
    let home = Home::new();
    let clients = clients(&home);
    let names: Vec<&str> = clients.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "claude",
            "claude-desktop",
            "cursor",
            "vscode",
            "zed",
            "codex",
            "gemini",
            "windsurf",
            "inspector"
        ]
    );
    let mut commands = Vec::new();
    for (name, path) in &clients {
        let printed = home.answer(&[name]);
        assert!(printed.contains(BINARY) && printed.contains("mcp"), "{name}: {printed}");
        let Some(path) = path else {
            assert_eq!(home.connect(&[name, "--write"]).code, Some(1), "{name} has no file");
            continue;
        };
        assert!(!path.exists(), "{name}: printing writes nothing");
        let written = home.answer(&[name, "--write"]);
        assert!(written.contains("+ ") && written.contains("connected "), "{name}: {written}");
        commands.push(entry(path));
        let again = home.answer(&[name, "--write"]);
        assert!(again.contains("is connected already"), "{name}: {again}");
    }
    assert!(
        home.answer(&["--list"]).lines().filter(|line| line.contains("connected")).count() == 8
    );
    // The clients start the same command; it answers them.
    commands.dedup();
    let [(program, arguments)] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!((program.as_str(), arguments.as_slice()), (BINARY, &["mcp".to_owned()][..]));
    let data = home.path("data");
    let mut pipe = Pipe::session(&["--data-dir", data.to_str().unwrap()], "2025-11-25").await;
    let listed = pipe.ask("resources/list", &serde_json::json!({})).await;
    assert!(listed["result"]["resources"].is_array(), "{listed}");
}

#[test]
fn an_existing_file_keeps_everything_else_and_gets_a_backup() {
    let home = Home::new();
    let path = home.path(".config/zed/settings.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let before = "// My settings.\n{\n  \"theme\": \"One\", // dark\n  \"context_servers\": {\n    \"other\": { \"command\": \"o\" },\n  },\n}\n";
    fs::write(&path, before).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let said = home.answer(&["zed", "--write"]);
    let backup = home.path(".config/zed/settings.json.bak");
    assert!(said.contains(backup.to_str().unwrap()), "{said}");
    assert_eq!(fs::read_to_string(&backup).unwrap(), before);
    let after = fs::read_to_string(&path).unwrap();
    for line in before.lines() {
        assert!(after.contains(line), "{line} is gone: {after}");
    }
    assert!(after.contains("\n    \"skills\": {\n"), "{after}");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    // A second change has a backup of its own.
    let other = home.json(&["zed", "--write", "--data-dir", "elsewhere"]);
    assert_eq!(other["changed"], true);
    assert!(other["backup"].as_str().unwrap().ends_with(".bak.1"), "{other}");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(home.path("elsewhere").to_str().unwrap()), "{text}");
    assert_eq!(text.matches("\"skills\":").count(), 1, "{text}");
}

#[test]
fn a_file_of_another_form_is_not_changed() {
    let home = Home::new();
    let path = home.path(".cursor/mcp.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    for text in ["{ not json", "{\"mcpServers\": []}"] {
        fs::write(&path, text).unwrap();
        let ran = home.connect(&["cursor", "--write"]);
        assert_eq!(ran.code, Some(1), "{text:?}");
        assert!(
            ran.stderr.contains("was not changed") && ran.stderr.contains("hint: "),
            "{}",
            ran.stderr
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{text:?}");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no backup either");
    }
}

/// Settings with comments, trailing commas, other servers and an entry of another registry, for each client with JSON.
const MESSY: &str = r#"// Settings of KEY.
{
	/* Theme */ "theme": "dark", "list": [1, 2,],
	"KEY": {
		"github": { "command": "npx", "args": ["-y", "server"], "env": { "TOKEN": "t" } }, // mine
		"skills": {
			"command": "/old/skills", // moved
			"env": { "SKILLS_KEY": "us-key" },
		},
	},
	"last": null
}
"#;

/// Parses JSON with comments and trailing commas, as the clients do.
fn parse_lenient(text: &str) -> Value {
    let code: String = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .map(|line| {
            line.split("/*").next().unwrap_or_default().to_owned()
                + line.rsplit_once("*/").map_or("", |(_, rest)| rest)
        })
        .collect();
    let mut strict = String::new();
    for c in code.chars().filter(|c| !c.is_whitespace()) {
        if matches!(c, '}' | ']') && strict.ends_with(',') {
            strict.pop();
        }
        strict.push(c);
    }
    serde_json::from_str(&strict).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn messy_settings_of_every_client_keep_everything_else() {
    for (client, path, key) in [
        ("claude", ".claude.json", "mcpServers"),
        ("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers"),
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("vscode", ".config/Code/User/mcp.json", "servers"),
        ("zed", ".config/zed/settings.json", "context_servers"),
        ("gemini", ".gemini/settings.json", "mcpServers"),
        ("windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers"),
    ] {
        for ending in ["\n", "\r\n"] {
            let home = Home::new();
            let path = home.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let before = MESSY.replace("KEY\": {", &format!("{key}\": {{")).replace('\n', ending);
            fs::write(&path, &before).unwrap();
            let said = home.answer(&[client, "--write"]);
            assert!(
                said.contains("-             \"command\": \"/old/skills\", // moved"),
                "{client}: {said}"
            );
            let after = fs::read_to_string(&path).unwrap();
            assert_eq!(after.matches(ending).count(), after.matches('\n').count(), "{client}");
            let (mut old, mut new) = (parse_lenient(&before), parse_lenient(&after));
            let entry = new[key]["skills"].take();
            assert_eq!(
                (&entry["command"], &entry["args"][0]),
                (&BINARY.into(), &"mcp".into()),
                "{ending:?}"
            );
            assert_eq!(entry["env"]["SKILLS_KEY"], "us-key", "{client}: its environment stays");
            old[key]["skills"].take();
            assert_eq!(new, old, "{client}: the rest is the same");
            for comment in ["// Settings of", "/* Theme */", "// mine", "// moved"] {
                assert!(after.contains(comment), "{client}: {comment} is gone: {after}");
            }
            let mut backup = path.clone().into_os_string();
            backup.push(".bak");
            assert_eq!(fs::read_to_string(backup).unwrap(), before, "{client}");
            let again = home.answer(&[client, "--write"]);
            assert!(again.contains("is connected already"), "{client}: {again}");
        }
    }
}

#[test]
fn an_entry_that_is_no_command_is_replaced() {
    let home = Home::new();
    let path = home.path(".cursor/mcp.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    for value in ["3", "null", "[]", "{}", "{\"url\": \"http://127.0.0.1:47372/mcp\"}"] {
        fs::write(&path, format!("{{\"mcpServers\": {{\"skills\": {value}}}}}")).unwrap();
        home.answer(&["cursor", "--write"]);
        assert_eq!(entry(&path), (BINARY.to_owned(), vec!["mcp".to_owned()]), "{value}");
        assert!(!fs::read_to_string(&path).unwrap().contains("url"), "{value}");
    }
}

#[test]
fn toml_settings_keep_everything_else() {
    let home = Home::new();
    let path = home.path(".codex/config.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let before = "# Mine.\nmodel = \"gpt\" # fast\n\n[mcp_servers.github]\ncommand = \"npx\"\nargs = [\n  \"-y\", # yes\n]\n\n[mcp_servers.github.env]\nTOKEN = \"t\"\n\n[tui]\nnotifications = true\n";
    fs::write(&path, before).unwrap();
    home.answer(&["codex", "--write"]);
    let after = fs::read_to_string(&path).unwrap();
    let added = format!("\n[mcp_servers.skills]\ncommand = \"{BINARY}\"\nargs = [\"mcp\"]\n");
    assert_eq!(after.replace(&added, ""), before, "only this was added: {after}");
    assert_eq!(fs::read_to_string(home.path(".codex/config.toml.bak")).unwrap(), before);
    for text in ["mcp_servers = 3\n", "[mcp_servers\n", "a = 1\na = 2\n"] {
        fs::write(&path, text).unwrap();
        let ran = home.connect(&["codex", "--write"]);
        assert_eq!(ran.code, Some(1), "{text:?}");
        assert!(ran.stderr.contains("was not changed"), "{text:?}: {}", ran.stderr);
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{text:?}");
    }
}

#[test]
fn a_client_is_connected_only_by_an_entry_of_its_servers() {
    let home = Home::new();
    let state = |client: &str| {
        let list = home.json(&["--list"]);
        let rows = list["clients"].as_array().unwrap();
        rows.iter().find(|row| row["client"] == client).unwrap()["state"].clone()
    };
    for (client, path, text, expected) in [
        (
            "zed",
            ".config/zed/settings.json",
            "{\"skills\": true, // \"context_servers\"\n}",
            "found",
        ),
        (
            "zed",
            ".config/zed/settings.json",
            "{\"context_servers\": {\"skills\": {},}}",
            "connected",
        ),
        ("zed", ".config/zed/settings.json", "{ not json", "found"),
        ("codex", ".codex/config.toml", "# [mcp_servers.skills]\n", "found"),
        (
            "codex",
            ".codex/config.toml",
            "[mcp_servers]\nskills = { command = \"x\" }\n",
            "connected",
        ),
    ] {
        let path = home.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        assert_eq!(state(client), expected, "{client}: {text}");
    }
}

#[test]
fn a_read_only_settings_file_is_not_replaced() {
    let home = Home::new();
    let path = home.path(".cursor/mcp.json");
    let folder = path.parent().unwrap();
    fs::create_dir_all(folder).unwrap();
    fs::write(&path, "{}").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let ran = home.connect(&["cursor", "--write", "--json"]);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!((ran.code, &error["error"]["code"]), (Some(1), &"unwritable".into()));
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("mcp.json: the file is read-only"), "{message}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "neither a backup nor a draft");
}

#[test]
fn a_linked_settings_file_stays_a_link() {
    let home = Home::new();
    let (path, real) = (home.path(".gemini/settings.json"), home.path("dotfiles.json"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&real, "{}").unwrap();
    symlink(&real, &path).unwrap();
    home.answer(&["gemini", "--write"]);
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(entry(&real).0, BINARY);
}

#[test]
fn the_registry_of_the_command_is_the_one_that_the_client_uses() {
    if skills_testkit::needs_embedded_store("finds the store by its file in ./data") {
        return;
    }
    let home = Home::new();
    let arguments = |arguments: &[&str]| {
        let printed = home.json(arguments);
        let settings: Value = serde_json::from_str(printed["settings"].as_str().unwrap()).unwrap();
        settings["mcpServers"]["skills"]["args"].clone()
    };
    assert_eq!(arguments(&["cursor"]), serde_json::json!(["mcp"]));
    let url = "ws://registry.example:49134";
    assert_eq!(arguments(&["cursor", "--url", url]), serde_json::json!(["mcp", "--url", url]));
    // A store of this folder is named by its full path: the client runs elsewhere.
    let file = home.path("a.md");
    fs::write(&file, "# A\n").unwrap();
    let mut add = program(BINARY);
    add.args(["--data-dir", "data", "add", "a.md"]).current_dir(home.dir.path());
    assert_eq!(run(&mut add).code, Some(0));
    let data = home.path("data");
    assert_eq!(
        arguments(&["cursor"]),
        serde_json::json!(["mcp", "--data-dir", data.to_str().unwrap()])
    );
    let ran = home.connect(&["nobody"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn the_registry_of_a_database_is_connected_without_its_password() {
    const WITHOUT: &str = "postgres://ann@h:5433/skills?sslmode=require";
    const WITH: &str = "postgres://ann:s3cret-word@h:5433/skills?sslmode=require";
    let home = Home::new();
    let arguments = |ran: &CommandOutput| -> Vec<String> {
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("s3cret-word"), "{}", ran.stdout);
        let printed: Value = serde_json::from_str(&ran.stdout).unwrap();
        let settings: Value = serde_json::from_str(printed["settings"].as_str().unwrap()).unwrap();
        serde_json::from_value(settings["mcpServers"]["skills"]["args"].clone()).unwrap()
    };
    for (flags, variable, has_note) in [
        (&["--store", WITHOUT][..], "", false),
        (&["--store", WITH], "", true),
        (&[], WITHOUT, false),
        (&[], WITH, true),
        (&["--data-dir", "elsewhere", "--store", WITHOUT], "", false),
    ] {
        let ran = home.connect_with(&[&["claude", "--json"], flags].concat(), variable);
        assert_eq!(arguments(&ran), ["mcp", "--store", WITHOUT], "{flags:?} {variable}");
        assert_eq!(ran.stderr.contains("PGPASSWORD"), has_note, "{}", ran.stderr);
    }
    let config = home.path("config.yaml");
    fs::write(&config, format!("store: {{url: '{WITH}'}}\n")).unwrap();
    let ran = home.connect(&["claude", "--json"]);
    assert_eq!(arguments(&ran), ["mcp", "--config", config.to_str().unwrap()]);
    assert!(!ran.stderr.contains("PGPASSWORD"), "{}", ran.stderr);
    // A chosen directory precedes both.
    let ran = home.connect_with(&["claude", "--json", "--data-dir", "elsewhere"], WITH);
    assert_eq!(arguments(&ran), ["mcp", "--data-dir", home.path("elsewhere").to_str().unwrap()]);
}
