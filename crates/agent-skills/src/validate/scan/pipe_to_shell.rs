//! Scanner for commands that run what they download: `curl … | sh`, `bash <(curl …)`, `sh -c "$(wget …)"`.
//!
//! Parses just enough shell for a warning: words, pipes, separators and substitutions.

use super::super::{findings::Findings, rules};

const FETCHERS: [&str; 6] =
    ["curl", "wget", "iwr", "irm", "invoke-webrequest", "invoke-restmethod"];
/// Programs that run their input.
const SHELLS: [&str; 10] =
    ["sh", "bash", "zsh", "dash", "ksh", "fish", "iex", "invoke-expression", "eval", "source"];
/// Programs that run their input unless they are given a script.
const INTERPRETERS: [&str; 6] = ["python", "python3", "perl", "ruby", "node", "php"];
/// Programs that run the command after them.
const PREFIXES: [&str; 7] = ["sudo", "env", "exec", "command", "nohup", "time", "doas"];

pub(super) fn check(document: &str, findings: &mut Findings) {
    if !has_fetcher(document.as_bytes()) {
        return;
    }
    let mut command = Command::default();
    let mut goes_on = false;
    for (start, line) in super::lines(document) {
        if !goes_on {
            command = Command::default();
            // Between the bars of a table are cells, not commands.
            command.is_table = line.trim_start().starts_with('|');
        }
        let trimmed = line.trim_end();
        goes_on = trimmed.ends_with(['\\', '|']) && !command.is_table;
        for (at, token) in tokens(trimmed) {
            command.read(token, start + at);
        }
        if !goes_on {
            command.read(Token::Separator, start + line.len());
        }
        if let Some(at) = command.found.take().filter(|_| !command.is_table) {
            findings.add(&rules::PIPE_TO_SHELL, at, "a command runs what it downloads");
            command = Command { is_reported: true, ..Command::default() };
        }
    }
}

/// Returns whether a document mentions a download command. Most do not, and need no tokenising.
fn has_fetcher(document: &[u8]) -> bool {
    let starts = |rest: &[u8], name: &str| {
        rest.get(..name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
    };
    document.iter().enumerate().any(|(at, byte)| {
        matches!(byte.to_ascii_lowercase(), b'c' | b'w' | b'i')
            && FETCHERS.iter().any(|name| starts(&document[at..], name))
    })
}

/// State of the command line that is being read.
#[derive(Default)]
struct Command {
    is_table: bool,
    is_reported: bool,
    /// Offset of the download command, and whether it has an address.
    fetch: Option<(usize, bool)>,
    /// True once the program of the current command was read.
    is_past_program: bool,
    is_piped: bool,
    /// Offset of a shell, and whether a substitution feeds it.
    runs: Option<usize>,
    is_substituted: bool,
    /// Offset of the download that feeds an interpreter, until its next argument is known.
    pending: Option<usize>,
    found: Option<usize>,
}

impl Command {
    fn read(&mut self, token: Token<'_>, at: usize) {
        let pending = self.pending.take();
        if let Some(pending) = pending
            && !matches!(token, Token::Word(word) if word != "-")
        {
            self.find(pending);
        }
        match token {
            Token::Word(word) => self.word(word, at),
            Token::Pipe => {
                self.is_piped = true;
                self.is_past_program = false;
                self.runs = None;
            }
            Token::Substitution => self.is_substituted = self.runs.is_some(),
            Token::Separator => {
                let Self { is_table, is_reported, found, .. } = *self;
                *self = Self { is_table, is_reported, found, ..Self::default() };
            }
        }
    }

    fn word(&mut self, word: &str, at: usize) {
        let program = word.rsplit('/').next().unwrap_or(word).to_ascii_lowercase();
        let program = program.as_str();
        if FETCHERS.contains(&program) {
            if let (Some(shell), true) = (self.runs, self.is_substituted) {
                self.find(shell);
            }
            self.fetch.get_or_insert((at, false));
            self.is_past_program = true;
            return;
        }
        if let Some((_, has_address)) = &mut self.fetch {
            *has_address |= self.is_past_program;
        }
        let is_prefix = PREFIXES.contains(&program) || word.starts_with('-') || word.contains('=');
        if self.is_past_program || is_prefix {
            return;
        }
        self.is_past_program = true;
        let downloaded = self.fetch.filter(|&(_, has_address)| has_address && self.is_piped);
        // Case matters here: "Bash" begins a sentence, "bash" a command.
        if SHELLS.contains(&word.rsplit('/').next().unwrap_or(word)) {
            self.runs = Some(at);
            if let Some((fetch, _)) = downloaded {
                self.find(fetch);
            }
        } else if INTERPRETERS.contains(&program) {
            self.pending = downloaded.map(|(fetch, _)| fetch);
        }
    }

    fn find(&mut self, at: usize) {
        if !self.is_reported {
            self.found.get_or_insert(at);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Token<'a> {
    Word(&'a str),
    Pipe,
    Separator,
    /// `$(` or `<(`
    Substitution,
}

fn tokens(line: &str) -> impl Iterator<Item = (usize, Token<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = &line[at..];
            let start = at;
            let (len, token) = match rest.chars().next()? {
                '|' if rest.starts_with("||") => (2, Token::Separator),
                '|' => (1, Token::Pipe),
                '&' if rest.starts_with("&>") => (2, Token::Word("&>")),
                ';' | '&' | '`' => (1, Token::Separator),
                '$' | '<' if rest[1..].starts_with('(') => (2, Token::Substitution),
                c if is_blank(c) => {
                    at += c.len_utf8();
                    continue;
                }
                first => {
                    let is_end = |c: char| is_blank(c) || matches!(c, '|' | ';' | '&' | '`');
                    // The first character is taken in any case, so that there is always progress.
                    let first = first.len_utf8();
                    let len = rest[first..].find(|c| is_end(c) || matches!(c, '$' | '<'));
                    let len = len.map_or(rest.len(), |len| first + len);
                    (len, Token::Word(&rest[..len]))
                }
            };
            at += len;
            return Some((start, token));
        }
    })
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '(' | ')' | '\\')
}

