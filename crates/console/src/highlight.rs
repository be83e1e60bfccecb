//! Highlighting of code: comments, strings, numbers and the keywords that most languages share.
//!
//! Deliberately small: one pass over the text, no grammars. A language only decides what begins a comment, so code in
//! an unknown language is readable too.

use maud::{Escaper, Markup, PreEscaped};
use std::fmt::Write as _;

/// Words that are highlighted, sorted.
const KEYWORDS: [&str; 62] = [
    "and",
    "as",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "def",
    "do",
    "done",
    "elif",
    "else",
    "enum",
    "esac",
    "except",
    "export",
    "extends",
    "false",
    "fi",
    "finally",
    "fn",
    "for",
    "from",
    "func",
    "function",
    "if",
    "impl",
    "import",
    "in",
    "interface",
    "is",
    "let",
    "local",
    "loop",
    "match",
    "mod",
    "mut",
    "new",
    "nil",
    "none",
    "not",
    "null",
    "or",
    "pub",
    "raise",
    "return",
    "self",
    "static",
    "struct",
    "switch",
    "then",
    "throw",
    "trait",
    "true",
    "try",
    "use",
    "var",
    "while",
    "with",
];

/// Longest code that is highlighted; longer code is only escaped.
const MAX_BYTES: usize = 256 << 10;

/// Marks of comments of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Comments {
    line: &'static [&'static str],
    block: Option<(&'static str, &'static str)>,
}

const HASH: Comments = Comments { line: &["#"], block: None };
const SLASHES: Comments = Comments { line: &["//"], block: Some(("/*", "*/")) };
const DASHES: Comments = Comments { line: &["--"], block: Some(("/*", "*/")) };
const MARKUP: Comments = Comments { line: &[], block: Some(("<!--", "-->")) };
const NO_COMMENTS: Comments = Comments { line: &[], block: None };

/// Returns the comments of a language, by the word after the fence or the ending of a file; `None` for plain text.
fn comments(language: &str) -> Option<Comments> {
    Some(match language.to_ascii_lowercase().as_str() {
        "sh" | "bash" | "shell" | "console" | "zsh" | "py" | "python" | "rb" | "ruby" | "yaml"
        | "yml" | "toml" | "r" | "make" | "makefile" | "dockerfile" | "ini" | "cfg" => HASH,
        "rs" | "rust" | "js" | "mjs" | "cjs" | "javascript" | "ts" | "tsx" | "jsx"
        | "typescript" | "c" | "h" | "cpp" | "cc" | "java" | "go" | "kt" | "kotlin" | "swift"
        | "cs" | "css" | "scss" | "php" | "scala" | "jsonc" => SLASHES,
        "sql" | "lua" | "hs" | "haskell" => DASHES,
        "html" | "xml" | "svg" => MARKUP,
        "json" => NO_COMMENTS,
        _ => return None,
    })
}

/// Renders code in a language as HTML with spans, at most a number of them: a span takes many times the memory of a short
/// word. Code after the last one is plain.
pub(crate) fn highlight(code: &str, language: &str, max_spans: usize) -> Markup {
    let mut html = String::with_capacity(code.len() + code.len() / 4);
    match comments(language).filter(|_| code.len() <= MAX_BYTES) {
        Some(comments) => {
            Highlighter::new(code, comments, max_spans, &mut html).run();
        }
        None => escape(&mut html, code),
    }
    PreEscaped(html)
}

/// Returns the language of a file by its ending.
pub(crate) fn language_of(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or(name, |(_, ending)| ending)
}

fn escape(html: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = Escaper::new(html).write_str(text);
}

/// Quotes that begin and end a string.
const QUOTES: [char; 3] = ['"', '\'', '`'];

struct Highlighter<'a> {
    code: &'a str,
    comments: Comments,
    html: &'a mut String,
    spans_left: usize,
    /// Position up to which no quote of a kind closes a string. A quote that a failed search passed was escaped, so a
    /// search that starts at it would fail too: each line is searched at most once for each kind.
    unclosed_until: [usize; QUOTES.len()],
    /// Bytes that searches for closing quotes have read.
    searched: usize,
}

impl<'a> Highlighter<'a> {
    const fn new(
        code: &'a str,
        comments: Comments,
        max_spans: usize,
        html: &'a mut String,
    ) -> Self {
        let (unclosed_until, searched) = ([0; QUOTES.len()], 0);
        Self { code, comments, html, spans_left: max_spans, unclosed_until, searched }
    }

    /// Highlights the code, and returns the bytes that were read for closing quotes.
    fn run(mut self) -> usize {
        let mut at = 0;
        while at < self.code.len() {
            let rest = &self.code[at..];
            if self.spans_left == 0 {
                self.push(None, rest);
                break;
            }
            let (class, len) = self.token(rest, at);
            self.push(class, &rest[..len]);
            at += len;
        }
        self.searched
    }

