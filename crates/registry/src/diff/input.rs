//! One side of a difference.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use skills_agent_skills::Bundle;
use skills_core::{Digest, FileMeta, SkillMeta, skill::ROOT_PATH, tool::ManifestSource};

use super::DiffSide;

/// Largest file that is compared line by line, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 20;
/// Most bytes of one side that are compared, and held in memory meanwhile.
const MAX_SIDE_BYTES: u64 = 8 << 20;

/// One side of a difference: metadata of a skill, and the bytes of its files as far as they are compared.
#[derive(Debug, Clone)]
pub struct ComparedSkill {
    side: DiffSide,
    meta: SkillMeta,
    /// Positions of the files in the metadata, by path.
    positions: HashMap<String, usize>,
    /// Bytes of the files that are compared, by path.
    bytes: HashMap<String, Bytes>,
    manifest: Option<Bytes>,
}

impl ComparedSkill {
    /// Creates a side without bytes.
    pub(super) fn new(side: DiffSide, meta: SkillMeta) -> Self {
        let files = meta.files.iter().enumerate();
        let positions = files.map(|(at, file)| (file.path.clone(), at)).collect();
        Self { side, meta, positions, bytes: HashMap::new(), manifest: None }
    }

    /// Creates the side of content that is not registered, such as a folder. The bundle of a version may be given its
    /// number with [`with_version`](Self::with_version).
    #[must_use]
    pub fn from_bundle(bundle: &Bundle<Bytes>) -> Self {
        let meta = bundle.meta().clone();
        let side = DiffSide { version: None, digest: meta.content_digest(), yanked: None };
        let mut input = Self::new(side, meta);
        // Clones share the bytes of the files.
        let (_, root, files) = bundle.clone().into_parts();
        let files = files.into_iter().map(|(path, bytes)| (path.to_string(), bytes));
        let files = files.filter(|(_, bytes)| bytes.len() as u64 <= MAX_FILE_BYTES);
        input.bytes = files.chain([(ROOT_PATH.to_owned(), root.into())]).collect();
        input
    }

    /// Returns the side with the number of its version, and the reason if that is yanked.
    #[must_use]
    pub fn with_version(mut self, version: u64, yanked: Option<String>) -> Self {
        self.side.version = Some(version);
        self.side.yanked = yanked;
        self
    }

    pub(super) const fn side(&self) -> &DiffSide {
        &self.side
    }

    pub(super) fn files(&self) -> &[FileMeta] {
        &self.meta.files
    }

    /// Returns the file at a path.
    pub(super) fn file(&self, path: &str) -> Option<&FileMeta> {
        self.files().get(*self.positions.get(path)?)
    }

    /// Returns the bytes of a file, if they are compared.
    pub(super) fn bytes(&self, path: &str) -> Option<&Bytes> {
        self.bytes.get(path)
    }

    /// Returns the text of the root document.
    pub(super) fn root(&self) -> &str {
        let root = self.files().first().and_then(|file| self.bytes(&file.path));
        root.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    pub(super) fn insert(&mut self, path: String, bytes: Bytes) {
        self.bytes.insert(path, bytes);
    }

    /// Drops the bytes of a file, as if the side were too large to be read.
    #[cfg(test)]
    pub(super) fn forget(&mut self, path: &str) {
        self.bytes.remove(path);
    }

    /// Returns the files to read: the root document and those that the other side does not have as they are, up to the
    /// limit. Files that both sides have come last, as they tell only which URLs are not new.
    pub(super) fn wanted_files(&self, other: &Self) -> Vec<FileMeta> {
        let is_same = |file: &FileMeta| {
            other.file(&file.path).is_some_and(|found| found.digest == file.digest)
        };
        let (same, different): (Vec<_>, Vec<_>) =
            self.files().iter().skip(1).partition(|file| is_same(file));
        let mut total = 0;
        let files = self.files().iter().take(1).chain(different).chain(same);
        let fits = files.filter(|file| {
            let fits = file.size <= MAX_FILE_BYTES && total + file.size <= MAX_SIDE_BYTES;
            total += if fits { file.size } else { 0 };
            fits
        });
        fits.cloned().collect()
    }

    /// Returns the bytes that are read for a comparison: of files and of a manifest.
    pub(super) fn wanted_bytes(&self, other: &Self) -> usize {
        let files =
            self.wanted_files(other).iter().map(|file| file.size).fold(0, u64::saturating_add);
        let manifest = self.manifest_source().filter(|_| self.has_other_manifest(other));
        let bytes = files.saturating_add(manifest.map_or(0, |source| source.size));
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Drops the bytes of files that [are not compared](Self::wanted_files).
    pub(super) fn retain_wanted(&mut self, other: &Self) {
        let wanted: HashSet<String> =
            self.wanted_files(other).into_iter().map(|file| file.path).collect();
        self.bytes.retain(|path, _| wanted.contains(path));
    }

    /// Returns the manifest of a tool.
    pub(super) fn manifest_source(&self) -> Option<&ManifestSource> {
        self.meta.tool.as_ref().map(|tool| &tool.source)
    }

    pub(super) fn manifest_digest(&self) -> Option<Digest> {
        self.manifest_source().map(|source| source.digest)
    }

    /// Returns whether the other side has another manifest, or none.
    pub(super) fn has_other_manifest(&self, other: &Self) -> bool {
        self.manifest_digest() != other.manifest_digest()
    }

    pub(super) fn set_manifest(&mut self, manifest: Option<Bytes>) {
        self.manifest = manifest;
    }

    pub(super) fn manifest(&self) -> Option<&str> {
        self.manifest.as_ref().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }
}
