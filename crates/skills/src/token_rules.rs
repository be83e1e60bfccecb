//! Rules for tokens that an administrator sets by flag, environment or configuration file.
//!
//! No message contains a token.

/// Returns why a text cannot be a token, if it cannot.
///
/// A header value has no control characters and loses surrounding white space, so no client could present such a token.
pub(crate) fn problem(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("is set but empty");
    }
    if text.trim() != text {
        return Some("begins or ends with white space, which a header cannot carry");
    }
    if text.chars().any(char::is_control) {
        return Some("contains control characters, which a header cannot carry");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_no_header_can_carry_is_rejected() {
        for text in ["", " ", "a ", "a\n", "a\tb", "\u{7f}"] {
            assert!(problem(text).is_some(), "{text:?}");
        }
        for text in ["a", "s3cret", "with space", "12345"] {
            assert_eq!(problem(text), None, "{text}");
        }
    }
}
