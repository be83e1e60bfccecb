//! Documents that were replaced or removed leave no trace, before and after their segments are merged.

use proptest::prelude::*;
use skills_search::{
    Analyzer, DocumentKey, HitKind, Partition, PartitionWriter, Query, SearchDocument, Searcher,
    SynonymTable, Visibility,
};

use crate::corpus::partition;

const WORDS: [&str; 10] = [
    "pdf",
    "table",
    "review",
    "deploy",
    "cluster",
    "slide",
    "testing",
    "report",
    "kubernetes",
    "continuous integration (CI)",
];

fn document(id: &str, body: &str) -> SearchDocument {
    let mut document = SearchDocument::new(HitKind::Skill, id.into());
    document.body = body.to_owned();
    document
}

/// Returns everything that a search says.
fn answer(partition: &Partition, query: &str) -> (Vec<(String, f32, String)>, Vec<String>) {
    let (partitions, synonyms) = ([partition], SynonymTable::with_groups([]));
    let searcher = Searcher::new(&partitions, &synonyms);
    let found = searcher.search(&Query::parse(query), 0, 50, &|_, _| Visibility::Shown);
    let hit = |hit: skills_search::SearchHit| (hit.key.id.to_string(), hit.score, hit.snippet);
    (found.hits.into_iter().map(hit).collect(), found.did_you_mean)
}

/// Step of a history: an id, its new text or its removal, and whether segments are merged.
fn steps() -> impl Strategy<Value = Vec<(u8, Option<String>, bool)>> {
    let words = prop::collection::vec(prop::sample::select(&WORDS[..]), 1..6);
    let text = prop::option::weighted(0.8, words.prop_map(|words| words.join(" ")));
    prop::collection::vec((0_u8..10, text, prop::bool::weighted(0.2)), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn answers_are_those_of_an_index_that_never_had_the_old_texts(steps in steps()) {
        let mut analyzer = Analyzer::default();
        let mut writer = PartitionWriter::default();
        let mut current = std::collections::BTreeMap::new();
        for (number, text, merges) in steps {
            let id = format!("skill-{number}");
            if let Some(text) = text {
                let document = document(&id, &text);
                writer.add(vec![analyzer.analyze(&document)]);
                current.insert(id, document);
            } else {
                let key = DocumentKey { kind: skills_core::EntryKind::Skill, id: id.as_str().into() };
                writer.remove(&key);
                current.remove(&id);
            }
            if merges {
                writer.merge_all();
            }
        }
        let documents: Vec<SearchDocument> = current.into_values().collect();
        let (changed, fresh) = (writer.snapshot(), partition(&documents));
        for query in [
            "pdf table", "kubernets cluster", "kuber", "reveiw", "skill-3", "skill_33", "ci", "deployment",
            "\"pdf table\"", "report -slide", "kind:skill -pdf",
        ] {
            prop_assert_eq!(answer(&changed, query), answer(&fresh, query), "{}", query);
        }
    }
}

#[test]
fn words_of_removed_texts_are_not_suggested() {
    let mut analyzer = Analyzer::default();
    let mut writer = PartitionWriter::default();
    let documents = ["zanzibar trip", "zebra", "lamp"].iter().enumerate();
    let documents =
        documents.map(|(at, body)| analyzer.analyze(&document(&format!("d{at}"), body)));
    writer.add(documents.collect());
    assert_eq!(answer(&writer.snapshot(), "zanzibra").1, ["zanzibar"]);
    writer.add(vec![analyzer.analyze(&document("d0", "trip"))]);
    let after = writer.snapshot();
    assert_eq!(answer(&after, "zanzibra"), (vec![], vec![]));
    assert_eq!(answer(&after, "zanz"), (vec![], vec![]));
}
