//! `skills key` and `skills secret` on a data directory, with and without a running server.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command, thread};

use serde_json::{Value, json};
use skills_core::{Owner, Tier, keyspace};
use skills_testkit::{CommandOutput, program, run, run_with_input};
use skills_vault::{CalledSkill, MasterKeys, Plan, Vault, now};
use tempfile::TempDir;

use crate::support::{BINARY, TestServer, is_timestamp, keys, store::open_vault};

const MASTER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const NEXT: &str = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

/// A data directory and commands on it.
struct TestDataDir {
    dir: TempDir,
}

impl TestDataDir {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn data(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    /// Returns the files of the data directory, which there are unless the vault is in a database.
    fn files(&self) -> Vec<fs::DirEntry> {
        if skills_testkit::shared_store().is_some() && !self.data().exists() {
            return vec![];
        }
        fs::read_dir(self.data()).unwrap().map(Result::unwrap).collect()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        command(&self.data(), arguments)
    }

    /// Runs a command that must succeed and returns its output.
    fn answer(&self, arguments: &[&str]) -> String {
        expect_success(run(&mut self.command(arguments))).stdout
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.answer(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// Runs a command that must fail and returns code and message.
    fn fails(&self, arguments: &[&str]) -> (String, String) {
        expect_failure(run(&mut self.command(&[arguments, &["--json"]].concat())))
    }

    fn set(&self, arguments: &[&str], value: &[u8]) -> CommandOutput {
        let mut command = self.command(&[&["secret", "set"], arguments].concat());
        run_with_input(command.env("MASTER_ENCRYPTION_KEY", MASTER), value)
    }

    fn vault(&self, current: &str) -> Vault {
        let master = MasterKeys::from_env(Some(current), None).unwrap();
        open_vault(&self.data(), master)
    }
}

fn command(data: &Path, arguments: &[&str]) -> Command {
    let mut command = program(BINARY);
    command.args(arguments).arg("--data-dir").arg(data).current_dir(std::env::temp_dir());
    command
}

fn expect_success(ran: CommandOutput) -> CommandOutput {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran
}

fn expect_failure(ran: CommandOutput) -> (String, String) {
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    let text = |name: &str| error["error"][name].as_str().unwrap_or_default().to_owned();
    (text("code"), format!("{} {}", text("message"), text("hint")))
}

fn owner(uid: &str) -> Owner {
    keyspace::parse_owner(uid).unwrap()
}

/// Returns the secret value that a call of a skill gets.
fn value(vault: &Vault, uid: &str, tier: Tier, skill: &str, name: &str) -> Option<String> {
    let (skill, needed) = (skill.parse().unwrap(), [name.to_owned()]);
    let skill = CalledSkill { tier, id: &skill, origin: Some("https://a.test") };
    let values = vault.secrets_for_call(&owner(uid), skill, &needed);
    values.ok().map(|values| values[name].to_string())
}

#[test]
fn a_key_is_shown_once_and_listed_without_its_value() {
    let data_dir = TestDataDir::new();
    let create = ["key", "create", "--uid", "ann", "--tier", "pro", "--label", "my laptop"];
    let ran = expect_success(run(&mut data_dir.command(&create)));
    let key = ran.stdout.strip_suffix('\n').unwrap();
    assert!(key.starts_with("us-") && key.len() == 46 && !key.contains(char::is_whitespace));
    assert!(ran.stderr.contains("of ann (PRO); it is not shown again"), "{}", ran.stderr);
    assert!(!ran.stderr.contains(&key[3..]));

    let made = data_dir.json(&["key", "create", "--uid", "bob", "--ttl", "30d"]);
    assert_eq!(
        keys(&made),
        ["created_at", "expires_at", "hash", "id", "key", "status", "tier", "uid"]
    );
    assert_eq!((&made["uid"], &made["tier"]), (&json!("bob"), &json!("FREE")));
    assert!(is_timestamp(&made["created_at"]) && is_timestamp(&made["expires_at"]));
    let hash = skills_core::Digest::of(made["key"].as_str().unwrap().as_bytes()).to_string();
    assert_eq!((made["hash"].as_str(), made["id"].as_str()), (Some(&*hash), Some(&hash[..8])));

    let table = data_dir.answer(&["key", "list"]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[0].starts_with("ID  ") && lines[1].ends_with("my laptop"), "{table}");
    assert!(lines[1].contains("ann") && lines[1].contains("PRO") && lines[1].contains("active"));
    let listed = data_dir.json(&["key", "ls", "--uid", "ann"]);
    let row = &listed["keys"][0];
    assert_eq!(keys(row), ["created_at", "hash", "id", "label", "status", "tier", "uid"]);
    assert!(!format!("{table}{listed}").contains(&key[3..]));
    assert_eq!(listed["keys"].as_array().unwrap().len(), 1);

    let found = data_dir.vault(MASTER).find_key(key, now()).unwrap().unwrap();
    assert_eq!((found.owner, found.plan), (owner("ann"), Plan::Pro));
    for entry in data_dir.files() {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.path().display());
        let bytes = fs::read(entry.path()).unwrap();
        let shows = bytes.windows(43).any(|bytes| bytes == &key.as_bytes()[3..]);
        assert!(!shows, "{} has the key", entry.path().display());
    }
}

#[test]
fn a_revoked_key_is_refused_at_once_by_open_vaults() {
    if skills_testkit::needs_embedded_store("through a database it is within a second") {
        return;
    }
    let data_dir = TestDataDir::new();
    let server = data_dir.vault(MASTER);
    let create = || data_dir.json(&["key", "create", "--uid", "ann"]);
    let [one, two, three] = [create(), create(), create()];
    let key = |made: &Value| made["key"].as_str().unwrap().to_owned();
    let is_let_in = |made: &Value| server.find_key(&key(made), now()).unwrap().is_some();
    assert!(is_let_in(&one) && is_let_in(&two) && is_let_in(&three));

    let id = one["id"].as_str().unwrap();
    assert_eq!(data_dir.answer(&["key", "revoke", id]), format!("revoked {id} of ann\n"));
    assert!(!is_let_in(&one) && is_let_in(&two));
    assert_eq!(data_dir.answer(&["key", "revoke", id]), "already revoked\n");

    let mut by_itself = data_dir.command(&["key", "revoke", "-", "--json"]);
    let ran = expect_success(run_with_input(&mut by_itself, format!("{}\n", key(&two)).as_bytes()));
    let revoked: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(revoked, json!({ "revoked": [{ "id": two["id"], "uid": "ann" }] }));
    assert!(!is_let_in(&two) && is_let_in(&three));

    let all = data_dir.json(&["key", "revoke", "--uid", "ann"]);
    assert_eq!(all["revoked"].as_array().unwrap().len(), 1);
    assert!(!is_let_in(&three));
    assert_eq!(data_dir.answer(&["key", "revoke", "--uid", "ann"]), "ann has no active keys\n");
    let listed = data_dir.json(&["key", "list"]);
    assert!(listed["keys"].as_array().unwrap().iter().all(|row| row["status"] == "revoked"));

    for (arguments, code) in [
        (["key", "revoke", "00000000"], "no_such_key"),
        (["key", "revoke", "xyz"], "bad_key_id"),
        (["key", "revoke", &key(&one)], "key_on_command_line"),
    ] {
        let (found, words) = data_dir.fails(&arguments);
        assert_eq!(found, code, "{words}");
        assert!(!words.contains(&key(&one)), "{words}");
    }
    let mut nonsense = data_dir.command(&["key", "revoke", "-", "--json"]);
    assert_eq!(expect_failure(run_with_input(&mut nonsense, b"nonsense")).0, "not_a_key");
}

#[test]
fn keys_can_be_created_while_a_server_runs() {
    let server = TestServer::new();
    let ran = run(&mut command(&server.data_dir(), &["key", "create", "--uid", "ann", "--json"]));
    let made: Value = serde_json::from_str(&expect_success(ran).stdout).unwrap();
    let vault = open_vault(&server.data_dir(), None);
    assert!(vault.find_key(made["key"].as_str().unwrap(), now()).unwrap().is_some());
    let entries = vault.audit(0, 10).unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].action, "key.create");

