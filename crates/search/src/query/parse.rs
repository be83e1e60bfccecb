//! The query language: words, `"phrases"`, `-word`, and filters such as `kind:tool`.

use skills_core::Tier;

use crate::{
    analysis::name_key,
    document::HitKind,
    text::{TokenKind, Tokenizer, cjk_weight, fold, is_generic_word, is_stop_word},
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
    pub(crate) phrases: Vec<Vec<String>>,
    pub(crate) excluded: Vec<String>,
    filters: QueryFilters,
}

impl Query {
    /// Parses a query. Every text is one; the part after [`MAX_QUERY_BYTES`] is ignored.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text = &text[..text.floor_char_boundary(MAX_QUERY_BYTES)];
        let raw = fold(text.trim()).into_owned();
        let mut query = Self { is_id_like: is_id_like(&raw), raw, ..Self::default() };
        let mut plain = String::new();
        let clauses = Clauses { rest: text };
        for clause in clauses {
            match clause {
                Clause::Phrase(phrase) => {
                    query.add_phrase(phrase);
                    plain.push_str(phrase);
                }
                // An id may begin with a hyphen, and a query that only excludes something is rare.
                Clause::Excluded(_) if query.is_id_like => plain.push_str(text.trim()),
                Clause::Excluded(word) => query.exclude(word),
                Clause::Word(word) => {
                    if !query.add_filter(word) {
                        plain.push_str(word);
                    }
                }
            }
            plain.push(' ');
        }
        query.words = words(&plain);
        query.has_text = !plain.trim().is_empty();
        query.name_key = name_key(&plain);
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

    /// Returns whether the query has no text, so that its filters alone decide.
    #[must_use]
    pub const fn is_listing(&self) -> bool {
        !self.has_text
    }

    fn add_phrase(&mut self, phrase: &str) {
        let terms = crate::text::terms(phrase);
        if !terms.is_empty() && self.phrases.len() < MAX_CLAUSES {
            self.phrases.push(terms.into_iter().take(MAX_CLAUSES).collect());
        }
    }

    fn exclude(&mut self, word: &str) {
        let room = MAX_CLAUSES.saturating_sub(self.excluded.len());
        self.excluded.extend(crate::text::terms(word).into_iter().take(room));
    }

    /// Adds a filter. Returns whether the word is one.
    fn add_filter(&mut self, word: &str) -> bool {
        let Some((field, value)) = word.split_once(':') else { return false };
        let filters = &mut self.filters;
        let value = fold(value.trim_matches(['"', ','])).into_owned();
        if value.is_empty() {
            return false;
        }
        match fold(field).as_ref() {
            "tag" if filters.tags.len() < MAX_CLAUSES => filters.tags.push(value),
            "tool" if filters.tools.len() < MAX_CLAUSES => filters.tools.push(value),
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
            let is_stop_word = is_stop_word(token.folded);
            let list = if is_stop_word { &mut stop_words } else { &mut words };
            if list.len() < MAX_WORDS {
                let (term, folded) = (token.term.to_owned(), token.folded.to_owned());
                list.push(QueryWord { term, folded, parts: vec![], weight, is_bigram });
            }
        }
    });
    if words.is_empty() { stop_words } else { words }
}

/// Part of a query between blanks or quotes.
enum Clause<'a> {
    Word(&'a str),
    Phrase(&'a str),
    Excluded(&'a str),
}

struct Clauses<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Clauses<'a> {
    type Item = Clause<'a>;

    fn next(&mut self) -> Option<Clause<'a>> {
        let is_quote = |c: char| matches!(c, '"' | '\u{201c}' | '\u{201d}');
        let text = self.rest.trim_start();
        let first = text.chars().next()?;
        if is_quote(first) {
            let inside = &text[first.len_utf8()..];
            // A quote that is not closed is no quote.
            let Some(end) = inside.find(is_quote) else {
                self.rest = inside;
                return self.next();
            };
            let close = inside[end..].chars().next().map_or(0, char::len_utf8);
            self.rest = &inside[end + close..];
            return Some(Clause::Phrase(&inside[..end]));
        }
        // A filter may have a quoted value.
        let has_quoted_value = |at: usize| text[..at].ends_with(':');
        let end = text
            .char_indices()
            .find(|&(at, c)| c.is_whitespace() || (is_quote(c) && !has_quoted_value(at)))
            .map_or(text.len(), |(at, _)| at);
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        match word.strip_prefix('-') {
            Some(excluded) if excluded.starts_with(char::is_alphanumeric) => {
                Some(Clause::Excluded(excluded))
            }
            _ => Some(Clause::Word(word)),
        }
    }
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
        assert_eq!(query.phrases, [["pull", "request"]]);
        assert_eq!(query.excluded, ["draft"]);
        let filters = query.filters();
        assert_eq!(
            (&*filters.tags, &*filters.tools),
            (&["git".to_owned()][..], &["bash".to_owned()][..])
        );
        assert_eq!((&*filters.tiers, &*filters.kinds), (&[Tier::Market][..], &[HitKind::Tool][..]));
        assert!(!filters.live && Query::parse("kind:live").filters().live);
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
