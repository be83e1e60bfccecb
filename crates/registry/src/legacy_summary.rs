//! Summaries of entries that an earlier release stored with a truncated first paragraph.

use std::sync::Arc;

use skills_agent_skills::markdown::summarize;
use skills_core::{SkillMeta, limits::MAX_SUMMARY_CHARS};
use skills_store::{EntryContent, Store, StoredEntry};

/// Reads the first paragraph of such entries again, in memory. A body that cannot be read leaves an entry as it is.
pub(crate) fn restore_paragraphs(store: &dyn Store, entries: &mut [StoredEntry]) {
    for entry in entries {
        let EntryContent::Skill(meta) = &*entry.content else { continue };
        let root = meta.root().filter(|_| is_truncated(meta));
        let Some(body) = root.and_then(|root| store.blob(&root.digest).ok().flatten()) else {
            continue;
        };
        let first_paragraph = summarize(&String::from_utf8_lossy(&body)).description;
        entry.content =
            Arc::new(EntryContent::Skill(SkillMeta { first_paragraph, ..meta.clone() }));
    }
}

/// Returns whether a listing shows a first paragraph that may be truncated to the length of an index. Trailing blanks
/// are not part of a truncated text, so it may be shorter.
fn is_truncated(meta: &SkillMeta) -> bool {
    let is_cut = |text: &str| text.ends_with("...") && text.len() >= MAX_SUMMARY_CHARS;
    let fits_index = |text: &str| text.chars().nth(MAX_SUMMARY_CHARS + 3).is_none();
    meta.agent.is_none()
        && meta.first_paragraph.as_deref().is_some_and(|text| is_cut(text) && fits_index(text))
}

#[cfg(test)]
mod tests {
    use skills_core::{Digest, Layer, Timestamp};
    use skills_store::{Batch, MemoryStore, Mutation, PublishOptions};

    use crate::{Registry, RegistryConfig};

    /// Stores a document with metadata as the release 0.1 wrote it.
    fn put(id: &str, body: &str, fields: &str) -> Mutation {
        let digest = Digest::of(body.as_bytes());
        let meta = format!(
            r#"{{{fields},"files":[{{"path":"SKILL.md","digest":"{digest}","size":{}}}]}}"#,
            body.len()
        );
        let content = super::EntryContent::Skill(serde_json::from_str(&meta).unwrap());
        let blobs = vec![(digest, body.to_owned().into())];
        Mutation::Put {
            layer: Layer::Official,
            id: id.into(),
            content,
            blobs,
            options: PublishOptions::default(),
        }
    }

    #[test]
    fn entries_of_an_earlier_release_have_the_descriptions_of_new_ones() {
        let paragraph = "Word by word. ".repeat(20);
        let truncated = format!("{}...", &paragraph[..140].trim_end());
        let plain = put(
            "plain",
            &format!("# P\n\n{paragraph}"),
            &format!(r#""title":"P","description":"{truncated}""#),
        );
        let agent = put(
            "agent",
            "---\nname: agent\ndescription: Given.\n---\nText.",
            r#""description":"Text.","agent":{"name":"agent","description":"Given."}"#,
        );
        let store = std::sync::Arc::new(MemoryStore::new());
        let batch = Batch::new("t", vec![plain, agent]);
        skills_store::Store::commit(&*store, vec![batch], Timestamp::from_micros(1)).unwrap();
        let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
        let catalog = registry.catalog();
        let described = |id: &str| {
            let row = catalog.skill(id).unwrap();
            (row.title().to_owned(), row.description().unwrap().into_owned())
        };
        assert_eq!(described("plain"), ("P".to_owned(), paragraph.trim_end().to_owned()));
        assert_eq!(described("agent"), ("agent".to_owned(), "Given.".to_owned()));
        let index = catalog.index();
        assert!(index.contains(&format!(": {truncated}\n")), "{index}");
    }
}
