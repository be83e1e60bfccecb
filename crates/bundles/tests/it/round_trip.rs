use std::{fs, io::Write as _, path::Path};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use proptest::{collection::vec, prelude::*};
use skills_agent_skills::Bundle;
use skills_bundles::{ExportSummary, export};
use skills_core::BundlePath;
use zip::{ZipWriter, write::SimpleFileOptions};

use super::{bundles, tree};

/// Generates a path of one to four segments with spaces, dots, punctuation and letters of other scripts.
fn path() -> impl Strategy<Value = String> {
    let segment = "[a-zA-Z0-9äéßÅ語кА🎃 ._%#?&+'()\\[\\]{}~$=@!,;-]{1,12}";
    vec(segment, 1..5).prop_map(|segments| segments.join("/"))
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(vec![]),
        "\\PC{0,80}".prop_map(String::into_bytes),
        vec(any::<u8>(), 0..200),
        (any::<u8>(), 0..40_000_usize).prop_map(|(byte, count)| vec![byte; count]),
    ]
}

/// Generates a valid bundle; colliding paths are dropped.
fn bundle() -> impl Strategy<Value = (String, Vec<(BundlePath, Bytes)>)> {
    let files = vec((path(), content()), 0..14);
    ("[a-z][a-z0-9_-]{0,20}", "[a-zA-Zäé語 .,:#-]{0,60}", "[\r\n \\PC]{0,120}", files).prop_map(
        |(name, description, body, files)| {
            let root =
                format!("---\nname: {name}x\ndescription: \"x {description}\"\n---\n{body}\n");
            let mut kept: Vec<(BundlePath, Bytes)> = Vec::new();
            for (path, bytes) in files {
                let Ok(path) = path.parse() else { continue };
                kept.push((path, bytes.into()));
                if Bundle::new(root.clone(), kept.clone()).is_err() {
                    kept.pop();
                }
            }
            (root, kept)
        },
    )
}

fn pack_tar(folder: &Path, to: &Path) {
    let encoder = GzEncoder::new(fs::File::create(to).unwrap(), Compression::fast());
    let mut builder = tar::Builder::new(encoder);
    builder.append_dir_all(".", folder).unwrap();
    builder.into_inner().unwrap().finish().unwrap();
}

fn pack_zip(folder: &Path, wrapper: &str, to: &Path) {
    let mut writer = ZipWriter::new(fs::File::create(to).unwrap());
    for (path, bytes) in tree(folder) {
        let name = format!("{wrapper}/{}", path.to_str().unwrap());
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(&bytes).unwrap();
    }
    writer.finish().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn every_bundle_survives_export_and_import_unchanged((root, files) in bundle()) {
        let bundle = Bundle::new(root, files).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let one = dir.path().join("one");
        let count = bundle.meta().files.len();
        let written = export(bundle.clone(), &one, false).unwrap();
        prop_assert_eq!(written, ExportSummary { written: count, unchanged: 0 });
        prop_assert_eq!(tree(&one).len(), count);

        let (gz, zip) = (dir.path().join("one.tar.gz"), dir.path().join("two.zip"));
        pack_tar(&one, &gz);
        pack_zip(&one, "wrapped here", &zip);
        for place in [&one, &gz, &zip] {
            let found = bundles(place).unwrap();
            prop_assert_eq!(found.len(), 1);
            let (id, read) = &found[0];
            prop_assert!(id.ends_with('x'));
            prop_assert!(read.meta().provenance.is_some());
            let read = read.clone().with_provenance(None);
            prop_assert_eq!(read.with_executable(|_| None), bundle.clone());
        }

        let two = dir.path().join("two");
        export(bundles(&zip).unwrap().remove(0).1, &two, false).unwrap();
        prop_assert_eq!(tree(&two), tree(&one));
        // A repeated export changes nothing.
        let again = export(bundle, &two, false).unwrap();
        prop_assert_eq!(again, ExportSummary { written: 0, unchanged: count });
    }
}
