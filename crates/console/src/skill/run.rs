//! A tool as a form: its parameters as fields, and the answer of a call.

use axum::{extract::Path, http::StatusCode, response::Response};
use maud::{Markup, html};
use serde_json::{Map, Value};
use skills_agent_skills::validate::reveal_hidden;
use skills_core::{Coded as _, WorkKind};

use super::{ShownSkill, Tab, respond};
use crate::{
    components::{json_text, skill_part, textarea_text, token_field, user_text},
    error::{ConsoleError, ErrorPage},
    form::Form,
    highlight::highlight,
    layout::error_body,
    rendering::Rendering,
    visit::Visit,
};

/// Most parameters that have a field.
const MAX_FIELDS: usize = 100;
/// Prefix of the names of fields.
const PREFIX: &str = "argument.";
/// Name of the field with the digest of the tool that the form was made for.
const DIGEST_FIELD: &str = "digest";
/// Longest answer that is shown, in bytes.
const MAX_ANSWER_BYTES: usize = 128 << 10;
/// Most words of an answer that are highlighted.
const MAX_SPANS: usize = 10_000;
/// Memory of rendering the longest answer: hidden characters and escaped ones become six bytes, and words tags.
const ANSWER_MEMORY: usize = 6 << 20;

const ANSWER: WorkKind = WorkKind::compute("rendering of a tool's answer in the console");

/// Answer of a call, and the values of the form that it came from.
pub(super) struct Answer {
    values: Map<String, Value>,
    outcome: Result<Markup, ConsoleError>,
}

/// Renders the form, and below it the answer of the last call.
pub(super) fn render(skill: &ShownSkill, answer: Option<&Answer>) -> Markup {
    let Some(tool) = &skill.row.meta.tool else { return html! {} };
    if let Some(reason) = reason_not_to_run(skill) {
        return html! {
            @if let Some(description) = &tool.description { p { (user_text(description)) } }
            div.notice { p { (reason) " " a href=(skill_part("/ui/skills/", &skill.row.id, &[("tab", Tab::Tools.as_str())])) { "Run the one that is used" } } }
        };
    }
    let parameters = Parameters::of(&tool.parameters);
    let is_user = skill.visit.identity.as_ref().is_some_and(|it| it.caller().owner().is_some());
    let action = skill_part("/ui/run/", &skill.row.id, &[]);
    let value = |name: &str| answer.and_then(|answer| answer.values.get(name));
    html! {
        @if let Some(description) = &tool.description { p { (user_text(description)) } }
        @if !is_user { p.muted { "Without a key a tool that needs secrets cannot be called. " a href="/ui/sign-in" { "Sign in with a key" } } }
        form.stack method="post" action=(action) {
            (token_field(&skill.visit))
            input type="hidden" name=(DIGEST_FIELD) value=(skill.row.meta.digest());
            @for field in &parameters.fields { (field.render(value(field.name))) }
            @if parameters.fields.is_empty() { p.muted { "This tool takes no arguments." } }
            button.primary type="submit" { "Run" }
        }
        @if let Some(answer) = answer {
            section.answer aria-label="Answer" {
                h2 { "Answer" }
                @match &answer.outcome {
                    Ok(answer) => (answer),
                    Err(error) => (error_body(&ErrorPage::from(error))),
                }
            }
        }
    }
}

/// Returns why the shown tool cannot be run: a call names a tool, and would reach another one.
fn reason_not_to_run(skill: &ShownSkill) -> Option<&'static str> {
    if skill.query.version.is_some() {
        Some("You look at one version. A call uses the version that readers get.")
    } else if !skill.catalog.is_effective(&skill.row) {
        Some("Another tier has a tool of this name, which a call would use.")
    } else {
        None
    }
}

fn render_answer(value: &Value) -> Markup {
    let (text, is_cut) = json_text(value, MAX_ANSWER_BYTES);
    html! {
        pre tabindex="0" { code { (highlight(&reveal_hidden(&text), "json", MAX_SPANS)) } }
        @if is_cut { p.muted { "The rest of the answer is not shown." } }
    }
}