    let mut help = program(BINARY);
    let help = expect_success(run(help.args(["key", "--help"]))).stdout;
    assert!(help.contains("while servers run"), "{help}");
}

#[test]
fn many_processes_can_initialize_one_directory_at_once() {
    let data_dir = TestDataDir::new();
    thread::scope(|scope| {
        let made: Vec<_> = (0..6)
            .map(|number| {
                let uid = format!("u{number}");
                let mut create = data_dir.command(&["key", "create", "--uid", &uid]);
                scope.spawn(move || expect_success(run(&mut create)).stdout)
            })
            .collect();
        let vault_keys: Vec<String> = made.into_iter().map(|ran| ran.join().unwrap()).collect();
        let vault = data_dir.vault(MASTER);
        for key in vault_keys {
            assert!(vault.find_key(key.trim_end(), now()).unwrap().is_some());
        }
    });
}

#[test]
fn secrets_are_stored_listed_granted_and_removed() {
    let data_dir = TestDataDir::new();
    let ran = expect_success(data_dir.set(&["TOKEN", "--uid", "ann"], b"hidden value\n"));
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("set TOKEN of ann\n", ""));
    let of_skill = ["TOKEN", "--uid", "ann", "--skill", "echo", "--json"];
    let ran = expect_success(data_dir.set(&of_skill, b"two\nhidden lines\r\n"));
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer, json!({ "name": "TOKEN", "uid": "ann", "skill": "echo" }));
    assert!(ran.stderr.contains("uniskill_echo is another"), "{}", ran.stderr);
    let prefixed = ["LINE", "--uid", "bert", "--skill", "uniskill_echo"];
    assert_eq!(expect_success(data_dir.set(&prefixed, b"x")).stderr, "");
    let vault = data_dir.vault(MASTER);
    let get = |tier, skill| value(&vault, "ann", tier, skill, "TOKEN");
    assert_eq!(get(Tier::Private, "other").as_deref(), Some("hidden value"));
    assert_eq!(get(Tier::Official, "echo").as_deref(), Some("two\nhidden lines"));
    expect_success(data_dir.set(&["LINE", "--uid", "ann"], b"keeps one\n\n"));
    assert_eq!(value(&vault, "ann", Tier::Private, "echo", "LINE").as_deref(), Some("keeps one\n"));

    assert_eq!(get(Tier::Market, "echo"), None);
    let grant = ["TOKEN", "--uid", "ann", "--skill", "echo"];
    let granted = data_dir.answer(&[&["secret", "grant"], &grant[..]].concat());
    assert_eq!(granted, "granted TOKEN of ann to the market skill echo\n");
    assert_eq!(get(Tier::Market, "echo").as_deref(), Some("two\nhidden lines"));

    let table = data_dir.answer(&["secret", "list", "--uid", "ann"]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{table}");
    assert!(lines[0].starts_with("NAME ") && lines[3].contains("skill echo"), "{table}");
    let listed = data_dir.json(&["secret", "ls", "--uid", "ann"]);
    let rows = listed["secrets"].as_array().unwrap();
    assert_eq!(keys(&rows[0]), ["granted_to", "name", "scope", "set_at"]);
    assert_eq!(
        (&rows[2]["skill"], &rows[2]["scope"], &rows[2]["granted_to"]),
        (&json!("echo"), &json!("skill"), &json!(["echo"]))
    );
    assert!(is_timestamp(&rows[0]["set_at"]));
    assert!(!format!("{table}{listed}").contains("hidden"));

    let back = data_dir.json(&[&["secret", "revoke-grant"], &grant[..]].concat());
    let expected = json!({ "name": "TOKEN", "uid": "ann", "skill": "echo", "granted": false });
    assert_eq!(back, expected);
    assert_eq!(get(Tier::Market, "echo"), None);
    let remove = [&["secret", "rm"], &grant[..]].concat();
    assert_eq!(data_dir.answer(&remove), "removed TOKEN of ann for the skill echo\n");
    assert_eq!(data_dir.answer(&remove), "not found: TOKEN of ann for the skill echo\n");
    assert_eq!(get(Tier::Official, "echo").as_deref(), Some("hidden value"));
    assert_eq!(data_dir.answer(&["secret", "list", "--uid", "bob"]), "bob has no secrets.\n");

    for entry in data_dir.files() {
        let bytes = fs::read(entry.path()).unwrap();
        let shows = bytes.windows(6).any(|bytes| bytes == b"hidden");
        assert!(!shows, "{} shows a secret", entry.path().display());
    }
}

