use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use skills_bundles::{archive::MAX_UNPACKED_BYTES, find_in_archive};
use skills_core::{Coded as _, MemoryBudget, Provenance, RunningWork, SourceKind};
use tar::{EntryType, Header};
use tempfile::TempDir;
use zip::{ZipWriter, write::SimpleFileOptions};

use super::{DOCUMENT, bundles, paths};

type Gz = GzEncoder<fs::File>;

/// Writes a tar archive with a bundle `b` and unchecked additional entries.
fn tar_with(fill: impl FnOnce(&mut tar::Builder<Gz>)) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("evil.tar.gz");
    let encoder = GzEncoder::new(fs::File::create(&path).unwrap(), Compression::fast());
    let mut builder = tar::Builder::new(encoder);
    entry(&mut builder, b"b/SKILL.md", EntryType::Regular, DOCUMENT.as_bytes());
    fill(&mut builder);
    builder.into_inner().unwrap().finish().unwrap();
    (dir, path)
}

fn entry(builder: &mut tar::Builder<Gz>, name: &[u8], kind: EntryType, data: &[u8]) {
    let mut header = Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name);
    if matches!(kind, EntryType::Symlink | EntryType::Link) {
        header.set_link_name("/etc/passwd").unwrap();
    }
    header.set_entry_type(kind);
    header.set_size(data.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    builder.append(&header, data).unwrap();
}

fn zip_with(fill: impl FnOnce(&mut ZipWriter<fs::File>)) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("evil.zip");
    let mut writer = ZipWriter::new(fs::File::create(&path).unwrap());
    file(&mut writer, "b/SKILL.md", DOCUMENT.as_bytes());
    fill(&mut writer);
    writer.finish().unwrap();
    (dir, path)
}

fn file(writer: &mut ZipWriter<fs::File>, name: &str, data: &[u8]) {
    writer.start_file(name, SimpleFileOptions::default()).unwrap();
    writer.write_all(data).unwrap();
}

fn refusal(path: &Path) -> (String, String) {
    let error = bundles(path).expect_err("should be refused");
    (error.code().as_str().to_owned(), error.to_string())
}

#[test]
fn an_archive_with_paths_outside_its_root_is_refused() {
    for (name, words) in [
        ("../evil", "is a way"),
        ("b/../../evil", "is a way"),
        ("./../evil", "is a way"),
        ("/etc/passwd", "is absolute"),
        ("C:/x", "is absolute"),
        ("b\\evil", "backslash"),
        ("b/a\nb", "control character"),
        ("b//x", "empty segment"),
    ] {
        let (_dir, path) = tar_with(|tar| entry(tar, name.as_bytes(), EntryType::Regular, b"x"));
        let (_zip_dir, zip) = zip_with(|zip| file(zip, name, b"x"));
        for path in [path, zip] {
            let (code, message) = refusal(&path);
            assert_eq!(code, "invalid_path", "{message}");
            assert!(message.contains(words), "{name}: {message}");
        }
    }
    let (_dir, path) = tar_with(|tar| entry(tar, b"../d/", EntryType::Directory, b""));
    assert_eq!(refusal(&path).0, "invalid_path", "a folder too");
    let (_dir, path) = tar_with(|tar| entry(tar, b"b/\xff", EntryType::Regular, b""));
    assert!(refusal(&path).1.contains("not UTF-8"));
    // The header has a short name, an extension record another.
    let (_dir, path) = tar_with(|tar| {
        entry(tar, b"x", EntryType::XHeader, b"21 path=b/../../evil\n");
        entry(tar, b"b/good", EntryType::Regular, b"x");
    });
    assert_eq!(refusal(&path).0, "invalid_path");
}

#[test]
fn a_file_name_with_a_nul_byte_is_refused() {
    let (_dir, path) = zip_with(|zip| file(zip, "b/a\0b", b"x"));
    let (code, message) = refusal(&path);
    assert_eq!(code, "invalid_path", "{message}");
    let (_dir, path) = tar_with(|tar| {
        entry(tar, b"x", EntryType::XHeader, b"14 path=b/a\0b\n");
        entry(tar, b"b/good", EntryType::Regular, b"x");
    });
    assert!(refusal(&path).1.contains("control character"));
}

