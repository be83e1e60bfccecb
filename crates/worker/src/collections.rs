//! Functions of collections: `collections::list`, `collections::get`, `collections::put` and `collections::remove`.

use std::sync::Arc;

use skills_core::SkillCollection;
use skills_registry::PublishRequest;

use crate::{
    Context,
    contract::{
        AnyValue, CollectionInput, CollectionsInput, PutCollectionInput, RemoveCollectionInput,
        RemoveCollectionOutput,
    },
    functions::spec,
    register::Registrar,
};

/// Ids of the functions, sorted.
pub(crate) const COLLECTION_FUNCTIONS: [&str; 4] = [GET, LIST, PUT, REMOVE];

const GET: &str = "collections::get";
const LIST: &str = "collections::list";
const PUT: &str = "collections::put";
const REMOVE: &str = "collections::remove";

pub(crate) fn register(functions: &Registrar<'_, Arc<Context>>) {
    functions.typed(
        spec::<CollectionsInput, AnyValue>(LIST, "List the collections of skills."),
        |context, _, input: CollectionsInput| {
            let catalog = context.catalog(&input);
            let listed = catalog
                .map(|catalog| serde_json::json!({ "collections": catalog.collection_infos() }));
            std::future::ready(listed)
        },
    );
    functions.typed(
        spec::<CollectionInput, AnyValue>(
            GET,
            "Return a collection: title, description and skills.",
        ),
        |context, _, input: CollectionInput| {
            let catalog = context.catalog(&input);
            std::future::ready(catalog.and_then(|catalog| catalog.collection_info(&input.name)))
        },
    );
    functions.typed(
        spec::<PutCollectionInput, AnyValue>(
            PUT,
            "Store a collection: a title, a description and the addresses of skills, id or id@label.",
        ),
        |context, actor, input: PutCollectionInput| {
            let target = context.keys.write_target(&input, input.tier, actor);
            let PutCollectionInput { name, title, description, skills, .. } = input;
            let request =
                PublishRequest { message: input.message, expected_version: input.expected_version };
            let collection = SkillCollection { title, description, skills };
            // Queued before any `await`: the writes of a caller keep their order.
            let write = target.map(|(layer, actor)| {
                context.registry.put_collection(&actor, &layer, &name, collection, request)
            });
            async move { write?.await }
        },
    );
    functions.typed(
        spec::<RemoveCollectionInput, RemoveCollectionOutput>(REMOVE, "Remove a collection."),
        |context, actor, input: RemoveCollectionInput| {
            let target = context.keys.write_target(&input, input.tier, actor);
            let name = input.name;
            let write = target
                .map(|(layer, actor)| context.registry.remove_collection(&actor, &layer, &name));
            async move { Ok(RemoveCollectionOutput { removed: write?.await?, name }) }
        },
    );
}
