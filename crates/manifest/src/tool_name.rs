//! Tool names as models see them.

use skills_core::Digest;

/// Longest name of a tool, in bytes.
pub const MAX_TOOL_NAME_BYTES: usize = 64;
/// Hexadecimal digits of the digest at the end of a changed name.
const DIGEST_CHARS: usize = 16;

/// Returns a stable name of 1 to 64 of `[A-Za-z0-9_-]` for an id. A prefix is joined by an underscore.
///
/// An id without a prefix is its own name. A name that is too long, empty, or has other characters is changed and
/// ends with a digest in capital letters: ids have none, so it never equals another id. With prefixes, `a` + `b_c`
/// and `a_b` + `c` have the same name, so a listing with several prefixes must handle collisions. The name cannot be
/// reversed; compare it with the names of all tools.
#[must_use]
pub fn tool_name(prefix: Option<&str>, id: &str) -> String {
    let full = match prefix {
        Some(prefix) => format!("{prefix}_{id}"),
        None => id.to_owned(),
    };
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !full.is_empty() && full.len() <= MAX_TOOL_NAME_BYTES && full.chars().all(is_allowed) {
        return full;
    }
    let kept = MAX_TOOL_NAME_BYTES - DIGEST_CHARS - 2;
    let start = full.chars().take(kept).map(|c| if is_allowed(c) { c } else { '_' });
    // Between the two there is a byte that stands in neither.
    let digest = Digest::of(format!("{}\0{id}", prefix.unwrap_or_default()).as_bytes());
    let digest = digest.to_string().to_ascii_uppercase();
    format!("{}-X{}", start.collect::<String>(), &digest[..DIGEST_CHARS])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn is_legal(name: &str) -> bool {
        let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        (1..=64).contains(&name.len()) && name.bytes().all(is_allowed)
    }

    #[test]
    fn an_id_is_its_own_name() {
        assert_eq!(tool_name(None, "uniskill_weather"), "uniskill_weather");
        assert_eq!(tool_name(None, &"a".repeat(64)), "a".repeat(64));
        assert_eq!(tool_name(Some("ann"), "weather"), "ann_weather");
    }

    #[test]
    fn changed_names_are_distinct() {
        let long = "a".repeat(64);
        let names: BTreeSet<String> = [
            tool_name(Some("ann"), &long),
            tool_name(Some("bob"), &long),
            tool_name(Some("ann"), &format!("{}b", "a".repeat(63))),
            tool_name(Some("a.b"), "c"),
            tool_name(Some("a/b"), "c"),
            tool_name(Some("é"), "c"),
            tool_name(None, ""),
            tool_name(None, "s:x"),
        ]
        .into();
        assert_eq!(names.len(), 8, "{names:?}");
        assert!(names.iter().all(|name| is_legal(name)), "{names:?}");
        assert_eq!(tool_name(Some("ann"), &long), tool_name(Some("ann"), &long));
    }

    proptest! {
        #[test]
        fn always_legal_and_never_the_name_of_an_id(prefix in "\\PC{0,80}", id in "[a-z0-9_-]{1,64}") {
            let name = tool_name(Some(&prefix), &id);
            prop_assert!(is_legal(&name));
            if name != format!("{prefix}_{id}") {
                prop_assert!(name.contains('X'));
            }
        }
    }
}
