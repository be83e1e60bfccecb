//! Location of a synced folder: one that the user named, or one below a base directory.
//!
//! A base directory, such as a project, may come from another author. It is opened once, and the folder below it is
//! reached from that handle, one name at a time, each time it is opened: a link that is put into its path later is
//! refused. It knows nothing of what is in the folder.

use std::{
    io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use crate::{
    BundleError,
    dir::{Dir, FileKind},
};

/// Location of a synced folder.
#[derive(Debug, Clone)]
pub struct FolderLocation {
    /// Path for messages and, if there is no base, for opening.
    path: PathBuf,
    below: Option<(Arc<Dir>, Vec<String>)>,
}

impl FolderLocation {
    /// Creates a location from a path that the user named. Links in it are followed.
    #[must_use]
    pub fn named(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), below: None }
    }

    /// Creates a location below a base directory, by a path without links. Messages show `path`.
    ///
    /// # Errors
    /// When the base cannot be opened, or the path has other parts than names in UTF-8.
    pub fn below(base: &Path, inside: &Path, path: PathBuf) -> Result<Self, BundleError> {
        let name = |part: Component<'_>| match part {
            Component::Normal(name) => name.to_str().map(str::to_owned),
            _ => None,
        };
        let names = inside.components().map(name).collect::<Option<Vec<_>>>();
        let names = names.ok_or_else(|| BundleError::Name { path: inside.to_owned() })?;
        let base = Dir::open(base)
            .map_err(|source| BundleError::Unreadable { path: base.to_owned(), source })?;
        Ok(Self { path, below: Some((Arc::new(base), names)) })
    }

    /// Returns the path for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether anything exists there, even if it cannot be opened.
    #[must_use]
    pub fn exists(&self) -> bool {
        !matches!(self.open(), Ok(None))
    }

    /// Opens the folder; `None` if it is missing.
    pub(super) fn open(&self) -> Result<Option<Dir>, BundleError> {
        let opened = match &self.below {
            None => Dir::open(&self.path),
            Some((base, names)) => self.descend(base, names, Dir::folder)?,
        };
        match opened {
            Ok(dir) => Ok(Some(dir)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(BundleError::Unreadable { path: self.path.clone(), source }),
        }
    }

    /// Opens the folder, and creates it if it is missing.
    pub(super) fn create(&self) -> Result<Dir, BundleError> {
        let created = match &self.below {
            None => Dir::create(&self.path),
            Some((base, names)) => self.descend(base, names, Dir::ensure_folder)?,
        };
        created.map_err(|source| BundleError::Unwritable { path: self.path.clone(), source })
    }

    fn descend(
        &self,
        base: &Dir,
        names: &[String],
        step: impl Fn(&Dir, &str) -> io::Result<Dir>,
    ) -> Result<io::Result<Dir>, BundleError> {
        let mut folder = match base.try_clone() {
            Ok(folder) => folder,
            Err(error) => return Ok(Err(error)),
        };
        for name in names {
            // For the message only: a link created after this check is refused by the step.
            if matches!(folder.kind(name), Ok(Some(FileKind::Link))) {
                let link = folder.path().join(name);
                return Err(BundleError::LeadsElsewhere { path: self.path.clone(), link });
            }
            folder = match step(&folder, name) {
                Ok(next) => next,
                Err(error) => return Ok(Err(error)),
            };
        }
        Ok(Ok(folder.with_path(&self.path)))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use skills_core::Coded as _;

    use super::{
        super::{Options, SyncFolder},
        *,
    };

    /// Replaces a folder by a link to another one.
    fn swap(folder: &Path, target: &Path) {
        fs::rename(folder, folder.with_extension("old")).unwrap();
        symlink(target, folder).unwrap();
    }

    #[test]
    fn a_folder_that_becomes_a_link_between_two_rounds_is_refused() {
        for swapped in [".claude", ".claude/skills"] {
            for is_missing in [false, true] {
                let place = tempfile::tempdir().unwrap();
                let (base, outside) = (place.path().join("project"), place.path().join("home"));
                fs::create_dir_all(&base).unwrap();
                fs::create_dir_all(outside.join("skills")).unwrap();
                let inside = Path::new(".claude/skills");
                let location =
                    FolderLocation::below(&base, inside, ".claude/skills".into()).unwrap();
                assert!(!location.exists(), "{swapped:?}");
                // One round, which creates it.
                let folder = SyncFolder::open_at(&location, Options::default()).unwrap();
                assert_eq!(folder.path(), inside, "{swapped:?}");
                drop(folder);
                assert!(base.join(inside).is_dir() && location.exists(), "{swapped:?}");
                let target = if is_missing { outside.join("new") } else { outside.clone() };
                swap(&base.join(swapped), &target);
                for dry_run in [false, true] {
                    let options = Options { dry_run, ..Options::default() };
                    let error = SyncFolder::open_at(&location, options).unwrap_err();
                    assert_eq!(error.code().as_str(), "leads_elsewhere", "{swapped}: {error}");
                    assert!(error.to_string().contains(swapped), "{error}");
                }
                assert!(location.exists(), "it is opened again, so that the error is shown");
                assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{swapped}");
                assert_eq!(fs::read_dir(outside.join("skills")).unwrap().count(), 0, "{swapped}");
            }
        }
    }

    #[test]
    fn the_base_is_the_opened_directory_and_not_its_path() {
        let place = tempfile::tempdir().unwrap();
        let (base, outside) = (place.path().join("project"), place.path().join("home"));
        fs::create_dir(&base).unwrap();
        fs::create_dir(&outside).unwrap();
        let location =
            FolderLocation::below(&base, Path::new(".agents/skills"), "shown".into()).unwrap();
        swap(&base, &outside);
        drop(SyncFolder::open_at(&location, Options::default()).unwrap());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert!(base.with_extension("old").join(".agents/skills").is_dir());
    }

    #[test]
    fn a_file_in_the_path_is_not_replaced() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join(".agents"), "mine").unwrap();
        let inside = Path::new(".agents/skills");
        let location = FolderLocation::below(place.path(), inside, "shown".into()).unwrap();
        let error = SyncFolder::open_at(&location, Options::default()).unwrap_err();
        assert_eq!(error.code().as_str(), "unwritable");
        assert_eq!(fs::read(place.path().join(".agents")).unwrap(), b"mine");
        for inside in ["../x", "/x", "a/../b"] {
            let refused = FolderLocation::below(place.path(), Path::new(inside), "shown".into());
            assert!(refused.is_err(), "{inside}");
        }
    }
}
