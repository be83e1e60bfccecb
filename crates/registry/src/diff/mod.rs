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
use skills_core::{Digest, EntryKey, VersionSelector};

pub use self::{
    input::{ComparedSkill, MAX_SIDE_BYTES},
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

/// Returns the difference of two skills.
#[must_use]
pub fn diff_skills(from: &ComparedSkill, to: &ComparedSkill) -> VersionDiff {
    let (files, is_cut) = files::diff(from, to);
    let (mut allows, is_unread) = allows::added(from, to);
    let is_long = allows.len() > MAX_ALLOWANCES;
    allows.truncate(MAX_ALLOWANCES);
    VersionDiff {
        from: from.side().clone(),
        to: to.side().clone(),
        frontmatter: fields::of_skills(from, to),
        files,
        allows,
        truncated: is_cut || is_unread || is_long,
    }
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
                self.load(&mut from, &to).await?;
                self.load(&mut to, &from).await?;
                let compare = move || diff_skills(&from, &to);
                tokio::task::spawn_blocking(compare).await.map_err(|_| RegistryError::Closed)
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
        for (path, digest) in input.wanted_files(other) {
            if let Some(bytes) = self.blob_bytes(digest).await? {
                input.insert(path, bytes);
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
