//! The query language: words, `"phrases"`, filters such as `kind:tool`, and each of these after `-` to exclude it.

use skills_core::Tier;

use super::clauses::{Clause, Clauses, is_quote};
use crate::{
    analysis::name_key,
    document::HitKind,
    text::{TokenKind, Tokenizer, cjk_weight, fold, is_generic_word},
};

/// Bytes of a query that are read. An agent may send a page of context.
pub const MAX_QUERY_BYTES: usize = 8 * 1024;
/// Most distinct words of a query.
const MAX_WORDS: usize = 256;
/// Most phrases, excluded words and filters of a query, each.
const MAX_CLAUSES: usize = 16;
/// Weight of a word that names tasks in general.
const GENERIC_WEIGHT: f32 = 0.45;

/// Word of a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryWord {
    /// Folded and stemmed.
    pub(crate) term: String,
    /// Folded.
    pub(crate) folded: String,
    /// Terms of its parts, if it is a compound such as `readFile`.
    pub(crate) parts: Vec<String>,
    /// Weight among the words of the query.
    pub(crate) weight: f32,
    /// Whether it is a pair of characters.
    pub(crate) is_bigram: bool,
}

/// Phrase of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Phrase {
    /// Terms in order.
    pub(crate) terms: Vec<String>,
    /// Terms that every document with the phrase has in the index. Stop words are indexed in names only.
    pub(crate) indexed: Vec<String>,
}

impl Phrase {
    fn parse(text: &str) -> Option<Self> {
        let (mut terms, mut indexed) = (Vec::new(), Vec::new());
        Tokenizer::default().for_each(text, |token| {
            if terms.len() < MAX_CLAUSES
                && matches!(token.kind, TokenKind::Word | TokenKind::Bigram)
            {
                terms.push(token.term.to_owned());
                if !token.is_stop_word {
                    indexed.push(token.term.to_owned());
                }
            }
        });
        (!terms.is_empty()).then_some(Self { terms, indexed })
    }
}

/// Filters of a query. Within a field any value fits; all fields must fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryFilters {
    /// Folded tags.
    pub tags: Vec<String>,
    /// Folded names of allowed tools.
    pub tools: Vec<String>,
    /// Tiers.
    pub tiers: Vec<Tier>,
    /// Kinds.
    pub kinds: Vec<HitKind>,
    /// Only entries of live clients.
    pub live: bool,
}

/// Parsed query.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Text without filters, in the form in which names are compared.
    pub(crate) name_key: String,
    /// Folded text as it was written.
    pub(crate) raw: String,
    /// Whether the text is written like an id: one word with separators.
    pub(crate) is_id_like: bool,
    /// Whether there is text beside filters and excluded words, be it words or not.
    has_text: bool,
    pub(crate) words: Vec<QueryWord>,
    pub(crate) phrases: Vec<Phrase>,
    /// Excluded words. One of several terms, such as `code-review`, excludes documents that have all of them.
    pub(crate) excluded: Vec<Vec<String>>,
    pub(crate) excluded_phrases: Vec<Phrase>,
    filters: QueryFilters,
    excluded_filters: QueryFilters,
}

