//! The eleven functions of the contract.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use schemars::JsonSchema;
use skills_bus::{Bus, FunctionSpec};
use skills_core::{Bundle, BundlePath, PromptDefinition, RuleError};
use skills_registry::Registry;

use crate::{
    contract::{
        AnyValue, EmptyInput, FileContent, ListPromptsInput, ListPromptsOutput, ListSkillsInput,
        ListSkillsOutput, PromptGetInput, ReadResourceInput, RegisterPromptInput,
        RegisterPromptOutput, RegisterSkillInput, RegisterSkillOutput, UnregisterPromptInput,
        UnregisterPromptOutput, UnregisterSkillInput, UnregisterSkillOutput, schema,
    },
    offer::{offer, offer_json, offer_listing},
    rendered::{self, Rendered},
};

pub(crate) fn spec<I: JsonSchema, O: JsonSchema>(id: &str, description: &str) -> FunctionSpec {
    FunctionSpec {
        id: id.to_owned(),
        description: description.to_owned(),
        request_format: Some(schema::<I>()),
        response_format: Some(schema::<O>()),
        metadata: Some(serde_json::json!({})),
    }
}

pub(crate) fn register(bus: &dyn Bus, registry: &Arc<Registry>) {
    let rendered = Arc::new(Rendered::new(Arc::clone(registry)));
    register_skills(bus, registry, &rendered);
    register_prompts(bus, registry, &rendered);
}

fn bundle(skill: String, files: BTreeMap<String, FileContent>) -> Result<Bundle<Bytes>, RuleError> {
    let file = |(path, content): (String, FileContent)| {
        let path: BundlePath = path.parse()?;
        let bytes = match content {
            FileContent::Text(text) => text.into_bytes(),
            FileContent::Bytes { base64 } => BASE64.decode(base64).map_err(|_| {
                RuleError::Path { path: path.to_string(), reason: "is not in base64" }
            })?,
        };
        Ok((path, Bytes::from(bytes)))
    };
    Bundle::new(skill, files.into_iter().map(file).collect::<Result<_, RuleError>>()?)
}

fn register_skills(bus: &dyn Bus, registry: &Arc<Registry>, rendered: &Arc<Rendered>) {
    let door = Arc::clone(registry);
    offer(
        bus,
        spec::<RegisterSkillInput, RegisterSkillOutput>(
            "skills::register",
            "Register a markdown skill so it appears as iii://{id} in resources/list.",
        ),
        move |actor, RegisterSkillInput { id, skill, files }| {
            // Queued here, before anything waits: the writes of a caller keep their order.
            let write =
                bundle(skill, files).map(|bundle| door.register_bundle(&actor, &id, bundle));
            async move {
                let registered_at = write?.await?.to_string();
                Ok(RegisterSkillOutput { id, registered_at })
            }
        },
    );

    let door = Arc::clone(registry);
    offer(
        bus,
        spec::<UnregisterSkillInput, UnregisterSkillOutput>(
            "skills::unregister",
            "Remove a registered skill by id.",
        ),
        move |actor, UnregisterSkillInput { id }| {
            let write = door.remove_skill(&actor, &id);
            async move { Ok(UnregisterSkillOutput { removed: write.await?, id }) }
        },
    );

    let lists = Arc::clone(rendered);
    offer_listing(
        bus,
        spec::<ListSkillsInput, ListSkillsOutput>(
            "skills::list",
            "List registered skills (id, body length, registered_at) without bodies.",
        ),
        move || lists.skills(),
    );

    let lists = Arc::clone(rendered);
    offer_listing(
        bus,
        spec::<EmptyInput, AnyValue>(
            "skills::resources-list",
            "Internal: returns the MCP resources/list envelope with the iii://skills index + one iii://{id} entry per registered skill.",
        ),
        move || lists.resources(),
    );

    let (door, lists) = (Arc::clone(registry), Arc::clone(rendered));
    offer_json(
        bus,
        spec::<ReadResourceInput, AnyValue>(
            "skills::resources-read",
            "Internal: resolves an iii:// URI and returns the MCP resources/read contents envelope.",
        ),
        move |_, ReadResourceInput { uri }| {
            let kept = rendered::is_index(&uri).then(|| lists.index());
            let door = Arc::clone(&door);
            async move {
                match kept {
                    Some(kept) => kept,
                    None => rendered::contents(door.read(&uri).await),
                }
            }
        },
    );

    offer_listing(
        bus,
        spec::<EmptyInput, AnyValue>(
            "skills::resources-templates",
            "Internal: returns the MCP resources/templates/list envelope.",
        ),
        rendered::templates,
    );
}

fn register_prompts(bus: &dyn Bus, registry: &Arc<Registry>, rendered: &Arc<Rendered>) {
    let door = Arc::clone(registry);
    offer(
        bus,
        spec::<RegisterPromptInput, RegisterPromptOutput>(
            "prompts::register",
            "Register a slash-command prompt; clients call prompts/get to render it.",
        ),
        move |actor, RegisterPromptInput { name, description, arguments, function_id }| {
            let arguments = arguments.into_iter().map(Into::into).collect();
            let definition = PromptDefinition { description, arguments, function_id };
            let write = door.register_prompt(&actor, &name, definition);
            async move {
                let registered_at = write.await?.to_string();
                Ok(RegisterPromptOutput { name, registered_at })
            }
        },
    );

    let door = Arc::clone(registry);
    offer(
        bus,
        spec::<UnregisterPromptInput, UnregisterPromptOutput>(
            "prompts::unregister",
            "Remove a registered prompt by name.",
        ),
        move |actor, UnregisterPromptInput { name }| {
            let write = door.remove_prompt(&actor, &name);
            async move { Ok(UnregisterPromptOutput { removed: write.await?, name }) }
        },
    );

    let lists = Arc::clone(rendered);
    offer_listing(
        bus,
        spec::<ListPromptsInput, ListPromptsOutput>(
            "prompts::list",
            "List registered prompts (name, function_id, arg count, registered_at).",
        ),
        move || lists.prompts(),
    );

    let lists = Arc::clone(rendered);
    offer_listing(
        bus,
        spec::<EmptyInput, AnyValue>(
            "prompts::mcp-list",
            "Internal: returns the MCP prompts/list envelope (full arguments schema for each registered prompt).",
        ),
        move || lists.prompt_details(),
    );

    let door = Arc::clone(registry);
    offer(
        bus,
        spec::<PromptGetInput, AnyValue>(
            "prompts::mcp-get",
            "Internal: dispatches a registered prompt handler and normalizes the result for MCP prompts/get.",
        ),
        move |_, PromptGetInput { name, arguments }| {
            let door = Arc::clone(&door);
            async move { door.render_prompt(&name, arguments).await }
        },
    );
}
