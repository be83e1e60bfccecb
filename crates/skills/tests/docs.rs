//! The documentation says what is there: examples are shown as they are run, and links lead somewhere.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

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
