use std::{
    collections::{BTreeMap, HashSet},
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    path::Path,
};

use proptest::prelude::*;
use skills_bundles::{
    BundleError,
    sync::{DesiredFile, DesiredSkill, Options, SkipReason, SyncFolder, SyncOutcome, Writer},
};
use skills_core::{Coded as _, Digest};
use tempfile::TempDir;

use super::{put, tree};

const RECORD: &str = ".skills-sync.json";
const FORCE: Options = Options { force: true, dry_run: false, writer: Writer::Sync };

fn wanted(name: &str, root: &str, others: &[(&str, &str)]) -> DesiredSkill {
    let file = |(path, text): &(&str, &str)| DesiredFile {
        path: path.parse().unwrap(),
        bytes: (*text).to_owned().into(),
        executable: false,
    };
    DesiredSkill {
        name: name.to_owned(),
        id: name.to_owned(),
        version: Digest::of(format!("{root} {others:?}").as_bytes()),
        root: root.to_owned().into(),
        others: others.iter().map(file).collect(),
    }
}

/// Syncs a folder and returns the outcome of each wanted and each removed skill, by name.
fn sync(dir: &Path, skills: &[DesiredSkill], options: Options) -> BTreeMap<String, String> {
    let mut folder = SyncFolder::open(dir, options).unwrap();
    let skills: Vec<&DesiredSkill> = skills.iter().collect();
    let shown = |outcome: Result<SyncOutcome, BundleError>| match outcome {
        Ok(SyncOutcome::Written(files)) => format!("written {files}"),
        Ok(SyncOutcome::Skipped(SkipReason::Edited { path })) => {
            format!("edited {}", inside(dir, &path))
        }
        Ok(SyncOutcome::Skipped(SkipReason::Foreign { path })) => {
            format!("foreign {}", inside(dir, &path))
        }
        Ok(other) => format!("{other:?}").to_lowercase(),
        Err(error) => error.code().as_str().to_owned(),
    };
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for (wanted, outcome) in skills.iter().zip(folder.put(&skills).unwrap()) {
        all.insert(wanted.name.clone(), shown(outcome));
    }
    let names: HashSet<&str> = skills.iter().map(|wanted| wanted.name.as_str()).collect();
    for (name, outcome) in folder.finish(&names).unwrap() {
        all.insert(name, shown(outcome));
    }
    all
}

fn inside(dir: &Path, path: &Path) -> String {
    path.strip_prefix(dir).unwrap().display().to_string()
}

/// Syncs a folder and returns the only outcome.
fn one(dir: &Path, skills: &[DesiredSkill], options: Options) -> String {
    let all = sync(dir, skills, options);
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_values().next().unwrap()
}

/// Returns the files without the sync record.
fn files(dir: &Path) -> BTreeMap<String, String> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let all = tree(dir).into_iter();
    all.map(|(path, bytes)| (path.display().to_string(), text(bytes)))
        .filter(|(path, _)| path != RECORD)
        .collect()
}

fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn sync_writes_wanted_skills_and_removes_unwanted_ones() {
    let dir = dir();
    let dir = dir.path().join("made");
    let first = [wanted("a", "A", &[("d/x", "1"), ("y", "2")]), wanted("b", "B", &[])];
    let output = sync(&dir, &first, Options::default());
    assert_eq!((output["a"].as_str(), output["b"].as_str()), ("written 3", "written 1"));
    let expected = [("a/SKILL.md", "A"), ("a/d/x", "1"), ("a/y", "2"), ("b/SKILL.md", "B")];
    let expected = expected.map(|(path, text)| (path.to_owned(), text.to_owned()));
    assert_eq!(files(&dir), BTreeMap::from(expected));

    // Unchanged files are not rewritten, and neither is the record.
    let stamp = |path: &str| {
        let metadata = fs::metadata(dir.join(path)).unwrap();
        (metadata.ino(), metadata.mtime(), metadata.mtime_nsec())
    };
    let stamps = || ["a/SKILL.md", "a/d/x", RECORD].map(stamp);
    let before = stamps();
    let output = sync(&dir, &first, Options::default());
    assert_eq!((output["a"].as_str(), output["b"].as_str()), ("unchanged", "unchanged"));
    assert_eq!(stamps(), before);

    // A file became a folder, a folder a file, one is gone; unchanged files are not rewritten.
    let second = [wanted("a", "A", &[("d", "1"), ("y/z", "2")])];
    let dry = sync(&dir, &second, Options { dry_run: true, ..Options::default() });
    assert_eq!((dry["a"].as_str(), dry["b"].as_str()), ("updated", "removed"));
    assert_eq!(files(&dir).len(), 4, "a dry run does nothing");
    let output = sync(&dir, &second, Options::default());
    assert_eq!(output, dry);
    assert_eq!(files(&dir).into_keys().collect::<Vec<_>>(), ["a/SKILL.md", "a/d", "a/y/z"]);
    assert_eq!(stamp("a/SKILL.md"), before[0]);
    assert!(!dir.join("b").exists());

    assert_eq!(one(&dir, &[], Options::default()), "removed");
    assert!(tree(&dir).is_empty() && fs::read_dir(&dir).unwrap().next().is_none());
}

#[test]
fn edited_files_are_neither_overwritten_nor_removed() {
    let home = dir();
    let dir = home.path();
    let first = [wanted("a", "A", &[("x", "1")])];
    sync(dir, &first, Options::default());
    put(dir, "a/x", b"mine");
    assert_eq!(one(dir, &first, Options::default()), "edited a/x");
    let second = [wanted("a", "AA", &[("x", "1")])];
    assert_eq!(one(dir, &second, Options::default()), "edited a/x");
    let third = [wanted("a", "AA", &[])];
    assert_eq!(one(dir, &third, Options::default()), "edited a/x");
    assert_eq!(one(dir, &[], Options::default()), "edited a/x");
    assert_eq!((&*files(dir)["a/x"], &*files(dir)["a/SKILL.md"]), ("mine", "A"));

    // A file with the wanted content is no conflict, whoever wrote it.
    assert_eq!(one(dir, &[wanted("a", "A", &[("x", "mine")])], Options::default()), "unchanged");
    assert_eq!(one(dir, &first, Options::default()), "updated");
    put(dir, "a/x", b"mine again");
    assert_eq!(one(dir, &second, FORCE), "updated");
    assert_eq!(files(dir)["a/x"], "1");
    put(dir, "a/SKILL.md", b"mine");
    assert_eq!(one(dir, &[], FORCE), "removed");
    assert!(files(dir).is_empty());

    // Deleted files are written again, which loses nothing.
    sync(dir, &first, Options::default());
    fs::remove_file(dir.join("a/x")).unwrap();
    assert_eq!(one(dir, &first, Options::default()), "updated");
    fs::remove_dir_all(dir.join("a")).unwrap();
    assert_eq!(one(dir, &first, Options::default()), "updated");
    assert_eq!(files(dir).len(), 2);
    fs::remove_dir_all(dir.join("a")).unwrap();
    assert!(sync(dir, &[], Options::default()).is_empty());
    assert!(!dir.join(RECORD).exists());
}

#[test]
fn folders_not_written_by_sync_are_left_alone() {
    let home = dir();
    let dir = home.path();
    put(dir, "a/SKILL.md", b"A");
    put(dir, "b/SKILL.md", b"theirs");
    put(dir, "c/notes", b"theirs");
    fs::create_dir(dir.join("empty")).unwrap();
    let skills = ["a", "b", "c", "empty"].map(|name| wanted(name, &name.to_uppercase(), &[]));
    let output = sync(dir, &skills, Options::default());
    // An equal folder still belongs to the user: it may be the source that was added to the registry.
    assert_eq!(output["a"], "unchanged");
    assert_eq!((&*output["b"], &*output["c"]), ("foreign b/SKILL.md", "foreign c"));
    assert_eq!(output["empty"], "written 1");
    assert_eq!(one(dir, &[], Options::default()), "removed");
    assert_eq!(files(dir).into_keys().collect::<Vec<_>>(), ["a/SKILL.md", "b/SKILL.md", "c/notes"]);

    let output = sync(dir, &skills, FORCE);
    assert_eq!((&*output["b"], &*output["c"]), ("written 1", "written 1"));
    // Files that were never part of a skill stay even with force.
    sync(dir, &[], FORCE);
    assert_eq!(files(dir), BTreeMap::from([("c/notes".to_owned(), "theirs".to_owned())]));
}

