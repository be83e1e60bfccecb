//! Parsed manifests, cached by the digest of their text.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use skills_core::{
    Digest, SkillId, ToolMeta, WorkAccount, WorkKind,
    tool::{fields_size, value_size},
    work::StopFlag,
};
use skills_manifest::{
    ManifestError, ParseMode, SkillSpec,
    schema::Schema,
    template::{SecretRequirements, secret_requirements},
};
use skills_registry::{Registry, RegistryError, SizedLruCache, SkillRow};
use skills_upstream::origin_of;

use crate::ReadManifestError;

/// Parsing a manifest and compiling its schema.
const PARSE: WorkKind = WorkKind::compute("parsing a manifest");
/// Memory of a byte of a manifest, which is parsed into a tree, and of a byte of a schema, which is compiled.
const PARSED_BYTE: usize = 48;
const COMPILED_BYTE: usize = 16;
/// Capacity of the cache in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Estimated bytes of an entry besides its text, values and schema.
const ENTRY_BYTES: usize = 1024;

/// Parsed manifest of a tool.
#[derive(Debug)]
pub struct Manifest {
    /// Content of the manifest.
    pub spec: SkillSpec,
    /// Secrets that its templates use.
    pub needs: SecretRequirements,
    /// Origin that its secrets are sent to, if any.
    pub origin: Option<String>,
    /// Compiled schema of its arguments. `None` if the schema is invalid, which only an import can store; then any
    /// arguments are accepted.
    pub schema: Option<Arc<Schema>>,
}

impl Manifest {
    /// Parses a manifest leniently: it was checked when it was stored, or was imported as it is.
    fn parse(id: &SkillId, text: &str, parameters: &Value) -> Result<Self, ManifestError> {
        let spec = skills_manifest::parse(text, ParseMode::Lenient, Some(id))?.spec;
        let needs = secret_requirements(&spec.implementation);
        let origin = origin_of(&spec.implementation).map(|origin| origin.to_string());
        let schema = Schema::compile(parameters).ok().map(Arc::new);
        Ok(Self { spec, needs, origin, schema })
    }

    /// Returns the estimated memory of the manifest.
    fn bytes(&self, text: &str) -> usize {
        let SkillSpec { implementation, parameters, returns, .. } = &self.spec;
        ENTRY_BYTES
            + text.len()
            + fields_size(implementation)
            + value_size(parameters)
            + returns.as_ref().map_or(0, value_size)
            + self.schema.as_ref().map_or(0, |schema| schema.bytes())
    }
}

/// LRU cache of manifests, bounded by memory. The key has the digest of the text, so an entry is never stale.
#[derive(Debug)]
pub struct ManifestCache(SizedLruCache<(Digest, SkillId), Arc<Manifest>>);

impl Default for ManifestCache {
    fn default() -> Self {
        Self(SizedLruCache::new(MAX_BYTES))
    }
}

impl ManifestCache {
    /// Returns the manifest of a tool, from the store on the first call.
    pub(crate) async fn get(
        &self,
        registry: &Registry,
        row: &SkillRow,
        tool: &ToolMeta,
    ) -> Result<Arc<Manifest>, ReadManifestError> {
        let id: SkillId = row.id.parse().map_err(RegistryError::from)?;
        let key = (tool.source.digest, id);
        if let Some(cached) = self.0.get(&key) {
            return Ok(cached);
        }
        let source = registry.manifest_text(row).await?;
        self.insert(key, source, tool.parameters.clone()).await
    }

    /// Parses a manifest and compiles its schema on a blocking thread, since both may be large.
    async fn insert(
        &self,
        key: (Digest, SkillId),
        source: Bytes,
        parameters: Value,
    ) -> Result<Arc<Manifest>, ReadManifestError> {
        let id = key.1.clone();
        let text_bytes = source.len().saturating_mul(PARSED_BYTE);
        let parameters_bytes = value_size(&parameters).saturating_mul(COMPILED_BYTE);
        let parse = move |_: &StopFlag| {
            let text = String::from_utf8_lossy(&source);
            let manifest = Manifest::parse(&id, &text, &parameters)?;
            let bytes = manifest.bytes(&text);
            Ok::<_, ManifestError>((Arc::new(manifest), bytes))
        };
        let parsed = WorkAccount::current().run(PARSE, text_bytes + parameters_bytes, parse).await;
        let (manifest, bytes) = parsed.map_err(RegistryError::from)??;
        self.0.put(key, Arc::clone(&manifest), bytes);
        Ok(manifest)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Parses a manifest that takes these parameters.
    pub(crate) async fn manifest_with(parameters: Value) -> Arc<Manifest> {
        let text = json!({"id": "a", "config": {"endpoint": "https://a.test"}}).to_string();
        let key = (Digest::of(text.as_bytes()), "a".parse().unwrap());
        ManifestCache::default().insert(key, text.into(), parameters).await.unwrap()
    }

    #[tokio::test]
    async fn large_manifests_are_cached_within_the_capacity() {
        let (cache, id): (_, SkillId) = (ManifestCache::default(), "a".parse().unwrap());
        // A hundred thousand values in 200 KiB.
        let text = |number: u32| {
            let body = vec![0; 100_000];
            let endpoint = format!("https://a.test/{number}?{{{{SECRETS.K}}}}");
            json!({"id": "a", "config": {"endpoint": endpoint, "body": body}}).to_string()
        };
        let mut keys = vec![];
        for number in 0..20 {
            let text = text(number);
            let key = (Digest::of(text.as_bytes()), id.clone());
            let manifest = cache.insert(key.clone(), text.into(), json!({})).await.unwrap();
            assert_eq!(manifest.origin.as_deref(), Some("https://a.test"));
            assert_eq!(manifest.needs.required, ["K"]);
            keys.push(key);
        }
        assert!(cache.0.get(&keys[19]).is_some());
        assert!(cache.0.get(&keys[0]).is_none(), "all of them take more than the capacity");
    }

    #[tokio::test]
    async fn an_invalid_schema_is_cached_as_none() {
        assert!(manifest_with(json!({"type": "banana"})).await.schema.is_none());
    }
}
