//! Which bundles there are: a SKILL.md, the folder it is in, or folders of such folders.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use skills_core::skill::ROOT_PATH;

use crate::Failure;

/// Folders that hold no content of their own.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// A bundle on disk.
#[derive(Debug)]
pub(super) struct Bundle {
    /// Its SKILL.md.
    pub(super) document: PathBuf,
    /// The name of its folder, where it has one.
    pub(super) directory: Option<String>,
    /// The paths of its files inside it, with forward slashes.
    pub(super) files: Vec<String>,
}

/// Something that may be a bundle and cannot be read.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) path: PathBuf,
    pub(super) error: io::Error,
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) bundles: Vec<Bundle>,
    pub(super) unreadable: Vec<Unreadable>,
}

/// The bundles at all paths, in the order of their paths.
pub(super) fn all(paths: &[PathBuf]) -> Result<Found, Failure> {
    let mut found = Found::default();
    for path in paths {
        let refused = |error: io::Error| {
            let place = crate::output::plain(&path.display().to_string());
            Failure::new("unreadable", format!("{place} cannot be read: {error}"))
                .hint("name a SKILL.md, the folder it is in, or a folder of such folders")
        };
        if fs::metadata(path).map_err(refused)?.is_dir() {
            let before = found.bundles.len() + found.unreadable.len();
            fs::read_dir(path).map_err(refused)?;
            walk(path, &mut found);
            if found.bundles.len() + found.unreadable.len() == before {
                return Err(refused(io::Error::other(format!("there is no {ROOT_PATH} in it"))));
            }
        } else if path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(ROOT_PATH)) {
            one(path, &mut found);
        } else {
            return Err(refused(io::Error::other(format!("it is not a {ROOT_PATH}"))));
        }
    }
    found.bundles.sort_by(|a, b| a.document.cmp(&b.document));
    found.bundles.dedup_by(|a, b| a.document == b.document);
    Ok(found)
}

/// A document that was named, with the folder it is in.
fn one(document: &Path, found: &mut Found) {
    let parent = document.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    let mut within = Found::default();
    walk(folder, &mut within);
    let is_it = |bundle: &Bundle| bundle.document.file_name() == document.file_name();
    let own = within
        .bundles
        .into_iter()
        .find(|bundle| bundle.document.parent() == Some(folder) && is_it(bundle));
    // Its folder cannot be listed, or holds another spelling of it: it is judged by itself.
    let bundle = own.map_or_else(
        || Bundle {
            document: document.to_owned(),
            directory: name_of(folder),
            files: document
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .into_iter()
                .collect(),
        },
        |own| Bundle { document: document.to_owned(), ..own },
    );
    found.bundles.push(bundle);
}

/// Looks into a folder and all below it. Links to folders are not followed: they could lead in a circle.
fn walk(root: &Path, found: &mut Found) {
    let mut open: Vec<Visit> = vec![Visit { folder: root.to_owned(), parent: None }];
    let mut folders: Vec<Listed> = Vec::new();
    while let Some(Visit { folder, parent }) = open.pop() {
        let listed = match list(&folder) {
            Ok(listed) => listed,
            Err(error) => {
                found.unreadable.push(Unreadable { path: folder, error });
                continue;
            }
        };
        let at = folders.len();
        let below = listed.folders.iter().map(|name| folder.join(name));
        open.extend(below.map(|folder| Visit { folder, parent: Some(at) }));
        folders.push(Listed { folder, parent, files: listed.files });
    }
    let documents: Vec<Option<String>> = folders.iter().map(document_of).collect();
    let mut bundles: Vec<Option<Bundle>> = Vec::with_capacity(folders.len());
    for (listed, document) in folders.iter().zip(&documents) {
        bundles.push(document.as_ref().map(|document| Bundle {
            document: listed.folder.join(document),
            directory: name_of(&listed.folder),
            files: Vec::new(),
        }));
    }
    // A file belongs to every bundle above it: one that holds another also holds its files.
    for (at, listed) in folders.iter().enumerate() {
        let mut above = Some(at);
        while let Some(index) = above {
            if let (Some(Some(bundle)), Some(home)) = (bundles.get_mut(index), folders.get(index)) {
                let inside = listed.folder.strip_prefix(&home.folder).unwrap_or(&listed.folder);
                bundle.files.extend(listed.files.iter().map(|file| slashed(inside, file)));
            }
            above = folders.get(index).and_then(|home| home.parent);
        }
    }
    found.bundles.extend(bundles.into_iter().flatten());
}

struct Visit {
    folder: PathBuf,
    parent: Option<usize>,
}

struct Listed {
    folder: PathBuf,
    parent: Option<usize>,
    files: Vec<String>,
}

#[derive(Default)]
struct Listing {
    files: Vec<String>,
    folders: Vec<std::ffi::OsString>,
}

fn list(folder: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !entry.file_type()?.is_dir() {
            listing.files.push(name.to_string_lossy().into_owned());
        } else if !SKIPPED.iter().any(|skipped| name == *skipped) {
            listing.folders.push(name);
        }
    }
    Ok(listing)
}

/// The document of a folder: SKILL.md, or else another spelling of it, which has to be pointed out.
fn document_of(listed: &Listed) -> Option<String> {
    let exact = listed.files.iter().find(|file| *file == ROOT_PATH);
    exact.or_else(|| listed.files.iter().find(|file| file.eq_ignore_ascii_case(ROOT_PATH))).cloned()
}

/// The name of a folder, also of one that is written as `.` or `..`.
fn name_of(folder: &Path) -> Option<String> {
    let own = folder.file_name().map(ToOwned::to_owned);
    let name = own.or_else(|| fs::canonicalize(folder).ok()?.file_name().map(ToOwned::to_owned));
    name.map(|name| name.to_string_lossy().into_owned())
}

fn slashed(inside: &Path, file: &str) -> String {
    let mut path = String::new();
    for part in inside {
        path.push_str(&part.to_string_lossy());
        path.push('/');
    }
    path.push_str(file);
    path
}
