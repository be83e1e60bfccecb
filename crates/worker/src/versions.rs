//! Functions about versions: `history`, `diff`, `label`, `rollback` and `yank` of skills, prompts and collections, `skills::log`
//! and `skills::gc`. Requests and responses are those of the registry.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use skills_core::{Caller, EntryKey, version::split_version};
use skills_registry::{CollectRequest, HistoryPage, RegistryError, diff::VersionDiff, diff_from};

use crate::{
    Context,
    contract::{
        AnyValue, CollectInput, DiffInput, EntryInput, HistoryInput, LabelInput, LogInput,
        PromptInput, RollbackInput, SkillInput, VersionedCollectionInput, YankInput,
    },
    functions::spec,
    register::Registrar,
};

/// Ids of the functions, sorted.
pub(crate) const VERSION_FUNCTIONS: [&str; 17] = [
    "collections::diff",
    "collections::history",
    "collections::label",
    "collections::rollback",
    "collections::yank",
    "prompts::diff",
    "prompts::history",
    "prompts::label",
    "prompts::rollback",
    "prompts::yank",
    "skills::diff",
    COLLECT,
    "skills::history",
    "skills::label",
    LOG,
    "skills::rollback",
    "skills::yank",
];

const COLLECT: &str = "skills::gc";
const LOG: &str = "skills::log";

pub(crate) fn register(functions: &Registrar<'_, Arc<Context>>) {
    register_entry_functions::<SkillInput>(functions);
    register_entry_functions::<PromptInput>(functions);
    register_entry_functions::<VersionedCollectionInput>(functions);
    functions.typed(
        spec::<LogInput, AnyValue>(
            LOG,
            "Page through the changes of the entries that the caller sees, newest first.",
        ),
        |context, _, input: LogInput| {
            let context = Arc::clone(context);
            async move {
                let caller = context.keys.caller(&input)?;
                context.registry.log_as(&caller, &input.into()).await
            }
        },
    );
    functions.typed(
        spec::<CollectInput, AnyValue>(
            COLLECT,
            "Remove the content of old versions: by these limits, or by those of the configuration.",
        ),
        |context, actor, input: CollectInput| {
            let context = Arc::clone(context);
            async move {
                let mut request = CollectRequest::from(input);
                if request.versions.is_none() && request.days.is_none() {
                    request = CollectRequest { dry_run: request.dry_run, ..context.retention };
                }
                context.registry.collect(&actor, &request).await
            }
        },
    );
}

/// Registers the functions of one kind of entry.
fn register_entry_functions<E>(functions: &Registrar<'_, Arc<Context>>)
where
    E: EntryInput + DeserializeOwned + JsonSchema + Send + Sync + 'static,
{
    let id = |operation: &str| format!("{}::{operation}", E::NAMESPACE);
    functions.typed(
        spec::<HistoryInput<E>, AnyValue>(
            &id("history"),
            "List the versions of an entry, newest first, or describe the one of an address such as a@3.",
        ),
        |context, _, input: HistoryInput<E>| {
            let context = Arc::clone(context);
            async move { history(&context, &input).await }
        },
    );
    functions.typed(
        spec::<DiffInput<E>, AnyValue>(&id("diff"), "Compare two versions of an entry."),
        |context, _, input: DiffInput<E>| {
            let context = Arc::clone(context);
            async move { diff(&context, &input).await }
        },
    );
    functions.typed(
        spec::<LabelInput<E>, AnyValue>(
            &id("label"),
            "Move a label to a version of an entry, or remove it. The version with the label stable is served.",
        ),
        |context, actor, input: LabelInput<E>| {
            let context = Arc::clone(context);
            async move {
                let (key, actor) = write_target(&context, &input.entry, actor).await?;
                context.registry.set_label(&actor, &key, &input.into()).await
            }
        },
    );
    functions.typed(
        spec::<RollbackInput<E>, AnyValue>(
            &id("rollback"),
            "Register the content of an older version again, as a new version.",
        ),
        |context, actor, input: RollbackInput<E>| {
            let context = Arc::clone(context);
            async move {
                let (key, actor) = write_target(&context, &input.entry, actor).await?;
                context.registry.rollback(&actor, &key, &input.into()).await
            }
        },
    );
    functions.typed(
        spec::<YankInput<E>, AnyValue>(
            &id("yank"),
            "Withdraw a version of an entry, undo that, or remove its content for good.",
        ),
        |context, actor, input: YankInput<E>| {
            let context = Arc::clone(context);
            async move {
                let (key, actor) = write_target(&context, &input.entry, actor).await?;
                context.registry.yank(&actor, &key, &input.into()).await
            }
        },
    );
}

async fn history<E: EntryInput>(
    context: &Context,
    input: &HistoryInput<E>,
) -> Result<HistoryPage, RegistryError> {
    let caller = context.keys.caller(&input.entry)?;
    let (id, version) = split_version(input.entry.name())?;
    let key = entry_key(context, &caller, &input.entry, &id).await?;
    match version {
        Some(version) => {
            let data = vec![context.registry.version_info(&key, &version).await?];
            Ok(HistoryPage { data, next: None })
        }
        None => context.registry.history(&key, &input.request(id.into_owned())).await,
    }
}

async fn diff<E: EntryInput>(
    context: &Context,
    input: &DiffInput<E>,
) -> Result<VersionDiff, RegistryError> {
    let caller = context.keys.caller(&input.entry)?;
    let (id, from) = diff_from(input.entry.name(), input.from.clone())?;
    let key = entry_key(context, &caller, &input.entry, &id).await?;
    context.registry.diff(&key, &from, &input.to).await
}

async fn entry_key<E: EntryInput>(
    context: &Context,
    caller: &Caller,
    entry: &E,
    name: &str,
) -> Result<EntryKey, RegistryError> {
    context.registry.entry_key(caller, E::KIND, entry.tier().map(Into::into), name).await
}

/// Returns the entry that a call changes, and the actor for the change log: the user, otherwise `actor`.
///
/// Does not wait for an entry that is listed or whose tier is given: the write is then queued when its future is first
/// polled, so the writes of a caller keep their order.
async fn write_target<E: EntryInput>(
    context: &Context,
    entry: &E,
    actor: String,
) -> Result<(EntryKey, String), RegistryError> {
    let caller = context.keys.caller(entry)?;
    let key = entry_key(context, &caller, entry, entry.name()).await?;
    Ok((key, caller.actor().unwrap_or(actor)))
}
