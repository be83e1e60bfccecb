//! Lists of tools, and whether two of them differ: one rule for changes in this process and for those that a mirror
//! finds later.

use std::{ops::Bound, sync::Arc};

use super::{
    Catalog, SkillRow,
    layer_index::{MergedRows, after},
};

/// Tools in the order of a listing. Two lists are equal if they have the same ids and definitions.
#[derive(Debug, Clone)]
pub struct ToolList(Vec<Arc<SkillRow>>);

impl PartialEq for ToolList {
    fn eq(&self, other: &Self) -> bool {
        let same =
            |(a, b): (&Arc<SkillRow>, &Arc<SkillRow>)| a.id == b.id && a.meta.tool == b.meta.tool;
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

impl Catalog {
    /// Iterates over the tools that their ids resolve to, after an id, sorted. Other skills cost nothing.
    pub fn tools_after(&self, id: Option<&str>) -> impl Iterator<Item = &Arc<SkillRow>> {
        let range = (after(id), Bound::Unbounded);
        let layers = self.layers.iter().map(move |layer| layer.tools.range::<_, str>(range));
        let first = MergedRows::new(layers).first_of_each().map(|(_, row)| row);
        first.filter(|row| self.is_effective(row))
    }

    /// Returns all tools.
    #[must_use]
    pub fn tools(&self) -> ToolList {
        ToolList(self.tools_after(None).cloned().collect())
    }

    /// Returns the tools that a change of a skill can affect, including those it shadows.
    #[must_use]
    pub fn tools_around(&self, id: &str) -> ToolList {
        let rows = self.prefix().affected_names(id).filter_map(|name| self.tool(name));
        ToolList(rows.cloned().collect())
    }

    /// Returns the tool that is listed under an id.
    fn tool(&self, id: &str) -> Option<&Arc<SkillRow>> {
        self.skill(id).filter(|row| *row.id == *id && row.meta.tool.is_some())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use skills_core::{Caller, Digest, Layer, Tier, ToolMeta, User, tool::ManifestSource};
    use skills_store::{Change, EntryContent};

    use super::*;
    use crate::catalog::{
        CatalogData,
        tests::{self, private},
    };

    fn tool(text: &str) -> Box<ToolMeta> {
        Box::new(ToolMeta {
            source: ManifestSource::new(text, "application/json").unwrap(),
            name: None,
            emoji: None,
            tags: vec![],
            description: None,
            parameters: serde_json::json!({ "type": "object" }),
            credits_per_call: None,
        })
    }

    /// Change to nothing (0), to a document (1), or to a tool (2 and above).
    fn change(revision: u64, layer: Layer, id: &str, what: u8) -> Change {
        let body = (what > 0).then(|| format!("# {id}"));
        let mut change = tests::change(revision, layer, id, body.as_deref());
        let content = change.served.as_mut().and_then(|served| served.content.as_mut());
        if let Some(EntryContent::Skill(meta)) = content.map(Arc::make_mut) {
            meta.tool = (what > 1).then(|| tool(&what.to_string()));
        }
        change
    }

    fn listed(catalog: &Catalog) -> Vec<(Arc<str>, Digest)> {
        let rows = catalog.skills_after(None);
        let tool = |row: &Arc<SkillRow>| {
            Some((Arc::clone(&row.id), row.meta.tool.as_ref()?.source.digest))
        };
        rows.filter_map(tool).collect()
    }

    #[test]
    fn the_last_tool_of_a_layer_counts_as_removed_when_a_document_follows_at_once() {
        let catalog = Catalog::from(CatalogData::new("p_".parse().unwrap()));
        let ann = private("ann");
        let came = change(1, ann.clone(), "a", 2);
        let (went, note) = (change(2, ann.clone(), "a", 0), change(3, ann, "b", 1));
        let next = catalog.with([&came]).with([&went, &note]);
        assert!(next.change_affects_tools(&went));
        assert!(!next.change_affects_tools(&note));
    }

    proptest! {
        #[test]
        fn a_change_of_the_visible_tools_is_reported(
            steps in prop::collection::vec((0..3_usize, "(p_)?[ab]", 0..4_u8), 0..30),
        ) {
            let layers = [private("ann"), Layer::Official, Layer::Market];
            let owner = "ann".parse().unwrap();
            let ann = Caller::User(User { owner, key: Digest::of(b"ann") });
            let mut catalog = Arc::new(Catalog::from(CatalogData::new("p_".parse().unwrap())));
            for ((number, id, what), revision) in steps.into_iter().zip(1..) {
                let change = change(revision, layers[number].clone(), &id, what);
                let next = Arc::new(catalog.with([&change]));
                for (caller, sees) in [(&ann, true), (&Caller::Anonymous, number > 0)] {
                    let (before, after) = (catalog.view_for(caller), next.view_for(caller));
                    if sees && listed(&before) != listed(&after) {
                        prop_assert!(next.change_affects_tools(&change), "{change:?}");
                    }
                    // The list of tools agrees with a scan of all skills.
                    let tools: Vec<_> = after.tools_after(None).map(|row| Arc::clone(&row.id)).collect();
                    let expected: Vec<_> = listed(&after).into_iter().map(|(id, _)| id).collect();
                    prop_assert_eq!(&tools, &expected);
                    if let Some(first) = tools.first() {
                        prop_assert_eq!(after.tools_after(Some(first)).count(), tools.len() - 1);
                    }
                    let all: Vec<_> = after.layered_after(None).collect();
                    for tier in Tier::ALL {
                        let of_tier = |last: Option<(&str, Tier)>| -> Vec<_> {
                            let rows = after.layered_after(last);
                            rows.filter(|row| row.tier == tier).map(|row| row.id.to_string()).collect()
                        };
                        let starts = all.iter().map(|row| Some((&*row.id, row.tier)));
                        for last in starts.chain([None]) {
                            let walked: Vec<_> =
                                after.tier_after(tier, last).map(|row| row.id.to_string()).collect();
                            prop_assert_eq!(walked, of_tier(last));
                        }
                    }
                }
                // There are no false positives while the layer has entries.
                let view = if number == 0 { &ann } else { &Caller::Anonymous };
                let differs = listed(&catalog.view_for(view)) != listed(&next.view_for(view));
                if next.stored_skills().any(|(layer, _)| *layer == layers[number]) {
                    prop_assert_eq!(next.change_affects_tools(&change), differs, "{:?}", change);
                }
                catalog = next;
            }
        }
    }
}
