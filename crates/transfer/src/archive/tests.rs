use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    path::PathBuf,
};

use flate2::{Compression, write::GzEncoder};
use skills_core::{Code, Coded as _, Digest};
use tempfile::TempDir;

use super::{part::header, *};
use crate::{
    CopyReport, Kind, Part, Row, SqliteForm, Table, TableSink, TableSource, TransferError, Value,
    Visit, blob_row, copy_tables,
};

const TABLES: &[Table] = &[
    Table {
        part: Part::Store,
        name: "entry",
        sqlite: SqliteForm::Table("entry"),
        columns: &[("number", Kind::Number), ("id", Kind::Text), ("is_present", Kind::Flag)],
    },
    Table {
        part: Part::Store,
        name: "blob",
        sqlite: SqliteForm::Table("blob"),
        columns: &[("digest", Kind::Bytes), ("crc32", Kind::Number), ("bytes", Kind::Bytes)],
    },
    Table {
        part: Part::Vault,
        name: "profile",
        sqlite: SqliteForm::Table("profile"),
        columns: &[("owner", Kind::Text), ("credits", Kind::Real), ("hash", Kind::Bytes)],
    },
];

#[derive(Debug, Default, PartialEq)]
struct Rows(BTreeMap<&'static str, Vec<Row>>);

impl Rows {
    fn sample() -> Self {
        let entry = |number| {
            let name = format!("e{number}\n\u{0}ö");
            vec![Value::Number(number), Value::Text(name), Value::Number(number % 2)]
        };
        let blob = |text: &[u8]| blob_row(&Digest::of(text), text.to_vec());
        let profile = vec![
            Value::Text("ann".to_owned()),
            Value::Real(0.1 + 0.2),
            Value::Bytes((0..=255).collect()),
        ];
        let empty = vec![Value::Text(String::new()), Value::Null, Value::Null];
        Self(BTreeMap::from([
            ("entry", (0..1200).map(entry).collect()),
            ("blob", vec![blob(b""), blob(b"# A\n"), blob(&[7; 5000])]),
            ("profile", vec![profile, empty]),
        ]))
    }
}

impl TableSource for Rows {
    fn for_each(&mut self, table: &Table, visit: Visit<'_>) -> Result<(), TransferError> {
        self.0.get(table.name).into_iter().flatten().cloned().try_for_each(visit)
    }
}

impl TableSink for Rows {
    fn insert(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), TransferError> {
        self.0.entry(table.name).or_default().extend(rows);
        Ok(())
    }
}

fn first(format: u64) -> ArchiveHeader {
    let (version, created_at) = ("0.1.0".to_owned(), "2026-01-01T00:00:00Z".to_owned());
    ArchiveHeader { format, version, created_at, vault: true }
}

fn archive_of(rows: &mut Rows) -> Vec<u8> {
    let mut writer = ArchiveWriter::new(vec![], &first(FORMAT)).unwrap();
    let mut report = CopyReport::default();
    copy_tables(TABLES, rows, &mut writer, &mut report, &mut |_| Ok(())).unwrap();
    writer.finish().unwrap().0
}

/// Folder with one archive.
struct Stored {
    _dir: TempDir,
    path: PathBuf,
}

impl Stored {
    fn new(bytes: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.skills");
        fs::write(&path, bytes).unwrap();
        Self { _dir: dir, path }
    }

    fn read(&self) -> Result<(Rows, CopyReport), TransferError> {
        let mut reader = ArchiveReader::open(&self.path)?;
        let (mut rows, mut report) = (Rows::default(), CopyReport::default());
        copy_tables(TABLES, &mut reader, &mut rows, &mut report, &mut |_| Ok(()))?;
        reader.finish()?;
        Ok((rows, report))
    }
}

fn refusal(bytes: &[u8]) -> TransferError {
    Stored::new(bytes).read().map(|_| ()).unwrap_err()
}

/// Decompresses an archive; `None` if it is damaged.
fn inflated(archive: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = vec![];
    flate2::read::GzDecoder::new(archive).read_to_end(&mut bytes).ok().map(|_| bytes)
}

/// Compresses parts, with headers of the right form.
fn archive_of_parts(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = GzEncoder::new(vec![], Compression::fast());
    for (name, bytes) in parts {
        out.write_all(header(name, bytes.len() as u64).unwrap().as_bytes()).unwrap();
        out.write_all(bytes).unwrap();
        out.write_all(&vec![0; bytes.len().next_multiple_of(512) - bytes.len()]).unwrap();
    }
    out.write_all(&[0; 1024]).unwrap();
    out.finish().unwrap()
}

#[test]
fn an_archive_has_what_was_written_to_it() {
    let archive = archive_of(&mut Rows::sample());
    let (rows, report) = Stored::new(&archive).read().unwrap();
    assert_eq!(rows, Rows::sample());
    assert_eq!((report.rows, report.blobs, report.bytes), (1205, 3, 5004));
    assert_eq!(archive, archive_of(&mut Rows::sample()), "equal content makes equal archives");
}

#[test]
fn an_archive_is_a_tar_file_for_other_programs() {
    let archive = archive_of(&mut Rows::sample());
    let mut files = tar::Archive::new(flate2::read::GzDecoder::new(&*archive));
    let names: Vec<String> = files
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    assert_eq!((names.first().unwrap().as_str(), names.last().unwrap().as_str()), (HEADER, END));
    assert!(names.contains(&format!("store/blob/{}", Digest::of(b"# A\n"))));
}

#[test]
fn every_truncation_is_refused() {
    let archive = archive_of(&mut Rows::sample());
    for length in (0..archive.len()).step_by(7).chain([archive.len() - 1]) {
        let error = refusal(&archive[..length]);
        assert_eq!(error.code(), Code::BadArchive, "{length}: {error}");
    }
}

#[test]
fn no_changed_byte_changes_what_is_read() {
    let archive = archive_of(&mut Rows::sample());
    let content = inflated(&archive).unwrap();
    // The first ten bytes are gzip's own header, with a time and a system that mean nothing here.
    for at in 10..archive.len() {
        let mut damaged = archive.clone();
        damaged[at] ^= 0x10;
        match Stored::new(&damaged).read() {
            // Some bytes have several compressed forms, such as the distance of a repetition within zeros.
            Ok((rows, _)) => {
                assert_eq!(inflated(&damaged).as_ref(), Some(&content), "{at}");
                assert_eq!(rows, Rows::sample(), "{at}");
            }
            Err(error) => {
                let code = error.code();
                assert!(matches!(code, Code::BadArchive | Code::NewerArchive), "{at}: {error}");
            }
        }
    }
    let mut longer = archive;
    longer.push(0);
    assert_eq!(refusal(&longer).code(), Code::BadArchive);
}

#[test]
fn parts_that_are_missing_exchanged_or_repeated_are_refused() {
    let archive = archive_of(&mut Rows::sample());
    let mut files = tar::Archive::new(flate2::read::GzDecoder::new(&*archive));
    let parts: Vec<(String, Vec<u8>)> = files
        .entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let mut bytes = vec![];
            entry.read_to_end(&mut bytes).unwrap();
            (entry.path().unwrap().display().to_string(), bytes)
        })
        .collect();
    let write = |order: &[usize]| {
        let chosen: Vec<_> = order.iter().map(|at| (&*parts[*at].0, &*parts[*at].1)).collect();
        archive_of_parts(&chosen)
    };
    let all: Vec<usize> = (0..parts.len()).collect();
    assert!(Stored::new(&write(&all)).read().is_ok());
    for (at, (name, _)) in parts.iter().enumerate() {
        let mut without = all.clone();
        without.remove(at);
        assert_eq!(refusal(&write(&without)).code(), Code::BadArchive, "without {name}");
        let mut twice = all.clone();
        twice.insert(at, at);
        assert_eq!(refusal(&write(&twice)).code(), Code::BadArchive, "twice {name}");
    }
    for (at, (name, _)) in parts.iter().enumerate().skip(1) {
        let mut exchanged = all.clone();
        exchanged.swap(at - 1, at);
        assert_eq!(refusal(&write(&exchanged)).code(), Code::BadArchive, "{name}");
    }
}

