//! A tree with every oddity of real repositories at once, through each command.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{answer, document, json_answer, put, skills, text, tree};

/// Largest number of files of a bundle in the repositories that were tried.
const MANY_FILES: usize = 1104;
const BUNDLE_LIMIT: usize = 32 << 20;
const LONG_NAME: &str =
    "aws-certified-solutions-architect-professional-exam-preparation-guide-and-checklist";
const LONG_FOLDER: &str =
    "skills/aws-certified-solutions-architect-professional-exam-preparation-guide-and-checklist";

/// Skills that are usable, and the folder of each.
const USABLE: [(&str, &str); 11] = [
    ("bom", "skills/bom"),
    ("crlf", "skills/crlf"),
    ("full", "skills/full"),
    ("linked", "skills/linked"),
    (LONG_NAME, LONG_FOLDER),
    ("lowercase", "skills/lowercase"),
    ("many", "skills/many"),
    ("nested", "skills/nested"),
    ("plain", "skills/plain"),
    ("plain-text", "skills/plain-text"),
    ("tool", "plugins/office/tool"),
];

/// Folders that are refused, with the code of each.
const UNUSABLE: [(&str, &str); 7] = [
    ("broken/plain", "invalid_skill"),
    ("skills/absolute", "invalid_path"),
    ("skills/binary", "invalid_skill"),
    ("skills/escape", "invalid_path"),
    ("skills/file-link", "invalid_path"),
    ("skills/name-bytes", "invalid_path"),
    ("skills/over", "too_large"),
];

fn build(repo: &Path) {
    put(repo, "skills/plain/SKILL.md", document("plain", "Plain."));
    put(repo, "skills/plain/data/ü 語.csv", "a,b\r\n");
    put(repo, "skills/plain/empty.txt", "");
    fs::create_dir_all(repo.join("skills/plain/nothing/inside")).unwrap();
    put(repo, "skills/plain-text/SKILL.md", "# Plain text\n\nNo frontmatter.\n");
    put(repo, "skills/crlf/SKILL.md", document("crlf", "Windows.").replace('\n', "\r\n"));
    put(repo, "skills/bom/SKILL.md", format!("\u{feff}{}", document("bom", "Mark.")));
    put(repo, "skills/lowercase/skill.md", document("lowercase", ""));
    put(repo, &format!("{LONG_FOLDER}/SKILL.md"), document(LONG_NAME, ""));
    put(repo, "skills/nested/SKILL.md", document("nested", ""));
    put(repo, "skills/nested/examples/inner/SKILL.md", document("inner", "A part of nested."));
    put(repo, "plugins/office/tool/SKILL.md", document("tool", ""));
    put(repo, "plugins/office/tool/scripts/run", "echo run\n");
    put(repo, "plugins/office/tool/scripts/lib.sh", "#!/bin/sh\n");
    let program = repo.join("plugins/office/tool/scripts/run");
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();

    put(repo, "skills/many/SKILL.md", document("many", ""));
    for number in 1..MANY_FILES {
        put(repo, &format!("skills/many/f{}/{number}.txt", number % 7), number.to_string());
    }
    for (name, bytes) in [("full", BUNDLE_LIMIT), ("over", BUNDLE_LIMIT + 1)] {
        let document = document(name, "");
        put(repo, &format!("skills/{name}/data.bin"), vec![0x1b; bytes - document.len()]);
        put(repo, &format!("skills/{name}/SKILL.md"), document);
    }

    // Copies: equal, linked, and one that is not usable.
    put(repo, ".claude/skills/plain/SKILL.md", document("plain", "Plain."));
    put(repo, ".claude/skills/plain/data/ü 語.csv", "a,b\r\n");
    put(repo, ".claude/skills/plain/empty.txt", "");
    fs::create_dir_all(repo.join(".agents/skills/tool")).unwrap();
    let document_of_tool = "../../../plugins/office/tool/SKILL.md";
    symlink(document_of_tool, repo.join(".agents/skills/tool/SKILL.md")).unwrap();
    put(repo, "broken/plain/SKILL.md", "---\nname: plain\n---\n");

    // Links: a document inside the tree, documents outside it, a file of a bundle, a folder.
    put(repo, "docs/linked.md", document("linked", "Shared."));
    fs::create_dir_all(repo.join("skills/linked")).unwrap();
    symlink("../../docs/linked.md", repo.join("skills/linked/SKILL.md")).unwrap();
    put(repo.parent().unwrap(), "outside.md", document("escape", "s3cret"));
    fs::create_dir_all(repo.join("skills/escape")).unwrap();
    symlink("../../../outside.md", repo.join("skills/escape/SKILL.md")).unwrap();
    fs::create_dir_all(repo.join("skills/absolute")).unwrap();
    symlink("/etc/hostname", repo.join("skills/absolute/SKILL.md")).unwrap();
    put(repo, "skills/file-link/SKILL.md", document("file-link", ""));
    symlink("../plain/empty.txt", repo.join("skills/file-link/link.txt")).unwrap();
    symlink("skills", repo.join("all-skills")).unwrap();

    put(repo, "skills/binary/SKILL.md", b"---\nname: binary\ndescription: \xff\n---\n");
    put(repo, "skills/name-bytes/SKILL.md", document("name-bytes", ""));
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    fs::write(repo.join("skills/name-bytes").join(name), "x").unwrap();

    // Parts of no skill.
    put(repo, "README.md", "# Skills\n");
    put(repo, ".gitignore", "/build/\n*.log\n");
    put(repo, "build/made/SKILL.md", document("made", ""));
    put(repo, "skills/plain/debug.log", "x");
    put(repo, "node_modules/dep/SKILL.md", document("dep", ""));
    put(repo, ".git/config", "[core]\n");
    put(repo, ".git/hooks/SKILL.md", document("hook", ""));
}

