//! Rules for tokens that an administrator sets by flag, environment or configuration file.
//!
//! No message contains a token.

/// Shortest token that this server accepts as its own, as for the secrets of administrators.
const MIN_BYTES: usize = 16;

/// Use of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenUse {
    /// Presented to another server, which chose it.
    Presented,
    /// Required of the clients of this server, which could guess a short one.
    Required,
}

/// Returns why a text cannot be a token, if it cannot.
///
/// A header value has no control characters and loses surrounding white space, so no client could present such a token.
pub(crate) fn problem(text: &str, token_use: TokenUse) -> Option<&'static str> {
    if text.is_empty() {
        return Some("is set but empty");
    }
    if text.trim() != text {
        return Some("begins or ends with white space, which a header cannot carry");
    }
    if text.chars().any(char::is_control) {
        return Some("contains control characters, which a header cannot carry");
    }
    if token_use == TokenUse::Required && text.len() < MIN_BYTES {
        return Some("has fewer than 16 bytes and could be guessed; use 32 random ones");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_no_header_can_carry_is_rejected() {
        for token_use in [TokenUse::Presented, TokenUse::Required] {
            for text in ["", " ", "a ", "a\n", "a\tb", "\u{7f}", "0123456789abcdef\n"] {
                assert!(problem(text, token_use).is_some(), "{text:?}");
            }
            for text in ["0123456789abcdef", "with space and length"] {
                assert_eq!(problem(text, token_use), None, "{text}");
            }
        }
    }

    #[test]
    fn a_token_that_can_be_guessed_is_presented_but_not_required() {
        for text in ["a", "s3cret", "12345", &"a".repeat(MIN_BYTES - 1)] {
            assert_eq!(problem(text, TokenUse::Presented), None, "{text}");
            let problem = problem(text, TokenUse::Required);
            assert!(problem.is_some_and(|it| it.contains(&format!("{MIN_BYTES} bytes"))), "{text}");
        }
    }
}
