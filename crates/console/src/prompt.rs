//! The page of a prompt: its arguments as a form, and the messages that it renders to.

use std::sync::Arc;

use axum::{extract::Path, response::Response};
use maud::{Markup, html};
use serde_json::{Map, Value};
use skills_core::{EntryKind, PromptArgument, WorkKind, text::truncate};
use skills_registry::{PromptRow, RegistryError, RenderedPrompt};

use crate::{
    HOME,
    components::{copyable, json_text, shell_line, tier, token_field, user_text},
    error::{ConsoleError, ErrorPage},
    form::Form,
    layout::{Page, Section, error_body},
    rendering::Rendering,
    skill::clients,
    units::ago,
    visit::Visit,
};

/// Prefix of the names of fields.
const PREFIX: &str = "argument.";
/// Most messages that are shown.
const MAX_MESSAGES: usize = 100;
/// Longest text of all messages that is shown, in bytes.
const MAX_TEXT_BYTES: usize = 256 << 10;
/// Memory of rendering the longest messages: hidden characters and escaped ones become six bytes.
const MESSAGES_MEMORY: usize = 8 << 20;
/// Longest name of a role that is shown, in characters.
const MAX_ROLE_CHARS: usize = 40;

const MESSAGES: WorkKind = WorkKind::compute("rendering of a prompt's messages in the console");

async fn row(visit: &Visit, name: &str) -> Result<Arc<PromptRow>, ConsoleError> {
    let catalog = visit.catalog().await?;
    let not_found = || RegistryError::NotFound { kind: EntryKind::Prompt, id: name.to_owned() };
    Ok(Arc::clone(catalog.prompt(name).ok_or_else(not_found)?))
}

/// Renders the page.
pub(crate) async fn page(visit: Visit, Path(name): Path<String>) -> Result<Response, ConsoleError> {
    let row = row(&visit, &name).await?;
    Ok(respond(&visit, &row, &Map::new(), None))
}