/// Files of a bundle with their executable bits.
type Files = BTreeMap<PathBuf, (Vec<u8>, bool)>;

fn files(dir: &Path) -> Files {
    let is_executable =
        |path: &Path| fs::metadata(dir.join(path)).unwrap().permissions().mode() & 0o100 != 0;
    let with_bit = |(path, bytes): (PathBuf, Vec<u8>)| {
        let executable = is_executable(&path);
        (path, (bytes, executable))
    };
    tree(dir).into_iter().map(with_bit).collect()
}

/// Files of a bundle of the tree as they should leave the registry.
fn expected(repo: &Path, folder: &str) -> Files {
    let mut files = files(&repo.join(folder));
    files.retain(|path, _| path.extension().is_none_or(|extension| extension != "log"));
    if let Some(document) = files.remove(Path::new("skill.md")) {
        files.insert("SKILL.md".into(), document);
    }
    files
}

/// Status of each bundle by its folder, and the code of its error.
fn statuses(repo: &Path, added: &Value) -> BTreeMap<String, (String, String)> {
    let row = |row: &Value| {
        let path = Path::new(row["path"].as_str().unwrap());
        let path = path.strip_prefix(repo).unwrap().to_str().unwrap().to_owned();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (path, (text(&row["status"]), text(&row["error"]["code"])))
    };
    added["skills"].as_array().unwrap().iter().map(row).collect()
}

fn expected_statuses(usable: &str) -> BTreeMap<String, (String, String)> {
    let row = |folder: &str, status: &str, code: &str| {
        (folder.to_owned(), (status.to_owned(), code.to_owned()))
    };
    let copies = [".agents/skills/tool", "skills/plain"];
    let is_copy = |folder: &str| copies.contains(&folder);
    USABLE
        .iter()
        .filter(|(_, folder)| !is_copy(folder))
        .map(|(_, folder)| row(folder, usable, ""))
        .chain(UNUSABLE.iter().map(|(folder, code)| row(folder, "failed", code)))
        .chain([row(".claude/skills/plain", usable, "")])
        .chain(copies.map(|folder| row(folder, "duplicate", "")))
        .collect()
}

#[test]
fn a_tree_with_every_oddity_is_added_listed_exported_and_synced() {
    let dir = tempfile::tempdir().unwrap();
    // The path of a row is compared with this one.
    let dir = fs::canonicalize(dir.path()).unwrap();
    let (repo, data) = (dir.join("repo"), dir.join("data"));
    build(&repo);
    let add = |data: &Path, arguments: &[&str]| {
        let target = ["--data-dir", text(data), "add", text(&repo), "--json"];
        let ran = skills(&[&target as &[&str], arguments].concat());
        assert_eq!(ran.code, Some(1), "some are refused: {}", ran.stderr);
        assert!(!format!("{ran:?}").contains("s3cret"), "a file outside the tree was read");
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    assert_eq!(statuses(&repo, &add(&data, &["--dry-run"])), expected_statuses("added"));
    assert!(!data.exists(), "a dry run writes nothing");
    let added = add(&data, &[]);
    assert_eq!(statuses(&repo, &added), expected_statuses("added"));
    assert_eq!(statuses(&repo, &add(&data, &[])), expected_statuses("unchanged"));
    assert_eq!(statuses(&repo, &add(&data, &["--dry-run"])), expected_statuses("unchanged"));

    let rows = added["skills"].as_array().unwrap();
    let short = rows.iter().find(|row| row["shortened_from"] == LONG_NAME).unwrap();
    let short = short["id"].as_str().unwrap();
    let ids: Vec<&str> =
        USABLE.iter().map(|(id, _)| if *id == LONG_NAME { short } else { id }).collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    let listed = json_answer(&["--data-dir", text(&data), "list"]);
    let listed = listed["skills"].as_array().unwrap().iter();
    assert_eq!(listed.map(|row| row["id"].as_str().unwrap()).collect::<Vec<_>>(), sorted);

    let (out, synced) = (dir.join("out"), dir.join("synced"));
    for ((_, folder), id) in USABLE.iter().zip(&ids) {
        answer(&["--data-dir", text(&data), "export", id, text(&out.join(id))]);
        let is_exact = files(&out.join(id)) == expected(&repo, folder);
        assert!(is_exact, "{id} is not exported byte for byte");
    }
    // A second registry gets the same from the exports.
    let second = dir.join("second");
    let again = json_answer(&["--data-dir", text(&second), "add", text(&out)]);
    assert_eq!(again["summary"]["added"], USABLE.len());

    answer(&["--data-dir", text(&data), "sync", text(&synced)]);
    for ((name, folder), id) in USABLE.iter().zip(&ids) {
        // A plain document gets frontmatter in the folders of agents, and so does one with an illegal name.
        let mut expected = expected(&repo, folder);
        let found = [name, id].map(|name| synced.join(name)).into_iter().find(|dir| dir.exists());
        let mut found = files(&found.unwrap_or_else(|| panic!("{id} is missing")));
        if ["plain-text", LONG_NAME].contains(name) {
            expected.remove(Path::new("SKILL.md"));
            assert!(found.remove(Path::new("SKILL.md")).is_some(), "{id}");
        }
        assert!(found == expected, "{id} is not synced byte for byte");
    }
    let unchanged = answer(&["--data-dir", text(&data), "sync", text(&synced)]);
    let summary = format!("written 0, updated 0, unchanged {}, ", USABLE.len());
    assert!(unchanged.contains(&summary), "{unchanged}");
}
