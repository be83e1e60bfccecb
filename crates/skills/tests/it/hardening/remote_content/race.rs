use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{skills, text};

const RUNS: usize = 20;

/// Alternates a path between a file and a link to a secret until told to stop.
fn swap(path: &Path, secret: &Path, stop: &AtomicBool) {
    let (file, link) = (path.with_extension("file"), path.with_extension("link"));
    while !stop.load(Ordering::Relaxed) {
        fs::write(&file, "harmless").unwrap();
        fs::rename(&file, path).unwrap();
        symlink(secret, &link).unwrap();
        fs::rename(&link, path).unwrap();
    }
}

#[test]
fn a_file_replaced_by_a_link_during_add_is_never_followed() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = dir.path().join("bundle");
    fs::create_dir(&bundle).unwrap();
    fs::write(bundle.join("SKILL.md"), "---\nname: a\ndescription: A.\n---\n").unwrap();
    fs::write(bundle.join(".gitignore"), "*.file\n*.link\n").unwrap();
    // Files that take time to read, between listing and opening.
    for number in 0..200 {
        fs::write(bundle.join(format!("b{number}")), "b").unwrap();
    }
    let secret = dir.path().join("secret");
    fs::write(&secret, "SECRET").unwrap();
    let target = bundle.join("z");
    fs::write(&target, "harmless").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (stop, target, secret) = (Arc::clone(&stop), target, secret);
        std::thread::spawn(move || swap(&target, &secret, &stop))
    };
    for run in 0..RUNS {
        let data = dir.path().join(format!("data{run}"));
        let added = skills(&["--data-dir", text(&data), "add", text(&bundle)]);
        if added.code == Some(0) {
            let read = skills(&["--data-dir", text(&data), "read", "iii://a/z"]);
            assert_ne!(read.stdout, "SECRET", "run {run}");
        } else {
            let words = ["is a link", "No such file"];
            assert!(words.iter().any(|words| added.stderr.contains(words)), "{}", added.stderr);
        }
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
}
