//! Pages of a listing, limited in rows and in bytes. A row of a tool may have a hundred thousand bytes, and a page must
//! still fit into one message.

use std::sync::Arc;

use super::SkillRow;

/// Most bytes of a page, unless its first row alone has more. As JSON they may be several times as many.
pub const PAGE_BYTES: usize = 4 << 20;
/// Bytes of a listed file beside its path.
const FILE_BYTES: usize = 128;

impl SkillRow {
    /// Returns the approximate size of the row in a listing.
    #[must_use]
    pub fn listed_bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let files: usize = self.meta.files.iter().map(|file| file.path.len() + FILE_BYTES).sum();
        self.id.len()
            + text(&self.meta.heading)
            + text(&self.meta.first_paragraph)
            + files
            + self.meta.agent.as_ref().map_or(0, |agent| agent.bytes())
            + self.meta.tool.as_ref().map_or(0, |tool| tool.bytes())
    }
}

/// Takes the rows of a page, at most `limit`. Also returns whether there are more.
pub fn page<'a>(
    rows: impl Iterator<Item = &'a Arc<SkillRow>>,
    limit: usize,
) -> (Vec<&'a Arc<SkillRow>>, bool) {
    let mut rows = rows.peekable();
    let (mut taken, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.peek() {
        bytes += row.listed_bytes();
        if taken.len() == limit || (bytes > PAGE_BYTES && !taken.is_empty()) {
            return (taken, true);
        }
        taken.extend(rows.next());
    }
    (taken, false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skills_core::{Tier, Timestamp, ToolMeta, tool::ManifestSource};

    use super::*;

    fn rows(count: usize, bytes: usize) -> Vec<Arc<SkillRow>> {
        let row = |number: usize| {
            let mut meta = skills_agent_skills::skill_meta("# A").unwrap();
            meta.tool = Some(Box::new(ToolMeta {
                source: ManifestSource::new("{}", "application/json").unwrap(),
                name: None,
                emoji: None,
                tags: vec![],
                description: Some("x".repeat(bytes)),
                parameters: json!({}),
                credits_per_call: None,
            }));
            let id = format!("a{number}").into();
            Arc::new(SkillRow::new(id, Tier::Market, meta, 3, Timestamp::from_micros(0)))
        };
        (0..count).map(row).collect()
    }

    #[test]
    fn a_page_is_bounded_in_rows_and_in_bytes() {
        let taken = |rows: &[Arc<SkillRow>], limit| {
            let (taken, has_more) = page(rows.iter(), limit);
            (taken.len(), has_more)
        };
        let small = rows(10, 10);
        assert_eq!(taken(&small, 10), (10, false));
        assert_eq!(taken(&small, 9), (9, true));
        assert_eq!(taken(&[], 9), (0, false));
        assert_eq!(taken(&rows(10, PAGE_BYTES / 4), 1000), (3, true));
        // A row larger than a page does not stop the listing.
        assert_eq!(taken(&rows(2, PAGE_BYTES), 1000), (1, true));
    }
}