#[test]
fn a_bundle_with_links_or_special_files_is_refused() {
    for (kind, words) in [
        (EntryType::Symlink, "is a link"),
        (EntryType::Link, "is a link"),
        (EntryType::Char, "not a regular file"),
        (EntryType::Block, "not a regular file"),
        (EntryType::Fifo, "not a regular file"),
        (EntryType::GNUSparse, ""),
    ] {
        let (_dir, path) = tar_with(|tar| entry(tar, b"b/x/y", kind, b""));
        let (_, message) = refusal(&path);
        assert!(message.contains(words), "{kind:?}: {message}");
        if kind != EntryType::GNUSparse {
            assert!(message.contains("evil.tar.gz/b/x/y"), "{kind:?}: {message}");
        }
    }
    let (_dir, path) = zip_with(|zip| {
        zip.add_symlink("b/x/y", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    });
    let (code, message) = refusal(&path);
    assert_eq!(code, "invalid_path");
    assert!(message.contains("evil.zip/b/x/y is a link"), "{message}");

    // Links beside a bundle are ignored.
    let (_dir, path) = tar_with(|tar| entry(tar, b"CLAUDE.md", EntryType::Symlink, b""));
    assert_eq!(bundles(&path).unwrap().len(), 1);
}

#[test]
fn duplicate_file_names_are_refused() {
    let twice = |name: &'static [u8]| {
        tar_with(|tar| {
            entry(tar, b"b/a", EntryType::Regular, b"1");
            entry(tar, name, EntryType::Regular, b"2");
        })
    };
    for name in [b"b/a" as &[u8], b"b/A", b"b/a/c", b"b/skill.md"] {
        let (_dir, path) = twice(name);
        let (code, message) = refusal(&path);
        assert_eq!(code, "invalid_path", "{name:?}");
        assert!(message.contains("side by side"), "{message}");
    }
    // A zip writer refuses duplicate names, so the bytes are edited by hand.
    let (_dir, path) = zip_with(|zip| {
        file(zip, "b/one", b"1");
        file(zip, "b/two", b"2");
    });
    let mut bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() - 5 {
        if &bytes[at..at + 5] == b"b/two" {
            bytes[at..at + 5].copy_from_slice(b"b/one");
        }
    }
    fs::write(&path, bytes).unwrap();
    assert!(refusal(&path).1.contains("two entries of one name"));
}

/// Reader of a number of zero bytes.
fn zeros(count: u64) -> impl io::Read {
    io::Read::take(io::repeat(0), count)
}

#[test]
fn a_file_larger_than_any_bundle_is_not_unpacked() {
    let size = 33 << 20;
    let (_dir, path) = tar_with(|tar| {
        let mut header = Header::new_gnu();
        header.set_size(size);
        header.set_path("b/zeros").unwrap();
        header.set_cksum();
        tar.append(&header, zeros(size)).unwrap();
    });
    let (_zip_dir, zip) = zip_with(|zip| {
        zip.start_file("b/zeros", SimpleFileOptions::default()).unwrap();
        io::copy(&mut zeros(size), zip).unwrap();
    });
    for path in [&path, &zip] {
        assert!(fs::metadata(path).unwrap().len() < 1 << 20, "it is small before it is unpacked");
        let (code, message) = refusal(path);
        assert_eq!(code, "too_large", "{message}");
        assert!(message.contains("b/zeros"), "{message}");
    }
    // The declared size does not matter.
    let mut bytes = fs::read(&zip).unwrap();
    let declared = u32::try_from(size).unwrap().to_le_bytes();
    let at = bytes.windows(4).rposition(|window| window == declared).unwrap();
    bytes[at..at + 4].copy_from_slice(&9_u32.to_le_bytes());
    fs::write(&zip, bytes).unwrap();
    assert!(bundles(&zip).is_err());
}

#[test]
fn unpacking_an_archive_bomb_stops_at_the_limit() {
    let size = 300 << 20;
    let (_dir, path) = tar_with(|tar| {
        let mut header = Header::new_gnu();
        header.set_size(size);
        // Skipped files are limited too.
        header.set_path("b/node_modules/zeros").unwrap();
        header.set_cksum();
        tar.append(&header, zeros(size)).unwrap();
    });
    let (_zip_dir, zip) = zip_with(|zip| {
        for part in 0..20 {
            zip.start_file(format!("b/{part}"), SimpleFileOptions::default()).unwrap();
            io::copy(&mut zeros(15 << 20), zip).unwrap();
        }
    });
    for path in [path, zip] {
        let (code, message) = refusal(&path);
        assert_eq!(code, "too_large", "{message}");
        assert!(message.contains("unpacks to more than"), "{message}");
    }
}

