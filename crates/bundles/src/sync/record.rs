//! Record of what a sync wrote into a folder, so that only that is removed later.
//!
//! The folder may come from another author, with a forged record. The record is trusted in one point only: a file
//! whose digest it contains was written by a sync. Its paths are checked like all paths.

use std::{collections::BTreeMap, io};

use serde::{Deserialize, Serialize};
use skills_agent_skills::frontmatter::is_skill_name;
use skills_core::{BundlePath, Digest};

use crate::{
    BundleError,
    dir::{Dir, FileKind},
    files::{self, NewFile},
};

/// File name of the record.
pub(super) const FILE: &str = ".skills-sync.json";
/// Version of the format.
const VERSION: u32 = 1;
/// Longest record that is read or written, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Record of everything that was written into a folder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    version: u32,
    /// Skills by folder name.
    pub(super) skills: BTreeMap<String, RecordEntry>,
}

/// Skill that was written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordEntry {
    pub(super) id: String,
    /// Version of the skill.
    pub(super) digest: Digest,
    /// Digests of written files by path.
    pub(super) files: BTreeMap<String, Digest>,
    /// Digests of files that were about to be written, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) pending: BTreeMap<String, Digest>,
    /// Command that wrote the skill.
    #[serde(default, skip_serializing_if = "Writer::is_default")]
    pub(super) writer: Writer,
}

/// Command that writes skills into a folder. It updates and removes only what it wrote itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writer {
    /// `sync`: the skills of a registry.
    #[default]
    Sync,
    /// `install`: the skills of a lockfile.
    Install,
}

impl Writer {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl RecordEntry {
    /// Returns whether a sync wrote these bytes to this path.
    pub(super) fn contains(&self, path: &str, digest: Digest) -> bool {
        [&self.files, &self.pending].into_iter().any(|files| files.get(path) == Some(&digest))
    }

    /// Returns whether a sync wrote a file to this path, or may have.
    pub(super) fn has_path(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.pending.contains_key(path)
    }

    /// Returns all paths that were written or may have been.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let more = self.pending.keys().filter(|path| !self.files.contains_key(*path));
        self.files.keys().chain(more).map(String::as_str)
    }
}

impl Default for Record {
    fn default() -> Self {
        Self { version: VERSION, skills: BTreeMap::new() }
    }
}

impl Record {
    /// Loads the record of a folder; empty if there is none.
    pub(super) fn load(folder: &Dir) -> Result<Self, BundleError> {
        let path = folder.path().join(FILE);
        let refused = |reason: String| BundleError::BadRecord { path: path.clone(), reason };
        let unreadable = |source| BundleError::Unreadable { path: path.clone(), source };
        match folder.kind(FILE).map_err(unreadable)? {
            Some(FileKind::File { .. }) => {}
            Some(_) => return Err(refused("it is not a regular file".to_owned())),
            None => return Ok(Self::default()),
        }
        let text = folder.read_file(FILE, MAX_BYTES + 1).map_err(unreadable)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(refused(format!("it has more than {MAX_BYTES} bytes")));
        }
        let record: Self =
            serde_json::from_slice(&text).map_err(|error| refused(error.to_string()))?;
        record.check().map_err(refused)?;
        Ok(record)
    }

    fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("its version is {}, not {VERSION}", self.version));
        }
        for (name, entry) in &self.skills {
            if !is_skill_name(name) {
                return Err(format!("{name:?} is not the name of a skill"));
            }
            for path in entry.paths() {
                // An earlier version may have written paths that are refused today; they must stay removable.
                BundlePath::from_stored(path).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn text(&self) -> io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        if text.len() as u64 > MAX_BYTES {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        Ok(text)
    }

    /// Saves the record, or removes the file if the record is empty.
    pub(super) fn save(&self, folder: &Dir) -> Result<(), BundleError> {
        let path = folder.path().join(FILE);
        let saved = if self.skills.is_empty() {
            match folder.remove_file(FILE) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        } else {
            self.text().and_then(|text| {
                let file = NewFile { path: FILE, bytes: &text, executable: false };
                files::write(folder, file)
            })
        };
        saved.map_err(|source| BundleError::Unwritable { path, source })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use skills_core::Coded as _;

    use super::*;

    fn loaded(text: &str) -> Result<usize, String> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), text).unwrap();
        let record = Record::load(&Dir::open(dir.path()).unwrap());
        record.map(|record| record.skills.len()).map_err(|error| {
            assert_eq!(error.code().as_str(), "bad_record");
            error.to_string()
        })
    }

    #[test]
    fn a_forged_record_is_checked() {
        let digest = Digest::of(b"");
        let with = |name: &str, path: &str| {
            format!(
                r#"{{"version":1,"skills":{{"{name}":{{"id":"a","digest":"{digest}","files":{{"{path}":"{digest}"}}}}}}}}"#
            )
        };
        assert_eq!(loaded(&with("a", "x/y")), Ok(1));
        // What an earlier version wrote can be taken back.
        assert_eq!(loaded(&with("con", ".git/config")), Ok(1));
        for (text, words) in [
            (with("..", "x"), "\"..\" is not the name"),
            (with("a/b", "x"), "is not the name"),
            (with("a", "../x"), "is a way"),
            (with("a", "/etc/passwd"), "is absolute"),
            (r#"{"version":2,"skills":{}}"#.to_owned(), "version is 2"),
            ("{".to_owned(), "EOF"),
            (String::new(), "EOF"),
            ("[]".to_owned(), "invalid"),
        ] {
            let error = loaded(&text).expect_err(words);
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn an_empty_record_removes_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Dir::open(dir.path()).unwrap();
        Record::default().save(&folder).unwrap();
        assert!(!dir.path().join(FILE).exists());
        let entry = RecordEntry {
            id: "a".to_owned(),
            digest: Digest::of(b"a"),
            files: BTreeMap::from([("x".to_owned(), Digest::of(b"x"))]),
            pending: BTreeMap::from([("y".to_owned(), Digest::of(b"y"))]),
            writer: Writer::default(),
        };
        assert!(entry.contains("x", Digest::of(b"x")) && entry.contains("y", Digest::of(b"y")));
        assert!(!entry.contains("x", Digest::of(b"y")));
        assert_eq!(entry.paths().collect::<Vec<_>>(), ["x", "y"]);
        let record =
            Record { skills: BTreeMap::from([("a".to_owned(), entry)]), ..Record::default() };
        record.save(&folder).unwrap();
        assert_eq!(Record::load(&folder).unwrap().skills["a"].pending.len(), 1);
        Record::default().save(&folder).unwrap();
        assert!(!dir.path().join(FILE).exists());
    }
}