impl Query {
    /// Parses a query. Every text is one; the part after [`MAX_QUERY_BYTES`] is ignored.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text = &text[..text.floor_char_boundary(MAX_QUERY_BYTES)];
        let mut query = Self::default();
        // An id may begin with a hyphen, and a query that only excludes something is rare.
        let is_id = is_id_like(text.trim());
        let mut plain = String::new();
        for clause in Clauses::new(text) {
            match clause {
                Clause { text: phrase, is_phrase: true, is_excluded } => {
                    query.add_phrase(phrase, is_excluded);
                    if is_excluded {
                        continue;
                    }
                    plain.push_str(phrase);
                }
                Clause { text: word, is_excluded: true, .. } if !is_id => {
                    if !add_filter(&mut query.excluded_filters, word) {
                        query.exclude(word);
                    }
                    continue;
                }
                Clause { is_excluded: true, .. } => plain.push_str(text.trim()),
                Clause { text: word, .. } => {
                    if add_filter(&mut query.filters, word) {
                        continue;
                    }
                    plain.push_str(word);
                }
            }
            plain.push(' ');
        }
        let plain = plain.trim();
        query.words = words(plain);
        query.has_text = !plain.is_empty();
        query.name_key = name_key(plain);
        query.raw = fold(plain).into_owned();
        query.is_id_like = is_id_like(&query.raw);
        query
    }

    /// Returns the filters.
    #[must_use]
    pub const fn filters(&self) -> &QueryFilters {
        &self.filters
    }

    /// Returns the filters, to add those of request parameters.
    pub const fn filters_mut(&mut self) -> &mut QueryFilters {
        &mut self.filters
    }

    /// Returns the filters that no result may fit.
    #[must_use]
    pub const fn excluded_filters(&self) -> &QueryFilters {
        &self.excluded_filters
    }

    /// Returns whether the query has no text, so that its filters alone decide.
    #[must_use]
    pub const fn is_listing(&self) -> bool {
        !self.has_text
    }

    fn add_phrase(&mut self, phrase: &str, is_excluded: bool) {
        let Some(phrase) = Phrase::parse(phrase) else { return };
        let list = if is_excluded { &mut self.excluded_phrases } else { &mut self.phrases };
        if list.len() < MAX_CLAUSES {
            list.push(phrase);
        }
    }

    fn exclude(&mut self, word: &str) {
        let Some(Phrase { terms, indexed }) = Phrase::parse(word) else { return };
        if self.excluded.len() < MAX_CLAUSES {
            self.excluded.push(if indexed.is_empty() { terms } else { indexed });
        }
    }
}

/// Adds a filter. Returns whether the word is one.
fn add_filter(filters: &mut QueryFilters, word: &str) -> bool {
    let Some((field, value)) = word.split_once(':') else { return false };
    let is_delimiter = |c: char| is_quote(c) || c == ',';
    let value = fold(value.trim_matches(is_delimiter)).into_owned();
    if value.is_empty() {
        return false;
    }
    match fold(field).as_ref() {
        "tag" if filters.tags.len() < MAX_CLAUSES => filters.tags.push(value),
        "tool" if filters.tools.len() < MAX_CLAUSES => filters.tools.push(value),
        // A further one of a full list is still no word.
        "tag" | "tool" => {}
        "tier" => match value.parse() {
            Ok(tier) if !filters.tiers.contains(&tier) => filters.tiers.push(tier),
            Ok(_) => {}
            Err(_) => return false,
        },
        "kind" if value == "live" => filters.live = true,
        "kind" => match HitKind::parse(&value) {
            Some(kind) if !filters.kinds.contains(&kind) => filters.kinds.push(kind),
            Some(_) => {}
            None => return false,
        },
        _ => return false,
    }
    true
}

fn is_id_like(text: &str) -> bool {
    let is_id_char = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    text.contains(['-', '_']) && text.chars().all(is_id_char)
}

