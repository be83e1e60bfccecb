//! Guarantees of the ranking, on random documents.

use proptest::prelude::*;
use skills_search::{
    Analyzer, HitKind, Partition, PartitionWriter, Query, SearchDocument, Searcher, SynonymTable,
    Visibility,
};

use crate::corpus::{documents, partition, search};

const WORDS: [&str; 14] = [
    "pdf", "table", "code", "review", "the", "how", "deploy", "k8s", "slide", "test", "data", "x",
    "skill", "report",
];

/// Ids as people make them, from words with separators.
fn ids() -> impl Strategy<Value = Vec<String>> {
    let word = prop::sample::select(&WORDS[..]);
    let id = (prop::collection::vec(word, 1..4), prop::sample::select(vec!["-", "_"]))
        .prop_map(|(words, separator)| words.join(separator));
    let id = prop_oneof![4 => id, 1 => "[a-z0-9_-]{1,8}"];
    prop::collection::btree_set(id, 1..30).prop_map(|ids| ids.into_iter().collect())
}

fn random_documents() -> impl Strategy<Value = Vec<SearchDocument>> {
    let text = || {
        let words = prop::collection::vec(prop::sample::select(&WORDS[..]), 0..12);
        words.prop_map(|words| words.join(" "))
    };
    ids().prop_flat_map(move |ids| {
        let texts = prop::collection::vec((text(), text(), text()), ids.len());
        (Just(ids), texts).prop_map(|(ids, texts)| {
            let document =
                |(id, (title, description, body)): (String, (String, String, String))| {
                    let mut document = SearchDocument::new(HitKind::Skill, id.into());
                    (document.title, document.description, document.body) =
                        (title, description, body);
                    document
                };
            ids.into_iter().zip(texts).map(document).collect()
        })
    })
}