/// Calls the tool with the arguments of the form.
pub(crate) async fn run(
    visit: Visit,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, ConsoleError> {
    let skill = ShownSkill::load(visit, &id).await?;
    let Some(tool) = &skill.row.meta.tool else { return Err(ConsoleError::NoPage) };
    let values: Map<String, Value> =
        form.prefixed(PREFIX).map(|(name, value)| (name.to_owned(), value)).collect();
    let is_shown_tool =
        form.line(DIGEST_FIELD) == Some(skill.row.meta.digest().to_string().as_str());
    let outcome = match Parameters::of(&tool.parameters).arguments(&values) {
        _ if !is_shown_tool => Err(ConsoleError::ToolChanged(id.clone())),
        Ok(arguments) => call(&skill, &id, arguments).await,
        Err(error) => Err(error),
    };
    if let Err(error) = &outcome {
        tracing::debug!(%id, code = %error.code_text(), "tool call failed in the console");
    }
    let content = render(&skill, Some(&Answer { values, outcome }));
    Ok(respond(&skill, Tab::Tools, StatusCode::OK, &content))
}

/// Calls a tool, and renders its answer on a blocking thread: it may be long.
async fn call(
    skill: &ShownSkill,
    id: &str,
    arguments: Map<String, Value>,
) -> Result<Markup, ConsoleError> {
    let caller = skill.visit.person()?.caller();
    let answer = skill.visit.console.parts.tools.call_tool(&caller, id, arguments).await?;
    let rendering = Rendering::start(&skill.visit, ANSWER, ANSWER_MEMORY).await?;
    rendering.run(move |_| Ok(render_answer(&answer))).await
}

/// Parameters of a tool's schema.
struct Parameters<'a> {
    fields: Vec<Field<'a>>,
}

struct Field<'a> {
    name: &'a str,
    schema: &'a Value,
    is_required: bool,
}

impl<'a> Parameters<'a> {
    fn of(schema: &'a Value) -> Self {
        let required = schema["required"].as_array();
        let is_required = |name: &str| {
            required.is_some_and(|names| names.iter().any(|it| it.as_str() == Some(name)))
        };
        let properties = schema["properties"].as_object().into_iter().flatten();
        let field = |(name, schema): (&'a String, &'a Value)| Field {
            name,
            schema,
            is_required: is_required(name),
        };
        Self { fields: properties.take(MAX_FIELDS).map(field).collect() }
    }

    /// Converts the texts of the form to the types of the schema. Empty optional fields are left out.
    fn arguments(&self, values: &Map<String, Value>) -> Result<Map<String, Value>, ConsoleError> {
        let mut arguments = Map::new();
        for field in &self.fields {
            let text = values.get(field.name).and_then(Value::as_str).unwrap_or_default();
            if text.is_empty() && !(field.is_required && field.kind() == "string") {
                continue;
            }
            arguments.insert(field.name.to_owned(), field.value(text)?);
        }
        Ok(arguments)
    }
}

