//! The eleven functions of the contract.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use schemars::JsonSchema;
use skills_agent_skills::Bundle;
use skills_bus::FunctionSpec;
use skills_core::{BundlePath, PromptDefinition, Provenance, RuleError, SourceKind};
use skills_registry::{PublishRequest, SectionAccess};

use crate::{
    Context,
    contract::{
        AnyValue, CallerInput, EmptyInput, FileContent, ListPromptsInput, ListPromptsOutput,
        ListSkillsInput, ListSkillsOutput, PromptGetInput, PublishedVersion, ReadResourceInput,
        RegisterPromptInput, RegisterPromptOutput, RegisterSkillInput, RegisterSkillOutput,
        UnregisterPromptInput, UnregisterPromptOutput, UnregisterSkillInput, UnregisterSkillOutput,
        schema,
    },
    error::to_bus,
    listing_cache,
    register::Registrar,
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

pub(crate) fn register(functions: &Registrar<'_, Arc<Context>>) {
    register_skills(functions);
    register_prompts(functions);
}

/// Builds the bundle of a root document and further files.
pub(crate) fn bundle(
    skill: String,
    files: BTreeMap<String, FileContent>,
    executable: Option<&[String]>,
) -> Result<Bundle<Bytes>, RuleError> {
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
    let bundle =
        Bundle::new(skill, files.into_iter().map(file).collect::<Result<_, RuleError>>()?)?;
    let executable = executable.map(|paths| paths.iter().map(String::as_str).collect());
    let executable: Option<HashSet<&str>> = executable;
    Ok(bundle.with_executable(|path| executable.as_ref().map(|paths| paths.contains(path))))
}

/// Returns the provenance that a call states, or the calling worker.
pub(crate) fn provenance(
    stated: Option<Box<Provenance>>,
    actor: &str,
) -> Result<Box<Provenance>, RuleError> {
    let worker = || {
        let name = actor.strip_prefix("worker:").unwrap_or(actor);
        Box::new(Provenance::new(SourceKind::Worker, name))
    };
    stated.map_or_else(|| Ok(worker()), |stated| stated.check().map(Box::new))
}

fn register_skills(functions: &Registrar<'_, Arc<Context>>) {
    functions.typed(
        spec::<RegisterSkillInput, RegisterSkillOutput>(
            "skills::register",
            "Register a markdown skill so it appears as iii://{id} in resources/list.",
        ),
        |context, actor, input: RegisterSkillInput| {
            let target = context.keys.write_target(&input, input.tier, actor);
            let RegisterSkillInput { id, skill, files, executable, source, .. } = input;
            let request =
                PublishRequest { message: input.message, expected_version: input.expected_version };
            let is_versioned = !request.is_empty();
            // Queued before any `await`: the writes of a caller keep their order.
            let write = target.and_then(|(layer, actor)| {
                let source = provenance(source, &actor)?;
                let bundle = bundle(skill, files, executable.as_deref())?;
                let bundle = bundle.with_provenance(Some(source));
                let characters = bundle.truncated_description();
                let registry = &context.registry;
                let write = registry.publish_bundle(&actor, &layer, &id, bundle, request);
                Ok((write, characters))
            });
            let context = Arc::clone(context);
            async move {
                let (write, characters) = write?;
                let published = write.await?;
                if let Some(characters) = characters {
                    context.log_truncated_description(&id, characters);
                }
                let version = is_versioned.then(|| PublishedVersion::from(&published));
                Ok(RegisterSkillOutput { id, registered_at: published.registered_at, version })
            }
        },
    );
    functions.typed(
        spec::<UnregisterSkillInput, UnregisterSkillOutput>(
            "skills::unregister",
            "Remove a registered skill by id.",
        ),
        |context, actor, input: UnregisterSkillInput| {
            let target = context.keys.write_target(&input, input.tier, actor);
            let id = input.id;
            let write =
                target.map(|(layer, actor)| context.registry.remove_skill(&actor, &layer, &id));
            async move { Ok(UnregisterSkillOutput { removed: write?.await?, id }) }
        },
    );
    functions.listing(
        spec::<ListSkillsInput, ListSkillsOutput>(
            "skills::list",
            "List registered skills (id, body length, registered_at) without bodies.",
        ),
        |context, input: ListSkillsInput| context.listings.skills(&context.keys.caller(&input)?),
    );
    functions.listing(
        spec::<CallerInput, AnyValue>(
            "skills::resources-list",
            "Internal: returns the MCP resources/list envelope with the iii://skills index + one iii://{id} entry per registered skill.",
        ),
        |context, input: CallerInput| context.listings.resources(&context.keys.caller(&input)?),
    );
    functions.json(
        spec::<ReadResourceInput, AnyValue>(
            "skills::resources-read",
            "Internal: resolves an iii:// URI and returns the MCP resources/read contents envelope.",
        ),
        |context, _, input: ReadResourceInput| {
            let context = Arc::clone(context);
            async move {
                let caller = context.keys.caller(&input).map_err(|error| to_bus(&error))?;
                if listing_cache::is_index(&input.uri) {
                    return context.listings.index(&caller).map_err(|error| to_bus(&error));
                }
                let sections = input.sections.unwrap_or(SectionAccess::Any);
                let read = context.registry.read_with(&caller, &input.uri, sections);
                listing_cache::contents(read.await)
            }
        },
    );
    functions.listing(
        spec::<EmptyInput, AnyValue>(
            "skills::resources-templates",
            "Internal: returns the MCP resources/templates/list envelope.",
        ),
        |_, _: EmptyInput| Ok(listing_cache::templates()),
    );
}

fn register_prompts(functions: &Registrar<'_, Arc<Context>>) {
    functions.typed(
        spec::<RegisterPromptInput, RegisterPromptOutput>(
            "prompts::register",
            "Register a slash-command prompt; clients call prompts/get to render it.",
        ),
        |context, actor, input: RegisterPromptInput| {
            let target = context.keys.write_target(&input, input.tier, actor);
            let RegisterPromptInput { name, description, arguments, function_id, .. } = input;
            let request =
                PublishRequest { message: input.message, expected_version: input.expected_version };
            let is_versioned = !request.is_empty();
            let arguments = arguments.into_iter().map(Into::into).collect();
            let definition = PromptDefinition { description, arguments, function_id };
            let write = target.map(|(layer, actor)| {
                context.registry.publish_prompt(&actor, &layer, &name, definition, request)
            });
            async move {
                let published = write?.await?;
                let version = is_versioned.then(|| PublishedVersion::from(&published));
                Ok(RegisterPromptOutput { name, registered_at: published.registered_at, version })
            }
        },
    );
    functions.typed(
        spec::<UnregisterPromptInput, UnregisterPromptOutput>(
            "prompts::unregister",
            "Remove a registered prompt by name.",
        ),
        |context, actor, input: UnregisterPromptInput| {
            let target = context.keys.write_target(&input, input.tier, actor);
            let name = input.name;
            let write =
                target.map(|(layer, actor)| context.registry.remove_prompt(&actor, &layer, &name));
            async move { Ok(UnregisterPromptOutput { removed: write?.await?, name }) }
        },
    );
    functions.listing(
        spec::<ListPromptsInput, ListPromptsOutput>(
            "prompts::list",
            "List registered prompts (name, function_id, arg count, registered_at).",
        ),
        |context, input: ListPromptsInput| context.listings.prompts(&context.keys.caller(&input)?),
    );
    functions.listing(
        spec::<CallerInput, AnyValue>(
            "prompts::mcp-list",
            "Internal: returns the MCP prompts/list envelope (full arguments schema for each registered prompt).",
        ),
        |context, input: CallerInput| {
            context.listings.prompt_details(&context.keys.caller(&input)?)
        },
    );
    functions.typed(
        spec::<PromptGetInput, AnyValue>(
            "prompts::mcp-get",
            "Internal: dispatches a registered prompt handler and normalizes the result for MCP prompts/get.",
        ),
        |context, _, input: PromptGetInput| {
            let context = Arc::clone(context);
            async move {
                let caller = context.keys.caller(&input)?;
                context.registry.render_prompt_as(&caller, &input.name, input.arguments).await
            }
        },
    );
}
