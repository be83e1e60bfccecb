//! The fixture corpus and its judged queries.

use std::{fs, path::PathBuf};

use skills_agent_skills::skill_meta;
use skills_search::{
    Analyzer, Partition, PartitionWriter, Query, SearchDocument, SearchHit, Searcher, SynonymTable,
    Visibility,
};

/// Judged query.
pub(crate) struct Judged {
    pub(crate) class: String,
    pub(crate) query: String,
    pub(crate) acceptable: Vec<String>,
}

pub(crate) fn fixtures() -> PathBuf {
    match std::env::var_os("SKILLS_SEARCH_FIXTURES") {
        Some(path) => path.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"),
    }
}

/// Reads all documents of the corpus.
pub(crate) fn documents() -> Vec<SearchDocument> {
    let mut paths: Vec<PathBuf> = fs::read_dir(fixtures().join("corpus"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    paths.sort();
    let document = |path: PathBuf| {
        let id = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        SearchDocument::from_skill(id.into(), &skill_meta(&text).unwrap(), &text)
    };
    paths.into_iter().map(document).collect()
}

/// Indexes documents.
pub(crate) fn partition(documents: &[SearchDocument]) -> Partition {
    let mut analyzer = Analyzer::default();
    let mut writer = PartitionWriter::default();
    writer.add(documents.iter().map(|document| analyzer.analyze(document)).collect());
    writer.snapshot()
}

/// Reads the judged queries.
pub(crate) fn queries() -> Vec<Judged> {
    let text = fs::read_to_string(fixtures().join("queries.tsv")).unwrap();
    let judged = |line: &str| {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap_or_else(|| panic!("{line}")).to_owned();
        let (class, query, ids) = (next(), next(), next());
        Judged { class, query, acceptable: ids.split(',').map(|id| id.trim().to_owned()).collect() }
    };
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(judged)
        .collect()
}

/// Searches without filters.
pub(crate) fn search(
    partition: &Partition,
    synonyms: &SynonymTable,
    query: &str,
    limit: usize,
) -> Vec<SearchHit> {
    let partitions = [partition];
    let searcher = Searcher::new(&partitions, synonyms);
    searcher.search(&Query::parse(query), 0, limit, &|_, _| Visibility::Shown).hits
}
