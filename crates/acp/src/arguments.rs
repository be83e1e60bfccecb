//! Parsing of command arguments.
//!
//! `name=value` sets an argument of the prompt; a value with spaces is quoted. Any other text is the value of the first
//! argument that is not named.

use serde_json::{Map, Value};
use skills_core::PromptArgument;

/// Reason why the typed arguments do not fit a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArgumentError {
    /// Required arguments are missing.
    Missing(Vec<String>),
    /// There is no argument left for a text.
    Unexpected(String),
}

/// Parses the text after a command.
pub(crate) fn parse(
    declared: &[PromptArgument],
    typed: &str,
) -> Result<Map<String, Value>, ArgumentError> {
    // A prompt that declares no arguments may still accept named ones.
    let is_argument = |name: &str| match declared {
        [] => is_identifier(name),
        declared => declared.iter().any(|argument| argument.name == name),
    };
    let mut arguments = Map::new();
    let mut text = String::new();
    let mut rest = typed;
    while !rest.is_empty() {
        let (word, after) = next_word(rest);
        match word.split_once('=') {
            Some((name, value)) if is_argument(name) => {
                arguments.insert(name.to_owned(), Value::String(unquote(value)));
            }
            _ => text.push_str(word),
        }
        let space = after.len() - after.trim_start().len();
        text.push_str(&after[..space]);
        rest = &after[space..];
    }
    let text = text.trim();
    if !text.is_empty() {
        let free = declared.iter().find(|argument| !arguments.contains_key(&argument.name));
        let Some(argument) = free else { return Err(ArgumentError::Unexpected(text.to_owned())) };
        arguments.insert(argument.name.clone(), Value::String(unquote(text)));
    }
    let missing: Vec<String> = declared
        .iter()
        .filter(|argument| argument.required && !arguments.contains_key(&argument.name))
        .map(|argument| argument.name.clone())
        .collect();
    if missing.is_empty() { Ok(arguments) } else { Err(ArgumentError::Missing(missing)) }
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}

/// Splits off the first word. Whitespace ends a word, except between quotes that open it or its value.
fn next_word(text: &str) -> (&str, &str) {
    let until_space = |text: &str| text.find(char::is_whitespace).unwrap_or(text.len());
    let plain = until_space(text);
    let value = text[..plain].find('=').map_or(0, |equals| equals + 1);
    let end = [0, value]
        .into_iter()
        .find_map(|start| quoted_end(&text[start..]).map(|end| start + end))
        .map_or(plain, |end| end + until_space(&text[end..]));
    text.split_at(end)
}

/// Returns the end of the quoted string that a text begins with, if it is closed.
fn quoted_end(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    text.char_indices().skip(1).find_map(|(index, c)| {
        let closes = c == quote && !escaped;
        escaped = c == '\\' && quote == '"' && !escaped;
        closes.then_some(index + 1)
    })
}

/// Removes the quotes around a text, if they enclose all of it.
fn unquote(text: &str) -> String {
    if quoted_end(text) != Some(text.len()) {
        return text.to_owned();
    }
    let inside = &text[1..text.len() - 1];
    if text.starts_with('"') {
        inside.replace("\\\"", "\"").replace("\\\\", "\\")
    } else {
        inside.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn declared(names: &[&str]) -> Vec<PromptArgument> {
        let argument = |name: &&str| PromptArgument {
            name: name.trim_end_matches('!').to_owned(),
            description: None,
            required: name.ends_with('!'),
        };
        names.iter().map(argument).collect()
    }

    fn parsed(names: &[&str], typed: &str) -> Value {
        match parse(&declared(names), typed) {
            Ok(arguments) => Value::Object(arguments),
            Err(error) => panic!("{typed}: {error:?}"),
        }
    }

    #[test]
    fn arguments_are_named_quoted_or_plain() {
        let who = &["who!", "tone"][..];
        for (names, typed, expected) in [
            (who, "who=Ada", json!({"who": "Ada"})),
            (
                who,
                "tone=formal who=\"Ada Lovelace\"",
                json!({"who": "Ada Lovelace", "tone": "formal"}),
            ),
            (who, "who='a \"b\" c'", json!({"who": "a \"b\" c"})),
            (who, r#"who="say \"hi\" \\ bye""#, json!({"who": r#"say "hi" \ bye"#})),
            (who, "who=", json!({"who": ""})),
            (who, "Ada Lovelace", json!({"who": "Ada Lovelace"})),
            (who, "  \"Ada Lovelace\" ", json!({"who": "Ada Lovelace"})),
            (who, "what's up, \"you\"", json!({"who": "what's up, \"you\""})),
            (
                who,
                "tone=dry the one\n  and only",
                json!({"who": "the one\n  and only", "tone": "dry"}),
            ),
            (who, "a=b is so", json!({"who": "a=b is so"})),
            (who, "who=don't", json!({"who": "don't"})),
            (&["a", "b"], "", json!({})),
            (&["a", "b"], "a=1 rest", json!({"a": "1", "b": "rest"})),
            (&[], "x=1 y='2 3'", json!({"x": "1", "y": "2 3"})),
            (&[], "", json!({})),
        ] {
            assert_eq!(parsed(names, typed), expected, "{typed}");
        }
    }

    #[test]
    fn missing_and_unexpected_arguments_are_reported() {
        let missing = |names: &[&str], typed| match parse(&declared(names), typed) {
            Err(ArgumentError::Missing(missing)) => missing.join(" "),
            other => panic!("{other:?}"),
        };
        assert_eq!(missing(&["a!", "b", "c!"], ""), "a c");
        assert_eq!(missing(&["a!", "b", "c!"], "just text"), "c");
        assert_eq!(parse(&[], "so x=1"), Err(ArgumentError::Unexpected("so".to_owned())));
        assert_eq!(
            parse(&declared(&["a"]), "a=1 more"),
            Err(ArgumentError::Unexpected("more".to_owned()))
        );
    }
}
