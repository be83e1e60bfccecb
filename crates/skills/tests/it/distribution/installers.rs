//! Lines of `skills connect` for the installers of clients.

use std::process::{Command, Stdio};

use skills_client_setup::{INSTALLERS, InstallTarget, MARKETPLACE, OWN_MARKETPLACE};
use skills_testkit::{Request, program, run};

use super::Project;
use crate::support::{BINARY, TestServer};

const KEY: &str = "us-0123456789abcdef";

fn connect(project: &Project, arguments: &[&str], key: bool) -> String {
    let mut command = program(BINARY);
    command.args(["connect"]).args(arguments).current_dir(project.path("project"));
    command.env("SKILLS_DATA_DIR", project.path("data")).env("HOME", project.path("home"));
    if key {
        command.env("SKILLS_KEY", KEY);
    }
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
    ran.stdout
}

#[test]
fn every_installer_has_lines_without_the_key_unless_it_is_asked_for() {
    let project = Project::new();
    let server = ["--server", "https://skills.example.com"];
    for installer in INSTALLERS {
        let with = |more: &[&str], key| {
            connect(&project, &[&[installer.name], &server[..], more].concat(), key)
        };
        let public = with(&[], false);
        assert!(public.contains("https://skills.example.com"), "{public}");
        assert!(!public.contains("KEY\\n") && !public.contains("mine.git"), "{public}");
        let private = with(&[], true);
        assert!(private.contains("KEY") && !private.contains(KEY), "{private}");
        let shown = with(&["--show-key"], true);
        assert_eq!(shown.matches(KEY).count(), 1, "{shown}");
    }
    let default = connect(&project, &["npx"], false);
    assert!(default.contains("npx skills add http://127.0.0.1:47372 --skill NAME"), "{default}");
    for server in ["ftp://x", "https://me:secret@x", "https://x'; rm -rf /", "x"] {
        let code = project.error_code(&["connect", "git", "--server", server]);
        assert_eq!(code, "bad_argument", "{server}");
    }
    assert_eq!(project.error_code(&["connect", "git", "--write"]), "bad_argument");
}

#[test]
fn the_lines_use_the_public_address_and_the_names_of_the_marketplaces() {
    let project = Project::new();
    project.put("project/config.yaml", "public_url: https://skills.example/registry\n");
    let lines = connect(&project, &["claude"], false);
    let remote = "claude plugin marketplace add https://skills.example/registry/git/all.git";
    assert!(lines.contains(remote), "{lines}");
    assert!(lines.contains(&format!("NAME@{MARKETPLACE}")), "{lines}");
    let named = connect(&project, &["git", "--server", "https://other.example"], false);
    assert!(named.contains("https://other.example/git/all.git"), "{named}");

    let server = TestServer::with_admin();
    let (key, _) = server.create_key("ann");
    for (key, name) in [(None, MARKETPLACE), (Some(key.as_str()), OWN_MARKETPLACE)] {
        let path = "/.claude-plugin/marketplace.json";
        let market = server.ask(key, "GET", path, &serde_json::Value::Null).json();
        assert_eq!(market["name"], name, "{market}");
    }
}

#[test]
fn the_console_shows_the_lines_of_the_command_with_the_public_address() {
    let server = TestServer::with_config("public_url: https://skills.example\n");
    let project = Project::new();
    // The name in the frontmatter is not the id.
    let text = "---\nname: my-pdf\ndescription: Reads PDF. Use when asked to.\n---\n# PDF\n";
    project.put("own/SKILL.md", text);
    let own = project.path("own");
    let arguments = ["--url", &server.process.url, "add", own.to_str().unwrap(), "--id", "pdf_id"];
    project.ok(&arguments);
    let page = Request::get("/ui/skills/pdf_id?tab=install").send(&server.process.http);
    let page = String::from_utf8_lossy(&page.body).into_owned();
    for installer in INSTALLERS {
        let (server, skill, id) = ("https://skills.example", "my-pdf", "pdf_id");
        for line in installer.lines(InstallTarget { server, skill, id, key: None }) {
            assert!(page.contains(&line), "{line} is not in {page}");
        }
    }
}

/// The lines for git's credential helper do what they say.
#[test]
fn the_credential_lines_give_the_key_to_git() {
    let project = Project::new();
    std::fs::create_dir_all(project.path("home")).unwrap();
    let lines = connect(&project, &["git", "--server", "http://127.0.0.1:1", "--show-key"], true);
    let store = project.path("home/credentials");
    let script: Vec<String> = lines
        .lines()
        .filter(|line| line.contains("credential"))
        // The cache is a process that stays; a file is the same to git.
        .map(|line| {
            let helper = format!("'store --file={}'", store.display());
            line.replace("'cache --timeout=86400'", &helper)
        })
        .collect();
    assert_eq!(script.len(), 2, "{lines}");
    let shell = |script: &str| {
        let output = Command::new("sh")
            .args(["-c", script])
            .env("HOME", project.path("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    shell(&script.join("\n"));
    let filled = shell("printf 'url=http://127.0.0.1:1/git/mine.git\\n\\n' | git credential fill");
    assert!(filled.contains(&format!("password={KEY}")), "{filled}");
}
