//! The documentation says what is there: examples are shown as they are run, and links lead somewhere.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use skills_testkit::Server;

const BINARY: &str = env!("CARGO_BIN_EXE_skills");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_readme_shows_the_quickstarts_that_are_run() {
    let readme = read("README.md");
    for (language, path) in [
        ("python", "examples/quickstart.py"),
        ("js", "examples/quickstart.mjs"),
        ("rust", "examples/rust/src/main.rs"),
    ] {
        let shown = format!("```{language}\n{}\n```", read(path).trim_end());
        assert!(readme.contains(&shown), "README.md does not show {path} as it is");
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    let pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"];
    let docs = fs::read_dir(root().join("docs")).unwrap();
    let docs = docs.map(|entry| format!("docs/{}", entry.unwrap().file_name().display()));
    for page in pages.map(str::to_owned).into_iter().chain(docs) {
        let text = read(&page);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let file = target.split('#').next().unwrap_or(target);
            let place = root().join(&page).parent().unwrap().join(file);
            assert!(place.exists(), "{page} links to {target}, which is not there");
        }
    }
}

#[test]
fn the_readme_shows_what_a_user_does_with_a_key() {
    let readme = read("README.md");
    let (_, section) = readme.split_once("## For many users").unwrap();
    let (_, block) = section.split_once("```sh\n").unwrap();
    let (script, _) = block.split_once("```").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(BINARY, &dir.path().join("data"));
    fs::write(dir.path().join("weather.md"), "# Weather\n\nOf any city.\n").unwrap();
    let programs = Path::new(BINARY).parent().unwrap().display().to_string();
    let run = |script: &str| {
        let mut shell = Command::new("bash");
        shell.args(["-euc", script]).current_dir(dir.path()).env("III_URL", &server.url);
        shell.env("PATH", format!("{programs}:{}", env::var("PATH").unwrap()));
        let output = shell.env_remove("SKILLS_KEY").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{script}\n{said}");
        String::from_utf8(output.stdout).unwrap()
    };
    run("skills add weather.md");
    let shown = run(script);
    assert!(shown.contains("Only of places where Ann is."), "{shown}");
    assert!(shown.contains("official:weather"), "{shown}");
    assert!(run("skills read iii://weather").contains("Of any city."), "others see what they saw");
}
