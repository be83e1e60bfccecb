//! Sentences of a description that say when not to use a skill. Their words would otherwise route exactly the wrong
//! requests to it.

/// Beginnings of clauses that exclude a use, in lower case.
const OPENINGS: [&str; 12] = [
    "do not use",
    "do not trigger",
    "don't use",
    "don't trigger",
    "not for ",
    "not intended for",
    "not to be used",
    "never use",
    "not when",
    "skip when",
    "skip for",
    "should not be used",
];

/// Splits a description into what the skill is for and what it is not for.
pub(super) fn split(description: &str) -> (String, String) {
    let (mut positive, mut negative) = (String::new(), String::new());
    for sentence in sentences(description) {
        // `to_ascii_lowercase` keeps byte positions.
        let lower = sentence.to_ascii_lowercase();
        let at = OPENINGS.iter().filter_map(|opening| lower.find(opening)).min();
        let (kept, excluded) = sentence.split_at(at.unwrap_or(sentence.len()));
        positive.push_str(kept);
        negative.push_str(excluded);
    }
    (positive, negative)
}

/// Iterates over the sentences of a text, with their ends.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(['\n', '!', '?', '。', '；', ';']).flat_map(|part| split_after(part, ". "))
}

fn split_after<'a>(text: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        match text.find(end) {
            Some(at) => {
                let (first, others) = text.split_at(at + end.len());
                rest = Some(others);
                Some(first)
            }
            None => Some(text),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_uses_are_split_off() {
        let (positive, negative) =
            split("Edits Word files. Do NOT use for PDFs or sheets. Use when asked for a memo.");
        assert_eq!(positive, "Edits Word files. Use when asked for a memo.");
        assert_eq!(negative, "Do NOT use for PDFs or sheets. ");
        let (positive, negative) = split("Plans sprints (not for roadmaps)");
        assert_eq!(
            (positive.as_str(), negative.as_str()),
            ("Plans sprints (", "not for roadmaps)")
        );
        assert_eq!(split("Plain. Text").1, "");
    }
}