/// Returns the distinct words of a text with their weights. Stop words are dropped unless there are no others.
fn words(text: &str) -> Vec<QueryWord> {
    let mut words: Vec<QueryWord> = Vec::new();
    let mut stop_words: Vec<QueryWord> = Vec::new();
    Tokenizer::default().for_each(text, |token| match token.kind {
        TokenKind::Joined => {}
        TokenKind::Part => {
            if let Some(last) = words.last_mut() {
                last.parts.push(token.term.to_owned());
            }
        }
        TokenKind::Word | TokenKind::Bigram => {
            let is_bigram = token.kind == TokenKind::Bigram;
            let weight = match token.folded {
                _ if is_bigram => cjk_weight(token.term),
                word if is_generic_word(word) => GENERIC_WEIGHT,
                _ => 1.0,
            };
            let list = if token.is_stop_word { &mut stop_words } else { &mut words };
            if list.len() < MAX_WORDS {
                let (term, folded) = (token.term.to_owned(), token.folded.to_owned());
                list.push(QueryWord { term, folded, parts: vec![], weight, is_bigram });
            }
        }
    });
    if words.is_empty() { stop_words } else { words }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn folded(query: &Query) -> Vec<&str> {
        query.words.iter().map(|word| word.folded.as_str()).collect()
    }

    #[test]
    fn clauses_are_told_apart() {
        let query = Query::parse(
            "Read \"pull request\" -draft tag:Git tool:Bash tier:market kind:tool well-known",
        );
        assert_eq!(folded(&query), ["read", "pull", "request", "well", "known"]);
        assert_eq!(query.phrases.len(), 1);
        assert_eq!(query.phrases[0].terms, ["pull", "request"]);
        assert_eq!(query.excluded, [["draft"]]);
        let filters = query.filters();
        assert_eq!(
            (&*filters.tags, &*filters.tools),
            (&["git".to_owned()][..], &["bash".to_owned()][..])
        );
        assert_eq!((&*filters.tiers, &*filters.kinds), (&[Tier::Market][..], &[HitKind::Tool][..]));
        assert!(!filters.live && Query::parse("kind:live").filters().live);
    }

    #[test]
    fn every_kind_of_clause_can_be_excluded() {
        let query = Query::parse(
            "tables -\"pull request\" -code-review -proof-of-concept -tag:\"Data entry\" -tier:market -kind:live -a:b",
        );
        assert_eq!(folded(&query), ["tables"]);
        assert!(query.phrases.is_empty());
        assert_eq!(query.excluded_phrases.len(), 1);
        assert_eq!(query.excluded_phrases[0].terms, ["pull", "request"]);
        assert_eq!(
            query.excluded,
            [vec!["code", "review"], vec!["proof", "concept"], vec!["b"]],
            "stop words are not in every document that has them"
        );
        assert_eq!(query.filters(), &QueryFilters::default());
        let excluded = query.excluded_filters();
        assert_eq!(excluded.tags, ["data entry"]);
        assert!(excluded.live && excluded.tiers == [Tier::Market]);
        assert!(Query::parse("kind:skill -\"a b\"").is_listing());
    }

    #[test]
    fn clauses_do_not_change_the_name_in_a_query() {
        for text in ["code-review kind:skill", "tier:market Code-Review -draft", "\"code-review\""]
        {
            let query = Query::parse(text);
            assert!(query.is_id_like, "{text}");
            assert_eq!(
                (query.raw.as_str(), query.name_key.as_str()),
                ("code-review", "code review")
            );
        }
        assert!(!Query::parse("code review -well-known").is_id_like);
    }

    #[test]
    fn stop_words_count_only_alone() {
        assert_eq!(folded(&Query::parse("how do I read the PDF?")), ["read", "pdf"]);
        assert_eq!(folded(&Query::parse("how to")), ["how", "to"]);
        assert!(Query::parse("  \0 .*+?()[] ").words.is_empty());
        assert!(Query::parse(" kind:tool -a ").is_listing() && !Query::parse("?").is_listing());
        assert_eq!(folded(&Query::parse("-draft")), ["draft"], "an id");
    }

    #[test]
    fn what_is_no_clause_is_a_word() {
        assert_eq!(folded(&Query::parse("\"open quote")), ["open", "quote"]);
        assert_eq!(folded(&Query::parse("-\"open quote")), ["open", "quote"]);
        assert_eq!(Query::parse("tag:\"open quote").filters().tags, ["open"]);
        assert_eq!(folded(&Query::parse("kind:nothing - a:b")), ["kind", "nothing", "b"]);
        assert_eq!(Query::parse("Code-Review").name_key, "code review");
    }

    #[test]
    fn long_queries_are_cut() {
        let long = Query::parse(&"é word ".repeat(20_000));
        assert!(long.words.len() <= MAX_WORDS);
        let many: String = (0..10_000).map(|number| format!("-w{number} tag:t{number} ")).collect();
        let many = Query::parse(&many);
        assert!(many.excluded.len() <= MAX_CLAUSES && many.filters().tags.len() <= MAX_CLAUSES);
    }

    proptest! {
        #[test]
        fn every_text_is_a_query(text in "\\PC{0,60}") {
            let _ = Query::parse(&text);
        }
    }
}
