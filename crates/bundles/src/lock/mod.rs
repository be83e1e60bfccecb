//! The lockfile `skills-lock.json` of a project, in the format of `npx skills`.
//!
//! - `hash`: hashes of a skill's folder
//! - `entry`: entry of one skill
//!
//! Fields that this program does not know are kept as they are, so that a file that is read and written is the same,
//! byte for byte.

mod entry;
mod hash;

pub use entry::{LockEntry, LockSource};
pub use hash::{FolderHashes, HashedFile, is_copied_by_npx, npx_hash, sort_by_locale};

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, Visitor},
    ser::SerializeMap as _,
};
use serde_json::value::{RawValue, to_raw_value};

use crate::{
    BundleError,
    dir::Dir,
    files::{NewFile, write},
};

/// Name of the file.
pub const LOCKFILE: &str = "skills-lock.json";
/// Version of the format.
const VERSION: u64 = 1;
/// Longest file that is read, in bytes.
const MAX_BYTES: u64 = 8 << 20;

/// Lockfile of a project: the skills in its folders, and where they came from.
#[derive(Debug, Default)]
pub struct Lockfile {
    /// Entries by name. The format sorts them by UTF-16 units, which for names of skills is the order of bytes.
    entries: BTreeMap<String, LockEntry>,
    /// Fields of the document that this program does not know.
    others: Vec<(String, Box<RawValue>)>,
}

impl Lockfile {
    /// Reads the lockfile of a directory; `None` if there is none.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a lockfile of this version.
    pub fn load(dir: &Path) -> Result<Option<Self>, BundleError> {
        let path = dir.join(LOCKFILE);
        let unreadable = |source| BundleError::Unreadable { path: path.clone(), source };
        let refused = |reason: String| BundleError::BadLockfile { path: path.clone(), reason };
        let metadata = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata.map_err(unreadable)?,
        };
        if !metadata.is_file() {
            return Err(refused("it is not a regular file".to_owned()));
        }
        if metadata.len() > MAX_BYTES {
            return Err(refused(format!("it has more than {MAX_BYTES} bytes")));
        }
        let text = fs::read(&path).map_err(unreadable)?;
        Self::parse(&text).map(Some).map_err(refused)
    }

    /// Parses the text of a lockfile.
    fn parse(text: &[u8]) -> Result<Self, String> {
        let Fields(fields) = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let (mut version, mut lock) = (None, Self::default());
        for (name, value) in fields {
            let text = value.get();
            match name.as_str() {
                "version" => version = serde_json::from_str::<u64>(text).ok(),
                "skills" => {
                    let Fields(skills) = serde_json::from_str(text)
                        .map_err(|error| format!("skills is not an object: {error}"))?;
                    for (name, value) in skills {
                        let entry: Fields = serde_json::from_str(value.get())
                            .map_err(|error| format!("the entry of {name:?}: {error}"))?;
                        if lock.entries.insert(name.clone(), LockEntry::new(entry.0)).is_some() {
                            return Err(format!("{name:?} has two entries"));
                        }
                    }
                }
                _ => lock.others.push((name, value)),
            }
        }
        match version {
            Some(VERSION) => Ok(lock),
            Some(version) => Err(format!("its version is {version}, not {VERSION}")),
            None => Err("it has no version".to_owned()),
        }
    }

    /// Returns the text of the file: two spaces of indentation, and a line end.
    ///
    /// # Errors
    /// When an entry cannot be written as JSON.
    pub fn to_text(&self) -> io::Result<String> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// Replaces the lockfile of a directory atomically.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, dir: &Path) -> Result<(), BundleError> {
        let path: PathBuf = dir.join(LOCKFILE);
        let save = || {
            let text = self.to_text()?;
            let file = NewFile { path: LOCKFILE, bytes: text.as_bytes(), executable: false };
            let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
            write(&Dir::open(dir)?, file)
        };
        save().map_err(|source| BundleError::Unwritable { path, source })
    }

    /// Returns the entries in the order of their names.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &LockEntry)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// Returns the entry of a skill.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&LockEntry> {
        self.entries.get(name)
    }

    /// Returns the entry of a skill for changes.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut LockEntry> {
        self.entries.get_mut(name)
    }

    /// Sets the entry of a skill.
    pub fn insert(&mut self, name: impl Into<String>, entry: LockEntry) {
        self.entries.insert(name.into(), entry);
    }

    /// Removes the entries for which `keep` is false, and returns their names.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) -> Vec<String> {
        let gone: Vec<String> = self.entries.keys().filter(|name| !keep(name)).cloned().collect();
        for name in &gone {
            self.entries.remove(name);
        }
        gone
    }
}