#[test]
fn an_invalid_secret_is_reported_without_its_value() {
    let data_dir = TestDataDir::new();
    for (value, code) in [
        (&b""[..], "invalid_input"),
        (b"\n", "invalid_input"),
        (&[b'x'; 70_000], "too_large"),
        (b"hidden \xff", "not_text"),
    ] {
        let (found, words) = expect_failure(data_dir.set(&["A", "--uid", "ann", "--json"], value));
        assert_eq!(found, code, "{value:?}");
        assert!(!words.contains("hidden") && !words.contains("xxx"), "{words}");
    }
    let without = run_with_input(
        &mut data_dir.command(&["secret", "set", "A", "--uid", "ann", "--json"]),
        b"hidden",
    );
    let (code, words) = expect_failure(without);
    assert_eq!(code, "no_master_key");
    assert!(words.contains("MASTER_ENCRYPTION_KEY") && !words.contains("hidden"), "{words}");
    let mut short = data_dir.command(&["secret", "rotate", "--json"]);
    let (code, words) = expect_failure(run(short.env("MASTER_ENCRYPTION_KEY", "hidden")));
    assert_eq!(code, "bad_master_key");
    assert!(words.contains("64 hexadecimal digits") && !words.contains("hidden"), "{words}");
    let (code, words) =
        data_dir.fails(&["secret", "grant", "A", "--uid", "ann", "--skill", "echo"]);
    assert_eq!(code, "no_such_secret", "{words}");
    let (code, words) = data_dir.fails(&["key", "list", "--url", "ws://127.0.0.1:1"]);
    assert_eq!(code, "needs_data_dir", "{words}");

    for (arguments, words) in [
        (&["key", "create", "--uid", "a:b"][..], "found ':' at byte 1"),
        (&["key", "create", "--uid", ""], "must be non-empty"),
        (&["key", "create", "--uid", "a", "--tier", "GOLD"], "FREE, STARTER, PRO, SCALE"),
        (&["key", "create", "--uid", "a", "--ttl", "soon"], "such as 30d"),
        (&["key", "revoke"], "<KEYID|--uid <UID>>"),
        (&["key", "revoke", "12345678", "--uid", "a"], "cannot be used with"),
        (&["secret", "remove", "A.B", "--uid", "a"], "letters, digits"),
        (&["secret", "remove", "A", "--uid", "a", "--skill", "A b"], "lowercase"),
        (&["secret", "grant", "A", "--uid", "a"], "--skill <ID>"),
    ] {
        let ran = run(&mut data_dir.command(arguments));
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{arguments:?}: {}", ran.stderr);
    }
    let (code, words) = data_dir.fails(&["key", "create", "--uid", "a", "--label", "a\nb"]);
    assert_eq!(code, "invalid_input", "{words}");
}

