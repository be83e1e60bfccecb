//! Which skills are listed as tools, and whether two lists of them differ: one rule for what happens in this process
//! and for what a mirror finds out later.

use std::{ops::Bound, sync::Arc};

use super::{
    Catalog, SkillRow,
    shelf::{Merged, after},
};

/// Tools as they are listed.
#[derive(Debug, Clone)]
pub(crate) struct Tools(Vec<Arc<SkillRow>>);

impl PartialEq for Tools {
    fn eq(&self, other: &Self) -> bool {
        let same =
            |(a, b): (&Arc<SkillRow>, &Arc<SkillRow>)| a.id == b.id && a.meta.tool == b.meta.tool;
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

impl Catalog {
    /// The tools that answer to their ids, after one, sorted. Skills that are none cost nothing.
    pub fn tools_after(&self, id: Option<&str>) -> impl Iterator<Item = &Arc<SkillRow>> {
        let of = |id| (after(id), Bound::Unbounded);
        let layers = self.layers.iter().map(move |shelf| shelf.tools.range::<_, str>(of(id)));
        let first = Merged::new(layers).first_of_each().map(|(_, row)| row);
        first.filter(|row| self.answers(row))
    }

    /// All tools.
    pub(crate) fn tools(&self) -> Tools {
        Tools(self.tools_after(None).cloned().collect())
    }

    /// The tools that a change of the skill of an id can have to do with: also what it shadows.
    pub(crate) fn tools_around(&self, id: &str) -> Tools {
        let rows = self.prefix().names_of(id).filter_map(|name| self.tool(name));
        Tools(rows.cloned().collect())
    }

    /// The tool that is listed under an id.
    fn tool(&self, id: &str) -> Option<&Arc<SkillRow>> {
        self.skill(id).filter(|row| *row.id == *id && row.meta.tool.is_some())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use skills_core::{Caller, Digest, Layer, Tier, ToolMeta, User, tool::ToolSource};
    use skills_store::{Change, EntryContent};

    use super::*;
    use crate::catalog::{
        Everything,
        tests::{self, private},
    };

    fn tool(text: &str) -> Box<ToolMeta> {
        Box::new(ToolMeta {
            source: ToolSource::of(text, "application/json").unwrap(),
            name: None,
            emoji: None,
            tags: vec![],
            description: None,
            parameters: serde_json::json!({ "type": "object" }),
            credits_per_call: None,
        })
    }

    /// 0 is nothing, 1 a document, more are tools.
    fn change(revision: u64, layer: Layer, id: &str, what: u8) -> Change {
        let body = (what > 0).then(|| format!("# {id}"));
        let mut change = tests::change(revision, layer, id, body.as_deref());
        if let Some(EntryContent::Skill(meta)) = change.content.as_mut().map(Arc::make_mut) {
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
    fn a_tool_that_was_all_there_was_is_missed_when_something_else_comes_at_once() {
        let catalog = Catalog::from(Everything::new("p_".parse().unwrap()));
        let ann = private("ann");
        let came = change(1, ann.clone(), "a", 2);
        let (went, note) = (change(2, ann.clone(), "a", 0), change(3, ann, "b", 1));
        let next = catalog.with([&came]).with([&went, &note]);
        assert!(next.is_of_tool(&went));
        assert!(!next.is_of_tool(&note));
    }

    proptest! {
        #[test]
        fn whoever_sees_other_tools_than_before_is_told(
            steps in prop::collection::vec((0..3_usize, "(p_)?[ab]", 0..4_u8), 0..30),
        ) {
            let layers = [private("ann"), Layer::Official, Layer::Market];
            let owner = "ann".parse().unwrap();
            let ann = Caller::User(User { owner, key: Digest::of(b"ann") });
            let mut catalog = Arc::new(Catalog::from(Everything::new("p_".parse().unwrap())));
            for ((number, id, what), revision) in steps.into_iter().zip(1..) {
                let change = change(revision, layers[number].clone(), &id, what);
                let next = Arc::new(catalog.with([&change]));
                for (caller, sees) in [(&ann, true), (&Caller::Anonymous, number > 0)] {
                    let (before, after) = (catalog.seen_by(caller), next.seen_by(caller));
                    if sees && listed(&before) != listed(&after) {
                        prop_assert!(next.is_of_tool(&change), "{change:?}");
                    }
                    // What is listed without a walk over the rest is the same.
                    let tools: Vec<_> = after.tools_after(None).map(|row| Arc::clone(&row.id)).collect();
                    let expected: Vec<_> = listed(&after).into_iter().map(|(id, _)| id).collect();
                    prop_assert_eq!(&tools, &expected);
                    if let Some(first) = tools.first() {
                        prop_assert_eq!(after.tools_after(Some(first)).count(), tools.len() - 1);
                    }
                    let all: Vec<_> = after.layered_after(None).collect();
                    for tier in [Tier::Private, Tier::Official, Tier::Market] {
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
                // And nobody is told for nothing, as long as it is known what was there.
                let view = if number == 0 { &ann } else { &Caller::Anonymous };
                let differs = listed(&catalog.seen_by(view)) != listed(&next.seen_by(view));
                if next.stored_skills().any(|(layer, _)| *layer == layers[number]) {
                    prop_assert_eq!(next.is_of_tool(&change), differs, "{:?}", change);
                }
                catalog = next;
            }
        }
    }
}
