//! Searches with more matches than are ranked, listed or shown.

use skills_search::{
    HitKind, MAX_RESULTS, Partition, Query, SearchDocument, SearchResults, Searcher, SynonymTable,
    Visibility, Visible,
};

use crate::corpus::partition;

/// Makes documents about one word. The first ones match best.
fn documents(count: usize) -> Vec<SearchDocument> {
    let document = |number: usize| {
        let mut document = SearchDocument::new(HitKind::Skill, format!("d{number:05}").into());
        document.body = "invoice ".repeat(20 - number * 19 / count);
        document
    };
    (0..count).map(document).collect()
}

fn search(
    partition: &Partition,
    query: &str,
    offset: usize,
    limit: usize,
    visible: &Visible<'_>,
) -> SearchResults {
    let (partitions, synonyms) = ([partition], SynonymTable::with_groups([]));
    Searcher::new(&partitions, &synonyms).search(&Query::parse(query), offset, limit, visible)
}

fn ids(results: &SearchResults) -> Vec<&str> {
    results.hits.iter().map(|hit| &*hit.key.id).collect()
}

#[test]
fn hidden_documents_take_no_place_of_visible_ones() {
    let partition = partition(&documents(5000));
    let last: &Visible<'_> = &|_, key| match &*key.id {
        "d04990" | "d04995" => Visibility::Shown,
        _ => Visibility::Hidden,
    };
    for query in ["invoice", "kind:skill"] {
        let found = search(&partition, query, 0, 10, last);
        assert_eq!(ids(&found), ["d04990", "d04995"], "{query}");
        assert!(!found.has_more && !found.has_omitted);
    }
}

#[test]
fn omitted_documents_take_no_place_of_shown_ones() {
    let partition = partition(&documents(3000));
    let last: &Visible<'_> = &|_, key| match &*key.id {
        "d02990" | "d02995" => Visibility::Shown,
        _ => Visibility::Omitted,
    };
    for query in ["invoice", "kind:skill"] {
        let found = search(&partition, query, 0, 1, last);
        assert_eq!((ids(&found), found.has_more), (vec!["d02990"], true), "{query}");
        let found = search(&partition, query, 1, 1, last);
        assert_eq!((ids(&found), found.has_more), (vec!["d02995"], false), "{query}");
        assert!(found.has_omitted);
    }
}

#[test]
fn no_page_follows_the_last_result() {
    let partition = partition(&documents(MAX_RESULTS + 50));
    for query in ["invoice", "kind:skill"] {
        for (offset, limit, count, has_more) in
            [(900, 99, 99, true), (900, 100, 100, false), (980, 100, 20, false)]
        {
            let found = search(&partition, query, offset, limit, &|_, _| Visibility::Shown);
            assert_eq!((found.hits.len(), found.has_more), (count, has_more), "{query} {offset}");
        }
    }
}

#[test]
fn a_title_that_many_documents_have_keeps_an_id_first() {
    let mut all = documents(3000);
    for document in &mut all {
        document.title = "Invoice".to_owned();
    }
    all.push(SearchDocument::new(HitKind::Skill, "invoice".into()));
    let partition = partition(&all);
    let pages: Vec<SearchResults> = (0..10)
        .map(|page| search(&partition, "invoice", page * 100, 100, &|_, _| Visibility::Shown))
        .collect();
    let paged: Vec<&str> = pages.iter().flat_map(ids).collect();
    let all = search(&partition, "invoice", 0, 1000, &|_, _| Visibility::Shown);
    assert_eq!(paged[0], "invoice");
    assert_eq!(paged, ids(&all));
}
