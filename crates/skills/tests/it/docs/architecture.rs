//! ARCHITECTURE.md: its crate diagram and crate table match `cargo metadata`, and the names in it exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use serde_json::Value;

use super::{code_spans, read, root, sources};

type Dependencies = BTreeMap<String, BTreeSet<String>>;

/// Returns the crates of the workspace as `cargo metadata` describes them.
fn metadata() -> Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let output = cargo.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the dependencies of every crate on other crates of the workspace, without those of tests.
fn workspace() -> Dependencies {
    let metadata = metadata();
    let short = |name: &Value| {
        let name = name.as_str().unwrap();
        name.strip_prefix("skills-").unwrap_or(name).to_owned()
    };
    let packages = metadata["packages"].as_array().unwrap();
    let of_package = |package: &Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        let ours = all.filter(|it| it["kind"].is_null() && it["path"].is_string());
        (short(&package["name"]), ours.map(|it| short(&it["name"])).collect())
    };
    packages.iter().map(of_package).collect()
}

/// Returns the section "Crates".
fn crates_section() -> String {
    let page = read("ARCHITECTURE.md");
    let (_, section) = page.split_once("\n## Crates\n").unwrap();
    section.split_once("\n## ").unwrap().0.to_owned()
}

#[test]
fn the_dependency_table_lists_the_direct_dependencies() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let product = packages.filter(|package| package["name"] != "skills-testkit");
    let all = product.flat_map(|package| package["dependencies"].as_array().unwrap());
    let direct: BTreeSet<&str> = all
        .filter(|it| it["kind"].is_null() && it["path"].is_null())
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    let page = read("ARCHITECTURE.md");
    let (_, section) = page.split_once("\n## Dependencies\n").unwrap();
    let section = section.split_once("\n## ").unwrap().0;
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let documented: BTreeSet<&str> =
        rows.map(|row| row.split('|').nth(1).unwrap().trim()).collect();
    assert_eq!(documented, direct);
}

#[test]
fn the_crate_table_lists_the_dependencies_of_every_crate() {
    let section = crates_section();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let documented: Dependencies = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [_, name, _, dependencies, _] = cells[..] else { panic!("{row}") };
            let names = dependencies.split(',').map(str::trim).filter(|name| !name.is_empty());
            (name.trim_matches('`').to_owned(), names.map(str::to_owned).collect())
        })
        .collect();
    assert_eq!(documented, workspace());
}

#[test]
fn every_crate_of_the_diagram_depends_only_on_lines_below_its_own() {
    let (workspace, section) = (workspace(), crates_section());
    let (_, diagram) = section.split_once("```text\n").unwrap();
    let (diagram, _) = diagram.split_once("```").unwrap();
    let mut lines = BTreeMap::new();
    for (line, text) in diagram.lines().enumerate() {
        // The crates are to the left of the caption.
        let names = text.split("     ").find(|part| !part.trim().is_empty()).unwrap();
        for name in names.split_whitespace() {
            assert!(lines.insert(name, line).is_none(), "{name} is in the diagram twice");
        }
    }
    assert_eq!(
        lines.keys().copied().collect::<Vec<_>>(),
        workspace.keys().map(String::as_str).collect::<Vec<_>>()
    );
    for (name, dependencies) in &workspace {
        for dependency in dependencies {
            let (upper, lower) = (lines[name.as_str()], lines[dependency.as_str()]);
            assert!(upper < lower, "{name} depends on {dependency}, which is not below it");
        }
    }
}

/// Returns whether a `.rs` file, or a folder of modules, is in a crate.
fn is_source(crates: &Path, path: &str) -> bool {
    match path.split_once('/') {
        Some((name, rest)) => crates.join(name).join("src").join(rest).exists(),
        None => std::fs::read_dir(crates).unwrap().any(|entry| {
            let src = entry.unwrap().path().join("src");
            contains_file(&src, path)
        }),
    }
}

fn contains_file(dir: &Path, name: &str) -> bool {
    dir.join(name).exists()
        || std::fs::read_dir(dir).unwrap().any(|entry| {
            let path = entry.unwrap().path();
            path.is_dir() && contains_file(&path, name)
        })
}

#[test]
fn files_and_functions_named_in_the_architecture_exist() {
    let page = read("ARCHITECTURE.md");
    let (crates, workspace) = (root().join("crates"), workspace());
    let code = sources(&crates, "rs");
    // The diagram is the only code block; its fences would shift the spans.
    let text = page.replace("```text", "").replace("```", "");
    for span in code_spans(&text).filter(|span| !span.contains(char::is_whitespace)) {
        let is_path = span.split_once('/').is_some_and(|(name, _)| workspace.contains_key(name));
        if is_path || span.ends_with(".rs") && !span.starts_with("crates/") {
            assert!(is_source(&crates, span), "ARCHITECTURE.md names {span}, which is not there");
        } else if let Some((_, name)) = span.rsplit_once("::")
            && span.starts_with(char::is_uppercase)
        {
            let is_item =
                ["fn ", "    "].iter().any(|before| code.contains(&format!("{before}{name}")));
            assert!(is_item, "ARCHITECTURE.md names {span}, which is not there");
        } else if span.starts_with(char::is_uppercase) && span.chars().all(char::is_alphanumeric) {
            let kinds = ["struct", "enum", "trait", "type"];
            let is_type = kinds.iter().any(|kind| code.contains(&format!("{kind} {span}")))
                || code.contains(&format!("    {span}"));
            assert!(is_type, "ARCHITECTURE.md names {span}, which is not there");
        }
    }
}
