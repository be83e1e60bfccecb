//! A bundle that was found, and reading it.

use std::{
    ffi::OsString,
    fs, io,
    io::Read as _,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use bytes::Bytes;
use skills_core::{
    Bundle, BundlePath, RuleError, SkillId,
    limits::{MAX_BUNDLE_BYTES, MAX_BUNDLE_FILES, MAX_SKILL_BYTES},
    skill::ROOT_PATH,
    validate::Report,
};

use crate::{
    BundleError,
    head::{Head, Room},
    layout::Group,
};

/// Where the bytes of a file are, or why there are none.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    OnDisk,
    Held(Bytes),
    TooLarge,
    Link,
    Special,
    Unreadable(Arc<io::Error>),
}

/// A bundle that was found and not yet read.
#[derive(Debug)]
pub struct Candidate {
    /// What its files are relative to.
    folder: PathBuf,
    /// As people are told: the folder, or the document that stands alone.
    place: PathBuf,
    /// Stands in for a name of its own.
    name: Option<String>,
    document: OsString,
    files: Vec<(PathBuf, Source)>,
    is_alone: bool,
    /// The root document, once it was read, if there is room for it.
    head: OnceLock<Head>,
    room: Room,
}

/// All bytes of a bundle, before anything is said about them.
#[derive(Debug)]
pub struct Contents {
    folder: PathBuf,
    place: PathBuf,
    spelled: String,
    head: Head,
    others: Vec<(BundlePath, Bytes)>,
    is_alone: bool,
}

impl Candidate {
    /// What was found in a folder, or in an archive, whose path then stands for one.
    pub(crate) fn of_group(group: Group, root: &Path, name: Option<String>, room: &Room) -> Self {
        let inner = group.folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let is_root = group.folder.as_os_str().is_empty();
        let place = if is_root { root.to_owned() } else { root.join(&group.folder) };
        Self {
            folder: place.clone(),
            place,
            name: inner.or(name),
            document: group.document,
            files: group.entries.into_iter().map(|entry| (entry.path, entry.source)).collect(),
            is_alone: false,
            head: OnceLock::new(),
            room: room.clone(),
        }
    }

    /// A document by itself, on disk.
    pub(crate) fn of_file(path: &Path, name: Option<String>) -> Self {
        let document = path.file_name().unwrap_or_default().to_owned();
        Self {
            folder: path.parent().unwrap_or(Path::new("")).to_owned(),
            place: path.to_owned(),
            name,
            files: vec![(PathBuf::from(&document), Source::OnDisk)],
            document,
            is_alone: true,
            head: OnceLock::new(),
            room: Room::default(),
        }
    }

    /// A document by itself that was read from somewhere else, such as standard input.
    #[must_use]
    pub fn of_bytes(place: &Path, bytes: Bytes) -> Self {
        Self {
            folder: PathBuf::new(),
            place: place.to_owned(),
            name: None,
            document: place.as_os_str().to_owned(),
            files: vec![(place.to_owned(), Source::Held(bytes))],
            is_alone: true,
            head: OnceLock::new(),
            room: Room::default(),
        }
    }

    /// Where it is, for people.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The id it asks for: the name in its frontmatter if that can be one, else its own.
    ///
    /// # Errors
    /// When its document cannot be read, or neither is a skill id.
    pub fn id(&self) -> Result<SkillId, BundleError> {
        let head = self.head()?;
        let named = head.name.as_ref().and_then(|name| name.parse().ok());
        let own = || self.name.as_ref().and_then(|name| name.parse().ok());
        let id = named.or_else(own);
        if self.room.has_for(&head) {
            self.head.get_or_init(|| head);
        }
        id.ok_or_else(|| BundleError::NoId { path: self.place.clone() })
    }

    /// The root document, looked into.
    fn head(&self) -> Result<Head, BundleError> {
        let document = self.files.iter().find(|(path, _)| self.is_document(path));
        let bytes = match document {
            Some((path, source)) => self.bytes(path, source, MAX_SKILL_BYTES)?,
            None => Bytes::new(),
        };
        if self.is_alone && !self.document.eq_ignore_ascii_case(ROOT_PATH) {
            return Ok(Head::of_document(bytes));
        }
        let files: Vec<String> = self.files.iter().map(|(path, _)| slashed(path)).collect();
        // Of a document by itself it is not known what stands beside it.
        let files = (!self.is_alone).then_some(files.as_slice());
        Ok(Head::of_bundle(bytes, self.name.as_deref(), files))
    }

    fn is_document(&self, path: &Path) -> bool {
        path == Path::new(&self.document)
    }