/// Writes a zip archive with a bundle `b` whose directory lists a file of zeros several times.
fn zip_with_overlap(count: u32, size: u64) -> (TempDir, PathBuf) {
    let (dir, path) = zip_with(|zip| {
        zip.start_file("b/00", SimpleFileOptions::default()).unwrap();
        io::copy(&mut zeros(size), zip).unwrap();
    });
    let mut bytes = fs::read(&path).unwrap();
    // The directory ends with the entry of that file, and is followed by a record of 22 bytes.
    let record = bytes.split_off(bytes.len() - 22);
    let entry = bytes.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
    let entry = bytes[entry..].to_vec();
    let (mut entries, mut directory) = (2_u16, u32_at(&record, 12));
    for number in 1..count {
        let mut copy = entry.clone();
        let name = copy.windows(4).position(|window| window == b"b/00").unwrap();
        copy[name..name + 4].copy_from_slice(format!("b/{number:02}").as_bytes());
        bytes.extend(&copy);
        entries += 1;
        directory += u32::try_from(copy.len()).unwrap();
    }
    let mut record = record;
    record[8..10].copy_from_slice(&entries.to_le_bytes());
    record[10..12].copy_from_slice(&entries.to_le_bytes());
    record[12..16].copy_from_slice(&directory.to_le_bytes());
    bytes.extend(record);
    fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[test]
fn a_zip_archive_whose_entries_overlap_is_refused() {
    let (_dir, path) = zip_with_overlap(16, 15 << 20);
    assert!(fs::metadata(&path).unwrap().len() < 64 << 10);
    let (code, message) = refusal(&path);
    assert_eq!(code, "bad_archive", "{message}");
    assert!(message.contains("entries that overlap"), "{message}");
    let (_dir, path) = zip_with_overlap(1, 15 << 20);
    assert_eq!(bundles(&path).unwrap().len(), 1);
}

/// Unpacks an archive with so much memory.
fn unpack_within(path: &Path, memory: &MemoryBudget) -> Result<RunningWork, (String, String)> {
    let mut work = RunningWork::with_memory(memory);
    let origin = Provenance::new(SourceKind::Path, path.to_string_lossy());
    let file = fs::File::open(path).unwrap();
    match find_in_archive(path, file, &origin, MAX_UNPACKED_BYTES, &mut work) {
        Ok(_) => Ok(work),
        Err(error) => Err((error.code().as_str().to_owned(), error.to_string())),
    }
}

#[test]
fn unpacking_uses_no_more_memory_than_is_reserved() {
    let size = 20 << 20;
    let (_tar_dir, tar) = tar_with(|tar| {
        let mut header = Header::new_gnu();
        header.set_size(size);
        header.set_path("b/zeros").unwrap();
        header.set_cksum();
        tar.append(&header, zeros(size)).unwrap();
    });
    let (_zip_dir, zip) = zip_with(|zip| {
        zip.start_file("b/zeros", SimpleFileOptions::default()).unwrap();
        io::copy(&mut zeros(size), zip).unwrap();
    });
    // The window of a frame is as large as it declares, before it has any content.
    let window = b"\x28\xb5\x2f\xfd\x00\x70\x01\0\0".to_vec();
    let zst = zip.with_file_name("window.tar.zst");
    fs::write(&zst, window).unwrap();
    for path in [&tar, &zip, &zst] {
        let memory = MemoryBudget::new(20 << 20);
        let (code, message) = unpack_within(path, &memory).expect_err("it needs more");
        assert_eq!(code, "overloaded", "{message}");
        assert_eq!(memory.reserved(), 0);
    }
    for path in [&tar, &zip] {
        let memory = MemoryBudget::new(64 << 20);
        let work = unpack_within(path, &memory).unwrap();
        let reserved = work.reserved() as u64;
        assert!((size..size + (1 << 20)).contains(&reserved), "{reserved}");
        assert_eq!(memory.reserved() as u64, reserved, "as long as the files are used");
    }
}

#[test]
fn the_declared_size_of_a_file_is_not_trusted() {
    let (_dir, path) = zip_with(|zip| {
        zip.start_file("b/zeros", SimpleFileOptions::default()).unwrap();
        io::copy(&mut zeros(3 << 20), zip).unwrap();
    });
    let bytes = fs::read(&path).unwrap();
    let declared = (3_u32 << 20).to_le_bytes();
    let places: Vec<usize> =
        (0..bytes.len() - 4).filter(|at| bytes[*at..*at + 4] == declared).collect();
    for size in [0_u32, 9, 3_000_000, 200 << 20] {
        let mut bytes = bytes.clone();
        for at in &places {
            bytes[*at..*at + 4].copy_from_slice(&size.to_le_bytes());
        }
        fs::write(&path, bytes).unwrap();
        let memory = MemoryBudget::new(128 << 20);
        if let Ok(work) = unpack_within(&path, &memory) {
            let reserved = work.reserved();
            assert!(((3 << 20)..(4 << 20)).contains(&reserved), "{size}: {reserved}");
        }
        assert_eq!(memory.reserved(), 0);
    }
}

#[test]
fn the_metadata_of_a_tar_entry_is_limited() {
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
        let (_dir, path) = tar_with(|tar| {
            entry(tar, b"long", kind, &vec![b'a'; 2 << 20]);
            entry(tar, b"b/x", EntryType::Regular, b"");
        });
        let (code, message) = refusal(&path);
        assert_eq!(code, "bad_archive", "{message}");
        assert!(message.contains("the metadata of an entry is too large"), "{kind:?}: {message}");
    }
    // Content that is skipped is no metadata.
    let (_dir, path) = tar_with(|tar| {
        let large = vec![b'a'; 3 << 20];
        entry(tar, b"b/node_modules/x", EntryType::Regular, &large);
        entry(tar, b"b/.git/y", EntryType::Regular, &large);
        entry(tar, b"b/y", EntryType::Regular, b"");
    });
    assert_eq!(bundles(&path).unwrap().len(), 1);
}

