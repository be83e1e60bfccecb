//! What was written into a folder of skills, so that this, and nothing else, can be taken back.
//!
//! The folder may come from somebody else, with a record in it. So nothing in a record is believed but this: a file
//! whose bytes have a digest that stands in it was written by a sync. Its paths are checked as all paths are.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    path::Path,
};

use serde::{Deserialize, Serialize};
use skills_core::{BundlePath, Digest, frontmatter::is_skill_name};

use crate::{BundleError, place};

/// Its name in the folder.
pub(super) const FILE: &str = ".skills-sync.json";
/// The form that is written and understood.
const VERSION: u32 = 1;
/// Longest record that is read or written, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Everything that was written into a folder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    version: u32,
    /// By name.
    pub(super) skills: BTreeMap<String, Entry>,
}

/// A skill that was written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) id: String,
    /// Which version of it.
    pub(super) digest: Digest,
    /// What was written, by path.
    pub(super) files: BTreeMap<String, Digest>,
    /// What was about to be written, and may have been.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) pending: BTreeMap<String, Digest>,
}

impl Entry {
    /// Whether these bytes were written there by a sync.
    pub(super) fn wrote(&self, path: &str, digest: Digest) -> bool {
        [&self.files, &self.pending].into_iter().any(|files| files.get(path) == Some(&digest))
    }

    /// Everything that was, or may have been, written.
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
    /// The record of a folder; an empty one where there is none.
    pub(super) fn load(folder: &Path) -> Result<Self, BundleError> {
        let path = folder.join(FILE);
        let refused = |reason: String| BundleError::BadRecord { path: path.clone(), reason };
        let unreadable = |source| BundleError::Unreadable { path: path.clone(), source };
        match fs::symlink_metadata(&path) {
            Ok(metadata) if !metadata.is_file() => {
                return Err(refused("it is not a regular file".to_owned()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(unreadable(error)),
        }
        let mut text = Vec::new();
        let file = fs::File::open(&path).map_err(unreadable)?;
        file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(unreadable)?;
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
                path.parse::<BundlePath>().map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn text(&self) -> io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        match text.len() as u64 > MAX_BYTES {
            true => Err(io::Error::from(io::ErrorKind::FileTooLarge)),
            false => Ok(text),
        }
    }

    /// Writes it, or removes it where nothing is left to remember.
    pub(super) fn save(&self, folder: &Path) -> Result<(), BundleError> {
        let path = folder.join(FILE);
        let saved = match self.skills.is_empty() {
            true => match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
            false => self.text().and_then(|text| place::write(folder, FILE, &text)),
        };
        saved.map_err(|source| BundleError::Unwritable { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(text: &str) -> Result<usize, String> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), text).unwrap();
        let record = Record::load(dir.path());
        record.map(|record| record.skills.len()).map_err(|error| {
            assert_eq!(error.code(), "bad_record");
            error.to_string()
        })
    }

    #[test]
    fn what_somebody_else_wrote_is_checked() {
        let digest = Digest::of(b"");
        let with = |name: &str, path: &str| {
            format!(
                r#"{{"version":1,"skills":{{"{name}":{{"id":"a","digest":"{digest}","files":{{"{path}":"{digest}"}}}}}}}}"#
            )
        };
        assert_eq!(loaded(&with("a", "x/y")), Ok(1));
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
    fn a_record_of_nothing_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        Record::default().save(dir.path()).unwrap();
        assert!(!dir.path().join(FILE).exists());
        let entry = Entry {
            id: "a".to_owned(),
            digest: Digest::of(b"a"),
            files: BTreeMap::from([("x".to_owned(), Digest::of(b"x"))]),
            pending: BTreeMap::from([("y".to_owned(), Digest::of(b"y"))]),
        };
        assert!(entry.wrote("x", Digest::of(b"x")) && entry.wrote("y", Digest::of(b"y")));
        assert!(!entry.wrote("x", Digest::of(b"y")));
        assert_eq!(entry.paths().collect::<Vec<_>>(), ["x", "y"]);
        let record =
            Record { skills: BTreeMap::from([("a".to_owned(), entry)]), ..Record::default() };
        record.save(dir.path()).unwrap();
        assert_eq!(Record::load(dir.path()).unwrap().skills["a"].pending.len(), 1);
        Record::default().save(dir.path()).unwrap();
        assert!(!dir.path().join(FILE).exists());
    }
}
