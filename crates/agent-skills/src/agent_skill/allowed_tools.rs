//! Parsing of `allowed-tools` in all notations in use.
//!
//! The specification has one notation, a text with spaces between tools. Commas, lists and parentheses with spaces
//! are about as common.

use serde_json::Value;

/// Returns the tools that a value of `allowed-tools` names, in order.
#[must_use]
pub fn allowed_tools(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => AllowedTools::parse(text).names,
        Value::Array(items) => items.iter().flat_map(allowed_tools).collect(),
        _ => Vec::new(),
    }
}

/// Tool names of a text, and its deviations from the specification.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AllowedTools {
    pub(crate) names: Vec<String>,
    /// True if commas separate tools.
    pub(crate) has_commas: bool,
    /// True if parentheses do not pair.
    pub(crate) is_unbalanced: bool,
}

impl AllowedTools {
    /// Splits at spaces and commas outside parentheses, or everywhere if parentheses do not pair.
    pub(crate) fn parse(text: &str) -> Self {
        let inside = text.trim().strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let text = inside.unwrap_or(text);
        let is_unbalanced = !is_balanced(text);
        let mut tools = Self { is_unbalanced, ..Self::default() };
        let mut depth = 0_usize;
        let mut start = 0;
        for (at, c) in text.char_indices() {
            match c {
                '(' if !is_unbalanced => depth += 1,
                ')' if !is_unbalanced => depth -= 1,
                _ => {}
            }
            if depth == 0 && (c == ',' || c.is_whitespace()) {
                tools.has_commas |= c == ',';
                tools.push(&text[start..at]);
                start = at + c.len_utf8();
            }
        }
        tools.push(&text[start..]);
        tools
    }

    fn push(&mut self, name: &str) {
        let name = name.trim_matches(['"', '\'']).trim();
        if !name.is_empty() {
            self.names.push(name.to_owned());
        }
    }
}

fn is_balanced(text: &str) -> bool {
    let depth = text.chars().try_fold(0_usize, |depth, c| match c {
        '(' => Some(depth + 1),
        ')' => depth.checked_sub(1),
        _ => Some(depth),
    });
    depth == Some(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_notation_is_understood() {
        let all = ["Bash(git add *)", "Bash(jq:*)", "Read"];
        for value in [
            json!("Bash(git add *) Bash(jq:*) Read"),
            json!("Bash(git add *), Bash(jq:*), Read"),
            json!("Bash(git add *),Bash(jq:*),Read,"),
            json!("  Bash(git add *)\n\tBash(jq:*)  Read\n"),
            json!(["Bash(git add *)", "Bash(jq:*)", "Read"]),
            json!(["Bash(git add *) Bash(jq:*)", " Read "]),
            json!("[Bash(git add *), 'Bash(jq:*)', \"Read\"]"),
        ] {
            assert_eq!(allowed_tools(&value), all, "{value}");
        }
        assert_eq!(allowed_tools(&json!("Bash(a, b (c)) X")), ["Bash(a, b (c))", "X"]);
        for nothing in [json!(""), json!([]), json!(null), json!(1), json!({"a": "b"})] {
            assert_eq!(allowed_tools(&nothing), [""; 0], "{nothing:?}");
        }
    }

    #[test]
    fn unbalanced_parentheses_do_not_swallow_other_tools() {
        for text in ["Bash(git Read", "Bash)git Read"] {
            let tools = AllowedTools::parse(text);
            assert!(tools.is_unbalanced, "{text}");
            assert_eq!(tools.names.len(), 2, "{text}");
        }
    }

    proptest! {
        #[test]
        fn joined_names_are_split_again(names in prop::collection::vec("[A-Za-z]{1,5}(\\([a-z:* ,]{0,6}\\))?", 0..6)) {
            prop_assert_eq!(&AllowedTools::parse(&names.join(" ")).names, &names);
            prop_assert_eq!(&AllowedTools::parse(&names.join(", ")).names, &names);
        }

        #[test]
        fn never_panics(text in "\\PC{0,60}") {
            let _ = AllowedTools::parse(&text);
        }
    }
}
