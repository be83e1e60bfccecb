//! Normalisation of function output into the content of a section or the messages of a prompt.

use serde_json::{Map, Value, json};

/// Media type of Markdown content.
pub const MARKDOWN: &str = "text/markdown";
/// Media type of everything a function returns that is not text.
pub const JSON: &str = "application/json";

/// Text with its media type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionContent {
    /// `text/markdown` or `application/json`.
    pub mime_type: &'static str,
    /// Text of the content.
    pub text: String,
}

impl SectionContent {
    /// Builds the content of a section: a string and `{content}` are Markdown, anything else is JSON.
    #[must_use]
    pub fn from_output(output: Value) -> Self {
        match text_of(output) {
            Ok(text) => Self { mime_type: MARKDOWN, text },
            Err(other) => Self {
                mime_type: JSON,
                // `{:#}` of a `Value` is its pretty-printed JSON.
                text: format!("{other:#}"),
            },
        }
    }
}

/// Messages of a rendered prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptMessages {
    /// Description by the handler, if any.
    pub description: Option<String>,
    /// Messages of the handler, or one user message with its text.
    pub messages: Vec<Value>,
}

/// Error for the output of a prompt handler that is not a prompt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unsupported shape: a prompt handler returns a string, {{\"content\": string}} or {{\"messages\": [...]}}, not {found}"
)]
pub struct OutputError {
    found: &'static str,
}

impl PromptMessages {
    /// Builds the messages of a prompt: a string and `{content}` become one user message, `{messages}` is kept.
    ///
    /// # Errors
    /// When the output has none of the three shapes.
    pub fn from_output(output: Value) -> Result<Self, OutputError> {
        if let Value::Object(mut fields) = output {
            return match fields.remove("messages") {
                Some(Value::Array(messages)) => {
                    Ok(Self { description: string(&mut fields, "description"), messages })
                }
                Some(_) => Err(OutputError { found: "an object whose messages are not an array" }),
                None => text_of(Value::Object(fields)).map(Self::user_text).map_err(|_| {
                    OutputError { found: "an object with neither content nor messages" }
                }),
            };
        }
        text_of(output).map(Self::user_text).map_err(|other| OutputError { found: name_of(&other) })
    }

    fn user_text(text: String) -> Self {
        let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
        Self { description: None, messages: vec![message] }
    }
}

fn string(fields: &mut Map<String, Value>, key: &str) -> Option<String> {
    match fields.remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Returns the text of a string or of `{content: string}`, or else the value itself.
fn text_of(output: Value) -> Result<String, Value> {
    match output {
        Value::String(text) => Ok(text),
        Value::Object(mut fields) if fields.get("content").is_some_and(Value::is_string) => {
            string(&mut fields, "content").ok_or(Value::Null)
        }
        other => Err(other),
    }
}

const fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(output: Value) -> (&'static str, String) {
        let content = SectionContent::from_output(output);
        (content.mime_type, content.text)
    }

    #[test]
    fn section_output_is_markdown_or_json() {
        assert_eq!(section(json!("# hi")), (MARKDOWN, "# hi".into()));
        assert_eq!(section(json!({"content": "# hi", "x": 1})), (MARKDOWN, "# hi".into()));
        assert_eq!(section(json!({"a": 1})), (JSON, "{\n  \"a\": 1\n}".into()));
        assert_eq!(section(json!({"content": 7})).0, JSON);
        assert_eq!(section(json!(null)), (JSON, "null".into()));
        assert_eq!(section(json!([1])), (JSON, "[\n  1\n]".into()));
    }

    #[test]
    fn prompts_of_text_are_one_user_message() {
        let message = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
        for output in [json!("hi"), json!({"content": "hi"})] {
            let prompt = PromptMessages::from_output(output.clone()).unwrap();
            assert_eq!(prompt.messages, std::slice::from_ref(&message), "{output:?}");
        }
    }

    #[test]
    fn prompts_of_messages_are_passed_through() {
        let messages = json!([{"role": "assistant", "content": {"type": "image"}, "x": 1}, 7]);
        let prompt =
            PromptMessages::from_output(json!({"messages": messages, "description": "d"})).unwrap();
        assert_eq!(Value::from(prompt.messages), messages);
        assert_eq!(prompt.description.as_deref(), Some("d"));
    }

    #[test]
    fn any_other_prompt_is_an_error() {
        for output in
            [json!(null), json!(7), json!([]), json!({"content": 1}), json!({"messages": "x"})]
        {
            let error = PromptMessages::from_output(output).expect_err("not a prompt").to_string();
            assert!(error.contains("unsupported shape"), "{error}");
        }
    }
}
