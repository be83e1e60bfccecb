//! The programs `git` and `ssh`, which fetch repositories: what they get, where they connect, and what of theirs is shown.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use skills_testkit::{CommandOutput, program, run};

use crate::support::{BINARY, static_site::StaticSite, terminal::run_on_terminal};

/// Secrets of a server, of which no program that it starts may have any.
const SECRETS: [&str; 10] = [
    "ADMIN_KEY",
    "INTERNAL_API_SECRET",
    "MASTER_ENCRYPTION_KEY",
    "MASTER_ENCRYPTION_KEY_PREVIOUS",
    "SKILLS_KEY",
    "SKILLS_HTTP_TOKEN",
    "SKILLS_MASTER_KEY",
    "III_TOKEN",
    "DATABASE_URL",
    "PGPASSWORD",
];

/// Control sequences that set clipboard and title, clear the screen and hide text, as `printf` prints them.
const ATTACK: &str = r"\033]52;c;aGk=\007\033]0;owned\007\033[2J\302\2332J\033[8m";
/// Prefixes of these sequences.
const STEERING: [&str; 5] = ["\u{1b}]", "\u{1b}[2J", "\u{7}", "\u{9b}", "\u{1b}[8m"];

/// A home with fake programs that write what they get into a file.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a shell script. `LOG` in it is the path of the log.
    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = text.replace("LOG", self.path("log").to_str().unwrap());
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Returns what the programs wrote.
    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Returns `skills add SOURCE`.
    fn add(&self, source: &str) -> Command {
        let mut command = program(BINARY);
        command.args(["add", source]).current_dir(self.dir.path());
        command.env("HOME", self.path("home")).env("SKILLS_DATA_DIR", self.path("data"));
        command.env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }

    /// Adds a marketplace with one repository. `ssh` is the script in place of ssh.
    fn add_marketplace(
        &self,
        repository: &str,
        ssh: &Path,
        variables: &[(&str, &str)],
    ) -> CommandOutput {
        let plugin = json!({ "name": "x", "source": { "source": "url", "url": repository } });
        let market = json!({ "name": "acme", "owner": { "name": "Acme" }, "plugins": [plugin] });
        fs::create_dir_all(self.path("site")).unwrap();
        fs::write(self.path("site/marketplace.json"), market.to_string()).unwrap();
        let site = StaticSite::start(&self.path("site"));
        let mut command = self.add(&format!("{}/marketplace.json", site.origin));
        command.arg("--json").env("GIT_SSH_COMMAND", ssh);
        run(command.envs(variables.iter().copied()))
    }
}

fn error_code(ran: &CommandOutput) -> Value {
    let last = ran.stderr.lines().last().unwrap_or_default();
    let error: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{ran:?}"));
    error["error"]["code"].clone()
}

#[test]
fn programs_that_fetch_get_no_secrets_of_this_process() {
    let home = Home::new();
    let git = Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
    let git = String::from_utf8(git.stdout).unwrap();
    let git = git.trim();
    home.script("bin/git", &format!("{{ echo git: \"$@\"; env; }} >> LOG\nexec {git} \"$@\""));
    let ssh = home.script("ssh", "{ echo ssh: \"$@\"; env; } >> LOG\nexit 255");
    let path = format!("{}:{}", home.path("bin").display(), std::env::var("PATH").unwrap());
    let mut command = home.add("ssh://git@git.example.com/a");
    command.env("PATH", path).env("GIT_SSH_COMMAND", ssh).env("LC_TIME", "C");
    for name in SECRETS {
        command.env(name, format!("s3cret-{name}-of-a-server"));
    }
    // Variables that would lead git to another repository.
    for name in ["GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_CONFIG_PARAMETERS"] {
        command.env(name, "'elsewhere'");
    }
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let log = home.log();
    assert!(log.contains("git: ") && log.contains("ssh: ") && log.contains("fetch"), "{log}");
    for name in SECRETS {
        assert!(!log.contains(name), "{name}: {log}");
    }
    assert!(!log.contains("s3cret") && !log.contains("elsewhere"), "{log}");
    for kept in ["PATH=", "HOME=", "LC_TIME=C", "GIT_TERMINAL_PROMPT=0"] {
        assert!(log.contains(kept), "{kept}: {log}");
    }
}

