//! The root document of a bundle, read and looked into once: for the id it asks for, for what is said of it, and to be
//! registered.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use skills_core::{
    AgentSkill,
    frontmatter::{self, Fields},
    limits::MAX_SKILL_BYTES,
    markdown::split_frontmatter,
    validate::{self, Mode, Options, Report},
};

/// Most that is kept of the documents of one finding until their bundles are read, in bytes. The rest is read again.
const MAX_KEPT: usize = 64 << 20;
/// What a finding takes up, roughly.
const FINDING_BYTES: usize = 256;

/// A root document and what was found in it.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    /// One byte more than allowed at most: that is enough to know.
    pub(crate) bytes: Bytes,
    /// What it calls itself, if that is text.
    pub(crate) name: Option<String>,
    /// What it says of itself as an Agent Skill.
    pub(crate) agent: Option<AgentSkill>,
    /// What the specification thinks of it, for loading.
    pub(crate) report: Report,
}

impl Head {
    /// Of a document by itself, which need not be an Agent Skill.
    pub(crate) fn of_document(bytes: Bytes) -> Self {
        let is_small = bytes.len() <= MAX_SKILL_BYTES;
        let text = std::str::from_utf8(&bytes).ok().filter(|_| is_small);
        let fields = text.and_then(|text| frontmatter::read(split_frontmatter(text).0?).ok());
        Self::new(bytes, fields.as_ref(), Report::default())
    }

    /// Of the root document of a bundle.
    pub(crate) fn of_bundle(bytes: Bytes, name: Option<&str>, files: Option<&[String]>) -> Self {
        let bundle = validate::Bundle { directory: name, document: &bytes, files };
        let options = Options { mode: Mode::Lenient, ..Options::default() };
        let (report, fields) = validate::examine(bundle, options);
        Self::new(bytes, fields.as_ref(), report)
    }

    fn new(bytes: Bytes, fields: Option<&Fields>, report: Report) -> Self {
        let name = fields.and_then(|fields| fields.get("name"));
        let name = name.and_then(|name| Some(name.value.to_value().as_str()?.to_owned()));
        // Where it will be registered is not known here.
        let agent = fields.and_then(|fields| AgentSkill::of_fields(fields, Some("")).ok());
        Self { bytes, name, agent, report }
    }

    /// What it takes up in memory, roughly.
    fn cost(&self) -> usize {
        let agent = self.agent.as_ref().map_or(0, AgentSkill::bytes);
        self.bytes.len() + agent + self.report.findings.len() * FINDING_BYTES
    }
}

/// Room for the documents of one finding.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<AtomicUsize>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(MAX_KEPT)))
    }
}

impl Room {
    /// Whether there is room for this too.
    pub(crate) fn has_for(&self, head: &Head) -> bool {
        let take = |left: usize| left.checked_sub(head.cost());
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_not_kept() {
        let room = Room::default();
        let head = Head::of_document(vec![b'x'; MAX_KEPT / 2].into());
        assert!(room.has_for(&head) && room.has_for(&head) && !room.has_for(&head));
        assert!(!room.has_for(&Head::of_document(vec![b'x'].into())));
        assert!(room.has_for(&Head::of_document(Bytes::new())));
    }

    #[test]
    fn a_name_is_text() {
        let name = |yaml: &str| Head::of_document(format!("---\n{yaml}\n---\n").into()).name;
        assert_eq!(name("name: a"), Some("a".to_owned()));
        assert_eq!(name("name: 12"), None);
        assert_eq!(name("name: [a]"), None);
        assert_eq!(Head::of_document("# A".into()).name, None);
    }
}