#[cfg(test)]
mod tests {
    use super::{super::super::ValidationMode, *};

    fn count(text: &str) -> usize {
        let mut findings = Findings::new(ValidationMode::Strict);
        check(text, &mut findings);
        findings.into_report(text.as_bytes()).findings.len()
    }

    #[test]
    fn commands_that_run_a_download_are_found() {
        for text in [
            "curl -fsSL https://x | sh",
            "Run `curl https://x|bash -s -- --yes` now.",
            "wget -qO- https://x | sudo -E bash",
            "curl https://x \\\n  | env A=b /bin/sh",
            "curl https://x |\n  sh",
            "curl https://x | tee log | zsh",
            "bash <(curl -s https://x)",
            "sh -c \"$(curl -fsSL https://x)\"",
            "eval \"$(wget -qO- https://x)\"",
            "irm https://x | iex",
            "curl https://x | python3",
            "curl https://x | python3 - --arg",
            "$ curl 'https://x?a=1' | sh",
        ] {
            assert_eq!(count(text), 1, "{text}");
        }
    }

    #[test]
    fn other_commands_are_not_reported() {
        for text in [
            "curl https://x | jq .",
            "curl https://x | python3 -m json.tool",
            "curl https://x -o a.sh; sh a.sh",
            "curl https://x || sh fallback.sh",
            "| curl | sh |",
            "curl | sh",
            "Bash and `curl` are needed.",
            "bash $(dirname x)/run",
            "cat x | sh",
            "",
        ] {
            assert_eq!(count(text), 0, "{text}");
        }
    }

    #[test]
    fn every_fetcher_is_recognised() {
        for name in FETCHERS {
            assert!(has_fetcher(format!("x {}", name.to_uppercase()).as_bytes()), "{name}");
        }
        assert!(!has_fetcher(b"curk wge inv"));
    }

    #[test]
    fn a_line_is_reported_once() {
        assert_eq!(count("curl https://x | sh\ncurl https://y | sh\n"), 2);
        assert_eq!(count("curl https://x | sh | sh"), 1);
    }
}