#[test]
fn names_that_are_paths_and_links_are_refused() {
    let json = serde_json::to_vec(&first(FORMAT)).unwrap();
    for name in ["../../etc/passwd", "store/entry/../../x", "/etc/passwd", "store/other/1", "C:\\x"]
    {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(0);
        header.set_cksum();
        let mut out = GzEncoder::new(vec![], Compression::fast());
        out.write_all(super::part::header(HEADER, json.len() as u64).unwrap().as_bytes()).unwrap();
        out.write_all(&json).unwrap();
        out.write_all(&vec![0; 512 - json.len()]).unwrap();
        out.write_all(header.as_bytes()).unwrap();
        out.write_all(&[0; 1024]).unwrap();
        assert_eq!(refusal(&out.finish().unwrap()).code(), Code::BadArchive, "{name}");
    }
    let mut link = header(HEADER, 0).unwrap();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_link_name("/etc/passwd").unwrap();
    link.set_cksum();
    let mut out = GzEncoder::new(vec![], Compression::fast());
    out.write_all(link.as_bytes()).unwrap();
    assert_eq!(refusal(&out.finish().unwrap()).code(), Code::BadArchive);
}

#[test]
fn a_newer_format_is_refused_whatever_follows() {
    let json = br#"{"format": 2, "unknown": true}"#;
    let error = refusal(&archive_of_parts(&[(HEADER, json)]));
    assert_eq!(error.code(), Code::NewerArchive, "{error}");
}

#[test]
fn other_files_are_refused() {
    for bytes in [&b""[..], b"SQLite format 3\0", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]] {
        assert_eq!(refusal(bytes).code(), Code::BadArchive);
    }
    let mut out = GzEncoder::new(vec![], Compression::fast());
    out.write_all(&[0; 4096]).unwrap();
    assert_eq!(refusal(&out.finish().unwrap()).code(), Code::BadArchive);
}

#[test]
fn rows_of_other_types_are_refused() {
    for row in ["[1,2,0]\n", "[1,\"a\"]\n", "[1,\"a\",2]\n", "{}\n", "[1.5,\"a\",0]\n", "\n"] {
        let json = serde_json::to_vec(&first(FORMAT)).unwrap();
        let name = format!("store/entry/000001-{}.jsonl", Digest::of(row.as_bytes()));
        let error = refusal(&archive_of_parts(&[(HEADER, &json), (&name, row.as_bytes())]));
        assert_eq!(error.code(), Code::BadArchive, "{row}");
    }
}

#[test]
fn a_blob_that_differs_from_its_digest_is_not_archived() {
    let mut rows = Rows::sample();
    rows.0.get_mut("blob").unwrap()[1][2] = Value::Bytes(b"other".to_vec());
    let mut writer = ArchiveWriter::new(vec![], &first(FORMAT)).unwrap();
    let mut report = CopyReport::default();
    let copied = copy_tables(TABLES, &mut rows, &mut writer, &mut report, &mut |_| Ok(()));
    assert_eq!(copied.unwrap_err().code(), Code::StoreCorrupt);
}