#[test]
fn extra_files_in_a_synced_folder_stay() {
    let home = dir();
    let dir = home.path();
    sync(dir, &[wanted("a", "A", &[("scripts/run.py", "")])], Options::default());
    put(dir, "a/scripts/cache/run.pyc", b"made by running it");
    assert_eq!(one(dir, &[wanted("a", "AA", &[])], Options::default()), "updated");
    assert_eq!(one(dir, &[], Options::default()), "removed");
    assert_eq!(files(dir).into_keys().collect::<Vec<_>>(), ["a/scripts/cache/run.pyc"]);
}

#[test]
fn sync_follows_no_links() {
    for link in ["a", "a/d", "a/d/x", "a/SKILL.md"] {
        let home = dir();
        let (dir, outside) = (home.path().join("skills"), home.path().join("outside"));
        let first = [wanted("a", "A", &[("d/x", "1")])];
        sync(&dir, &first, Options::default());
        // The same content outside the folder.
        fs::create_dir(&outside).unwrap();
        let elsewhere = outside.join("moved");
        fs::rename(dir.join(link), &elsewhere).unwrap();
        symlink(&elsewhere, dir.join(link)).unwrap();
        let before = tree(&outside);
        let second = [wanted("a", "AA", &[("d/x", "2"), ("d/y", "3")])];
        for skills in [&second[..], &[]] {
            let output = one(&dir, skills, Options::default());
            assert!(output.starts_with("edited a") || output == "foreign a", "{link}: {output}");
        }
        assert_eq!(one(&dir, &second, FORCE), "updated", "{link}");
        assert_eq!(files(&dir).len(), 3, "{link}");
        assert_eq!(one(&dir, &[], FORCE), "removed", "{link}");
        assert_eq!(tree(&outside), before, "{link}");
    }
}

#[test]
fn files_of_an_interrupted_sync_are_recognized_as_ours() {
    let home = dir();
    let dir = home.path();
    let first = [wanted("a", "A", &[("x", "1")]), wanted("b", "B", &[])];
    sync(dir, &first, Options::default());
    // The sync ended after writing the files and before writing the record.
    let second = wanted("a", "AA", &[("x", "2"), ("y", "3")]);
    let new = wanted("c", "C", &[]);
    let mut folder = SyncFolder::open(dir, Options::default()).unwrap();
    folder.put(&[&second, &new]).unwrap();
    drop(folder);
    let text = fs::read_to_string(dir.join(RECORD)).unwrap();
    assert!(text.contains("pending"), "{text}");
    let third = [wanted("a", "AAA", &[("z", "4")])];
    let output = sync(dir, &third, Options::default());
    assert_eq!((&*output["a"], &*output["b"], &*output["c"]), ("updated", "removed", "removed"));
    assert_eq!(files(dir).into_keys().collect::<Vec<_>>(), ["a/SKILL.md", "a/z"]);
    assert!(!fs::read_to_string(dir.join(RECORD)).unwrap().contains("pending"));
}

#[test]
fn a_skill_that_cannot_be_written_is_reported_and_the_others_are_written() {
    let home = dir();
    let dir = home.path();
    sync(dir, &[wanted("a", "A", &[])], Options::default());
    // A folder with files is not replaced by a file, not even with force.
    put(dir, "a/x/precious", b"1");
    let skills = [wanted("a", "A", &[("x", "")]), wanted("b", "B", &[])];
    let output = sync(dir, &skills, FORCE);
    assert_eq!((&*output["a"], &*output["b"]), ("unwritable", "written 1"));
    assert_eq!(files(dir)["a/x/precious"], "1");
    assert!(
        !files(dir).keys().any(|path| path.contains(".skills-")),
        "nothing is left lying about"
    );
    fs::remove_dir_all(dir.join("a/x")).unwrap();
    assert_eq!(sync(dir, &skills, Options::default())["a"], "updated");
}

