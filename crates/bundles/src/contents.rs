//! Contents of a bundle that was read.

use std::{collections::HashMap, path::PathBuf};

use bytes::Bytes;
use skills_agent_skills::{Bundle, validate::ValidationReport};
use skills_core::{BundlePath, Provenance, limits::MAX_SKILL_BYTES};

use crate::{BundleError, root_document::RootDocument};

/// Bytes of a bundle, not validated as a whole yet.
#[derive(Debug)]
pub struct BundleContents {
    pub(crate) folder: PathBuf,
    pub(crate) place: PathBuf,
    pub(crate) spelled: String,
    pub(crate) root_document: RootDocument,
    pub(crate) others: Vec<(BundlePath, Bytes)>,
    /// Executable bits by path, where they are known.
    pub(crate) executable: HashMap<String, bool>,
    pub(crate) provenance: Option<Box<Provenance>>,
    pub(crate) is_alone: bool,
}

impl BundleContents {
    /// Returns the validation report for loading. It is empty for a document that stands alone, unless its name is
    /// `SKILL.md`.
    #[must_use]
    pub const fn report(&self) -> &ValidationReport {
        &self.root_document.report
    }

    /// Returns the path of the root document, for messages.
    #[must_use]
    pub fn document_path(&self) -> PathBuf {
        if self.is_alone { self.place.clone() } else { self.folder.join(&self.spelled) }
    }

    /// Checks the bundle as a whole.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn into_bundle(self) -> Result<Bundle<Bytes>, BundleError> {
        let path = self.document_path();
        let RootDocument { bytes, agent, .. } = self.root_document;
        if bytes.len() > MAX_SKILL_BYTES {
            return Err(BundleError::DocumentTooLarge { path });
        }
        let root = String::from_utf8(bytes.into())
            .map_err(|error| BundleError::NotText { path, at: error.utf8_error().valid_up_to() })?;
        let (place, executable) = (self.place, self.executable);
        let bundle = Bundle::with_agent_skill(root, agent, self.others)
            .map_err(|source| BundleError::Rule { path: place, source })?;
        let bundle = bundle.with_executable(|path| executable.get(path).copied());
        Ok(bundle.with_provenance(self.provenance))
    }
}
