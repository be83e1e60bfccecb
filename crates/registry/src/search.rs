//! Finding skills by words. Only what the catalog holds is looked at: id, title and description.

use std::{cmp::Reverse, sync::Arc};

use crate::{Catalog, SkillRow};

/// More words than this do not make a query more precise, only more expensive.
const MAX_WORDS: usize = 16;

/// The skills that match a query, the best first; of ties what is stored comes first, and then they are in the order of their ids. A skill matches if
/// it has any of the words; one that has more of them is better, and a word counts most in an id, then in
/// a title.
#[must_use]
pub fn search<'a>(catalog: &'a Catalog, query: &str, limit: usize) -> Vec<&'a Arc<SkillRow>> {
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split_whitespace().take(MAX_WORDS).collect();
    if words.is_empty() {
        let rows =
            |is_live: bool| catalog.skills_after(None).filter(move |row| row.is_live() == is_live);
        return rows(false).chain(rows(true)).take(limit).collect();
    }
    let mut hits: Vec<(Score, &Arc<SkillRow>)> = catalog
        .skills_after(None)
        .filter_map(|row| Score::of(row, &words).map(|score| (score, row)))
        .collect();
    // Stable, so that ties keep the order of the catalog.
    hits.sort_by_key(|(score, row)| (Reverse(*score), row.is_live()));
    hits.into_iter().take(limit).map(|(_, row)| row).collect()
}

/// How well a skill fits, the more important part first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    words: usize,
    weight: usize,
}

impl Score {
    fn of(row: &SkillRow, words: &[&str]) -> Option<Self> {
        let text = row.search_text();
        let mut score = Self { words: 0, weight: 0 };
        for word in words.iter().filter(|word| text.contains(**word)) {
            let mut lines = text.splitn(3, '\n');
            let (id, title) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
            score.words += 1;
            score.weight += match () {
                () if id == *word => 16,
                () if id.contains(word) => 8,
                () if title.contains(word) => 4,
                () => 1,
            };
        }
        (score.words > 0).then_some(score)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::of_documents;

    fn found(query: &str, limit: usize) -> Vec<String> {
        let catalog = of_documents(&[
            ("billing", "# Money\n\nRefunds and invoices."),
            ("brain", "# Brain\n\nSummarise text."),
            ("pdf", "# Documents\n\nExtract text from PDF files."),
            ("refunds", "# Refunds\n\nGive money back."),
        ]);
        search(&catalog, query, limit).iter().map(|row| row.id.to_string()).collect()
    }

    #[test]
    fn ids_before_titles_before_descriptions() {
        assert_eq!(found("refunds", 9), ["refunds", "billing"]);
        assert_eq!(found("MONEY", 9), ["billing", "refunds"]);
        assert_eq!(found("text", 9), ["brain", "pdf"]);
    }

    #[test]
    fn more_words_are_better_than_a_better_place() {
        assert_eq!(found("extract text", 9), ["pdf", "brain"]);
    }

    #[test]
    fn bounded_and_empty() {
        assert_eq!(found("text", 1), ["brain"]);
        assert_eq!(found("  ", 2), ["billing", "brain"]);
        assert!(found("nothing-like-it", 9).is_empty());
    }
}
