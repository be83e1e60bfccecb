//! Manifests that were read, kept as long as they are asked for: a manifest's text has a digest, so what was
//! made of it is never wrong.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lru::LruCache;
use serde_json::value::RawValue;
use skills_core::{
    Digest, SkillId, Tier,
    manifest::{self, ManifestError, Mode, SkillSpec},
    template::{SecretNeeds, needed_secrets},
};

use crate::envelope::Tagged;

/// How many are kept.
const KEPT: usize = 1024;
/// Larger ones are read anew each time, so that those that are kept stay within memory.
const MAX_KEPT_BYTES: usize = 64 << 10;

/// A manifest, read.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) spec: SkillSpec,
    pub(crate) needs: SecretNeeds,
    /// The answer to everyone who asks with a key, for each tier; of a tool that needs no secrets.
    pub(crate) to_users: [OnceLock<Tagged>; 3],
    /// The answer to everyone who asks without one, for each tier.
    pub(crate) to_others: [OnceLock<Tagged>; 3],
}

impl Manifest {
    /// As callers see it.
    pub(crate) fn on_wire(&self, tier: Tier) -> Result<Box<RawValue>, serde_json::Error> {
        serde_json::value::to_raw_value(&self.spec.on_wire(tier))
    }
}

/// Those that were read.
#[derive(Debug)]
pub(crate) struct Manifests(Mutex<LruCache<(Digest, SkillId), Arc<Manifest>>>);

impl Default for Manifests {
    fn default() -> Self {
        Self(Mutex::new(LruCache::unbounded()))
    }
}

impl Manifests {
    /// One that was read before.
    pub(crate) fn known(&self, source: Digest, id: &SkillId) -> Option<Arc<Manifest>> {
        self.kept().get(&(source, id.clone())).cloned()
    }

    /// Reads one. It was checked when it was stored, or came from elsewhere and is read as far as it goes.
    pub(crate) fn read(
        &self,
        source: Digest,
        id: &SkillId,
        text: &str,
    ) -> Result<Arc<Manifest>, ManifestError> {
        let spec = manifest::parse(text, Mode::Lenient, Some(id))?.spec;
        let needs = needed_secrets(&spec.implementation);
        let manifest =
            Manifest { spec, needs, to_users: Default::default(), to_others: Default::default() };
        let manifest = Arc::new(manifest);
        if text.len() <= MAX_KEPT_BYTES {
            let mut kept = self.kept();
            kept.put((source, id.clone()), Arc::clone(&manifest));
            if kept.len() > KEPT {
                kept.pop_lru();
            }
        }
        Ok(manifest)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, LruCache<(Digest, SkillId), Arc<Manifest>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
