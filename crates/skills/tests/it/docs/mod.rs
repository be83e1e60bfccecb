//! The documentation matches the project: examples run, links resolve, named tests exist, and rules that a page repeats
//! are those of the code. The settings are compared in `src/config/tests.rs`, whose table is private.

mod architecture;
mod command_line;
mod limits;
mod rules;
mod work;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use skills_testkit::ServerProcess;

const BINARY: &str = env!("CARGO_BIN_EXE_skills");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns all pages for users: those of the root, then those of `docs`.
fn pages() -> Vec<String> {
    let root_pages = [
        "README.md",
        "ARCHITECTURE.md",
        "AGENTS.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
    ];
    let docs = fs::read_dir(root().join("docs")).unwrap();
    let docs = docs.map(|entry| format!("docs/{}", entry.unwrap().file_name().display()));
    let docs = docs.filter(|path| path.ends_with(".md"));
    root_pages.map(str::to_owned).into_iter().chain(docs).collect()
}

/// Returns the texts between single backticks of a text without code blocks.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
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
fn the_page_about_clients_is_made_from_their_table() {
    let page = skills_client_setup::page();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(root().join("docs/clients.md"), &page).unwrap();
    }
    assert_eq!(read("docs/clients.md"), page, "run this test with UPDATE_DOCS=1");
}

#[test]
fn links_between_pages_resolve() {
    for page in pages() {
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
fn paths_named_for_contributors_exist() {
    for page in ["AGENTS.md", "CONTRIBUTING.md"] {
        let text: String = read(page).split("```").step_by(2).collect();
        for span in code_spans(&text).filter(|span| !span.contains("NAME")) {
            if ["crates/", "docs/", "interop/"].iter().any(|folder| span.starts_with(folder)) {
                let path = span.split_whitespace().next().unwrap_or(span);
                assert!(root().join(path).exists(), "{page} names {path}, which is not there");
            }
        }
    }
}

/// Reads all files with an extension below a directory.
fn sources(dir: &Path, extension: &str) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&sources(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
    text
}

#[test]
fn every_test_in_the_threat_table_exists() {
    let security = read("SECURITY.md");
    let (_, section) = security.split_once("\n## Threats\n").unwrap();
    let (table, _) = section.split_once("\n## ").unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let rust = sources(&root().join("crates"), "rs");
    let python = sources(&root().join("interop/attack"), "py");
    for row in &rows {
        let [who, .., shown_by] = row.as_slice() else { panic!("{row:?}") };
        let names: Vec<&str> = code_spans(shown_by).collect();
        assert!(!names.is_empty(), "no test shows what stops {who}");
        for name in names {
            let exists = match name.strip_prefix("attack ") {
                Some(number) => python.contains(&format!("\"{number}\"")),
                None => rust.contains(&format!("fn {name}(")),
            };
            assert!(exists, "SECURITY.md names {name}, which is not there");
        }
    }
    for who in [
        "web page",
        "anonymous",
        "user",
        "administrator",
        "worker",
        "live client",
        "remote registry",
        "bundle author",
        "local other user",
    ] {
        assert!(rows.iter().any(|row| row[0] == who), "the table has no row for {who}");
    }
}

#[test]
fn the_readme_example_for_users_with_keys_works() {
    let readme = read("README.md");
    let (_, section) = readme.split_once("## For many users").unwrap();
    let (_, block) = section.split_once("```sh\n").unwrap();
    let (script, _) = block.split_once("```").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(BINARY, &dir.path().join("data"));
    fs::write(dir.path().join("weather.md"), "# Weather\n\nOf any city.\n").unwrap();
    let programs = Path::new(BINARY).parent().unwrap().display().to_string();
    let run = |script: &str| {
        let mut shell = Command::new("bash");
        shell.args(["-euc", script]).current_dir(dir.path()).env("III_URL", &server.url);
        shell.env("PATH", format!("{programs}:{}", env::var("PATH").unwrap()));
        shell.env_remove("SKILLS_KEY");
        // The keys of the example are where the server has them.
        if let Some(store) = skills_testkit::store_url(&dir.path().join("data")) {
            shell.env("SKILLS_STORE", store);
        }
        let output = shell.output().unwrap();
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
