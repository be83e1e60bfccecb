//! Clauses of a query: words and quoted phrases, each with or without a hyphen before it.

/// Part of a query between blanks or quotes.
pub(super) struct Clause<'a> {
    pub(super) text: &'a str,
    pub(super) is_phrase: bool,
    pub(super) is_excluded: bool,
}

/// Iterator over the clauses of a query.
pub(super) struct Clauses<'a> {
    rest: &'a str,
}

impl<'a> Clauses<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { rest: text }
    }
}

impl<'a> Iterator for Clauses<'a> {
    type Item = Clause<'a>;

    fn next(&mut self) -> Option<Clause<'a>> {
        let text = self.rest.trim_start();
        let first = text.chars().next()?;
        let after_hyphen = text.strip_prefix('-');
        let is_excluded = after_hyphen
            .is_some_and(|after| after.starts_with(|c: char| c.is_alphanumeric() || is_quote(c)));
        let body = after_hyphen.filter(|_| is_excluded).unwrap_or(text);
        if let Some((text, rest)) = quoted(body) {
            self.rest = rest;
            return Some(Clause { text, is_phrase: true, is_excluded });
        }
        // A quote that is not closed is no quote.
        if body.starts_with(is_quote) {
            self.rest = &text[first.len_utf8()..];
            return self.next();
        }
        let end = word_end(body);
        self.rest = &body[end..];
        Some(Clause { text: &body[..end], is_phrase: false, is_excluded })
    }
}

/// Splits a text that begins with a quote that is closed into what is quoted and the rest.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let mut chars = text.chars();
    chars.next().filter(|c| is_quote(*c))?;
    let inside = chars.as_str();
    let end = inside.find(is_quote)?;
    let close = inside[end..].chars().next().map_or(0, char::len_utf8);
    Some((&inside[..end], &inside[end + close..]))
}

/// Returns the end of the word at the start of a text. The value of a filter may be quoted: `tag:"data entry"`.
fn word_end(text: &str) -> usize {
    let end = text.find(|c: char| c.is_whitespace() || is_quote(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    match quoted(rest) {
        Some((_, after)) if word.ends_with(':') => text.len() - after.len(),
        _ if word.ends_with(':') && rest.starts_with(is_quote) => {
            let after = rest.find(char::is_whitespace).unwrap_or(rest.len());
            end + after
        }
        _ => end,
    }
}

/// Returns whether a character opens or closes a phrase.
pub(super) const fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\u{201c}' | '\u{201d}')
}
