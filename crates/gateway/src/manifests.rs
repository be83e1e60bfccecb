//! Manifests that were read, kept as long as they are asked for: a manifest's text has a digest, so what was
//! made of it is never wrong.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::value::RawValue;
use skills_core::{
    Digest, SkillId, Tier,
    manifest::{self, ManifestError, Mode, SkillSpec},
    template::{SecretNeeds, needed_secrets},
    tool::{fields_size, value_size},
};
use skills_registry::{Kept, RegistryError, SkillRow};
use skills_upstream::origin_of;

use crate::{Gateway, envelope::Tagged, error::GatewayError};

/// How much memory those that are kept may take.
const MAX_BYTES: usize = 64 << 20;
/// What one takes besides its texts and values.
const ENTRY_BYTES: usize = 1024;

/// A manifest, read.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) spec: SkillSpec,
    pub(crate) needs: SecretNeeds,
    /// Where its secrets are sent, if anywhere.
    pub(crate) origin: Option<String>,
    /// The answer to everyone who asks with a key, for each tier; of a tool that needs no secrets.
    pub(crate) to_users: [OnceLock<Tagged>; 3],
    /// The answer to everyone who asks without one, for each tier.
    pub(crate) to_others: [OnceLock<Tagged>; 3],
}

impl Manifest {
    /// Reads one. It was checked when it was stored, or came from elsewhere and is read as far as it goes.
    fn parse(id: &SkillId, text: &str) -> Result<Self, ManifestError> {
        let spec = manifest::parse(text, Mode::Lenient, Some(id))?.spec;
        let needs = needed_secrets(&spec.implementation);
        let origin = origin_of(&spec.implementation).map(|origin| origin.to_string());
        Ok(Self {
            spec,
            needs,
            origin,
            to_users: Default::default(),
            to_others: Default::default(),
        })
    }

    /// As callers see it.
    pub(crate) fn on_wire(&self, tier: Tier) -> Result<Box<RawValue>, serde_json::Error> {
        serde_json::value::to_raw_value(&self.spec.on_wire(tier))
    }

    /// About how much memory it takes, with all that may be made of it.
    fn bytes(&self, text: &str) -> usize {
        let SkillSpec { implementation, parameters, returns, .. } = &self.spec;
        let values = fields_size(implementation)
            + value_size(parameters)
            + returns.as_ref().map_or(0, value_size);
        // Its texts once, and an answer for each tier.
        ENTRY_BYTES + values + text.len() * (1 + self.to_users.len() + self.to_others.len())
    }
}

/// The manifest of a skill, if it has one.
pub(crate) async fn manifest(
    gateway: &Gateway,
    row: &SkillRow,
) -> Result<Option<Arc<Manifest>>, GatewayError> {
    let Some(tool) = &row.meta.tool else { return Ok(None) };
    let id: SkillId = row.id.parse().map_err(RegistryError::from)?;
    if let Some(known) = gateway.manifests().known(tool.source.digest, &id) {
        return Ok(Some(known));
    }
    let source = gateway.registry().await?.tool_source(row).await?;
    Ok(Some(gateway.manifests().read(tool.source.digest, &id, source).await?))
}

/// Those that were read.
#[derive(Debug)]
pub(crate) struct Manifests(Kept<(Digest, SkillId), Arc<Manifest>>);

impl Default for Manifests {
    fn default() -> Self {
        Self(Kept::new(MAX_BYTES))
    }
}

impl Manifests {
    /// One that was read before.
    pub(crate) fn known(&self, source: Digest, id: &SkillId) -> Option<Arc<Manifest>> {
        self.0.get(&(source, id.clone()))
    }

    /// Reads one where nobody waits for it: it may be large, and its schema is compiled.
    pub(crate) async fn read(
        &self,
        source: Digest,
        id: &SkillId,
        text: Bytes,
    ) -> Result<Arc<Manifest>, GatewayError> {
        let skill = id.clone();
        let read = move || {
            let text = String::from_utf8_lossy(&text);
            let manifest = Manifest::parse(&skill, &text)?;
            let bytes = manifest.bytes(&text);
            Ok::<_, ManifestError>((Arc::new(manifest), bytes))
        };
        let read = tokio::task::spawn_blocking(read).await;
        let (manifest, bytes) = read.map_err(|_| RegistryError::Closed)??;
        self.0.put((source, id.clone()), Arc::clone(&manifest), bytes);
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_large_manifest_is_kept_too_and_all_together_are_bounded() {
        let (manifests, id) = (Manifests::default(), "a".parse().unwrap());
        // A hundred thousand values in 200 KiB.
        let text = |number: u32| {
            let body = vec![0; 100_000];
            let endpoint = format!("https://a.test/{number}?{{{{SECRETS.K}}}}");
            json!({"id": "a", "config": {"endpoint": endpoint, "body": body}}).to_string()
        };
        let mut digests = vec![];
        for number in 0..20 {
            let text = text(number);
            digests.push(Digest::of(text.as_bytes()));
            let read = manifests.read(digests[digests.len() - 1], &id, text.into()).await.unwrap();
            assert_eq!(read.origin.as_deref(), Some("https://a.test"));
            assert_eq!(read.needs.required, ["K"]);
        }
        assert!(manifests.known(digests[19], &id).is_some());
        assert!(manifests.known(digests[0], &id).is_none(), "they would take 150 MB");
    }
}
