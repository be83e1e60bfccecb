//! Entity tags of HTTP responses, derived from content digests.

use crate::Digest;

/// Returns the tag of a digest.
#[must_use]
pub fn from_digest(digest: &Digest) -> String {
    format!("\"{digest}\"")
}

/// Returns whether the values of `If-None-Match` contain a tag. Weak tags match too, because a digest identifies the
/// exact bytes.
pub fn matches<'a>(if_none_match: impl IntoIterator<Item = &'a str>, tag: &str) -> bool {
    let known = if_none_match.into_iter().flat_map(|value| value.split(',')).map(str::trim);
    known.map(|known| known.trim_start_matches("W/")).any(|known| known == tag || known == "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_matches_itself_weak_listed_or_by_a_star() {
        let tag = from_digest(&Digest::of(b"abc"));
        assert!(tag.starts_with("\"ba78") && tag.ends_with("15ad\""));
        for value in [tag.as_str(), &format!("W/{tag}"), &format!("\"x\", {tag}"), "*"] {
            assert!(matches([value], &tag), "{value}");
        }
        assert!(matches(["\"x\"", &tag], &tag));
        for value in ["", "\"x\"", "x, y"] {
            assert!(!matches([value], &tag), "{value}");
        }
        assert!(!matches([], &tag));
    }
}
