//! One side of a difference.

use std::collections::HashMap;

use bytes::Bytes;
use skills_agent_skills::Bundle;
use skills_core::{Digest, FileMeta, SkillMeta, skill::ROOT_PATH};

use super::DiffSide;

/// Largest file that is compared line by line, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 20;
/// Most bytes of one side that are compared, and held in memory meanwhile.
pub const MAX_SIDE_BYTES: u64 = 8 << 20;

/// One side of a difference: metadata of a skill, and the bytes of its files as far as they are compared.
#[derive(Debug, Clone)]
pub struct ComparedSkill {
    side: DiffSide,
    meta: SkillMeta,
    bytes: HashMap<String, Bytes>,
    manifest: Option<Bytes>,
}

impl ComparedSkill {
    /// Creates a side without bytes.
    pub(super) fn new(side: DiffSide, meta: SkillMeta) -> Self {
        Self { side, meta, bytes: HashMap::new(), manifest: None }
    }

    /// Creates the side of content that is not registered, such as a folder. The bundle of a version may be given its
    /// number with [`with_version`](Self::with_version).
    #[must_use]
    pub fn from_bundle(bundle: &Bundle<Bytes>) -> Self {
        let meta = bundle.meta().clone();
        let side = DiffSide { version: None, digest: meta.content_digest(), yanked: None };
        let mut input = Self::new(side, meta);
        let root = Bytes::copy_from_slice(bundle.root().as_bytes());
        input.insert(ROOT_PATH.to_owned(), root);
        let files: Vec<_> = bundle
            .files()
            .filter(|(file, _)| file.size <= MAX_FILE_BYTES)
            .map(|(file, bytes)| (file.path.clone(), Bytes::copy_from_slice(bytes)))
            .collect();
        files.into_iter().for_each(|(path, bytes)| input.insert(path, bytes));
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
        self.meta.file(path)
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
    pub(super) fn wanted_files(&self, other: &Self) -> Vec<(String, Digest)> {
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
        fits.map(|file| (file.path.clone(), file.digest)).collect()
    }

    pub(super) fn manifest_digest(&self) -> Option<Digest> {
        self.meta.tool.as_ref().map(|tool| tool.source.digest)
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