    /// Returns the class and the length of the token that a text begins with.
    fn token(&mut self, rest: &str, at: usize) -> (Option<&'static str>, usize) {
        if let Some(len) = self.comment(rest, at) {
            return (Some("hl-c"), len);
        }
        let Some(first) = rest.chars().next() else { return (None, 1) };
        match first {
            '"' | '\'' | '`' => {
                self.string(rest, first, at).map_or((None, 1), |len| (Some("hl-s"), len))
            }
            '0'..='9' => (
                Some("hl-n"),
                prefix_len(rest, |c| c.is_ascii_alphanumeric() || c == '.' || c == '_'),
            ),
            c if c.is_alphabetic() || c == '_' => {
                let len = prefix_len(rest, |c| c.is_alphanumeric() || c == '_');
                let word = rest[..len].to_ascii_lowercase();
                (KEYWORDS.binary_search(&word.as_str()).is_ok().then_some("hl-k"), len)
            }
            _ => {
                let is_other = |c: char| !c.is_alphanumeric() && !"\"'`_#/-<".contains(c);
                (None, prefix_len(rest, is_other).max(first.len_utf8()))
            }
        }
    }

    fn comment(&self, rest: &str, at: usize) -> Option<usize> {
        let before = self.code[..at].chars().next_back();
        // `#` in a word or a URL fragment is none.
        let is_start = before.is_none_or(|c| c.is_whitespace() || ";{}()".contains(c));
        if is_start && self.comments.line.iter().any(|mark| rest.starts_with(mark)) {
            return Some(rest.find('\n').unwrap_or(rest.len()));
        }
        let (open, close) = self.comments.block?;
        let inner = rest.strip_prefix(open)?;
        let end = inner.find(close).map(|end| open.len() + end + close.len());
        Some(end.unwrap_or(rest.len()))
    }

    /// Returns the length of the string that a text begins with; `None` if it does not end on its line.
    fn string(&mut self, rest: &str, quote: char, at: usize) -> Option<usize> {
        let kind = QUOTES.iter().position(|it| *it == quote)?;
        if at < self.unclosed_until[kind] {
            return None;
        }
        let (len, is_closed) = string_len(rest, quote);
        self.searched += len;
        if is_closed {
            return Some(len);
        }
        self.unclosed_until[kind] = at + len;
        None
    }

    fn push(&mut self, class: Option<&str>, text: &str) {
        match class {
            Some(class) => {
                self.spans_left -= 1;
                self.html.push_str("<span class=\"");
                self.html.push_str(class);
                self.html.push_str("\">");
                escape(self.html, text);
                self.html.push_str("</span>");
            }
            None => escape(self.html, text),
        }
    }
}

/// Returns the bytes up to the closing quote or the end of the line, and whether there is a closing quote.
fn string_len(rest: &str, quote: char) -> (usize, bool) {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => return (at, false),
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return (at + c.len_utf8(), true),
            _ => {}
        }
    }
    (rest.len(), false)
}

fn prefix_len(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(code: &str, language: &str) -> String {
        highlight(code, language, MAX_BYTES).into_string()
    }

    #[test]
    fn comments_strings_keywords_and_numbers_are_marked() {
        assert!(KEYWORDS.is_sorted());
        assert_eq!(
            html("if x == 12: # yes", "python"),
            "<span class=\"hl-k\">if</span> x == <span class=\"hl-n\">12</span>: <span class=\"hl-c\"># yes</span>"
        );
        assert_eq!(
            html("let a = \"<b>\"; // c", "rust"),
            "<span class=\"hl-k\">let</span> a = <span class=\"hl-s\">&quot;&lt;b&gt;&quot;</span>; <span class=\"hl-c\">// c</span>"
        );
        assert_eq!(html("curl a#b", "sh"), "curl a#b");
        assert_eq!(html("it's fine\nnext", "sh"), "it's fine\nnext");
    }

    #[test]
    fn text_in_an_unknown_language_is_only_escaped() {
        assert_eq!(html("if <x>", "nonsense\"><script>"), "if &lt;x&gt;");
        assert_eq!(html("/* open", "c"), "<span class=\"hl-c\">/* open</span>");
    }

    #[test]
    fn the_search_for_closing_quotes_takes_linear_time() {
        for part in ["'\\", "\"\\'\\`\\", "'\\\"\\", "'\n", "it's \"a\\\" `\\` ", "\\'"] {
            let code = part.repeat(MAX_BYTES / part.len());
            let mut html = String::new();
            let searched = Highlighter::new(&code, HASH, MAX_BYTES, &mut html).run();
            assert!(searched <= 3 * code.len(), "{part:?}: {searched} of {}", code.len());
        }
        assert_eq!(
            html("'\\' 'a' \"b\"", "sh"),
            "<span class=\"hl-s\">'\\' '</span>a' <span class=\"hl-s\">&quot;b&quot;</span>"
        );
        assert_eq!(html("it's\n'a'", "sh"), "it's\n<span class=\"hl-s\">'a'</span>");
    }

    #[test]
    fn code_after_the_last_span_is_plain() {
        let html = highlight("1 \"<\" 2 <3", "json", 2).into_string();
        let expected =
            "<span class=\"hl-n\">1</span> <span class=\"hl-s\">&quot;&lt;&quot;</span> 2 &lt;3";
        assert_eq!(html, expected);
    }

    #[test]
    fn no_text_is_lost() {
        let code = "a\"b\\\"c\" 'x' é—# /* */ -- <!-- 1.5e3 \u{1F600} `\n";
        for language in ["sh", "rust", "sql", "html", "json"] {
            let html = html(code, language);
            let mut plain = String::new();
            let mut in_tag = false;
            for c in html.chars() {
                match c {
                    '<' => in_tag = true,
                    '>' => in_tag = false,
                    c if !in_tag => plain.push(c),
                    _ => {}
                }
            }
            let plain = plain.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
            assert_eq!(plain.replace("&amp;", "&"), code, "{language}");
        }
    }
}