/// Renders the prompt with the arguments of the form. Its handler may do anything, so this is no `GET`.
pub(crate) async fn render(
    visit: Visit,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response, ConsoleError> {
    let row = row(&visit, &name).await?;
    let values: Map<String, Value> = form
        .prefixed(PREFIX)
        .filter(|(_, value)| value.as_str().is_some_and(|text| !text.is_empty()))
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let rendered = visit.skills()?.render_prompt(&name, Value::Object(values.clone())).await;
    let outcome = match rendered {
        Ok(prompt) => {
            let rendering = Rendering::start(&visit, MESSAGES, MESSAGES_MEMORY).await?;
            rendering.run(move |_| Ok(messages(&prompt))).await?
        }
        Err(error) => error_body(&ErrorPage::from(&ConsoleError::from(error))),
    };
    Ok(respond(&visit, &row, &values, Some(&outcome)))
}

fn respond(
    visit: &Visit,
    row: &PromptRow,
    values: &Map<String, Value>,
    outcome: Option<&Markup>,
) -> Response {
    let name = &row.name;
    let body = html! {
        nav.crumbs aria-label="Breadcrumb" { a href=(HOME) { "Skills" } span aria-hidden="true" { "/" } span { (user_text(name)) } }
        div.head {
            h1 { "/" (user_text(name)) }
            span.badge { "prompt" }
            @if row.is_live() { span.badge.live { "live" } } @else { (tier(row.tier)) }
        }
        p.lead { (user_text(&row.definition.description)) }
        p.meta {
            span { (ago(row.registered_at)) }
            @match &row.origin {
                Some(origin) => span { "of the live client " (user_text(&origin.client)) },
                None => span { "rendered by " code { (user_text(&row.definition.function_id)) } },
            }
        }
        h2 { "Preview" }
        form.stack method="post" action=(format!("/ui/prompts/{}", skills_core::uri::percent_encode_component(name))) {
            (token_field(visit))
            @for (at, argument) in row.definition.arguments.iter().enumerate() { (field(at, argument, values)) }
            @if row.definition.arguments.is_empty() { p.muted { "This prompt takes no arguments." } }
            button.primary type="submit" { "Render" }
        }
        @if let Some(outcome) = outcome { section.answer aria-label="Messages" { (outcome) } }
        h2 { "Use" }
        p { "In Claude Code, once it is connected, the prompt is a slash command; other clients list it by its name:" }
        (copyable(&usage(row)))
        p { "On the command line:" }
        (copyable(&command(row)))
        h2 { "Install" }
        p { "A client that is connected to this registry has every prompt. Connect it once:" }
        (clients(visit))
        p { "Over HTTP:" }
        (copyable(&format!("{}/mcp", visit.server_address())))
    };
    let title = skills_agent_skills::validate::reveal_hidden(name).into_owned();
    Page::new(title, Section::Browse, body).respond(visit)
}

fn field(at: usize, argument: &PromptArgument, values: &Map<String, Value>) -> Markup {
    let id = format!("argument-{at}");
    let value = values.get(&argument.name).and_then(Value::as_str).unwrap_or_default();
    let hint = argument.description.as_ref().map(|_| format!("{id}-hint"));
    html! {
        label for=(id) { (user_text(&argument.name)) @if argument.required { span.required { " required" } } @else { span.muted { " optional" } } }
        @if let Some(description) = &argument.description { p.hint id=(format!("{id}-hint")) { (user_text(description)) } }
        input id=(id) name=(format!("{PREFIX}{}", argument.name)) value=(value) required[argument.required] aria-describedby=[hint];
    }
}

fn messages(prompt: &RenderedPrompt) -> Markup {
    let mut left = MAX_TEXT_BYTES;
    html! {
        ol.messages { @for message in prompt.messages.iter().take(MAX_MESSAGES) { (message_row(message, &mut left)) } }
        @if prompt.messages.len() > MAX_MESSAGES { p.muted { "Further messages are not shown." } }
    }
}

/// Renders a message with as much text as may be.
fn message_row(message: &Value, left: &mut usize) -> Markup {
    let content = &message["content"];
    let content = if content["text"].is_string() { &content["text"] } else { content };
    let (text, is_cut) = json_text(content, *left);
    *left -= text.len();
    let role = message["role"].as_str().unwrap_or("message");
    html! {
        li {
            span.role { (user_text(&truncate(role, MAX_ROLE_CHARS))) }
            pre tabindex="0" { (user_text(&text)) @if is_cut { "…" } }
        }
    }
}

/// Returns the name of an argument for a line to copy, or a placeholder: names may hold anything, also what a shell or a
/// client would run.
fn line_name(name: &str) -> &str {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.starts_with('-') || !name.chars().all(is_plain) { "ARGUMENT" } else { name }
}

fn usage(row: &PromptRow) -> String {
    let arguments = row.definition.arguments.iter();
    let arguments = arguments.map(|it| format!(" {{{}}}", line_name(&it.name)));
    format!("/mcp__skills__{}{}", row.name, arguments.collect::<String>())
}

fn command(row: &PromptRow) -> String {
    let arguments = row.definition.arguments.iter();
    let arguments: Vec<String> =
        arguments.map(|it| format!("{}=VALUE", line_name(&it.name))).collect();
    let arguments = arguments.iter().map(String::as_str);
    let words: Vec<&str> =
        ["skills", "prompt", "get", &row.name].into_iter().chain(arguments).collect();
    shell_line(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_arguments_run_nothing() {
        for name in
            ["; curl x|sh #", "a\ncurl x", "$(x)", "`x`", "a b", "-rf", "a\u{202e}", "a=b", "é"]
        {
            assert_eq!(line_name(name), "ARGUMENT", "{name:?}");
        }
        for name in ["city", "a_b", "max-days", "N2"] {
            assert_eq!(line_name(name), name);
        }
    }
}
