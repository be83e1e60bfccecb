//! Sources that the user added to a registry from this machine.
//!
//! The provenance of a skill is text of its registry: a worker on the bus, or the registry itself, may name any file or
//! address. `update` therefore reads files and local networks only if `add` recorded here that the user chose them for
//! this registry. The record is a private file of the user, which no function of the bus can write.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use skills_core::Provenance;

use crate::{connect::RegistrySource, data_dir, fetch::ChosenBy, private_file::options};

/// Name of the file.
const FILE_NAME: &str = "known-sources.jsonl";
/// Most bytes of the file. A longer record begins again, and `update` asks about the sources of the old one.
const MAX_BYTES: u64 = 4 << 20;
/// Write permissions of group and others.
const OTHERS_WRITE: u32 = 0o022;

/// Line of the record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct KnownSource {
    /// Registry that the skills were added to.
    registry: String,
    kind: String,
    location: String,
}

/// The record for one registry.
#[derive(Debug)]
pub(super) struct KnownSources {
    /// `None` without a home directory: nothing is known then.
    path: Option<PathBuf>,
    registry: String,
    lines: HashSet<KnownSource>,
}

impl KnownSources {
    /// Reads the record: of the data directory that the user named, else of the user's data folder. A record that other
    /// users could have written counts as empty.
    pub(super) fn load(explicit_dir: Option<&Path>, registry: &RegistrySource) -> Self {
        let dir = explicit_dir.map(Path::to_owned).or_else(data_dir::user_dir);
        let path = dir.map(|dir| dir.join(FILE_NAME));
        let text = path.as_ref().and_then(|path| read(path).ok()).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Self { path, registry: registry.identity(), lines }
    }

    /// Returns the party that chose a source.
    pub(super) fn chosen_by(&self, source: &Provenance) -> ChosenBy {
        let is_known = self.lines.contains(&self.line(source));
        if is_known { ChosenBy::User } else { ChosenBy::Registry }
    }

    /// Adds sources that the user has named.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn record<'a>(
        &mut self,
        sources: impl Iterator<Item = &'a Provenance>,
    ) -> io::Result<()> {
        let fetchable = sources.filter(|source| source.can_be_fetched());
        let lines: HashSet<KnownSource> = fetchable.map(|source| self.line(source)).collect();
        let mut text = String::new();
        for line in lines.difference(&self.lines) {
            text.push_str(&serde_json::to_string(line)?);
            text.push('\n');
        }
        let Some(path) = self.path.as_ref().filter(|_| !text.is_empty()) else { return Ok(()) };
        if let Some(dir) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let mut file = options().append(true).create(true).open(path)?;
        check_private(&file)?;
        if file.metadata()?.len().saturating_add(text.len() as u64) > MAX_BYTES {
            file.set_len(0)?;
        }
        // One write, so that lines of two commands do not mix.
        file.write_all(text.as_bytes())?;
        self.lines.extend(lines);
        Ok(())
    }

    fn line(&self, source: &Provenance) -> KnownSource {
        KnownSource {
            registry: self.registry.clone(),
            kind: source.kind.as_str().to_owned(),
            location: source.location.clone(),
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let file = options().read(true).open(path)?;
    check_private(&file)?;
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Checks that only the user can have written a file.
fn check_private(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    if metadata.is_file() && is_ours && metadata.mode() & OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(io::Error::other("it is not a private file of this user"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use skills_core::SourceKind;

    use super::*;

    fn load(dir: &Path, registry: &str) -> KnownSources {
        KnownSources::load(Some(dir), &RegistrySource::Bus(registry.to_owned()))
    }

    #[test]
    fn a_source_is_known_for_the_registry_that_it_was_added_to() {
        let dir = tempfile::tempdir().unwrap();
        let notes = Provenance::new(SourceKind::Path, "/home/me/notes");
        let mut known = load(dir.path(), "ws://a?token=x");
        assert_eq!(known.chosen_by(&notes), ChosenBy::Registry);
        known.record([&notes].into_iter()).unwrap();
        for (registry, chosen_by) in [
            ("ws://a", ChosenBy::User),
            ("ws://a?token=y", ChosenBy::User),
            ("ws://b", ChosenBy::Registry),
        ] {
            assert_eq!(load(dir.path(), registry).chosen_by(&notes), chosen_by, "{registry}");
        }
        for other in [
            Provenance::new(SourceKind::Path, "/home/me/notes/secret"),
            Provenance::new(SourceKind::Url, "/home/me/notes"),
        ] {
            assert_eq!(load(dir.path(), "ws://a").chosen_by(&other), ChosenBy::Registry);
        }
        let path = dir.path().join(FILE_NAME);
        assert!(!fs::read_to_string(&path).unwrap().contains("token"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(load(dir.path(), "ws://a").chosen_by(&notes), ChosenBy::Registry, "exposed");
    }

    #[test]
    fn the_record_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let long = |letter: &str| Provenance::new(SourceKind::Path, letter.repeat(3 << 20));
        for letter in ["a", "b"] {
            load(dir.path(), "ws://a").record([&long(letter)].into_iter()).unwrap();
        }
        assert!(fs::metadata(dir.path().join(FILE_NAME)).unwrap().len() <= MAX_BYTES);
        let known = load(dir.path(), "ws://a");
        assert_eq!(known.chosen_by(&long("a")), ChosenBy::Registry);
        assert_eq!(known.chosen_by(&long("b")), ChosenBy::User);
    }
}
