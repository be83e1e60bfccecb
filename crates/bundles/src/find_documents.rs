//! Finding all root documents at a path, including those inside other bundles, for validation.

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use skills_core::RunningWork;

use crate::{
    BundleError,
    archive::{self, ArchiveFormat, FileFormat, MAX_UNPACKED_BYTES},
    candidate,
    dir::open_named_file,
    find_bundles::{entry_error, folder_name, walk},
    layout::{self, Document, is_document_name},
    source::Source,
};

/// Root document on disk or in an archive.
#[derive(Debug)]
pub struct DocumentFile {
    /// Path of the document. The path of an archive stands in for a folder.
    pub document: PathBuf,
    /// Content, if the document is in an archive.
    pub bytes: Option<Bytes>,
    /// Name of its folder, if it has one.
    pub directory: Option<String>,
    /// Paths of the files in its folder and below, with forward slashes.
    pub files: Vec<String>,
}

/// Documents found at a path.
#[derive(Debug, Default)]
pub struct FoundDocuments {
    /// Documents in the order of their folders.
    pub documents: Vec<DocumentFile>,
    /// Errors about paths that could not be read.
    pub faults: Vec<BundleError>,
}

/// Searches a folder or an archive as [`find_bundles`](crate::find_bundles) does, or reads a single `SKILL.md`.
///
/// # Errors
/// When the path does not exist or has no `SKILL.md`.
pub fn find_documents(path: &Path) -> Result<FoundDocuments, BundleError> {
    let unreadable = |source| BundleError::Unreadable { path: path.to_owned(), source };
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        if path.file_name().is_some_and(is_document_name) {
            return Ok(FoundDocuments { documents: vec![named(path)], faults: vec![] });
        }
        let mut file = open_named_file(path).map_err(unreadable)?;
        return match FileFormat::detect(&mut file, path).map_err(unreadable)? {
            FileFormat::Archive(format) => in_archive(path, file, format)?.or_none(path),
            FileFormat::Text => Err(BundleError::NoDocument { path: path.to_owned() }),
            FileFormat::Unknown => Err(BundleError::UnknownFormat { path: path.to_owned() }),
        };
    }
    in_folder(path).or_none(path)
}

impl FoundDocuments {
    /// Returns the documents, or an error if there are none.
    fn or_none(self, path: &Path) -> Result<Self, BundleError> {
        if self.documents.is_empty() && self.faults.is_empty() {
            return Err(BundleError::NoBundle { path: path.to_owned() });
        }
        Ok(self)
    }
}

fn in_archive(
    root: &Path,
    file: File,
    format: ArchiveFormat,
) -> Result<FoundDocuments, BundleError> {
    let mut work = RunningWork::of_process();
    let mut entries = archive::unpack(file, format, MAX_UNPACKED_BYTES, &mut work)
        .map_err(|source| BundleError::Archive { path: root.to_owned(), source })?;
    layout::resolve_document_links(&mut entries);
    let mut found = FoundDocuments::default();
    let documents = layout::all_documents(&entries);
    let sources: HashMap<PathBuf, Source> =
        entries.into_iter().map(|entry| (entry.path, entry.source)).collect();
    for Document { folder, name, files } in documents {
        let inside = folder.join(name);
        let document = root.join(&inside);
        match archived_bytes(sources.get(&inside)) {
            Ok(bytes) => found.documents.push(DocumentFile {
                document,
                bytes: Some(bytes),
                directory: folder.file_name().map(|name| name.to_string_lossy().into_owned()),
                files: files.iter().map(|file| candidate::to_slashes(file)).collect(),
            }),
            Err(reason) => {
                let source = io::Error::other(reason);
                found.faults.push(BundleError::Unreadable { path: document, source });
            }
        }
    }
    Ok(found)
}

/// Returns the content of a file of an archive, or the reason why there is none.
fn archived_bytes(source: Option<&Source>) -> Result<Bytes, &'static str> {
    match source {
        Some(Source::InMemory { bytes, .. }) => Ok(bytes.clone()),
        Some(Source::TooLarge) => Err("larger than a whole bundle may be"),
        Some(Source::Link(_)) => Err("a link that leads to no file of the archive"),
        _ => Err("not a regular file"),
    }
}

fn in_folder(root: &Path) -> FoundDocuments {
    let (entries, mut faults) = walk(root);
    let document = |Document { folder, name, files }: Document| {
        // Joining an empty path would append a slash.
        let is_root = folder.as_os_str().is_empty();
        let home = if is_root { root.to_owned() } else { root.join(folder) };
        DocumentFile {
            document: home.join(name),
            bytes: None,
            directory: folder_name(&home),
            files: files.iter().map(|file| candidate::to_slashes(file)).collect(),
        }
    };
    let documents = layout::all_documents(&entries).into_iter().map(document).collect();
    faults.extend(entries.into_iter().filter_map(|entry| entry_error(root, entry)));
    FoundDocuments { documents, faults }
}

/// Describes a document that the user named, with the files in its folder.
fn named(path: &Path) -> DocumentFile {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    let is_it = |found: &DocumentFile| {
        found.document.parent() == Some(folder) && found.document.file_name() == path.file_name()
    };
    let own = in_folder(folder).documents.into_iter().find(is_it);
    // Its folder cannot be listed, ignores it, or contains another spelling of it.
    let alone = || DocumentFile {
        document: path.to_owned(),
        bytes: None,
        directory: folder_name(folder),
        files: path
            .file_name()
            .map(|name| candidate::to_slashes(name.as_ref()))
            .into_iter()
            .collect(),
    };
    own.map_or_else(alone, |own| DocumentFile { document: path.to_owned(), ..own })
}