fn found(partition: &Partition, query: &str) -> Vec<String> {
    let hits = search(partition, &SynonymTable::with_groups([]), query, 50);
    hits.into_iter().map(|hit| hit.key.id.to_string()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn an_exact_id_is_first(documents in random_documents()) {
        let partition = partition(&documents);
        for document in &documents {
            let id = document.key.id.to_string();
            let exact = found(&partition, &id);
            prop_assert_eq!(exact.first(), Some(&id));
            let upper = found(&partition, &id.to_uppercase());
            prop_assert_eq!(upper.first(), Some(&id));
        }
    }

    #[test]
    fn the_only_id_with_a_prefix_is_among_the_first_three(documents in random_documents()) {
        let partition = partition(&documents);
        for document in &documents {
            let id = &*document.key.id;
            for end in 1..id.len() {
                let prefix = &id[..end];
                let others = documents.iter().filter(|other| other.key.id.starts_with(prefix));
                if others.count() == 1 {
                    let found = found(&partition, prefix);
                    let rank = found.iter().position(|found| found == id);
                    prop_assert!(rank.is_some_and(|rank| rank < 3), "{} of {}: {:?}", prefix, id, found);
                }
            }
        }
    }

    #[test]
    fn the_order_does_not_depend_on_how_the_index_was_built(
        documents in random_documents(), query in "[a-z]{1,6}( [a-z0-9]{1,6}){0,2}",
    ) {
        let one = partition(&documents);
        let mut analyzer = Analyzer::default();
        let mut writer = PartitionWriter::default();
        for document in documents.iter().rev() {
            writer.add(vec![analyzer.analyze(document)]);
            writer.merge_all();
        }
        let other = writer.snapshot();
        for query in [query.as_str(), "pdf table", "review code of k8s data"] {
            prop_assert_eq!(found(&one, query), found(&other, query));
        }
    }

    #[test]
    fn pages_are_parts_of_one_order(documents in random_documents(), size in 1_usize..9) {
        let partition = partition(&documents);
        let synonyms = SynonymTable::with_groups([]);
        let partitions = [&partition];
        let searcher = Searcher::new(&partitions, &synonyms);
        for query in ["pdf", "code review", ""] {
            let query = Query::parse(query);
            let page = |offset: usize, limit: usize| {
                let found = searcher.search(&query, offset, limit, &|_, _| Visibility::Shown);
                let ids = found.hits.iter().map(|hit| hit.key.id.to_string()).collect::<Vec<_>>();
                (ids, found.has_more)
            };
            let (all, _) = page(0, 100);
            let mut paged = Vec::new();
            loop {
                let (ids, has_more) = page(paged.len(), size);
                paged.extend(ids);
                if !has_more {
                    break;
                }
            }
            prop_assert_eq!(paged, all);
        }
    }
}

#[test]
fn every_id_of_the_fixture_is_found_by_itself_and_by_its_words() {
    let documents = documents();
    let partition = partition(&documents);
    for document in &documents {
        let id = document.key.id.to_string();
        assert_eq!(found(&partition, &id)[0], id);
        assert_eq!(found(&partition, &id.replace('-', " "))[0], id);
    }
}

#[test]
fn scores_never_rise_down_the_list() {
    let documents = documents();
    let partition = partition(&documents);
    let synonyms = SynonymTable::with_groups([]);
    for query in ["pdf", "review my code", "git-", "kubernets cluster", "翻译"] {
        let hits = search(&partition, &synonyms, query, 100);
        let scores: Vec<f32> = hits.iter().map(|hit| hit.score).collect();
        assert!(scores.is_sorted_by(|one, other| one >= other), "{query}: {scores:?}");
    }
}

#[test]
fn phrases_exclusions_and_filters_are_obeyed() {
    let documents = documents();
    let partition = partition(&documents);
    let all = found(&partition, "code review");
    let phrase = found(&partition, "\"code review\"");
    assert!(!phrase.is_empty() && phrase.len() < all.len());
    let without = found(&partition, "code review -rust");
    assert!(!without.contains(&"rust-code-review".to_owned()));
    let tagged = found(&partition, "tag:pdf");
    assert!(tagged.contains(&"acme-pdf-extract".to_owned()), "{tagged:?}");
    assert!(found(&partition, "pdf kind:prompt").is_empty());
}

#[test]
fn every_kind_of_clause_excludes() {
    let document = |id: &str, tags: &[&str], body: &str| {
        let mut document = SearchDocument::new(HitKind::Skill, id.into());
        document.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        document.allowed_tools = vec!["Bash(git:*)".to_owned()];
        document.body = body.to_owned();
        document
    };
    let mut tool = document("caller", &[], "Mail things.");
    (tool.kind, tool.allowed_tools) = (HitKind::Tool, vec!["Read".to_owned()]);
    let partition = partition(&[
        document("both", &["Data entry"], "Mail a pull request for a code review."),
        document("apart", &["data"], "Mail a request, then pull the code."),
        document("other", &[], "Mail a review."),
        tool,
    ]);
    for (query, expected) in [
        ("-\"pull request\"", vec!["apart", "caller", "other"]),
        ("-code-review", vec!["apart", "caller", "other"]),
        ("-code", vec!["caller", "other"]),
        ("-tag:\"data entry\"", vec!["apart", "caller", "other"]),
        ("-tag:data -tag:\"data entry\"", vec!["caller", "other"]),
        ("-tool:bash", vec!["caller"]),
        ("tool:bash -kind:prompt", vec!["apart", "both", "other"]),
        ("-kind:skill", vec!["caller"]),
    ] {
        for base in ["mail", "kind:skill kind:tool"] {
            let mut ids = found(&partition, &format!("{base} {query}"));
            ids.sort();
            assert_eq!(ids, expected, "{base} {query}");
        }
    }
    assert!(!found(&partition, "both mail -\"pull request\"").contains(&"both".to_owned()));
    assert!(found(&partition, "other -review").is_empty(), "a name is excluded too");
}

#[test]
fn filters_do_not_weaken_an_exact_id() {
    let document = |id: &str, body: &str| {
        let mut document = SearchDocument::new(HitKind::Skill, id.into());
        document.body = body.to_owned();
        document
    };
    // The id as it is written comes before one with other separators.
    let partition = partition(&[
        document("a-code_review", ""),
        document("code-review", ""),
        document("code_review", ""),
    ]);
    for query in ["code_review", "code_review kind:skill", "kind:skill -zebra code_review"] {
        assert_eq!(found(&partition, query)[..2], ["code_review", "code-review"], "{query}");
    }
}
