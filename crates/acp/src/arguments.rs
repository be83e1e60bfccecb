//! What was typed behind a command, as the arguments of a prompt.
//!
//! `name=value` gives an argument that the prompt has; a value with spaces is put in quotes. Any other text
//! is the first argument that was not named.

use serde_json::{Map, Value};
use skills_core::PromptArgument;

/// Why a prompt cannot be rendered with what was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// These arguments are needed and not there.
    Missing(Vec<String>),
    /// There is no argument for this text.
    NoPlace(String),
}

/// The arguments that were typed.
pub(crate) fn parse(
    declared: &[PromptArgument],
    typed: &str,
) -> Result<Map<String, Value>, Problem> {
    // A prompt that declares nothing may still take what it is given by name.
    let is_argument = |name: &str| match declared {
        [] => is_identifier(name),
        declared => declared.iter().any(|argument| argument.name == name),
    };
    let mut given = Map::new();
    let mut text = String::new();
    let mut rest = typed;
    while !rest.is_empty() {
        let (word, after) = next_word(rest);
        match word.split_once('=') {
            Some((name, value)) if is_argument(name) => {
                given.insert(name.to_owned(), Value::String(unquoted(value)));
            }
            _ => text.push_str(word),
        }
        let space = after.len() - after.trim_start().len();
        text.push_str(&after[..space]);
        rest = &after[space..];
    }
    let text = text.trim();
    if !text.is_empty() {
        let free = declared.iter().find(|argument| !given.contains_key(&argument.name));
        let Some(argument) = free else { return Err(Problem::NoPlace(text.to_owned())) };
        given.insert(argument.name.clone(), Value::String(unquoted(text)));
    }
    let missing: Vec<String> = declared
        .iter()
        .filter(|argument| argument.required && !given.contains_key(&argument.name))
        .map(|argument| argument.name.clone())
        .collect();
    if missing.is_empty() { Ok(given) } else { Err(Problem::Missing(missing)) }
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}

/// A word and what follows it. Space ends a word, except between quotes that open it or its value.
fn next_word(text: &str) -> (&str, &str) {
    let until_space = |text: &str| text.find(char::is_whitespace).unwrap_or(text.len());
    let plain = until_space(text);
    let value = text[..plain].find('=').map_or(0, |equals| equals + 1);
    let end = [0, value]
        .into_iter()
        .find_map(|start| closing_quote(&text[start..]).map(|end| start + end))
        .map_or(plain, |end| end + until_space(&text[end..]));
    text.split_at(end)
}

/// Where the quotes end that a text begins with, if they do.
fn closing_quote(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    text.char_indices().skip(1).find_map(|(at, c)| {
        let closes = c == quote && !escaped;
        escaped = c == '\\' && quote == '"' && !escaped;
        closes.then_some(at + 1)
    })
}

/// A text without the quotes around all of it.
fn unquoted(text: &str) -> String {
    if closing_quote(text) != Some(text.len()) {
        return text.to_owned();
    }
    let inside = &text[1..text.len() - 1];
    match text.starts_with('"') {
        true => inside.replace("\\\"", "\"").replace("\\\\", "\\"),
        false => inside.to_owned(),
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
            Ok(given) => Value::Object(given),
            Err(problem) => panic!("{typed}: {problem:?}"),
        }
    }

    #[test]
    fn named_quoted_and_plain() {
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
    fn what_does_not_fit_is_named() {
        let missing = |names: &[&str], typed| match parse(&declared(names), typed) {
            Err(Problem::Missing(missing)) => missing.join(" "),
            other => panic!("{other:?}"),
        };
        assert_eq!(missing(&["a!", "b", "c!"], ""), "a c");
        assert_eq!(missing(&["a!", "b", "c!"], "just text"), "c");
        assert_eq!(parse(&[], "so x=1"), Err(Problem::NoPlace("so".to_owned())));
        assert_eq!(parse(&declared(&["a"]), "a=1 more"), Err(Problem::NoPlace("more".to_owned())));
    }
}
