//! What is said in answer to a message.

use std::sync::Arc;

use agent_client_protocol::v1::schema::{ContentBlock, TextContent};
use serde_json::Value;
use skills_core::{markdown::split_frontmatter, uri::SCHEME};
use skills_registry::{PromptRow, RegistryError, RenderedPrompt, SkillRow, Skills};

use crate::{answers, arguments::parse, menu::Kept};

/// The most that may be typed behind a command, in bytes.
const MAX_TYPED: usize = 1 << 20;

/// The text of a message. What it links to is there as its address.
pub(crate) fn text(prompt: Vec<ContentBlock>) -> String {
    let text = |block| match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::ResourceLink(link) => format!(" {} ", link.uri),
        _ => String::new(),
    };
    prompt.into_iter().map(text).collect()
}

/// What a message that starts with `/` asks for: a name, and what follows it.
fn command(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start().strip_prefix('/')?;
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (name, typed) = text.split_at(end);
    (!name.is_empty()).then_some((name, typed.trim()))
}

/// The answer: blocks that are said one after the other.
pub(crate) async fn answer(skills: &dyn Skills, kept: &Kept, text: &str) -> Vec<ContentBlock> {
    let Kept { catalog, menu } = kept;
    let Some((name, typed)) = command(text) else { return say(answers::help(menu)) };
    let lower = name.to_ascii_lowercase();
    let names = || [name, lower.as_str()].into_iter();
    // What the menu calls so comes before what only the prefix leads to, and what is stored before what is live.
    let is_meant = |row: &&Arc<PromptRow>, name: &str| {
        menu.skill(name).is_none() && !(row.is_live() && catalog.stored(name).is_some())
    };
    let prompt = names().find_map(|name| catalog.prompt(name).filter(|row| is_meant(row, name)));
    let skill = || names().find_map(|name| catalog.skill(menu.skill(name).unwrap_or(name)));
    if prompt.is_none() && skill().is_none() {
        return say(answers::unknown(name, menu));
    }
    if typed.len() > MAX_TYPED {
        return say(answers::too_long(name, MAX_TYPED));
    }
    match (prompt, skill()) {
        (Some(prompt), _) => render(skills, prompt, typed).await,
        (None, Some(skill)) => show(skills, skill, typed).await,
        (None, None) => vec![],
    }
}

fn say(text: impl Into<String>) -> Vec<ContentBlock> {
    vec![ContentBlock::Text(TextContent::new(text))]
}

async fn render(skills: &dyn Skills, prompt: &PromptRow, typed: &str) -> Vec<ContentBlock> {
    let declared = &prompt.definition.arguments;
    let arguments = match parse(declared, typed) {
        Ok(arguments) => arguments,
        Err(problem) => return say(answers::bad_arguments(&prompt.name, declared, &problem)),
    };
    match skills.render_prompt(&prompt.name, Value::Object(arguments)).await {
        Ok(rendered) => messages(&prompt.name, rendered),
        Err(error) => say(answers::failed(&format!("`/{}`", prompt.name), &error)),
    }
}

/// The document without its frontmatter, which is for machines, and what was typed after it.
async fn show(skills: &dyn Skills, skill: &SkillRow, typed: &str) -> Vec<ContentBlock> {
    if skill.meta.agent.as_deref().is_some_and(|agent| !agent.user_invocable) {
        return say(answers::not_invocable(&skill.id));
    }
    let document = match skills.read(&format!("{SCHEME}{}", skill.id)).await {
        Ok(resource) => resource.into_text(),
        Err(error) => return say(answers::failed(&format!("`/{}`", skill.id), &error)),
    };
    let body = split_frontmatter(&document).1.trim_start_matches(['\r', '\n']);
    match typed {
        "" => say(body),
        typed => say(format!("{}\n\nARGUMENTS: {typed}\n", body.trim_end())),
    }
}

/// The messages of a prompt. Several are told apart by who says them.
fn messages(name: &str, rendered: RenderedPrompt) -> Vec<ContentBlock> {
    let are_several = rendered.messages.len() > 1;
    let mut blocks = vec![];
    for (at, mut message) in rendered.messages.into_iter().enumerate() {
        if are_several {
            let role = message.get("role").and_then(Value::as_str).unwrap_or("user");
            let gap = if at == 0 { "" } else { "\n\n" };
            blocks.extend(say(format!("{gap}**{role}:**\n\n")));
        }
        blocks.push(block(message.get_mut("content").map(Value::take).unwrap_or_default()));
    }
    if blocks.is_empty() {
        return say(format!("`/{name}` has nothing to say.\n"));
    }
    blocks
}

/// Content of a message. The blocks of MCP are those of ACP; what is none is shown as it is.
fn block(content: Value) -> ContentBlock {
    let text = |text: String| ContentBlock::Text(TextContent::new(text));
    match content {
        Value::String(content) => text(content),
        content => serde_json::from_value(content.clone())
            .unwrap_or_else(|_| text(format!("```json\n{content:#}\n```\n"))),
    }
}

/// The registry cannot be reached.
pub(crate) fn out_of_reach(error: &RegistryError) -> Vec<ContentBlock> {
    say(answers::failed("Reading the registry", error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commands() {
        assert_eq!(command("/greet Ada  \n"), Some(("greet", "Ada")));
        assert_eq!(command("  /greet"), Some(("greet", "")));
        assert_eq!(command("/greet\nmany\nlines"), Some(("greet", "many\nlines")));
        assert_eq!(command("hello /greet"), None);
        assert_eq!(command("/"), None);
        assert_eq!(command("/ greet"), None);
        assert_eq!(command(""), None);
    }

    #[test]
    fn links_are_part_of_the_text() {
        let blocks: Vec<ContentBlock> = serde_json::from_value(json!([
            { "type": "text", "text": "/review" },
            { "type": "resource_link", "name": "a.rs", "uri": "file:///a.rs" },
        ]))
        .unwrap();
        assert_eq!(text(blocks), "/review file:///a.rs ");
    }

    fn shown(rendered: Value) -> Value {
        let messages = rendered.as_array().unwrap().clone();
        let blocks = messages_of(messages);
        serde_json::to_value(blocks).unwrap()
    }

    fn messages_of(messages: Vec<Value>) -> Vec<ContentBlock> {
        super::messages("p", RenderedPrompt { description: None, messages })
    }

    #[test]
    fn messages_of_all_kinds() {
        let one = json!([{ "role": "user", "content": { "type": "text", "text": "Hi." } }]);
        assert_eq!(shown(one), json!([{ "type": "text", "text": "Hi." }]));
        let several = json!([
            { "role": "user", "content": "Hi." },
            { "role": "assistant", "content": { "type": "image", "data": "AA==", "mimeType": "image/png" } },
        ]);
        assert_eq!(
            shown(several),
            json!([
                { "type": "text", "text": "**user:**\n\n" },
                { "type": "text", "text": "Hi." },
                { "type": "text", "text": "\n\n**assistant:**\n\n" },
                { "type": "image", "data": "AA==", "mimeType": "image/png" },
            ])
        );
        let other = shown(json!([{ "role": "user", "content": { "type": "odd" } }]));
        assert!(other[0]["text"].as_str().unwrap().contains("\"odd\""));
        assert!(shown(json!([]))[0]["text"].as_str().unwrap().contains("nothing to say"));
    }
}
