//! Parts of words that are written together: `readFile`, `HTTPServer`, `python3`.

use std::ops::Range;

/// Names that only look like compounds, folded and sorted. Splitting them would find Java in every page on JavaScript.
const SINGLE_NAMES: &[&str] = &[
    "airtable",
    "bigquery",
    "bitbucket",
    "chatgpt",
    "clickhouse",
    "clickup",
    "coffeescript",
    "datadog",
    "deepseek",
    "devops",
    "docusign",
    "duckdb",
    "dynamodb",
    "ebay",
    "fastapi",
    "github",
    "gitlab",
    "graphql",
    "hubspot",
    "ipad",
    "iphone",
    "javascript",
    "jquery",
    "langchain",
    "latex",
    "linkedin",
    "macos",
    "mailchimp",
    "mariadb",
    "matlab",
    "mlflow",
    "mongodb",
    "mysql",
    "nextjs",
    "nosql",
    "notebooklm",
    "numpy",
    "oauth",
    "onenote",
    "openai",
    "openapi",
    "paypal",
    "postgresql",
    "powerpoint",
    "powershell",
    "pytest",
    "pytorch",
    "quickbooks",
    "rabbitmq",
    "saas",
    "scikit",
    "sharepoint",
    "sqlite",
    "stackoverflow",
    "sveltekit",
    "tensorflow",
    "tiktok",
    "typescript",
    "webassembly",
    "webgl",
    "webrtc",
    "websocket",
    "whatsapp",
    "wordpress",
    "youtube",
];

#[derive(PartialEq, Clone, Copy)]
enum Class {
    Lower,
    Upper,
    Digit,
}

fn class(c: char) -> Class {
    if c.is_numeric() {
        Class::Digit
    } else if c.is_uppercase() {
        Class::Upper
    } else {
        Class::Lower
    }
}

/// Returns the parts of a word, if it has several. `folded` is the word as it is indexed.
pub(super) fn parts(word: &str, folded: &str, parts: &mut Vec<Range<usize>>) {
    parts.clear();
    let may_split = |c: char| c.is_uppercase() || c.is_numeric();
    if !word.chars().skip(1).any(may_split) || SINGLE_NAMES.binary_search(&folded).is_ok() {
        return;
    }
    let mut start = 0;
    let mut before: Option<Class> = None;
    let mut chars = word.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let class = class(c);
        let is_boundary = match (before, class) {
            (None, _) => false,
            (Some(Class::Digit), class) => class != Class::Digit,
            (Some(_), Class::Digit) | (Some(Class::Lower), Class::Upper) => true,
            // The last capital of `HTTPServer` begins the next part. A plural `PDFs` has none.
            (Some(Class::Upper), Class::Upper) => chars.peek().is_some_and(|&(_, next)| {
                next.is_lowercase() && !is_plural_ending(word, at + c.len_utf8())
            }),
            (Some(_), Class::Lower) => false,
        };
        if is_boundary && at > start {
            parts.push(start..at);
            start = at;
        }
        before = Some(class);
    }
    if start > 0 {
        parts.push(start..word.len());
    }
}

fn is_plural_ending(word: &str, at: usize) -> bool {
    &word[at..] == "s"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(word: &str) -> Vec<String> {
        let mut found = Vec::new();
        parts(word, &word.to_lowercase(), &mut found);
        found.into_iter().map(|range| word[range].to_owned()).collect()
    }

    #[test]
    fn words_are_split_where_case_or_digits_begin() {
        assert_eq!(split("readFile"), ["read", "File"]);
        assert_eq!(split("HTTPServer"), ["HTTP", "Server"]);
        assert_eq!(split("python3"), ["python", "3"]);
        assert_eq!(split("k8s"), ["k", "8", "s"]);
        assert_eq!(split("DataFrame"), ["Data", "Frame"]);
        for whole in ["word", "Word", "PDF", "PDFs", "GitHub", "JavaScript", "APIs"] {
            assert!(split(whole).is_empty(), "{whole}: {:?}", split(whole));
        }
    }

    #[test]
    fn the_names_are_sorted() {
        assert!(SINGLE_NAMES.is_sorted());
    }
}
