//! SECURITY.md lists all work that a request can cause, and all tables of what clients hold.

use std::{collections::BTreeSet, fs, path::Path};

use super::{code_spans, read, root};

/// Calls `visit` with the path below `crates` and the text of each source file of the product, without test modules.
fn for_each_source(folder: &Path, visit: &mut impl FnMut(&str, &str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            if !["tests", "benches", "target"].contains(&name.as_str()) {
                for_each_source(&path, visit);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).unwrap();
            let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let below = path.strip_prefix(root().join("crates")).unwrap().to_str().unwrap();
            visit(&below.replace("/src/", "/"), product);
        }
    }
}

/// Returns the cells of the rows of a table, which follows a heading.
fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, section) = page.split_once(heading).unwrap_or_else(|| panic!("no heading {heading:?}"));
    let rows = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    let cells =
        |row: &str| row.trim_matches('|').split('|').map(|it| it.trim().to_owned()).collect();
    rows.map(cells).collect()
}

#[test]
fn security_lists_all_work_that_a_request_can_cause() {
    let mut work = BTreeSet::new();
    for_each_source(&root().join("crates"), &mut |path, text| {
        for (call, pool) in [
            ("WorkKind::compute(", "compute"),
            ("WorkKind::io(", "I/O"),
            ("WorkKind::lookup(", "lookup"),
        ] {
            for rest in text.split(call).skip(1) {
                let name = rest.trim_start().strip_prefix('"').unwrap_or_else(|| {
                    panic!("crates/{path}: the name of a kind of work is a literal")
                });
                let name = name.split('"').next().unwrap();
                work.insert(format!("{name} ({pool}) in {path}"));
            }
        }
    });
    let page = read("SECURITY.md");
    let listed: BTreeSet<String> = table(&page, "\n### Work\n")
        .iter()
        .map(|row| {
            let path = code_spans(&row[3]).next().unwrap_or_default();
            format!("{} ({}) in {path}", row[0], row[1])
        })
        .collect();
    assert_eq!(listed, work, "SECURITY.md (left) and the code (right)");
}

#[test]
fn security_lists_all_tables_of_what_clients_hold() {
    let mut tables = BTreeSet::new();
    for_each_source(&root().join("crates"), &mut |path, text| {
        let is_user = !path.starts_with("core/")
            && (text.contains("OwnedTable::new(") || text.contains("OwnedTable::with_eviction("));
        if is_user {
            tables.insert(path.to_owned());
        }
    });
    let page = read("SECURITY.md");
    let rows = table(&page, "\n### Tables\n");
    let paths = rows.iter().map(|row| row.last().unwrap());
    let listed: BTreeSet<String> =
        paths.filter_map(|cell| code_spans(cell).next()).map(str::to_owned).collect();
    assert_eq!(listed, tables, "SECURITY.md (left) and the code (right)");
}

#[test]
fn blocking_work_needs_a_permit() {
    for_each_source(&root().join("crates"), &mut |path, text| {
        let starts_blocking = text.contains("spawn_blocking(");
        assert!(!starts_blocking || path == "core/work/permit.rs", "crates/{path}: use core/work");
    });
    assert!(read("clippy.toml").contains("tokio::task::spawn_blocking"));
}