#[test]
fn unpacking_ends_when_it_is_stopped() {
    let (_tar_dir, tar) = tar_with(|tar| entry(tar, b"b/x", EntryType::Regular, b"x"));
    let (_zip_dir, zip) = zip_with(|zip| file(zip, "b/x", b"x"));
    for path in [&tar, &zip] {
        let mut work = RunningWork::of_process();
        work.stop().raise();
        let origin = Provenance::new(SourceKind::Path, "x");
        let file = fs::File::open(path).unwrap();
        let stopped = find_in_archive(path, file, &origin, MAX_UNPACKED_BYTES, &mut work);
        assert_eq!(stopped.unwrap_err().code().as_str(), "overloaded");
    }
}

#[test]
fn the_number_of_archive_entries_is_limited() {
    let (_dir, path) = tar_with(|tar| {
        (0..65_536).for_each(|_| entry(tar, b"b/d/", EntryType::Directory, b""));
    });
    assert!(refusal(&path).1.contains("more than 65536 entries"));
}

#[test]
fn an_oversized_zip_directory_is_not_loaded() {
    let name = "n".repeat(200);
    let (_dir, path) = zip_with(|zip| {
        (0..75_000).for_each(|number| file(zip, &format!("{name}{number}"), b""));
    });
    let (code, message) = refusal(&path);
    assert_eq!(code, "bad_archive");
    assert!(message.contains("too large a one"), "{message}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zeros.zip");
    fs::write(&path, vec![0; 20 << 20]).unwrap();
    assert_eq!(refusal(&path).0, "bad_archive");
}

#[test]
fn a_damaged_archive_is_reported_as_damaged() {
    let (dir, path) = tar_with(|_| {});
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let other = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let (_zip_dir, zip) = zip_with(|_| {});
    let mut bytes = fs::read(&zip).unwrap();
    let at = bytes.windows(5).position(|window| window == b"b/SKI").unwrap() + 12;
    bytes[at] ^= 0xff;
    let changed = other("changed.zip", &bytes);
    for path in [path, other("a.tgz", b"not at all"), other("a.zip", b"PK"), changed] {
        let (code, message) = refusal(&path);
        assert_eq!(code, "bad_archive", "{message}");
    }
    let (_dir, empty) = zip_with(|_| {});
    let mut writer = ZipWriter::new(fs::File::create(&empty).unwrap());
    file(&mut writer, "README.md", b"# A");
    writer.finish().unwrap();
    assert_eq!(refusal(&empty).0, "no_bundle");
}

#[test]
fn an_archive_may_hold_one_bundle_or_many() {
    let (_dir, path) = tar_with(|tar| {
        entry(tar, b"pax_global_header", EntryType::XGlobalHeader, b"18 comment=abcdef\n");
        entry(tar, b"c/", EntryType::Directory, b"");
        entry(tar, b"c/skills/d/SKILL.md", EntryType::Regular, b"---\ndescription: d\n---\n");
        entry(tar, b"c/skills/d/x", EntryType::Regular, b"1");
        entry(tar, b"b/.git/config", EntryType::Regular, b"");
        entry(tar, b"__MACOSX/b/._SKILL.md", EntryType::Regular, b"");
    });
    let found = bundles(&path).unwrap();
    let shown: Vec<_> = found.iter().map(|(id, bundle)| (id.as_str(), paths(bundle))).collect();
    assert_eq!(shown, [("a", vec!["SKILL.md"]), ("d", vec!["SKILL.md", "x"])]);

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("from-its-name.zip");
    let mut writer = ZipWriter::new(fs::File::create(&path).unwrap());
    file(&mut writer, "SKILL.md", b"---\ndescription: d\n---\n");
    writer.finish().unwrap();
    assert_eq!(bundles(&path).unwrap()[0].0, "from-its-name");
}
