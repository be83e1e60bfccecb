//! Handle of an open directory. Everything below it is reached from the handle, one name at a time, and no link is
//! followed: a process that changes the tree meanwhile cannot lead a read, a write or a removal elsewhere.
//!
//! It needs `openat` and its like, so this crate is for Unix systems, as the program is. It knows nothing of bundles.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, Read as _},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Component, Path, PathBuf},
};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat, renameat, statat, unlinkat,
};

/// Permissions of new files and folders, before the process's umask.
const FILE_MODE: u32 = 0o666;
const EXECUTABLE_MODE: u32 = 0o777;
const FOLDER_MODE: u32 = 0o777;

/// Handle of an open directory.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    /// Path for messages. Nothing is opened by it.
    path: PathBuf,
}

/// Kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    File { size: u64, executable: bool },
    Folder,
    Link,
    Special,
}

/// Reason why a file below a directory could not be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    Link,
    Special,
    Io(io::Error),
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Link => Self::other("it is a link"),
            OpenError::Special => Self::other("it is not a regular file"),
            OpenError::Io(error) => error,
        }
    }
}

/// Opens a regular file that the user named. Links in its path are followed; opening a pipe or a device in its place
/// neither blocks nor has an effect.
///
/// # Errors
/// When it cannot be read, or is not a regular file.
pub fn open_named_file(path: &Path) -> io::Result<fs::File> {
    Ok(open_named(path)?)
}

pub(crate) fn open_named(path: &Path) -> Result<fs::File, OpenError> {
    open_regular(CWD, path.as_os_str(), OFlags::empty())
}

/// Opens a regular file of a directory for reading.
fn open_regular(dir: impl AsFd, name: &OsStr, flags: OFlags) -> Result<fs::File, OpenError> {
    // Opening a pipe without a writer must not block.
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: fs::File = openat(dir, name, flags, Mode::empty()).map_err(open_error)?.into();
    // Checks the handle: the name may refer to something else by now.
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(file),
        Ok(_) => Err(OpenError::Special),
        Err(error) => Err(OpenError::Io(error)),
    }
}

