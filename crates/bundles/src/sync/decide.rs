//! What is to be done about one skill: a comparison of what is wanted, what was written, and what is there now.
//!
//! Nothing is changed here.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use skills_core::{Digest, limits::MAX_BUNDLE_BYTES};

use super::{Kept, Wanted, record::Entry};
use crate::{
    BundleError,
    place::{Present, folders_of, present},
};

/// What is to be done.
pub(super) enum Decision<'a> {
    Unchanged,
    Kept(Kept),
    Change(Change<'a>),
}

pub(super) struct Change<'a> {
    pub(super) write: Vec<(&'a str, &'a [u8])>,
    /// Before anything is written.
    pub(super) remove: Vec<String>,
}

/// What is where the folder of a skill belongs.
enum Ground {
    Free,
    Folder,
    /// A link, say.
    Other,
}

/// What is where a file was written.
enum OnDisk {
    Missing,
    File(Digest),
    Folder,
    /// A link, or something that no sync has written.
    Other,
    /// It cannot be there: what it was in is no folder any more.
    Behind,
}

/// What to do about a skill that is wanted.
pub(super) fn wanted<'a>(
    home: &Path,
    wanted: &'a Wanted,
    entry: Option<&Entry>,
    force: bool,
) -> Result<Decision<'a>, BundleError> {
    let is_free = match ground(home)? {
        Ground::Other if !force => {
            return Ok(Decision::Kept(Kept::Foreign { path: home.to_owned() }));
        }
        Ground::Other => {
            return Ok(Decision::Change(Change {
                write: wanted.files().collect(),
                remove: vec![],
            }));
        }
        Ground::Free => true,
        Ground::Folder => false,
    };
    let mut change = Change { write: vec![], remove: vec![] };
    for (path, bytes) in wanted.files() {
        match present(home, path, bytes)? {
            Present::Same => continue,
            Present::Missing => {}
            Present::Other(_) if force => {}
            Present::Other(full) => {
                let inside = full.strip_prefix(home).ok().and_then(Path::to_str);
                match entry.zip(inside) {
                    None => return Ok(Decision::Kept(Kept::Foreign { path: full })),
                    Some((entry, inside)) if is_ours(home, inside, entry)? => {}
                    Some(_) => return Ok(Decision::Kept(Kept::Edited { path: full })),
                }
            }
        }
        change.write.push((path, bytes));
    }
    if let Some(entry) = entry {
        let is_wanted = |path: &str| wanted.files().any(|(wanted, _)| wanted == path);
        let superfluous = entry.paths().filter(|path| !is_wanted(path));
        match taken_back(home, superfluous, entry, force)? {
            Ok(remove) => change.remove = remove,
            Err(kept) => return Ok(Decision::Kept(kept)),
        }
    } else if !is_free && !change.write.is_empty() && !force {
        // What somebody else made is not mixed with ours.
        return Ok(Decision::Kept(Kept::Foreign { path: home.to_owned() }));
    }
    let is_nothing = change.write.is_empty() && change.remove.is_empty();
    Ok(if is_nothing { Decision::Unchanged } else { Decision::Change(change) })
}

/// What to do about a skill that is not wanted any more.
pub(super) fn unwanted(
    home: &Path,
    entry: &Entry,
    force: bool,
) -> Result<Decision<'static>, BundleError> {
    match ground(home)? {
        Ground::Free => Ok(Decision::Unchanged),
        Ground::Other => Ok(Decision::Kept(Kept::Edited { path: home.to_owned() })),
        Ground::Folder => Ok(match taken_back(home, entry.paths(), entry, force)? {
            Ok(remove) => Decision::Change(Change { write: vec![], remove }),
            Err(kept) => Decision::Kept(kept),
        }),
    }
}

/// Whether a skill is there just as it was written.
pub(super) fn is_untouched(home: &Path, entry: &Entry) -> bool {
    let is_folder = matches!(ground(home), Ok(Ground::Folder));
    is_folder
        && entry.pending.is_empty()
        && entry.files.iter().all(|(path, digest)| {
            matches!(on_disk(home, path), Ok(OnDisk::File(found)) if found == *digest)
        })
}

/// Which of these files are there and can be removed; or the first that somebody has changed.
fn taken_back<'a>(
    home: &Path,
    paths: impl Iterator<Item = &'a str>,
    entry: &Entry,
    force: bool,
) -> Result<Result<Vec<String>, Kept>, BundleError> {
    let mut remove = Vec::new();
    for path in paths {
        match on_disk(home, path)? {
            OnDisk::Missing => {}
            OnDisk::File(digest) if entry.wrote(path, digest) => remove.push(path.to_owned()),
            OnDisk::File(_) | OnDisk::Other if force => remove.push(path.to_owned()),
            OnDisk::Folder | OnDisk::Behind if force => {}
            _ => return Ok(Err(Kept::Edited { path: home.join(path) })),
        }
    }
    Ok(Ok(remove))
}

/// Whether what is in the way of a file was written by a sync: another version of it, or a file where there is to be a
/// folder, or the other way round.
fn is_ours(home: &Path, path: &str, entry: &Entry) -> Result<bool, BundleError> {
    Ok(match on_disk(home, path)? {
        OnDisk::Missing => true,
        OnDisk::File(digest) => entry.wrote(path, digest),
        OnDisk::Folder => {
            let is_below =
                |known: &str| known.strip_prefix(path).is_some_and(|below| below.starts_with('/'));
            entry.paths().any(is_below)
        }
        OnDisk::Other | OnDisk::Behind => false,
    })
}

fn ground(home: &Path) -> Result<Ground, BundleError> {
    let unreadable = |source| BundleError::Unreadable { path: home.to_owned(), source };
    match fs::symlink_metadata(home) {
        Ok(metadata) if metadata.is_dir() => {
            let is_empty = fs::read_dir(home).map_err(unreadable)?.next().is_none();
            Ok(if is_empty { Ground::Free } else { Ground::Folder })
        }
        Ok(_) => Ok(Ground::Other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ground::Free),
        Err(error) => Err(unreadable(error)),
    }
}

fn on_disk(home: &Path, path: &str) -> Result<OnDisk, BundleError> {
    for above in folders_of(path) {
        match fs::symlink_metadata(home.join(above)) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Ok(OnDisk::Behind),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(OnDisk::Missing),
            Err(source) => return Err(BundleError::Unreadable { path: home.join(above), source }),
        }
    }
    let full = home.join(path);
    let found = match fs::symlink_metadata(&full) {
        Ok(metadata) if metadata.is_dir() => return Ok(OnDisk::Folder),
        Ok(metadata) if !metadata.is_file() => return Ok(OnDisk::Other),
        // No sync writes as much.
        Ok(metadata) if metadata.len() > MAX_BUNDLE_BYTES as u64 => return Ok(OnDisk::Other),
        Ok(_) => digest_of(&full),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(OnDisk::Missing),
        Err(error) => Err(error),
    };
    found.map(OnDisk::File).map_err(|source| BundleError::Unreadable { path: full, source })
}

fn digest_of(path: &Path) -> io::Result<Digest> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_BUNDLE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Digest::of(&bytes))
}
