//! Memory reservations of responses: a response is reserved from the budget of its request before it is built.
//!
//! A response is measured by its bytes as JSON, where a control character takes six and binary content a third more.
//! The listener holds the reservation until the response is sent, and responds with 503 when one was refused; on stdio
//! there is no listener and no budget.

use std::sync::Arc;

use axum::http::request::Parts;
use rmcp::{
    ErrorData,
    model::{ErrorCode, Extensions},
};
use serde_json::{Value, json};
use skills_core::{
    Code, RequestBudget,
    json_size::{JsonSize, escaped_size},
    uri::{SKILL_SCHEME, percent_decode},
};
use skills_registry::{Catalog, Resource, SkillRegistry};

use crate::resources::full_uri;

/// Copies of a response's JSON text at a time: in a growing buffer, as an event, and as bytes to send.
const JSON_COPIES: usize = 3;
/// Smallest content whose size as JSON is measured; smaller content is small as JSON too.
const MIN_MEASURED_BYTES: usize = 64 << 10;
/// Most memory of one response. Plain text fits up to the largest file of a bundle.
pub(crate) const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// Returns the memory of a response whose content takes `encoded` bytes as JSON.
pub(crate) const fn weight(content: usize, encoded: usize) -> usize {
    content.saturating_add(encoded.saturating_mul(JSON_COPIES))
}

/// Returns the bytes of a text as JSON.
pub(crate) fn encoded_size(text: &str) -> usize {
    if text.len() < MIN_MEASURED_BYTES { text.len() } else { escaped_size(text) }
}

/// Returns the bytes of a resource as JSON: content that is not text is in base64.
fn encoded_resource_size(resource: &Resource) -> usize {
    match resource.text() {
        Some(text) => encoded_size(text),
        None => resource.body.len().div_ceil(3).saturating_mul(4),
    }
}

/// Memory budget of one request's response.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResponseBudget(Option<RequestBudget>);

impl ResponseBudget {
    /// Reads the budget that the listener attached to a request.
    pub(crate) fn from_extensions(extensions: &Extensions) -> Self {
        extensions.get::<Parts>().map(Self::from_head).unwrap_or_default()
    }

    /// Reads the budget that the listener attached to the head of a request.
    pub(crate) fn from_head(head: &Parts) -> Self {
        Self(head.extensions.get::<RequestBudget>().cloned())
    }

    /// Reserves a response whose content is as long in JSON.
    pub(crate) fn reserve(&self, content_bytes: usize) -> Result<(), ErrorData> {
        self.grow(weight(content_bytes, content_bytes))
    }

    /// Reserves a response whose content takes `encoded` bytes as JSON.
    fn reserve_encoded(&self, content: usize, encoded: usize) -> Result<(), ErrorData> {
        self.check_limit(weight(content, encoded))?;
        self.grow(weight(content, encoded))
    }

    /// Reserves the response with a resource of which `expected` bytes [are reserved](Self::reserve) already.
    pub(crate) fn reserve_resource(
        &self,
        resource: &Resource,
        expected: usize,
    ) -> Result<(), ErrorData> {
        if self.0.is_none() {
            return Ok(());
        }
        let needed = weight(resource.body.len(), encoded_resource_size(resource));
        self.check_limit(needed)?;
        self.grow(needed.saturating_sub(weight(expected, expected)))
    }

    /// Reserves a response that contains a JSON tree twice: as text and as structured content.
    pub(crate) fn reserve_tree(&self, tree: &Value) -> Result<(), ErrorData> {
        if self.0.is_none() {
            return Ok(());
        }
        let size = JsonSize::measure(tree);
        self.grow(size.memory_size())?;
        self.reserve_encoded(size.bytes, size.bytes.saturating_add(size.escaped))
    }

    /// Reserves content that is read before its response is built.
    pub(crate) fn reserve_read(&self, content_bytes: usize) -> Result<(), ErrorData> {
        self.grow(content_bytes)
    }

    fn check_limit(&self, weight: usize) -> Result<(), ErrorData> {
        if self.0.is_some() && weight > MAX_RESPONSE_BYTES { Err(too_large()) } else { Ok(()) }
    }

    fn grow(&self, bytes: usize) -> Result<(), ErrorData> {
        let Some(budget) = &self.0 else { return Ok(()) };
        budget.try_grow(bytes).map_err(|_| overloaded())
    }

    /// Marks the request as refused for lack of memory, and returns its error.
    pub(crate) fn refuse(&self) -> ErrorData {
        if let Some(budget) = &self.0 {
            budget.refuse();
        }
        overloaded()
    }

    /// Returns the sizes of stored files, if there is a budget to reserve them from. When the catalog is unavailable
    /// all sizes are 0: content is measured again after it was read.
    pub(crate) async fn stored_sizes(&self, skills: &dyn SkillRegistry) -> StoredSizes {
        match &self.0 {
            Some(_) => StoredSizes(skills.catalog().await.ok()),
            None => StoredSizes(None),
        }
    }
}