#[test]
fn ssh_connects_to_the_address_that_was_checked() {
    let home = Home::new();
    // As OpenSSH does with `-G`, it prints where it would connect.
    let ssh = home.script(
        "ssh",
        "echo \"$@\" >> LOG\ncase \"$*\" in *-G*) printf 'hostname 1.1.1.1\\nport 2222\\n';; *) exit 255;; esac",
    );
    let ran = home.add_marketplace("ssh://git@one.example.com:2222/x", &ssh, &[]);
    assert_eq!(error_code(&ran), "fetch_failed", "{ran:?}");
    let log = home.log();
    let calls: Vec<&str> = log.lines().collect();
    let [settings, connection] = calls.as_slice() else { panic!("{log}") };
    assert_eq!(*settings, "-G -p 2222 git@one.example.com");
    let options = "-o HostName=1.1.1.1 -o HostKeyAlias=[1.1.1.1]:2222 -o ControlPath=none";
    assert!(connection.starts_with(options), "{connection}");
    assert!(
        connection.contains("-p 2222 git@one.example.com git-upload-pack '/x'"),
        "{connection}"
    );
}

#[test]
fn settings_of_the_user_do_not_lead_a_marketplace_into_a_local_network() {
    let home = Home::new();
    let to = |address: &str| {
        format!(
            "echo \"$@\" >> LOG\ncase \"$*\" in *-G*) printf 'hostname {address}\\nport 22\\n';; esac"
        )
    };
    let direct = home.script("direct", "echo \"$@\" >> LOG; exec ssh -F /dev/null \"$@\"");
    let rewrite = [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "url.ssh://git@10.0.0.5/.insteadOf"),
        ("GIT_CONFIG_VALUE_0", "https://git.example.com/"),
    ];
    let to_file = [rewrite[0], ("GIT_CONFIG_KEY_0", "url.file:///srv/.insteadOf"), rewrite[2]];
    for (repository, ssh, variables) in [
        ("ssh://git@git.example.com/x", home.script("to_10", &to("10.0.0.5")), &[] as &[_]),
        ("ssh://git@git.example.com/x", home.script("to_127", &to("0x7f.1")), &[]),
        ("ssh://git@git.example.com/x", home.script("silent", "exit 0"), &[]),
        ("https://git.example.com/x", direct.clone(), &rewrite),
        ("https://GIT.example.com./x", direct.clone(), &rewrite),
        ("https://git.example.com/x", direct, &to_file),
    ] {
        let ran = home.add_marketplace(repository, &ssh, variables);
        assert_eq!(error_code(&ran), "untrusted_source", "{repository}, {ssh:?}: {ran:?}");
        let log = home.log();
        assert!(log.lines().all(|call| call.starts_with("-G")), "{repository}, {ssh:?}: {log}");
    }
}

#[test]
fn messages_of_a_git_server_cannot_control_a_terminal_and_are_bounded() {
    let home = Home::new();
    let flood = "i=0; while [ $i -lt 5000 ]; do echo \"remote: more\" >&2; i=$((i+1)); done";
    let ssh = home.script(
        "ssh",
        &format!("printf 'remote: hello {ATTACK}\\rremote: 1%% {ATTACK}\\r\\nfatal: over {ATTACK}\\n' >&2; {flood}; exit 255"),
    );
    let source = "ssh://git@git.example.com/a";
    let add = || {
        let mut command = home.add(source);
        command.env("GIT_SSH_COMMAND", &ssh);
        command
    };
    let sent = run_on_terminal(add(), 80, None);
    for steering in STEERING {
        assert!(!sent.contains(steering), "{sent:?}");
    }
    assert!(sent.contains("fatal: over"), "{sent:?}");
    assert!(sent.matches("remote: more").count() <= 100, "{sent:.2000}");
    let ran = run(&mut add());
    assert!(ran.stderr.contains("fatal: over") && ran.stderr.len() < 2_000, "{ran:?}");
    for steering in STEERING {
        assert!(!ran.stderr.contains(steering), "{ran:?}");
    }
}

/// Returns the Rust files of the product below a folder, without their tests.
fn product_files(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            product_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            found.push((path, code.to_owned()));
        }
    }
}

#[test]
fn programs_are_started_in_one_place() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = vec![];
    for entry in fs::read_dir(crates).unwrap().map(Result::unwrap) {
        if entry.file_name() != "testkit" {
            product_files(&entry.path().join("src"), &mut files);
        }
    }
    let starts = |code: &str| {
        let mut places = code.match_indices("Command::new(");
        places.any(|(at, _)| !code[..at].ends_with(char::is_alphanumeric))
    };
    let found: Vec<&Path> = files
        .iter()
        .filter(|(_, code)| starts(code))
        .map(|(path, _)| path.strip_prefix(crates).unwrap())
        .collect();
    assert_eq!(found, [Path::new("bundles/src/git/environment.rs")]);
}
