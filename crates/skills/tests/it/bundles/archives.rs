use std::path::Path;

use skills_testkit::{program, run};

use super::{answer, put, put_bundles, skills, text};

use crate::support::{TestServer, ids, read};

/// Packs an archive with a common tool.
fn pack(tool: &[&str], dir: &Path) {
    let ran = run(program(tool[0]).args(&tool[1..]).current_dir(dir));
    assert_eq!(ran.code, Some(0), "{tool:?}: {}", ran.stderr);
}

const ZIP: &str =
    "import shutil, sys; shutil.make_archive(sys.argv[1], 'zip', sys.argv[2], sys.argv[3])";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archives_with_one_or_many_bundles_are_added() {
    let server = TestServer::new();
    let target = ["--url", server.process.url.as_str(), "add"];
    let dir = server.dir().join("folder");
    put_bundles(&dir, &["one", "two", "three"]);
    // Outside the packed folder: tar fails if the folder changes meanwhile.
    pack(&["tar", "czf", "../many.tar.gz", "."], &dir);
    pack(&["tar", "czf", "../single.tgz", "-C", "one", "."], &dir);
    pack(&["python3", "-c", ZIP, "../wrapped", ".", "two"], &dir);
    let file = |name: &str| server.dir().join(name).to_str().unwrap().to_owned();

    let output = answer(&[&target as &[&str], &[&file("single.tgz")]].concat());
    assert!(output.starts_with("registered iii://one (3 files, "), "{output}");
    let output = answer(&[&target as &[&str], &[&file("wrapped.zip")]].concat());
    assert!(output.starts_with("registered iii://two (3 files, "), "{output}");
    let output = answer(&[&target as &[&str], &[&file("many.tar.gz")]].concat());
    assert!(output.ends_with("added 1, changed 0, unchanged 2, failed 0\n"), "{output}");
    let worker = server.worker().await;
    assert_eq!(ids(&worker).await, ["one", "three", "two"]);
    let notes = read(&worker, "iii://three/references/deep/notes.md").await;
    assert_eq!(notes, "# Notes of three\n");
}

#[test]
fn an_archive_with_paths_outside_its_root_is_refused_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    put_bundles(dir.path(), &["one"]);
    put(dir.path(), "evil", "x");
    let transform = "--transform=s,^evil$,../../evil,";
    pack(&["tar", "czf", "evil.tar.gz", "-P", transform, "one", "evil"], dir.path());
    let archive = dir.path().join("evil.tar.gz");
    let data = dir.path().join("data");
    let ran = skills(&["--data-dir", text(&data), "add", text(&archive)]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("\"../../evil\""), "{}", ran.stderr);
    assert!(!data.exists());
}

/// Wraps bytes in a Zstandard frame without compression, so that the test needs no compressor.
fn zstd_frame(bytes: &[u8]) -> Vec<u8> {
    let mut frame = b"\x28\xb5\x2f\xfd\x00\x58".to_vec();
    let mut blocks = bytes.chunks(64 << 10).peekable();
    while let Some(block) = blocks.next() {
        let is_last = u32::from(blocks.peek().is_none());
        let header = is_last | u32::try_from(block.len()).unwrap() << 3;
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(block);
    }
    frame
}

#[test]
fn zstandard_archives_are_added_and_validated() {
    let dir = tempfile::tempdir().unwrap();
    put_bundles(dir.path(), &["one", "two"]);
    put(dir.path(), "one/assets/large.bin", vec![7; 200 << 10]);
    pack(&["tar", "cf", "both.tar", "one", "two"], dir.path());
    let tar = std::fs::read(dir.path().join("both.tar")).unwrap();
    let whole = zstd_frame(&tar);
    put(dir.path(), "both.tar.zst", &whole);
    put(dir.path(), "cut.tar.zst", &whole[..whole.len() / 2]);
    let (data, archive) = (dir.path().join("data"), dir.path().join("both.tar.zst"));
    let output = answer(&["--data-dir", text(&data), "add", text(&archive)]);
    assert!(output.contains("registered iii://one (4 files, "), "{output}");
    assert!(output.ends_with("added 2, changed 0, unchanged 0, failed 0\n"), "{output}");
    assert!(answer(&["validate", text(&archive)]).starts_with("2 skills, all valid: "));
    let cut = dir.path().join("cut.tar.zst");
    for arguments in [vec!["validate"], vec!["--data-dir", text(&data), "add"]] {
        let ran = skills(&[&arguments[..], &[text(&cut)]].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(ran.stderr.contains("cut.tar.zst: the archive cannot be read: "), "{}", ran.stderr);
    }
}

#[test]
fn the_content_of_a_file_decides_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    put_bundles(dir.path(), &["one", "two", "three"]);
    pack(&["tar", "cf", "one.tar", "one"], dir.path());
    pack(&["python3", "-c", ZIP, "packed", ".", "two"], dir.path());
    std::fs::rename(dir.path().join("packed.zip"), dir.path().join("two.skill")).unwrap();
    // The name of an archive may be wrong.
    pack(&["tar", "czf", "three.zip", "three"], dir.path());
    let data = dir.path().join("data");
    let add = |name: &str| {
        let path = dir.path().join(name);
        skills(&["--data-dir", text(&data), "add", text(&path)])
    };
    for (name, id) in [("one.tar", "one"), ("two.skill", "two"), ("three.zip", "three")] {
        let ran = add(name);
        assert!(ran.stdout.starts_with(&format!("registered iii://{id} (3 files, ")), "{ran:?}");
    }
    put(dir.path(), "other.7z", b"7z\xbc\xaf\x27\x1c\0\x04");
    put(dir.path(), "photo.md", [0x89, b'P', b'N', b'G', 0, 1]);
    put(dir.path(), "text.skill", "# Not an archive\n");
    for name in ["other.7z", "photo.md", "text.skill"] {
        let ran = add(name);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{name}");
        assert!(ran.stderr.contains("neither a text document nor an archive"), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint: archives are .zip, .skill, .tar"), "{}", ran.stderr);
    }
}