/// Returns the error of a request for which the server has no room.
pub(crate) fn overloaded() -> ErrorData {
    let data = json!({ "code": Code::Overloaded, "hint": "try again in a moment" });
    let message = "the server is overloaded: too many or too large requests";
    ErrorData::new(ErrorCode::INTERNAL_ERROR, message, Some(data))
}

fn too_large() -> ErrorData {
    let hint = "fetch a file over plain HTTP: /.well-known/skills/NAME/PATH";
    let data = json!({ "code": Code::AnswerTooLarge, "hint": hint });
    let message = "the response is too large as JSON";
    ErrorData::new(ErrorCode::INVALID_REQUEST, message, Some(data))
}

/// Sizes of stored files in one snapshot of the catalog.
#[derive(Debug)]
pub(crate) struct StoredSizes(Option<Arc<Catalog>>);

impl StoredSizes {
    pub(crate) const fn new(catalog: Arc<Catalog>) -> Self {
        Self(Some(catalog))
    }

    /// Returns the bytes of the stored file at a URI; 0 for sections and live skills, whose size is unknown.
    pub(crate) fn get(&self, uri: &str) -> usize {
        let size = self.0.as_ref().and_then(|catalog| stored_bytes(catalog, uri));
        size.and_then(|size| usize::try_from(size).ok()).unwrap_or_default()
    }
}

fn stored_bytes(catalog: &Catalog, uri: &str) -> Option<u64> {
    let full = full_uri(uri);
    let by_registry = full.parse().ok().and_then(|uri| catalog.stored_size(&uri));
    let by_extension = full.strip_prefix(SKILL_SCHEME).and_then(|path| {
        let (id, path) = path.split_once('/').unwrap_or((path, ""));
        let path = percent_decode(path).unwrap_or_else(|| path.to_owned());
        // The extension's URIs may have the skill's name before the path.
        let is_at_path = |file: &str| {
            let before = path.strip_suffix(file);
            before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        let files = catalog.skill(id)?.meta.files.iter();
        files.filter(|file| is_at_path(&file.path)).map(|file| file.size).max()
    });
    by_registry.max(by_extension)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use skills_agent_skills::Bundle;
    use skills_core::{Layer, MemoryBudget};
    use skills_registry::{Registry, RegistryConfig};
    use skills_store::MemoryStore;

    use super::*;

    fn budget() -> (MemoryBudget, ResponseBudget) {
        let memory = MemoryBudget::default();
        let request = RequestBudget::with_memory(&memory);
        (memory, ResponseBudget(Some(request)))
    }

    fn resource(body: Vec<u8>) -> Resource {
        Resource {
            uri: "iii://a".to_owned(),
            mime_type: "text/plain".to_owned(),
            body: body.into(),
            version: None,
        }
    }

    #[tokio::test]
    async fn every_form_of_a_uri_has_the_size_of_its_stored_file() {
        let store = Arc::new(MemoryStore::new());
        let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
        let root = "---\nname: other\ndescription: Text.\n---\n# R\n".to_owned();
        let files = vec![("docs/a b.md".parse().unwrap(), Bytes::from(vec![b'x'; 1000]))];
        let bundle = Bundle::new(root.clone(), files).unwrap();
        registry.register_bundle("t", &Layer::Official, "s", bundle).await.unwrap();
        let sizes = StoredSizes(Some(registry.catalog()));
        for uri in [
            "iii://s/docs/a b.md",
            "iii://s/docs/a%20b.md",
            "skill://s/docs/a%20b.md",
            "skill://s/other/docs/a%20b.md",
            "skill://official/s/docs/a b.md",
            "skill://official/s/docs/a%20b.md",
            "s/docs/a%20b.md",
        ] {
            assert_eq!(sizes.get(uri), 1000, "{uri}");
        }
        for uri in ["s", "iii://s", "skill://official/s", "skill://s/other/SKILL.md"] {
            assert_eq!(sizes.get(uri), root.len(), "{uri}");
        }
        assert_eq!(sizes.get("iii://s/some::function"), 0);
        assert!(sizes.get("iii://skills") > 0);
    }

    #[test]
    fn content_is_measured_as_json() {
        let size = 1 << 20;
        for (body, encoded) in [
            (vec![b'a'; size], size),
            (vec![b'\n'; size], 2 * size),
            (vec![1; size], 6 * size),
            (vec![0xff; size], size.div_ceil(3) * 4),
        ] {
            let (memory, budget) = budget();
            budget.reserve(size).unwrap();
            budget.reserve_resource(&resource(body), size).unwrap();
            assert_eq!(memory.reserved(), size + 3 * encoded, "{encoded:?}");
        }
    }

    #[test]
    fn a_response_above_the_limit_is_refused_without_marking_the_server_overloaded() {
        let (_, budget) = budget();
        let error = budget.reserve_resource(&resource(vec![1; 8 << 20]), 0).unwrap_err();
        assert_eq!(error.data.unwrap()["code"], "answer_too_large");
        assert!(!budget.0.as_ref().unwrap().is_refused());
        let tree = json!({ "text": "\u{1}".repeat(8 << 20) });
        assert!(budget.reserve_tree(&tree).is_err());
        // Without a listener there is no budget and no limit.
        ResponseBudget::default().reserve_tree(&tree).unwrap();
    }
}
