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
        UnregisterPromptOutput, UnregisterSkillInput, UnregisterSkillOutput, WhoInput, schema,
    },
    error::to_bus,
    offer::{offer, offer_json, offer_listing},
    rendered::{self, Rendered},
    who::Who,
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

pub(crate) fn register(bus: &dyn Bus, registry: &Arc<Registry>, who: &Who) {
    let rendered = Arc::new(Rendered::new(Arc::clone(registry)));
    register_skills(bus, registry, &rendered, who);
    register_prompts(bus, registry, &rendered, who);
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

fn register_skills(bus: &dyn Bus, registry: &Arc<Registry>, rendered: &Arc<Rendered>, who: &Who) {
    let (door, keys) = (Arc::clone(registry), who.clone());
    offer(
        bus,
        spec::<RegisterSkillInput, RegisterSkillOutput>(
            "skills::register",
            "Register a markdown skill so it appears as iii://{id} in resources/list.",
        ),
        move |actor, input: RegisterSkillInput| {
            let place = keys.writes(&input, input.tier, actor);
            let RegisterSkillInput { id, skill, files, .. } = input;
            // Queued here, before anything waits: the writes of a caller keep their order.
            let write = place.and_then(|(layer, actor)| {
                Ok(door.register_bundle_in(&actor, &layer, &id, bundle(skill, files)?))
            });
            async move {
                let registered_at = write?.await?.to_string();
                Ok(RegisterSkillOutput { id, registered_at })
            }
        },
    );

    let (door, keys) = (Arc::clone(registry), who.clone());
    offer(
        bus,
        spec::<UnregisterSkillInput, UnregisterSkillOutput>(
            "skills::unregister",
            "Remove a registered skill by id.",
        ),
        move |actor, input: UnregisterSkillInput| {
            let place = keys.writes(&input, input.tier, actor);
            let UnregisterSkillInput { id, .. } = input;
            let write = place.map(|(layer, actor)| door.remove_skill_in(&actor, &layer, &id));
            async move { Ok(UnregisterSkillOutput { removed: write?.await?, id }) }
        },
    );

    let (lists, keys) = (Arc::clone(rendered), who.clone());
    offer_listing(
        bus,
        spec::<ListSkillsInput, ListSkillsOutput>(
            "skills::list",
            "List registered skills (id, body length, registered_at) without bodies.",
        ),
        move |input: ListSkillsInput| lists.skills(&keys.asks(&input)?),
    );

    let (lists, keys) = (Arc::clone(rendered), who.clone());
    offer_listing(
        bus,
        spec::<WhoInput, AnyValue>(
            "skills::resources-list",
            "Internal: returns the MCP resources/list envelope with the iii://skills index + one iii://{id} entry per registered skill.",
        ),
        move |input: WhoInput| lists.resources(&keys.asks(&input)?),
    );

    let (door, lists, keys) = (Arc::clone(registry), Arc::clone(rendered), who.clone());
    offer_json(
        bus,
        spec::<ReadResourceInput, AnyValue>(
            "skills::resources-read",
            "Internal: resolves an iii:// URI and returns the MCP resources/read contents envelope.",
        ),
        move |_, input: ReadResourceInput| {
            let asks = keys.asks(&input);
            let ReadResourceInput { uri, .. } = input;
            let kept = match &asks {
                Ok(caller) if rendered::is_index(&uri) => Some(lists.index(caller)),
                _ => None,
            };
            let door = Arc::clone(&door);
            async move {
                match (kept, asks) {
                    (Some(kept), _) => kept.map_err(|error| to_bus(&error)),
                    (None, Ok(caller)) => rendered::contents(door.read_as(&caller, &uri).await),
                    (None, Err(unknown)) => Err(to_bus(&unknown)),
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
        |_: EmptyInput| Ok(rendered::templates()),
    );
}

fn register_prompts(bus: &dyn Bus, registry: &Arc<Registry>, rendered: &Arc<Rendered>, who: &Who) {
    let (door, keys) = (Arc::clone(registry), who.clone());
    offer(
        bus,
        spec::<RegisterPromptInput, RegisterPromptOutput>(
            "prompts::register",
            "Register a slash-command prompt; clients call prompts/get to render it.",
        ),
        move |actor, input: RegisterPromptInput| {
            let place = keys.writes(&input, input.tier, actor);
            let RegisterPromptInput { name, description, arguments, function_id, .. } = input;
            let arguments = arguments.into_iter().map(Into::into).collect();
            let definition = PromptDefinition { description, arguments, function_id };
            let write = place
                .map(|(layer, actor)| door.register_prompt_in(&actor, &layer, &name, definition));
            async move {
                let registered_at = write?.await?.to_string();
                Ok(RegisterPromptOutput { name, registered_at })
            }
        },
    );

    let (door, keys) = (Arc::clone(registry), who.clone());
    offer(
        bus,
        spec::<UnregisterPromptInput, UnregisterPromptOutput>(
            "prompts::unregister",
            "Remove a registered prompt by name.",
        ),
        move |actor, input: UnregisterPromptInput| {
            let place = keys.writes(&input, input.tier, actor);
            let UnregisterPromptInput { name, .. } = input;
            let write = place.map(|(layer, actor)| door.remove_prompt_in(&actor, &layer, &name));
            async move { Ok(UnregisterPromptOutput { removed: write?.await?, name }) }
        },
    );

    let (lists, keys) = (Arc::clone(rendered), who.clone());
    offer_listing(
        bus,
        spec::<ListPromptsInput, ListPromptsOutput>(
            "prompts::list",
            "List registered prompts (name, function_id, arg count, registered_at).",
        ),
        move |input: ListPromptsInput| lists.prompts(&keys.asks(&input)?),
    );

    let (lists, keys) = (Arc::clone(rendered), who.clone());
    offer_listing(
        bus,
        spec::<WhoInput, AnyValue>(
            "prompts::mcp-list",
            "Internal: returns the MCP prompts/list envelope (full arguments schema for each registered prompt).",
        ),
        move |input: WhoInput| lists.prompt_details(&keys.asks(&input)?),
    );

    let (door, keys) = (Arc::clone(registry), who.clone());
    offer(
        bus,
        spec::<PromptGetInput, AnyValue>(
            "prompts::mcp-get",
            "Internal: dispatches a registered prompt handler and normalizes the result for MCP prompts/get.",
        ),
        move |_, input: PromptGetInput| {
            let asks = keys.asks(&input);
            let PromptGetInput { name, arguments, .. } = input;
            let door = Arc::clone(&door);
            async move { door.render_prompt_as(&asks?, &name, arguments).await }
        },
    );
}