#[test]
fn concurrent_syncs_and_unusable_records_are_refused() {
    let home = dir();
    let dir = home.path();
    let folder = SyncFolder::open(dir, Options::default()).unwrap();
    assert_eq!(
        SyncFolder::open(dir, Options::default()).expect_err("busy").code().as_str(),
        "busy"
    );
    drop(folder);
    put(dir, RECORD, b"{}");
    let error = SyncFolder::open(dir, Options::default()).expect_err("no record");
    assert_eq!(error.code().as_str(), "bad_record");
    assert!(error.to_string().contains(RECORD) && error.hint().is_some(), "{error}");
    fs::remove_file(dir.join(RECORD)).unwrap();
    symlink("elsewhere", dir.join(RECORD)).unwrap();
    assert_eq!(
        SyncFolder::open(dir, Options::default()).expect_err("a link").code().as_str(),
        "bad_record"
    );
}

/// User action between two syncs.
#[derive(Debug, Clone)]
enum Step {
    DesiredSkill(Vec<(usize, usize)>),
    Edit(usize, usize),
    Delete(usize, usize),
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const PATHS: [&str; 4] = ["SKILL.md", "x", "d/x", "d/e/y"];

fn step() -> impl Strategy<Value = Step> {
    let skills = prop::collection::vec((0..3_usize, 0..4_usize), 0..3);
    prop_oneof![
        3 => skills.prop_map(Step::DesiredSkill),
        2 => (0..3_usize, 0..4_usize).prop_map(|(name, path)| Step::Edit(name, path)),
        1 => (0..3_usize, 0..4_usize).prop_map(|(name, path)| Step::Delete(name, path)),
    ]
}

/// Returns a numbered version of a skill.
fn version(name: usize, number: usize) -> DesiredSkill {
    let all = [("x", "1"), ("d/x", "2"), ("d/e/y", "3")];
    let text = format!("version {number}");
    wanted(NAMES[name], &text, &all[..number.min(3)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Property: user edits are never lost, and skills without edits are in sync.
    #[test]
    fn sync_never_loses_user_edits(steps in prop::collection::vec(step(), 1..12)) {
        let home = dir();
        let dir = home.path();
        let mut edits: BTreeMap<String, String> = BTreeMap::new();
        let mut number = 0;
        for step in steps {
            match step {
                Step::Edit(name, path) => {
                    number += 1;
                    let path = format!("{}/{}", NAMES[name], PATHS[path]);
                    let text = format!("edit {number}");
                    put(dir, &path, text.as_bytes());
                    edits.insert(path, text);
                }
                Step::Delete(name, path) => {
                    let path = format!("{}/{}", NAMES[name], PATHS[path]);
                    let _ = fs::remove_file(dir.join(&path));
                    // An empty folder would count as a user edit.
                    for above in Path::new(&path).ancestors().skip(1) {
                        let _ = fs::remove_dir(dir.join(above));
                    }
                    edits.remove(&path);
                }
                Step::DesiredSkill(skills) => {
                    let skills: BTreeMap<usize, usize> = skills.into_iter().collect();
                    let skills: Vec<DesiredSkill> =
                        skills.into_iter().map(|(name, number)| version(name, number)).collect();
                    sync(dir, &skills, Options::default());
                    let now = files(dir);
                    for (path, text) in &edits {
                        prop_assert_eq!(now.get(path), Some(text), "{} of {:?}", path, now);
                    }
                    for name in NAMES {
                        if edits.keys().any(|path| path.starts_with(name)) {
                            continue;
                        }
                        let wanted = skills.iter().find(|wanted| wanted.name == name);
                        let count = wanted.map_or(0, |wanted| wanted.others.len() + 1);
                        let there = now.keys().filter(|path| path.starts_with(name)).count();
                        prop_assert_eq!(there, count, "{} of {:?}", name, now);
                    }
                }
            }
        }
    }
}