impl Dir {
    /// Opens a directory that the user named. Links in its path are followed.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // An empty path is the current directory, as for `Path::join`.
        let named = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let fd = openat(rustix::fs::CWD, named, folder_flags(), Mode::empty())?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Opens a directory that the user named, and creates it if it is missing.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Self::open(path)
    }

    /// Returns the path for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Duplicates the handle as a file, for locks.
    pub(crate) fn to_file(&self) -> io::Result<fs::File> {
        Ok(self.fd.try_clone()?.into())
    }

    /// Returns the directory with another path for messages.
    pub(crate) fn with_path(self, path: &Path) -> Self {
        Self { path: path.to_owned(), ..self }
    }

    /// Duplicates the handle.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, path: self.path.clone() })
    }

    /// Returns the kind of an entry, without following it; nothing where there is none.
    pub(crate) fn kind(&self, name: &str) -> io::Result<Option<FileKind>> {
        let stat = match statat(&self.fd, check_segment(name)?, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            stat => stat?,
        };
        Ok(Some(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::File {
                size: stat.st_size.try_into().unwrap_or(0),
                executable: is_executable(stat.st_mode),
            },
            FileType::Directory => FileKind::Folder,
            FileType::Symlink => FileKind::Link,
            _ => FileKind::Special,
        }))
    }

    /// Opens a folder inside.
    pub(crate) fn folder(&self, name: &str) -> io::Result<Self> {
        let name = check_segment(name)?;
        let fd = openat(&self.fd, name, folder_flags() | OFlags::NOFOLLOW, Mode::empty())?;
        Ok(Self { fd, path: self.path.join(name) })
    }

    /// Opens a folder inside, and creates it if it is missing. Anything else of that name is removed.
    pub(crate) fn create_folder(&self, name: &str) -> io::Result<Self> {
        match self.kind(name)? {
            Some(FileKind::Folder) => return self.folder(name),
            Some(_) => self.remove_file(name)?,
            None => {}
        }
        self.ensure_folder(name)
    }

    /// Opens a folder inside, and creates it if it is missing. Anything else of that name is an error.
    pub(crate) fn ensure_folder(&self, name: &str) -> io::Result<Self> {
        match self.folder(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            folder => return folder,
        }
        match mkdirat(&self.fd, check_segment(name)?, Mode::from_raw_mode(FOLDER_MODE)) {
            // Another process may have created it; a link is not followed.
            Ok(()) | Err(rustix::io::Errno::EXIST) => self.folder(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a regular file by a relative path.
    pub(crate) fn open_file(&self, path: &Path) -> Result<fs::File, OpenError> {
        let mut parent: Option<Self> = None;
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            let Component::Normal(name) = part else { break };
            let here = parent.as_ref().unwrap_or(self);
            if parts.peek().is_none() {
                return here.open_leaf(name);
            }
            let flags = folder_flags() | OFlags::NOFOLLOW;
            let fd = openat(&here.fd, name, flags, Mode::empty()).map_err(open_error)?;
            parent = Some(Self { fd, path: here.path.join(name) });
        }
        Err(OpenError::Io(io::Error::from(io::ErrorKind::InvalidInput)))
    }

    fn open_leaf(&self, name: &OsStr) -> Result<fs::File, OpenError> {
        open_regular(&self.fd, name, OFlags::NOFOLLOW)
    }

    /// Reads a regular file up to a number of bytes.
    pub(crate) fn read_file(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        read_at_most(self.open_leaf(check_segment(name)?.as_ref())?, limit)
    }

    /// Creates a file, which must not exist.
    pub(crate) fn create_file(&self, name: &str, executable: bool) -> io::Result<fs::File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(if executable { EXECUTABLE_MODE } else { FILE_MODE });
        Ok(openat(&self.fd, check_segment(name)?, flags | OFlags::CLOEXEC, mode)?.into())
    }

    /// Renames an entry and replaces the target, even if it is a link.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.fd, check_segment(from)?, &self.fd, check_segment(to)?)?)
    }

    /// Removes anything but a folder.
    pub(crate) fn remove_file(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.fd, check_segment(name)?, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    pub(crate) fn remove_folder(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.fd, check_segment(name)?, AtFlags::REMOVEDIR)?)
    }

    /// Returns the names of its entries. Those that are not UTF-8 are left out.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.all_names()?.into_iter().flat_map(OsString::into_string).collect())
    }

    /// Returns the names of its entries, also of those that are not UTF-8.
    pub(crate) fn all_names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            match entry.file_name().to_bytes() {
                b"." | b".." => {}
                name => names.push(OsStr::from_bytes(name).to_owned()),
            }
        }
        Ok(names)
    }

    /// Returns whether it has no entries.
    pub(crate) fn is_empty(&self) -> io::Result<bool> {
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Reads a file up to a number of bytes. The file size is only a hint for the capacity.
pub(crate) fn read_at_most(file: fs::File, limit: u64) -> io::Result<Vec<u8>> {
    let capacity = file.metadata()?.len().min(limit) + 1;
    let mut bytes = Vec::with_capacity(usize::try_from(capacity).unwrap_or_default());
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns whether the owner of a file may execute it. Other users get the same right where the umask allows it.
pub(crate) const fn is_executable(mode: u32) -> bool {
    mode & 0o100 != 0
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// Refuses a name of more than one segment, even if the caller checked it before.
fn check_segment(name: &str) -> io::Result<&str> {
    if matches!(name, "" | "." | "..") || name.contains('/') {
        let message = format!("{name:?} is not the name of a file");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(name)
}

fn open_error(error: rustix::io::Errno) -> OpenError {
    match error {
        rustix::io::Errno::LOOP => OpenError::Link,
        // A socket, or a device without a driver.
        rustix::io::Errno::NXIO => OpenError::Special,
        error => OpenError::Io(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_never_followed_below_the_handle() {
        let place = tempfile::tempdir().unwrap();
        let (inside, outside) = (place.path().join("in"), place.path().join("out"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "s").unwrap();
        symlink(&outside, inside.join("folder")).unwrap();
        symlink(outside.join("secret"), inside.join("file")).unwrap();
        let dir = Dir::open(&inside).unwrap();
        assert_eq!(dir.kind("file").unwrap(), Some(FileKind::Link));
        assert!(dir.folder("folder").is_err());
        assert!(matches!(dir.open_file(Path::new("file")), Err(OpenError::Link)));
        assert!(dir.open_file(Path::new("folder/secret")).is_err());
        assert!(dir.create_file("file", false).is_err());
        // A link in the way is replaced; its target stays.
        dir.create_folder("folder").unwrap().create_file("secret", false).unwrap();
        assert_eq!(fs::read(outside.join("secret")).unwrap(), b"s");
        assert!(fs::symlink_metadata(inside.join("folder")).unwrap().is_dir());
    }

    #[test]
    fn names_with_more_than_one_segment_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::create(&place.path().join("a/b")).unwrap();
        for name in ["", ".", "..", "../x", "/etc", "a/b"] {
            assert!(dir.create_file(name, false).is_err(), "{name}");
            assert!(dir.create_folder(name).is_err(), "{name}");
            assert!(dir.remove_file(name).is_err(), "{name}");
            assert!(dir.remove_folder(name).is_err(), "{name}");
        }
        for path in ["../x", "/etc/passwd", "", "x/../../y", "./x"] {
            assert!(dir.open_file(Path::new(path)).is_err(), "{path}");
        }
        assert!(dir.is_empty().unwrap());
    }

    #[test]
    fn only_regular_files_are_read() {
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::open(place.path()).unwrap();
        let made = std::process::Command::new("mkfifo").arg(place.path().join("pipe")).status();
        assert!(made.unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(place.path().join("socket")).unwrap();
        dir.create_folder("folder").unwrap();
        for name in ["pipe", "socket", "folder"] {
            assert!(matches!(dir.open_file(Path::new(name)), Err(OpenError::Special)), "{name}");
        }
        assert!(!dir.is_empty().unwrap());
    }
}
