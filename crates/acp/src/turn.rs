//! Response to a message: rendered prompts, skills, help and errors.

use std::sync::Arc;

use agent_client_protocol::v1::schema::{ContentBlock, TextContent};
use serde_json::Value;
use skills_agent_skills::markdown::split_frontmatter;
use skills_core::{
    EntryKind, VersionSelector,
    uri::SCHEME,
    version::{VERSION_SEPARATOR, split_version},
};
use skills_registry::{
    HistoryRequest, PromptRow, RegistryError, RenderedPrompt, SkillRegistry, SkillRow,
};

use crate::{arguments::parse, commands::CommandSnapshot, messages};

/// Most bytes of a command's arguments.
const MAX_ARGUMENTS: usize = 1 << 20;

/// Returns the text of a message. A resource link becomes its URI.
pub(crate) fn text(prompt: Vec<ContentBlock>) -> String {
    let text = |block| match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::ResourceLink(link) => format!(" {} ", link.uri),
        _ => String::new(),
    };
    prompt.into_iter().map(text).collect()
}

/// Parses a message that starts with `/` into a command name and its arguments.
fn command(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start().strip_prefix('/')?;
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (name, arguments) = text.split_at(end);
    (!name.is_empty()).then_some((name, arguments.trim()))
}

/// Returns the blocks of the response, which are streamed one after the other.
pub(crate) async fn respond(
    skills: &dyn SkillRegistry,
    snapshot: &CommandSnapshot,
    text: &str,
) -> Vec<ContentBlock> {
    let CommandSnapshot { catalog, commands } = snapshot;
    let Some((name, arguments)) = command(text) else {
        return text_block(messages::help(commands));
    };
    let typed = name;
    let (name, version) = match split_version(typed) {
        Ok(split) => split,
        Err(error) => return text_block(messages::failed(&format!("`/{typed}`"), &error.into())),
    };
    let (name, lower) = (&*name, name.to_ascii_lowercase());
    let names = || [name, lower.as_str()].into_iter();
    // A listed skill comes before a prompt that only the name prefix leads to, and stored entries before live ones.
    let is_preferred = |row: &&Arc<PromptRow>, name: &str| {
        commands.skill(name).is_none() && !(row.is_live() && catalog.stored(name).is_some())
    };
    let prompt =
        names().find_map(|name| catalog.prompt(name).filter(|row| is_preferred(row, name)));
    let skill = names().find_map(|name| catalog.skill(commands.skill(name).unwrap_or(name)));
    let skill = match (&version, skill) {
        // An entry whose versions are all yanked is not listed, and its versions can still be read.
        (Some(version), None) if prompt.is_none() => {
            match skills.skill_version(None, &lower, version).await {
                Ok(row) => Some(row),
                Err(error) if has_versions(skills, &lower).await => {
                    return text_block(messages::failed(&format!("`/{typed}`"), &error));
                }
                Err(_) => None,
            }
        }
        (_, skill) => skill.cloned(),
    };
    if prompt.is_none() && skill.is_none() {
        return text_block(messages::unknown(name, commands));
    }
    if arguments.len() > MAX_ARGUMENTS {
        return text_block(messages::too_long(name, MAX_ARGUMENTS));
    }
    match (prompt, skill) {
        (Some(prompt), _) => render(skills, prompt, version.as_ref(), arguments).await,
        (None, Some(skill)) => show(skills, &skill, version.as_ref(), arguments).await,
        (None, None) => vec![],
    }
}

/// Returns whether a skill has versions, also if none of them is served.
async fn has_versions(skills: &dyn SkillRegistry, id: &str) -> bool {
    let request = HistoryRequest { id: id.to_owned(), tier: None, limit: Some(1), after: None };
    skills.history(EntryKind::Skill, &request).await.is_ok()
}

fn text_block(text: impl Into<String>) -> Vec<ContentBlock> {
    vec![ContentBlock::Text(TextContent::new(text))]
}

/// Returns an id or name with the version that the user typed after it.
fn address(id: &str, version: Option<&VersionSelector>) -> String {
    match version {
        Some(version) => format!("{id}{VERSION_SEPARATOR}{version}"),
        None => id.to_owned(),
    }
}

/// Renders a prompt. The arguments are parsed by the served definition, also for another version.
async fn render(
    skills: &dyn SkillRegistry,
    prompt: &PromptRow,
    version: Option<&VersionSelector>,
    typed: &str,
) -> Vec<ContentBlock> {
    let declared = &prompt.definition.arguments;
    let arguments = match parse(declared, typed) {
        Ok(arguments) => arguments,
        Err(error) => return text_block(messages::bad_arguments(&prompt.name, declared, &error)),
    };
    let name = address(&prompt.name, version);
    match skills.render_prompt(&name, Value::Object(arguments)).await {
        Ok(rendered) => prompt_messages(&name, rendered),
        Err(error) => text_block(messages::failed(&format!("`/{name}`"), &error)),
    }
}