#[test]
fn rotation_leaves_no_secret_under_the_old_master_key() {
    let data_dir = TestDataDir::new();
    for name in ["A", "B"] {
        expect_success(data_dir.set(&[name, "--uid", "ann"], b"value"));
    }
    let rotate = |current: &str, previous: &str, format: &[&str]| {
        let mut command = data_dir.command(&[&["secret", "rotate"], format].concat());
        command.env("MASTER_ENCRYPTION_KEY", current);
        run(command.env("MASTER_ENCRYPTION_KEY_PREVIOUS", previous))
    };
    // Without the old master key the secrets are unreadable: an error reports that, and they stay.
    let ran = rotate(NEXT, "", &[]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr
            .contains("2 secrets could not be decrypted and stay as they are: A of ann, B of ann")
    );
    let ran = expect_success(rotate(NEXT, MASTER, &["--json"]));
    let outcome: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        outcome,
        json!({ "rotated": 2, "current": 0, "unreadable": 0, "unreadable_secrets": [] })
    );
    let ran = expect_success(rotate(NEXT, "", &[]));
    assert_eq!(ran.stdout, "encrypted 0 secrets again; 2 already had the current key\n");
    assert_eq!(
        value(&data_dir.vault(NEXT), "ann", Tier::Private, "echo", "A").as_deref(),
        Some("value")
    );
    assert_eq!(value(&data_dir.vault(MASTER), "ann", Tier::Private, "echo", "A"), None);
}
