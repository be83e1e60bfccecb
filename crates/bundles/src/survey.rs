//! Every root document at a path, also those inside of other bundles, for who only wants to look at documents.

use std::{
    fs,
    path::{Path, PathBuf},
};

use skills_core::skill::ROOT_PATH;

use crate::{
    BundleError, candidate,
    find::{fault, name_of_folder, walk},
    layout::{self, Document},
};

/// A root document.
#[derive(Debug)]
pub struct Surveyed {
    /// Where it is.
    pub document: PathBuf,
    /// The name of its folder, where it has one.
    pub directory: Option<String>,
    /// The paths of the files in its folder and below, with forward slashes.
    pub files: Vec<String>,
}

/// What is at a path.
#[derive(Debug, Default)]
pub struct Survey {
    /// The documents, in the order of their folders.
    pub documents: Vec<Surveyed>,
    /// What could not be looked into.
    pub faults: Vec<BundleError>,
}

/// Looks at a folder and all below it, as [`find`](crate::find) does, or at a single `SKILL.md`.
///
/// # Errors
/// When nothing is there, or no `SKILL.md`.
pub fn survey(path: &Path) -> Result<Survey, BundleError> {
    let unreadable = |source| BundleError::Unreadable { path: path.to_owned(), source };
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return match path.file_name() {
            Some(name) if name.eq_ignore_ascii_case(ROOT_PATH) => {
                Ok(Survey { documents: vec![named(path)], faults: vec![] })
            }
            _ => Err(BundleError::NoDocument { path: path.to_owned() }),
        };
    }
    let survey = in_folder(path);
    match survey.documents.is_empty() && survey.faults.is_empty() {
        true => Err(BundleError::NoBundle { path: path.to_owned() }),
        false => Ok(survey),
    }
}

fn in_folder(root: &Path) -> Survey {
    let (entries, mut faults) = walk(root);
    let document = |Document { folder, name, files }: Document| {
        // Joined with nothing, a path would get a slash at its end.
        let is_root = folder.as_os_str().is_empty();
        let home = if is_root { root.to_owned() } else { root.join(folder) };
        Surveyed {
            document: home.join(name),
            directory: name_of_folder(&home),
            files: files.iter().map(|file| candidate::slashed(file)).collect(),
        }
    };
    let documents = layout::all_documents(&entries).into_iter().map(document).collect();
    faults.extend(entries.into_iter().filter_map(|entry| fault(root, entry)));
    Survey { documents, faults }
}

/// A document that was named, with the folder it is in.
fn named(path: &Path) -> Surveyed {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    let is_it = |found: &Surveyed| {
        found.document.parent() == Some(folder) && found.document.file_name() == path.file_name()
    };
    let own = in_folder(folder).documents.into_iter().find(is_it);
    // Its folder cannot be listed, leaves it out, or holds another spelling of it: then it is by itself.
    let alone = || Surveyed {
        document: path.to_owned(),
        directory: name_of_folder(folder),
        files: path.file_name().map(|name| candidate::slashed(name.as_ref())).into_iter().collect(),
    };
    own.map_or_else(alone, |own| Surveyed { document: path.to_owned(), ..own })
}
