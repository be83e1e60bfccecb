//! Scanner for keys and tokens in well-known formats. Findings never repeat them.

use super::super::{findings::Findings, rules};

/// Format of a secret: its prefix, and the fewest characters after it.
struct Format {
    what: &'static str,
    prefix: &'static str,
    min: usize,
}

/// Known formats, longer prefixes before shorter ones that begin them.
const FORMATS: [Format; 20] = [
    format("an AWS access key", "AKIA", 16),
    format("an AWS access key", "ASIA", 16),
    format("a GitHub token", "github_pat_", 40),
    format("a GitHub token", "ghp_", 36),
    format("a GitHub token", "gho_", 36),
    format("a GitHub token", "ghu_", 36),
    format("a GitHub token", "ghs_", 36),
    format("a GitHub token", "ghr_", 36),
    format("a GitLab token", "glpat-", 20),
    format("a Slack token", "xoxb-", 20),
    format("a Slack token", "xoxp-", 20),
    format("a Slack token", "xapp-", 20),
    format("a Stripe key", "sk_live_", 20),
    format("a Stripe key", "rk_live_", 20),
    format("an Anthropic key", "sk-ant-", 32),
    format("an OpenAI key", "sk-", 40),
    format("a Google API key", "AIza", 35),
    format("an npm token", "npm_", 36),
    format("a PyPI token", "pypi-", 50),
    format("a Hugging Face token", "hf_", 34),
];

/// Length of the shortest secret; most words are shorter.
const SHORTEST: usize = 20;

const PEM_BEGIN: &str = "-----BEGIN ";
const PEM_END: &str = "PRIVATE KEY-----";
/// Bytes after a PEM header in which the key is searched.
const PEM_WINDOW: usize = 200;
const PEM_MIN: usize = 20;
/// Fewest distinct characters of a secret; text with fewer is a placeholder.
const MIN_DISTINCT: u32 = 8;

const fn format(what: &'static str, prefix: &'static str, min: usize) -> Format {
    Format { what, prefix, min }
}

pub(super) fn check(document: &str, findings: &mut Findings) {
    for (start, line) in super::lines(document) {
        let mut at = start;
        for part in line.split_inclusive(|c| !is_word(c)) {
            let word = part.trim_end_matches(|c| !is_word(c));
            let is_long = word.len() >= SHORTEST;
            if let Some(format) = FORMATS.iter().find(|format| is_long && is_secret(word, format)) {
                let message = format!("there is what looks like {}", format.what);
                findings.add(&rules::SECRET, at, message);
            }
            at += part.len();
        }
        if let Some(begin) = line.find(PEM_BEGIN)
            && let Some(end) = line[begin..].find(PEM_END)
            && has_key(&document[start + begin + end + PEM_END.len()..])
        {
            findings.add(&rules::SECRET, start + begin, "there is what looks like a private key");
        }
    }
}

fn is_secret(word: &str, format: &Format) -> bool {
    let Some(rest) = word.strip_prefix(format.prefix) else { return false };
    // Words of a sentence joined by hyphens have no digits; placeholders say so or repeat themselves.
    let seen = rest.bytes().fold(0_u128, |seen, byte| seen | 1 << (byte & 0x7f));
    let is_placeholder = rest.to_ascii_lowercase().contains("example");
    rest.len() >= format.min
        && rest.bytes().any(|byte| byte.is_ascii_digit())
        && seen.count_ones() >= MIN_DISTINCT
        && !is_placeholder
}

fn has_key(after: &str) -> bool {
    let window = &after[..after.floor_char_boundary(PEM_WINDOW)];
    let is_digit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    window.split(|c| !is_digit(c)).any(|run| run.len() >= PEM_MIN)
}

const fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::{super::super::ValidationMode, *};

    fn count(text: &str) -> usize {
        let mut findings = Findings::new(ValidationMode::Strict);
        check(text, &mut findings);
        findings.into_report(text.as_bytes()).findings.len()
    }

    /// Put together here, so that no scanner of repositories takes this file for a leak.
    fn token(prefix: &str, len: usize) -> String {
        prefix.chars().chain("a1B2c3D4e5F6g7H8i9J0".chars().cycle().take(len)).collect()
    }

    #[test]
    fn known_formats_are_found() {
        for format in &FORMATS {
            assert!(format.prefix.len() + format.min >= SHORTEST);
            let token = token(format.prefix, format.min);
            for text in
                [token.clone(), format!("KEY=\"{token}\""), format!("https://{token}@host/")]
            {
                assert_eq!(count(&text), 1, "{text}");
            }
            assert_eq!(count(&token[..token.len() - 1]), 0, "{token}");
        }
        let body = token("", 64);
        for kind in ["", "RSA ", "OPENSSH "] {
            assert_eq!(count(&format!("{PEM_BEGIN}{kind}{PEM_END}\n{body}\n")), 1, "{kind}");
        }
    }

    #[test]
    fn placeholders_are_not_reported() {
        let long = "x".repeat(40);
        for text in [
            "AKIAIOSFODNN7EXAMPLE",
            &format!("ghp_{long}"),
            "sk-this-is-a-long-sentence-joined-by-hyphens-only",
            "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        ] {
            assert_eq!(count(text), 0, "{text}");
        }
    }
}
