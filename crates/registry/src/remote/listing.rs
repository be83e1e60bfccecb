//! A catalog from the listings of the contract, which are the same for every make.
//!
//! They do not tell digests: a skill of this catalog has a size and no files.

use std::collections::HashMap;

use serde_json::json;
use skills_core::{PromptDefinition, SkillMeta, Timestamp, uri::SCHEME};

use super::{
    RemoteRegistry,
    answers::{PromptDetails, PromptList, ResourceList, SkillList},
};
use crate::{Catalog, RegistryError};

pub(super) async fn catalog(remote: &RemoteRegistry) -> Result<Catalog, RegistryError> {
    let empty = json!({});
    let (skills, resources, prompts, details) = tokio::try_join!(
        remote.call::<SkillList>("skills::list", &empty),
        remote.call::<ResourceList>("skills::resources-list", &empty),
        remote.call::<PromptList>("prompts::list", &empty),
        remote.call::<PromptDetails>("prompts::mcp-list", &empty),
    )?;
    let mut catalog = Catalog::default();
    let mut by_uri: HashMap<String, _> =
        resources.resources.into_iter().map(|row| (row.uri.clone(), row)).collect();
    for row in skills.skills {
        let resource = by_uri.remove(&format!("{SCHEME}{}", row.id));
        let (title, description) = match resource {
            // A make that has no title puts the id there.
            Some(resource) => {
                let title = resource.title.or(resource.name).filter(|title| *title != row.id);
                (title, resource.description)
            }
            None => (None, None),
        };
        let meta = SkillMeta { title, description, files: vec![] };
        catalog.list_skill(row.id.into(), meta, row.bytes, moment(&row.registered_at));
    }
    let mut by_name: HashMap<String, _> =
        details.prompts.into_iter().map(|row| (row.name.clone(), row)).collect();
    for row in prompts.prompts {
        let details = by_name.remove(&row.name);
        let (description, arguments) =
            details.map(|row| (row.description, row.arguments)).unwrap_or_default();
        let definition = PromptDefinition { description, arguments, function_id: row.function_id };
        catalog.list_prompt(row.name.into(), definition, moment(&row.registered_at));
    }
    Ok(catalog)
}

/// Another make may print moments otherwise; a listing is not worth less for it.
fn moment(text: &str) -> Timestamp {
    text.parse().unwrap_or(Timestamp::from_micros(0))
}