impl Field<'_> {
    /// Returns the type of the value: the first one that is not `null`.
    fn kind(&self) -> &str {
        match &self.schema["type"] {
            Value::String(kind) => kind,
            Value::Array(kinds) => {
                let mut kinds = kinds.iter().filter_map(Value::as_str);
                kinds.find(|kind| *kind != "null").unwrap_or("string")
            }
            _ if self.schema.get("enum").is_some() => "enum",
            _ => "json",
        }
    }

    fn value(&self, text: &str) -> Result<Value, ConsoleError> {
        let invalid = |what: &str| ConsoleError::Form(format!("{} is not {what}", self.name));
        match self.kind() {
            "string" => Ok(text.into()),
            "boolean" => Ok((text == "true").into()),
            "integer" | "number" => {
                serde_json::from_str(text.trim()).map_err(|_| invalid("a number"))
            }
            // A value of an enumeration may be of any type; text that is no JSON is itself.
            "enum" => Ok(serde_json::from_str(text).unwrap_or_else(|_| text.into())),
            _ => serde_json::from_str(text).map_err(|_| invalid("JSON")),
        }
    }

    fn render(&self, value: Option<&Value>) -> Markup {
        let id = format!("field-{}", skills_core::Digest::of(self.name.as_bytes()));
        let id = &id[..14];
        let name = format!("{PREFIX}{}", self.name);
        let default = value.or_else(|| self.schema.get("default"));
        let text = match default {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(value) => value.to_string(),
        };
        html! {
            label for=(id) { (user_text(self.name)) @if self.is_required { span.required { " required" } } @else { span.muted { " optional" } } }
            @if let Some(description) = self.schema["description"].as_str() { p.hint id=(format!("{id}-hint")) { (user_text(description)) } }
            (self.control(id, &name, &text))
        }
    }

    fn control(&self, id: &str, name: &str, text: &str) -> Markup {
        let options = self.schema["enum"].as_array().map(Vec::as_slice).unwrap_or_default();
        let hint = self.schema["description"].as_str().map(|_| format!("{id}-hint"));
        html! {
            @if !options.is_empty() {
                select id=(id) name=(name) aria-describedby=[hint] {
                    @if !self.is_required { option value="" { "" } }
                    @for option in options.iter().take(500) {
                        @let label = option.as_str().map_or_else(|| option.to_string(), str::to_owned);
                        option value=(label) selected[label == text] { (reveal_hidden(&label)) }
                    }
                }
            } @else if self.kind() == "boolean" {
                select id=(id) name=(name) aria-describedby=[hint] {
                    @for option in ["", "true", "false"] { option value=(option) selected[option == text] { (option) } }
                }
            } @else if matches!(self.kind(), "integer" | "number") {
                input id=(id) name=(name) value=(text) inputmode="decimal" required[self.is_required] aria-describedby=[hint];
            } @else if self.kind() == "string" {
                input id=(id) name=(name) value=(text) required[self.is_required] aria-describedby=[hint];
            } @else {
                textarea id=(id) name=(name) rows="4" placeholder="JSON" required[self.is_required] aria-describedby=[hint] { (textarea_text(text)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_become_values_of_the_schema() {
        let schema = json!({
            "properties": {
                "city": { "type": "string" }, "days": { "type": "integer" }, "tags": { "type": "array" },
                "exact": { "type": ["null", "boolean"] }, "unit": { "enum": ["c", 1] }, "none": { "type": "string" },
            },
            "required": ["city"],
        });
        let parameters = Parameters::of(&schema);
        let values = json!({ "city": "", "days": "3", "tags": "[1]", "exact": "true", "unit": "1", "none": "", "extra": "x" });
        let arguments = parameters.arguments(values.as_object().unwrap()).unwrap();
        let expected = json!({ "city": "", "days": 3, "tags": [1], "exact": true, "unit": 1 });
        assert_eq!(Value::Object(arguments), expected);
        let wrong = json!({ "days": "many" });
        let error = parameters.arguments(wrong.as_object().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "days is not a number");
    }

    #[test]
    fn hostile_schemas_are_rendered_as_text() {
        let schema = json!({ "properties": { "\"><script>alert(1)</script>": {
            "description": "<img src=x onerror=alert(1)>", "enum": ["</select><script>"], "default": "\"><b>",
        } } });
        for field in &Parameters::of(&schema).fields {
            let html = field.render(None).into_string();
            assert!(
                !html.contains("<script") && !html.contains("<img") && !html.contains("\"><b>"),
                "{html}"
            );
        }
        for nonsense in
            [json!(null), json!([]), json!({ "properties": 3, "required": {} }), json!("x")]
        {
            assert!(Parameters::of(&nonsense).fields.is_empty());
        }
    }
}