    /// What changes when a file of it does, as far as the system tells without reading.
    #[must_use]
    pub fn stamps(&self) -> Vec<(PathBuf, Option<(u64, SystemTime)>)> {
        let stamp = |path: &Path| {
            let metadata = fs::symlink_metadata(self.folder.join(path)).ok()?;
            Some((metadata.len(), metadata.modified().ok()?))
        };
        let mut stamps: Vec<_> =
            self.files.iter().map(|(path, _)| (path.clone(), stamp(path))).collect();
        stamps.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        stamps
    }

    /// Reads every file of it.
    ///
    /// # Errors
    /// When one cannot be part of a bundle, or all are too much.
    pub fn read(&self) -> Result<Contents, BundleError> {
        if self.files.len() > MAX_BUNDLE_FILES {
            let files = self.files.len();
            return Err(self.rule(RuleError::TooManyFiles { files, max: MAX_BUNDLE_FILES }));
        }
        let mut others = Vec::with_capacity(self.files.len());
        let mut left = MAX_BUNDLE_BYTES;
        let head = match self.head.get() {
            Some(head) => head.clone(),
            None => self.head()?,
        };
        left = left.saturating_sub(head.bytes.len());
        for (path, source) in self.files.iter().filter(|(path, _)| !self.is_document(path)) {
            // The name first: what is wrong with it is wrong whatever it holds.
            let inside = self.inside(path)?;
            let bytes = self.bytes(path, source, left)?;
            left = left.checked_sub(bytes.len()).ok_or_else(|| self.too_large(path))?;
            others.push((inside, bytes));
        }
        Ok(Contents {
            folder: self.folder.clone(),
            place: self.place.clone(),
            spelled: self.document.to_string_lossy().into_owned(),
            head,
            others,
            is_alone: self.is_alone,
        })
    }

    fn rule(&self, source: RuleError) -> BundleError {
        BundleError::Rule { path: self.place.clone(), source }
    }

    /// A file with which there is too much.
    fn too_large(&self, path: &Path) -> BundleError {
        let (bytes, max) = (MAX_BUNDLE_BYTES + 1, MAX_BUNDLE_BYTES);
        let source = RuleError::BundleTooLarge { bytes, max };
        BundleError::Rule { path: self.folder.join(path), source }
    }

    fn inside(&self, path: &Path) -> Result<BundlePath, BundleError> {
        let mut inside = String::new();
        for part in path {
            let part =
                part.to_str().ok_or_else(|| BundleError::Name { path: self.folder.join(path) })?;
            if !inside.is_empty() {
                inside.push('/');
            }
            inside.push_str(part);
        }
        inside.parse().map_err(|source| self.rule(source))
    }

    /// The bytes of a file, or one more than allowed: that is enough to know.
    fn bytes(&self, path: &Path, source: &Source, max: usize) -> Result<Bytes, BundleError> {
        let full = || self.folder.join(path);
        match source {
            Source::OnDisk => {
                let bytes = read_at_most(&full(), max as u64 + 1);
                bytes.map_err(|source| BundleError::Unreadable { path: full(), source })
            }
            Source::Held(bytes) => Ok(bytes.clone()),
            Source::TooLarge => Err(self.too_large(path)),
            Source::Link => Err(BundleError::Link { path: full() }),
            Source::Special => Err(BundleError::Special { path: full() }),
            Source::Unreadable(error) => Err(BundleError::Unreadable {
                path: full(),
                source: io::Error::new(error.kind(), Arc::clone(error)),
            }),
        }
    }
}

/// A path with forward slashes, as far as it is text.
pub(crate) fn slashed(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

/// The bytes of a file up to a limit. Its size only tells how much room to make at first.
fn read_at_most(path: &Path, limit: u64) -> io::Result<Bytes> {
    let file = fs::File::open(path)?;
    let room = file.metadata()?.len().min(limit) + 1;
    let mut bytes = Vec::with_capacity(usize::try_from(room).unwrap_or_default());
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

impl Contents {
    /// What the specification of Agent Skills thinks of it, for loading. A document by itself need not be one,
    /// unless it is called like one.
    #[must_use]
    pub const fn report(&self) -> &Report {
        &self.head.report
    }

    /// Where its root document is, for people.
    #[must_use]
    pub fn document_place(&self) -> PathBuf {
        if self.is_alone { self.place.clone() } else { self.folder.join(&self.spelled) }
    }

    /// The bundle, checked as a whole.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn into_bundle(self) -> Result<Bundle<Bytes>, BundleError> {
        let path = self.document_place();
        let Head { bytes, agent, .. } = self.head;
        if bytes.len() > MAX_SKILL_BYTES {
            return Err(BundleError::DocumentTooLarge { path });
        }
        let root = String::from_utf8(bytes.into())
            .map_err(|error| BundleError::NotText { path, at: error.utf8_error().valid_up_to() })?;
        let place = self.place;
        Bundle::examined(root, agent, self.others)
            .map_err(|source| BundleError::Rule { path: place, source })
    }
}
