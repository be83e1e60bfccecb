//! Difference of two versions of an entry, or of a version and content that is not registered.
//!
//! - `shape`: the difference as data
//! - `input`: one side, with the bytes that are worth comparing
//! - `files`: files that were added, removed, changed or renamed, and their unified diffs
//! - `fields`: fields of the frontmatter, or of a prompt or collection
//! - `allows`: permissions and reach that the later side adds
//!
//! Time, memory and output are bounded; what is left out is said. A tool's manifest is compared by its endpoint and never
//! shown: it may hold more than callers should see.

mod allows;
mod fields;
mod files;
mod input;
mod shape;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde::Serialize;
use skills_core::{
    Digest, EntryKey, RunningWork, VersionSelector, WorkAccount, WorkError, WorkKind,
};

pub use self::{
    input::ComparedSkill,
    shape::{
        Allowance, AllowanceKind, DiffFile, DiffSide, FieldChange, FileDiff, FileStatus,
        VersionDiff,
    },
};
use crate::{
    Registry, RegistryError,
    version_cache::{SelectedContent, SelectedVersion},
};

/// Most permissions and URLs that are listed.
const MAX_ALLOWANCES: usize = 500;

/// Comparing two skills.
const DIFF: WorkKind = WorkKind::compute("difference of two versions");

/// Memory of a byte of a root document or a manifest, whose fields are parsed into a tree.
const PARSED_BYTE: u64 = 48;
/// Memory of a file on one side, beside its paths, in indexes and in the difference.
const FILE_BYTES: usize = 1024;
/// Bytes of a URL of the earlier side that is not repeated, at least, and its memory.
const MIN_URL_BYTES: usize = 12;
const URL_MEMORY: usize = 64;

/// Returns the difference of two skills that need not be registered. Waits for a permit of the current account.
///
/// # Errors
/// When the server has too much other work.
pub async fn diff_skills(
    mut from: ComparedSkill,
    mut to: ComparedSkill,
) -> Result<VersionDiff, RegistryError> {
    let permit = WorkAccount::current().permit(DIFF, working_memory(&from, &to)).await?;
    let compare = move |work: &mut RunningWork| {
        from.retain_wanted(&to);
        to.retain_wanted(&from);
        compare(&from, &to, work)
    };
    Ok(permit.run_growing(compare).await??)
}

/// Returns the memory of comparing two skills beside the bytes of their files. That of comparing lines is reserved for
/// each file.
fn working_memory(from: &ComparedSkill, to: &ComparedSkill) -> usize {
    let parsed =
        |bytes: u64| usize::try_from(bytes.saturating_mul(PARSED_BYTE)).unwrap_or(usize::MAX);
    let root = |side: &ComparedSkill| side.files().first().map_or(0, |file| file.size);
    let manifest = |side: &ComparedSkill| side.manifest_source().map_or(0, |source| source.size);
    // Manifests are parsed one after the other.
    let has_manifests = from.has_other_manifest(to);
    let manifests = if has_manifests { manifest(from).max(manifest(to)) } else { 0 };
    let indexed = |side: &ComparedSkill| -> usize {
        side.files().iter().map(|file| FILE_BYTES + 3 * file.path.len()).sum()
    };
    let text = from.files().iter().map(|file| usize::try_from(file.size).unwrap_or(usize::MAX));
    let text = text.fold(0, usize::saturating_add);
    let urls = (text / MIN_URL_BYTES).min(allows::MAX_KNOWN_URLS) * URL_MEMORY;
    [parsed(root(from)), parsed(root(to)), parsed(manifests), indexed(from), indexed(to), urls]
        .into_iter()
        .fold(0, usize::saturating_add)
}

fn compare(
    from: &ComparedSkill,
    to: &ComparedSkill,
    work: &mut RunningWork,
) -> Result<VersionDiff, WorkError> {
    let (files, is_cut) = files::diff(from, to, work)?;
    let added = allows::added(from, to, work)?;
    Ok(VersionDiff {
        from: from.side().clone(),
        to: to.side().clone(),
        frontmatter: fields::of_skills(from, to),
        files,
        allows: added.allows,
        truncated: is_cut || added.is_incomplete,
    })
}

fn diff_definitions<T: Serialize>(
    (from, before): (DiffSide, &T),
    (to, after): (DiffSide, &T),
) -> VersionDiff {
    let frontmatter = fields::of_definitions(before, after);
    VersionDiff { from, to, frontmatter, files: vec![], allows: vec![], truncated: false }
}

impl Registry {
    /// Returns the difference of two versions of an entry.
    ///
    /// # Errors
    /// When a version does not exist, or its content is gone.
    pub async fn diff(
        &self,
        key: &EntryKey,
        from: &VersionSelector,
        to: &VersionSelector,
    ) -> Result<VersionDiff, RegistryError> {
        let one = self.readable_version(key, from).await?;
        let other = self.readable_version(key, to).await?;
        match (&one.content, &other.content) {
            (SelectedContent::Prompt(before), SelectedContent::Prompt(after)) => {
                Ok(diff_definitions((side(&one), before), (side(&other), after)))
            }
            (SelectedContent::Collection(before), SelectedContent::Collection(after)) => {
                Ok(diff_definitions((side(&one), before), (side(&other), after)))
            }
            (SelectedContent::Skill(before), SelectedContent::Skill(after)) => {
                let mut from = ComparedSkill::new(side(&one), before.meta.clone());
                let mut to = ComparedSkill::new(side(&other), after.meta.clone());
                let bytes =
                    [working_memory(&from, &to), from.wanted_bytes(&to), to.wanted_bytes(&from)];
                let bytes = bytes.into_iter().fold(0, usize::saturating_add);
                // The files count from before they are read until the work ends.
                let permit = WorkAccount::current().permit(DIFF, bytes).await?;
                self.load(&mut from, &to).await?;
                self.load(&mut to, &from).await?;
                let compare = move |work: &mut RunningWork| compare(&from, &to, work);
                Ok(permit.run_growing(compare).await??)
            }
            _ => Err(RegistryError::Unexpected("content of another kind")),
        }
    }

    /// Reads the files of one side that are worth comparing.
    async fn load(
        &self,
        input: &mut ComparedSkill,
        other: &ComparedSkill,
    ) -> Result<(), RegistryError> {
        for file in input.wanted_files(other) {
            if let Some(bytes) = self.blob_bytes(file.digest).await? {
                input.insert(file.path, bytes);
            }
        }
        if let Some(digest) = input.manifest_digest().filter(|_| input.has_other_manifest(other)) {
            let manifest = self.blob_bytes(digest).await?;
            input.set_manifest(manifest);
        }
        Ok(())
    }

    async fn blob_bytes(&self, digest: Digest) -> Result<Option<Bytes>, RegistryError> {
        self.blobs().get(digest).await
    }
}

fn side(selected: &SelectedVersion) -> DiffSide {
    let version = &selected.version;
    DiffSide {
        version: Some(version.number),
        digest: version.digest,
        yanked: version.yanked.clone(),
    }
}
