//! Root document of a bundle, read and parsed once: for its id, its validation report, and its registration.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use skills_agent_skills::{
    frontmatter::{self, FrontmatterFields},
    markdown::split_frontmatter,
    validate::{self, Options, ValidationMode, ValidationReport},
};
use skills_core::{AgentSkill, limits::MAX_SKILL_BYTES};

/// Capacity of the cache of root documents, in bytes. Documents beyond it are read again.
const CACHE_CAPACITY: usize = 64 << 20;
/// Approximate memory of a finding.
const FINDING_BYTES: usize = 256;

/// Root document with its parsed frontmatter.
#[derive(Debug, Clone)]
pub(crate) struct RootDocument {
    /// Bytes of the document, at most one more than allowed, which is enough to detect an oversized document.
    pub(crate) bytes: Bytes,
    /// Name in the frontmatter, if it is text.
    pub(crate) name: Option<String>,
    /// Agent Skill fields.
    pub(crate) agent: Option<AgentSkill>,
    /// Validation report for loading.
    pub(crate) report: ValidationReport,
}

impl RootDocument {
    /// Reads a document that stands alone, which need not be an Agent Skill.
    pub(crate) fn from_document(bytes: Bytes) -> Self {
        let is_small = bytes.len() <= MAX_SKILL_BYTES;
        let text = std::str::from_utf8(&bytes).ok().filter(|_| is_small);
        let fields = text.and_then(|text| frontmatter::parse(split_frontmatter(text).0?).ok());
        Self::new(bytes, fields.as_ref(), ValidationReport::default())
    }

    /// Reads the root document of a bundle.
    pub(crate) fn from_bundle(bytes: Bytes, name: Option<&str>, files: Option<&[String]>) -> Self {
        let bundle = validate::BundleFiles { directory: name, document: &bytes, files };
        let options = Options { mode: ValidationMode::Lenient, ..Options::default() };
        let (report, fields) = validate::validate_with_fields(bundle, options);
        Self::new(bytes, fields.as_ref(), report)
    }

    fn new(bytes: Bytes, fields: Option<&FrontmatterFields>, report: ValidationReport) -> Self {
        let name = fields.and_then(|fields| fields.get("name"));
        let name = name.and_then(|name| Some(name.value.to_value().as_str()?.to_owned()));
        // The id is not known here, so a missing name stays empty.
        let agent = fields
            .and_then(|fields| skills_agent_skills::agent_skill_from_fields(fields, Some("")).ok());
        Self { bytes, name, agent, report }
    }

    /// Returns the approximate memory it takes.
    fn cost(&self) -> usize {
        let agent = self.agent.as_ref().map_or(0, AgentSkill::bytes);
        self.bytes.len() + agent + self.report.findings.len() * FINDING_BYTES
    }
}

/// Memory budget shared by the cached documents of one search.
#[derive(Debug, Clone)]
pub(crate) struct CacheBudget(Arc<AtomicUsize>);

impl Default for CacheBudget {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(CACHE_CAPACITY)))
    }
}

impl CacheBudget {
    /// Reserves memory for a document. Returns false if it does not fit.
    pub(crate) fn try_reserve(&self, root_document: &RootDocument) -> bool {
        let take = |left: usize| left.checked_sub(root_document.cost());
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_beyond_the_budget_are_not_cached() {
        let cache_budget = CacheBudget::default();
        let root_document = RootDocument::from_document(vec![b'x'; CACHE_CAPACITY / 2].into());
        assert!(
            cache_budget.try_reserve(&root_document)
                && cache_budget.try_reserve(&root_document)
                && !cache_budget.try_reserve(&root_document)
        );
        assert!(!cache_budget.try_reserve(&RootDocument::from_document(vec![b'x'].into())));
        assert!(cache_budget.try_reserve(&RootDocument::from_document(Bytes::new())));
    }

    #[test]
    fn only_text_is_a_name() {
        let name =
            |yaml: &str| RootDocument::from_document(format!("---\n{yaml}\n---\n").into()).name;
        assert_eq!(name("name: a"), Some("a".to_owned()));
        assert_eq!(name("name: 12"), None);
        assert_eq!(name("name: [a]"), None);
        assert_eq!(RootDocument::from_document("# A".into()).name, None);
    }
}
