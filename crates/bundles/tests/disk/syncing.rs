use std::{
    collections::{BTreeMap, HashSet},
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    path::Path,
};

use proptest::prelude::*;
use skills_bundles::{
    BundleError,
    sync::{Folder, Kept, Options, Outcome, Wanted},
};
use skills_core::Digest;
use tempfile::TempDir;

use super::{put, tree};

const RECORD: &str = ".skills-sync.json";
const FORCE: Options = Options { force: true, dry_run: false };

fn wanted(name: &str, root: &str, others: &[(&str, &str)]) -> Wanted {
    let file = |(path, text): &(&str, &str)| (path.parse().unwrap(), (*text).to_owned().into());
    Wanted {
        name: name.to_owned(),
        id: name.to_owned(),
        version: Digest::of(format!("{root} {others:?}").as_bytes()),
        root: root.to_owned().into(),
        others: others.iter().map(file).collect(),
    }
}

/// What became of each skill, by name: those that are wanted, and those that are not any more.
fn sync(dir: &Path, skills: &[Wanted], options: Options) -> BTreeMap<String, String> {
    let mut folder = Folder::open(dir, options).unwrap();
    let skills: Vec<&Wanted> = skills.iter().collect();
    let shown = |outcome: Result<Outcome, BundleError>| match outcome {
        Ok(Outcome::Written(files)) => format!("written {files}"),
        Ok(Outcome::Kept(Kept::Edited { path })) => format!("edited {}", inside(dir, &path)),
        Ok(Outcome::Kept(Kept::Foreign { path })) => format!("foreign {}", inside(dir, &path)),
        Ok(other) => format!("{other:?}").to_lowercase(),
        Err(error) => error.code().to_owned(),
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

/// What became of the only one.
fn one(dir: &Path, skills: &[Wanted], options: Options) -> String {
    let all = sync(dir, skills, options);
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_values().next().unwrap()
}

/// The files, without the record.
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
fn what_is_wanted_is_there_and_what_is_not_any_more_is_not() {
    let dir = dir();
    let dir = dir.path().join("made");
    let first = [wanted("a", "A", &[("d/x", "1"), ("y", "2")]), wanted("b", "B", &[])];
    let said = sync(&dir, &first, Options::default());
    assert_eq!((said["a"].as_str(), said["b"].as_str()), ("written 3", "written 1"));
    let expected = [("a/SKILL.md", "A"), ("a/d/x", "1"), ("a/y", "2"), ("b/SKILL.md", "B")];
    let expected = expected.map(|(path, text)| (path.to_owned(), text.to_owned()));
    assert_eq!(files(&dir), BTreeMap::from(expected));

    // What is the same is not touched, not even the record.
    let stamp = |path: &str| {
        let metadata = fs::metadata(dir.join(path)).unwrap();
        (metadata.ino(), metadata.mtime(), metadata.mtime_nsec())
    };
    let stamps = || ["a/SKILL.md", "a/d/x", RECORD].map(stamp);
    let before = stamps();
    let said = sync(&dir, &first, Options::default());
    assert_eq!((said["a"].as_str(), said["b"].as_str()), ("unchanged", "unchanged"));
    assert_eq!(stamps(), before);

    // A file became a folder, another the other way round, one is gone; and of what is the same nothing is rewritten.
    let second = [wanted("a", "A", &[("d", "1"), ("y/z", "2")])];
    let dry = sync(&dir, &second, Options { dry_run: true, force: false });
    assert_eq!((dry["a"].as_str(), dry["b"].as_str()), ("updated", "removed"));
    assert_eq!(files(&dir).len(), 4, "a dry run does nothing");
    let said = sync(&dir, &second, Options::default());
    assert_eq!(said, dry);
    assert_eq!(files(&dir).into_keys().collect::<Vec<_>>(), ["a/SKILL.md", "a/d", "a/y/z"]);
    assert_eq!(stamp("a/SKILL.md"), before[0]);
    assert!(!dir.join("b").exists());

    assert_eq!(one(&dir, &[], Options::default()), "removed");
    assert!(tree(&dir).is_empty() && fs::read_dir(&dir).unwrap().next().is_none());
}

#[test]
fn what_was_edited_is_neither_overwritten_nor_removed() {
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

    // What is as it should be, by whomever, is not in the way.
    assert_eq!(one(dir, &[wanted("a", "A", &[("x", "mine")])], Options::default()), "unchanged");
    assert_eq!(one(dir, &first, Options::default()), "updated");
    put(dir, "a/x", b"mine again");
    assert_eq!(one(dir, &second, FORCE), "updated");
    assert_eq!(files(dir)["a/x"], "1");
    put(dir, "a/SKILL.md", b"mine");
    assert_eq!(one(dir, &[], FORCE), "removed");
    assert!(files(dir).is_empty());

    // What was deleted is written again: nothing is lost by that.
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
fn what_somebody_else_made_is_left_alone() {
    let home = dir();
    let dir = home.path();
    put(dir, "a/SKILL.md", b"A");
    put(dir, "b/SKILL.md", b"theirs");
    put(dir, "c/notes", b"theirs");
    fs::create_dir(dir.join("empty")).unwrap();
    let skills = ["a", "b", "c", "empty"].map(|name| wanted(name, &name.to_uppercase(), &[]));
    let said = sync(dir, &skills, Options::default());
    // One that is the same is not ours for that: it is what was added to the registry, perhaps.
    assert_eq!(said["a"], "unchanged");
    assert_eq!((&*said["b"], &*said["c"]), ("foreign b/SKILL.md", "foreign c"));
    assert_eq!(said["empty"], "written 1");
    assert_eq!(one(dir, &[], Options::default()), "removed");
    assert_eq!(files(dir).into_keys().collect::<Vec<_>>(), ["a/SKILL.md", "b/SKILL.md", "c/notes"]);

    let said = sync(dir, &skills, FORCE);
    assert_eq!((&*said["b"], &*said["c"]), ("written 1", "written 1"));
    // What was never part of a skill stays also then.
    sync(dir, &[], FORCE);
    assert_eq!(files(dir), BTreeMap::from([("c/notes".to_owned(), "theirs".to_owned())]));
}

#[test]
fn what_else_is_in_a_folder_stays_there() {
    let home = dir();
    let dir = home.path();
    sync(dir, &[wanted("a", "A", &[("scripts/run.py", "")])], Options::default());
    put(dir, "a/scripts/cache/run.pyc", b"made by running it");
    assert_eq!(one(dir, &[wanted("a", "AA", &[])], Options::default()), "updated");
    assert_eq!(one(dir, &[], Options::default()), "removed");
    assert_eq!(files(dir).into_keys().collect::<Vec<_>>(), ["a/scripts/cache/run.pyc"]);
}

#[test]
fn no_link_is_followed() {
    for link in ["a", "a/d", "a/d/x", "a/SKILL.md"] {
        let home = dir();
        let (dir, outside) = (home.path().join("skills"), home.path().join("outside"));
        let first = [wanted("a", "A", &[("d/x", "1")])];
        sync(&dir, &first, Options::default());
        // The same bytes, elsewhere.
        fs::create_dir(&outside).unwrap();
        let elsewhere = outside.join("moved");
        fs::rename(dir.join(link), &elsewhere).unwrap();
        symlink(&elsewhere, dir.join(link)).unwrap();
        let before = tree(&outside);
        let second = [wanted("a", "AA", &[("d/x", "2"), ("d/y", "3")])];
        for skills in [&second[..], &[]] {
            let said = one(&dir, skills, Options::default());
            assert!(said.starts_with("edited a") || said == "foreign a", "{link}: {said}");
        }
        assert_eq!(one(&dir, &second, FORCE), "updated", "{link}");
        assert_eq!(files(&dir).len(), 3, "{link}");
        assert_eq!(one(&dir, &[], FORCE), "removed");
        assert_eq!(tree(&outside), before, "{link}");
    }
}

#[test]
fn what_was_written_before_an_end_half_way_is_known_as_ours() {
    let home = dir();
    let dir = home.path();
    let first = [wanted("a", "A", &[("x", "1")]), wanted("b", "B", &[])];
    sync(dir, &first, Options::default());
    // Written, and ended before the record says that it is done.
    let second = wanted("a", "AA", &[("x", "2"), ("y", "3")]);
    let new = wanted("c", "C", &[]);
    let mut folder = Folder::open(dir, Options::default()).unwrap();
    folder.put(&[&second, &new]).unwrap();
    drop(folder);
    let text = fs::read_to_string(dir.join(RECORD)).unwrap();
    assert!(text.contains("pending"), "{text}");
    let third = [wanted("a", "AAA", &[("z", "4")])];
    let said = sync(dir, &third, Options::default());
    assert_eq!((&*said["a"], &*said["b"], &*said["c"]), ("updated", "removed", "removed"));
    assert_eq!(files(dir).into_keys().collect::<Vec<_>>(), ["a/SKILL.md", "a/z"]);
    assert!(!fs::read_to_string(dir.join(RECORD)).unwrap().contains("pending"));
}

#[test]
fn what_cannot_be_written_is_said_and_the_rest_is() {
    let home = dir();
    let dir = home.path();
    sync(dir, &[wanted("a", "A", &[])], Options::default());
    // A folder with something in it is not removed for a file, also not by force.
    put(dir, "a/x/precious", b"1");
    let skills = [wanted("a", "A", &[("x", "")]), wanted("b", "B", &[])];
    let said = sync(dir, &skills, FORCE);
    assert_eq!((&*said["a"], &*said["b"]), ("unwritable", "written 1"));
    assert_eq!(files(dir)["a/x/precious"], "1");
    assert!(
        !files(dir).keys().any(|path| path.contains(".skills-")),
        "nothing is left lying about"
    );
    fs::remove_dir_all(dir.join("a/x")).unwrap();
    assert_eq!(sync(dir, &skills, Options::default())["a"], "updated");
}

#[test]
fn one_sync_at_a_time_and_a_record_that_can_be_used() {
    let home = dir();
    let dir = home.path();
    let folder = Folder::open(dir, Options::default()).unwrap();
    assert_eq!(Folder::open(dir, Options::default()).expect_err("busy").code(), "busy");
    drop(folder);
    put(dir, RECORD, b"{}");
    let error = Folder::open(dir, Options::default()).expect_err("no record");
    assert_eq!(error.code(), "bad_record");
    assert!(error.to_string().contains(RECORD) && error.hint().is_some(), "{error}");
    fs::remove_file(dir.join(RECORD)).unwrap();
    symlink("elsewhere", dir.join(RECORD)).unwrap();
    assert_eq!(Folder::open(dir, Options::default()).expect_err("a link").code(), "bad_record");
}

/// What somebody does between two syncs.
#[derive(Debug, Clone)]
enum Step {
    Wanted(Vec<(usize, usize)>),
    Edit(usize, usize),
    Delete(usize, usize),
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const PATHS: [&str; 4] = ["SKILL.md", "x", "d/x", "d/e/y"];

fn step() -> impl Strategy<Value = Step> {
    let skills = prop::collection::vec((0..3_usize, 0..4_usize), 0..3);
    prop_oneof![
        3 => skills.prop_map(Step::Wanted),
        2 => (0..3_usize, 0..4_usize).prop_map(|(name, path)| Step::Edit(name, path)),
        1 => (0..3_usize, 0..4_usize).prop_map(|(name, path)| Step::Delete(name, path)),
    ]
}

/// One of some versions of a skill.
fn version(name: usize, number: usize) -> Wanted {
    let all = [("x", "1"), ("d/x", "2"), ("d/e/y", "3")];
    let text = format!("version {number}");
    wanted(NAMES[name], &text, &all[..number.min(3)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever somebody does, their bytes are never lost; and where they did nothing, everything is in step.
    #[test]
    fn nobodys_work_is_lost(steps in prop::collection::vec(step(), 1..12)) {
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
                    // A folder that is left empty would count as somebody's.
                    for above in Path::new(&path).ancestors().skip(1) {
                        let _ = fs::remove_dir(dir.join(above));
                    }
                    edits.remove(&path);
                }
                Step::Wanted(skills) => {
                    let skills: BTreeMap<usize, usize> = skills.into_iter().collect();
                    let skills: Vec<Wanted> =
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
