//! Entity tags: what a client that has something already says to be told whether it is still the same.

use crate::Digest;

/// The tag of bytes with this digest.
#[must_use]
pub fn of(digest: &Digest) -> String {
    format!("\"{digest}\"")
}

/// Whether the values of `If-None-Match` name a tag. Weak ones do too: the bytes are the same or they are not.
pub fn is_known<'a>(if_none_match: impl IntoIterator<Item = &'a str>, tag: &str) -> bool {
    let known = if_none_match.into_iter().flat_map(|value| value.split(',')).map(str::trim);
    known.map(|known| known.trim_start_matches("W/")).any(|known| known == tag || known == "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_by_itself_weakly_among_others_or_by_a_star() {
        let tag = of(&Digest::of(b"abc"));
        assert!(tag.starts_with("\"ba78") && tag.ends_with("15ad\""));
        for value in [tag.as_str(), &format!("W/{tag}"), &format!("\"x\", {tag}"), "*"] {
            assert!(is_known([value], &tag), "{value}");
        }
        assert!(is_known(["\"x\"", &tag], &tag));
        for value in ["", "\"x\"", "x, y"] {
            assert!(!is_known([value], &tag), "{value}");
        }
        assert!(!is_known([], &tag));
    }
}
