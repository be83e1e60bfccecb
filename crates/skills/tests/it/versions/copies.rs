//! `export` and `sync` of versions, byte for byte.

use std::{collections::BTreeMap, fs, path::Path};

use super::commands::{Commands, SkillFolder, binary, document};

/// Reads the two files of a skill below a folder.
fn files(dir: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    ["SKILL.md", "data/raw.bin"].map(|path| (path, fs::read(dir.join(path)).unwrap())).into()
}

fn expected(number: usize) -> BTreeMap<&'static str, Vec<u8>> {
    [("SKILL.md", document("pdf", number).into_bytes()), ("data/raw.bin", binary(number))].into()
}

#[test]
fn versions_are_exported_and_synced_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let commands = Commands::on_data(&dir.path().join("data"));
    let (pdf, docx) = (SkillFolder::new("pdf"), SkillFolder::new("docx"));
    for number in 1..=3 {
        pdf.publish(&commands, number);
    }
    docx.publish(&commands, 9);
    commands.ok(&["label", "pdf@2", "canary"]);
    for (address, number) in [("pdf@canary", 2), ("pdf@1", 1), ("pdf", 3)] {
        let to = dir.path().join(address);
        let answer = commands.json(&["export", address, to.to_str().unwrap()]);
        assert_eq!(answer["written"], 2, "{answer}");
        assert_eq!(files(&to), expected(number), "{address}");
    }

    let folder = dir.path().join("agents");
    let to = folder.to_str().unwrap();
    let sync = |more: &[&str]| commands.json(&[&["sync", to], more].concat());
    assert_eq!(sync(&["--skill", "pdf@canary"])["summary"]["written"], 1);
    assert_eq!(files(&folder.join("pdf")), expected(2));
    assert!(!folder.join("docx").exists(), "only the chosen skill is written");
    assert_eq!(sync(&["--skill", "pdf@canary"])["summary"]["unchanged"], 1);
    commands.ok(&["label", "pdf@1", "canary"]);
    assert_eq!(sync(&["--skill", "pdf@canary"])["summary"]["updated"], 1);
    assert_eq!(files(&folder.join("pdf")), expected(1));
    assert_eq!(sync(&["--skill", "docx"])["summary"]["written"], 1);
    assert_eq!(files(&folder.join("pdf")), expected(1), "others stay");
    assert_eq!(sync(&[])["summary"]["updated"], 1);
    assert_eq!(files(&folder.join("pdf")), expected(3), "without a choice, the served version");

    commands.ok(&["yank", "pdf@1", "--reason", "wrong", "--purge", "--yes"]);
    let gone = dir.path().join("gone");
    assert_eq!(commands.code(&["export", "pdf@1", gone.to_str().unwrap()]), "purged");
    assert!(!gone.exists());
    assert_eq!(commands.code(&["sync", to, "--skill", "pdf@1"]), "purged");
    assert_eq!(commands.code(&["sync", to, "--skill", "nobody"]), "not_found");
    assert_eq!(files(&folder.join("pdf")), expected(3));
}