impl Serialize for Lockfile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", &VERSION)?;
        map.serialize_entry("skills", &self.entries)?;
        for (name, value) in &self.others {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Object of JSON whose fields are in the order of the text, with values that are not parsed.
struct Fields(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;

        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields: Vec<(String, Box<RawValue>)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    fields.push((name, value));
                }
                let mut names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
                names.sort_unstable();
                match names.windows(2).find(|pair| pair.first() == pair.last()) {
                    Some(pair) => {
                        let name = pair.first().copied().unwrap_or_default();
                        Err(A::Error::custom(format!("{name:?} is given twice")))
                    }
                    None => Ok(Fields(fields)),
                }
            }
        }

        deserializer.deserialize_map(FieldsVisitor)
    }
}

/// Converts a text to JSON.
fn raw_text(text: &str) -> Option<Box<RawValue>> {
    to_raw_value(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// File as `npx skills` 1.7.4 writes it.
    const GOLDEN: &str = include_str!("golden.json");

    #[test]
    fn a_file_that_is_read_and_written_is_the_same() {
        let lock = Lockfile::parse(GOLDEN.as_bytes()).unwrap();
        assert_eq!(lock.entries().count(), 5);
        assert_eq!(lock.to_text().unwrap(), GOLDEN);
    }

    #[test]
    fn entries_are_written_in_the_order_of_the_format() {
        let mut lock = Lockfile::parse(GOLDEN.as_bytes()).unwrap();
        let entry = lock.get_mut("pdf").unwrap();
        let hash = entry.hash().unwrap().to_owned();
        entry.set_text("computedHash", "0");
        assert_ne!(lock.to_text().unwrap(), GOLDEN);
        lock.get_mut("pdf").unwrap().set_text("computedHash", &hash);
        let removed = lock.retain(|name| name != "pdf");
        assert_eq!(removed, ["pdf"]);
        let source = LockSource::Git {
            url: "http://127.0.0.1:8080/git/all.git".to_owned(),
            reference: None,
            path: "skills/pdf".to_owned(),
        };
        let hashes = FolderHashes { npx: hash, digest: "sha256:0".to_owned() };
        lock.insert("pdf", LockEntry::from_source(&source, &hashes));
        let digest = ",\n      \"bundleDigest\": \"sha256:0\"\n    }";
        let text = lock.to_text().unwrap();
        assert_eq!(text.matches(digest).count(), 1, "{text}");
        assert_eq!(text.replace(digest, "\n    }"), GOLDEN);
    }

    #[test]
    fn broken_files_are_refused() {
        for (text, words) in [
            ("", "EOF"),
            ("{", "EOF"),
            ("[]", "expected an object"),
            ("{}", "no version"),
            (r#"{"version":2,"skills":{}}"#, "version is 2"),
            (r#"{"version":"1","skills":{}}"#, "no version"),
            (r#"{"version":1,"skills":[]}"#, "skills is not an object"),
            (r#"{"version":1,"skills":{"a":1}}"#, "the entry of \"a\""),
            (r#"{"version":1,"skills":{"a":{},"a":{}}}"#, "given twice"),
            (r#"{"version":1,"skills":{"a":{"source":"x","source":"y"}}}"#, "given twice"),
            ("{\"version\":1,\"skills\":{}} x", "trailing"),
        ] {
            let error = Lockfile::parse(text.as_bytes()).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
        assert_eq!(Lockfile::parse(br#"{"version":1}"#).unwrap().entries().count(), 0);
    }

    #[test]
    fn a_directory_without_a_file_has_none() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Lockfile::load(dir.path()).unwrap().is_none());
        fs::create_dir(dir.path().join(LOCKFILE)).unwrap();
        let error = Lockfile::load(dir.path()).unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error}");
        fs::remove_dir(dir.path().join(LOCKFILE)).unwrap();
        Lockfile::default().save(dir.path()).unwrap();
        let text = fs::read_to_string(dir.path().join(LOCKFILE)).unwrap();
        assert_eq!(text, "{\n  \"version\": 1,\n  \"skills\": {}\n}\n");
    }
}