/// Returns a skill's document without its frontmatter, followed by the arguments.
async fn show(
    skills: &dyn SkillRegistry,
    skill: &SkillRow,
    version: Option<&VersionSelector>,
    arguments: &str,
) -> Vec<ContentBlock> {
    if skill.meta.agent.as_deref().is_some_and(|agent| !agent.user_invocable) {
        return text_block(messages::not_invocable(&skill.id));
    }
    let id = address(&skill.id, version);
    let resource = match skills.read(&format!("{SCHEME}{id}")).await {
        Ok(resource) => resource,
        Err(error) => return text_block(messages::failed(&format!("`/{id}`"), &error)),
    };
    let yanked = resource.version.as_ref().and_then(|version| version.yanked.as_deref());
    let warning = yanked.map(|reason| messages::yanked(&id, reason)).unwrap_or_default();
    let document = resource.into_text();
    let body = split_frontmatter(&document).1.trim_start_matches(['\r', '\n']);
    if arguments.is_empty() {
        return text_block(warning + body);
    }
    text_block(format!("{warning}{}\n\nARGUMENTS: {arguments}\n", body.trim_end()))
}

/// Returns the messages of a prompt. Several messages get their roles as headings.
fn prompt_messages(name: &str, rendered: RenderedPrompt) -> Vec<ContentBlock> {
    let has_headings = rendered.messages.len() > 1;
    let mut blocks = vec![];
    for (index, mut message) in rendered.messages.into_iter().enumerate() {
        if has_headings {
            let role = message.get("role").and_then(Value::as_str).unwrap_or("user");
            let gap = if index == 0 { "" } else { "\n\n" };
            blocks.extend(text_block(format!("{gap}**{role}:**\n\n")));
        }
        blocks.push(block(message.get_mut("content").map(Value::take).unwrap_or_default()));
    }
    if blocks.is_empty() {
        return text_block(format!("`/{name}` returned no messages.\n"));
    }
    blocks
}

/// Converts the content of a message. MCP and ACP have the same blocks; any other value is shown as JSON.
fn block(content: Value) -> ContentBlock {
    let text = |text: String| ContentBlock::Text(TextContent::new(text));
    match content {
        Value::String(content) => text(content),
        content => serde_json::from_value(content.clone())
            .unwrap_or_else(|_| text(format!("```json\n{content:#}\n```\n"))),
    }
}

/// Returns the response while the registry is unavailable.
pub(crate) fn registry_unavailable(error: &RegistryError) -> Vec<ContentBlock> {
    text_block(messages::failed("Reading the registry", error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_is_a_slash_a_name_and_its_arguments() {
        assert_eq!(command("/greet Ada  \n"), Some(("greet", "Ada")));
        assert_eq!(command("  /greet"), Some(("greet", "")));
        assert_eq!(command("/greet\nmany\nlines"), Some(("greet", "many\nlines")));
        assert_eq!(command("hello /greet"), None);
        assert_eq!(command("/"), None);
        assert_eq!(command("/ greet"), None);
        assert_eq!(command(""), None);
    }

    #[test]
    fn resource_links_become_their_uris() {
        let blocks: Vec<ContentBlock> = serde_json::from_value(json!([
            { "type": "text", "text": "/review" },
            { "type": "resource_link", "name": "a.rs", "uri": "file:///a.rs" },
        ]))
        .unwrap();
        assert_eq!(text(blocks), "/review file:///a.rs ");
    }

    fn blocks(messages: Value) -> Value {
        let messages = messages.as_array().unwrap().clone();
        let blocks = prompt_messages("p", RenderedPrompt { description: None, messages });
        serde_json::to_value(blocks).unwrap()
    }

    #[test]
    fn messages_become_blocks_with_their_roles_as_headings() {
        let one = json!([{ "role": "user", "content": { "type": "text", "text": "Hi." } }]);
        assert_eq!(blocks(one), json!([{ "type": "text", "text": "Hi." }]));
        let several = json!([
            { "role": "user", "content": "Hi." },
            { "role": "assistant", "content": { "type": "image", "data": "AA==", "mimeType": "image/png" } },
        ]);
        assert_eq!(
            blocks(several),
            json!([
                { "type": "text", "text": "**user:**\n\n" },
                { "type": "text", "text": "Hi." },
                { "type": "text", "text": "\n\n**assistant:**\n\n" },
                { "type": "image", "data": "AA==", "mimeType": "image/png" },
            ])
        );
        let other = blocks(json!([{ "role": "user", "content": { "type": "odd" } }]));
        assert!(other[0]["text"].as_str().unwrap().contains("\"odd\""));
        assert!(blocks(json!([]))[0]["text"].as_str().unwrap().contains("no messages"));
    }
}
