//! Cache of the contract's listings as JSON text, for each version of the catalog.
//!
//! Between two changes a listing of ten thousand skills is a copy of bytes; after one, only the changed rows are
//! rendered.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use skills_bus::{CallError, Json};
use skills_core::{
    Caller, json_size::compact_text, limits::MAX_SKILL_BYTES, output::MARKDOWN, uri::SCHEME,
};
use skills_registry::{
    Catalog, PromptRow, ReadVersion, Registry, RegistryError, Resource, SkillRow,
    catalog::{INDEX_DESCRIPTION, INDEX_NAME, INDEX_TITLE, StoredRevision},
};

use crate::{
    contract::{ListPromptsOutput, PromptEntry, SkillEntry},
    error::{bad_output, to_bus},
};

/// Listings of one version of the catalog.
#[derive(Default)]
struct Listings {
    version: (StoredRevision, u64),
    skills: OnceLock<Json>,
    resources: OnceLock<Json>,
    prompts: OnceLock<Json>,
    prompt_details: OnceLock<Json>,
    index: OnceLock<Json>,
}

/// Cache of listings.
pub(crate) struct ListingCache {
    registry: Arc<Registry>,
    listings: ArcSwap<Listings>,
}

impl ListingCache {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        Self { registry, listings: ArcSwap::default() }
    }

    /// Returns the output of `skills::list`.
    pub(crate) fn skills(&self, caller: &Caller) -> Result<Json, RegistryError> {
        self.listing(
            caller,
            |listings| &listings.skills,
            |catalog| {
                let entry = |row: &SkillRow| {
                    to_raw_value(&SkillEntry {
                        id: row.id.to_string(),
                        bytes: usize::try_from(row.bytes()).unwrap_or(usize::MAX),
                        registered_at: row.registered_at.to_string(),
                    })
                };
                let skills = catalog.skills();
                let rows = skills.iter().map(|row| row.cached_json(LIST_SLOT, entry));
                Json::from_serialize(&SkillList { skills: rows.collect::<Result<_, _>>()? })
            },
        )
    }

    /// Returns the output of `skills::resources-list`.
    pub(crate) fn resources(&self, caller: &Caller) -> Result<Json, RegistryError> {
        self.listing(
            caller,
            |listings| &listings.resources,
            |catalog| {
                let index = to_raw_value(&ResourceEntry {
                    uri: format!("{SCHEME}{INDEX_NAME}"),
                    name: INDEX_NAME,
                    title: INDEX_TITLE,
                    description: Some(INDEX_DESCRIPTION),
                    mime_type: MARKDOWN,
                    size: None,
                })?;
                let entry = |row: &SkillRow| {
                    to_raw_value(&ResourceEntry {
                        uri: format!("{SCHEME}{}", row.id),
                        name: &row.id,
                        title: row.title(),
                        description: row.meta.short_description().as_deref(),
                        mime_type: MARKDOWN,
                        size: (!row.is_live()).then(|| row.bytes()),
                    })
                };
                let skills = catalog.skills();
                let rows = skills.iter().map(|row| row.cached_json(RESOURCE_SLOT, entry));
                let resources = std::iter::once(Ok(&*index)).chain(rows);
                Json::from_serialize(&ResourceList {
                    resources: resources.collect::<Result<_, _>>()?,
                })
            },
        )
    }

    /// Returns the output of `prompts::list`.
    pub(crate) fn prompts(&self, caller: &Caller) -> Result<Json, RegistryError> {
        self.listing(
            caller,
            |listings| &listings.prompts,
            |catalog| {
                let entry = |row: &Arc<PromptRow>| PromptEntry {
                    name: row.name.to_string(),
                    function_id: row.definition.function_id.clone(),
                    arguments: row.definition.arguments.len(),
                    registered_at: row.registered_at.to_string(),
                };
                let prompts = catalog.prompts().into_iter().map(entry).collect();
                Json::from_serialize(&ListPromptsOutput { prompts })
            },
        )
    }

    /// Returns the output of `prompts::mcp-list`.
    pub(crate) fn prompt_details(&self, caller: &Caller) -> Result<Json, RegistryError> {
        self.listing(
            caller,
            |listings| &listings.prompt_details,
            |catalog| {
                let details = |row: &Arc<PromptRow>| {
                    json!({
                        "name": &*row.name,
                        "description": row.definition.description,
                        "arguments": row.definition.arguments,
                    })
                };
                let prompts: Vec<Value> = catalog.prompts().into_iter().map(details).collect();
                Json::from_serialize(&json!({ "prompts": prompts }))
            },
        )
    }

    /// Returns the output of `skills::resources-read` for the index.
    pub(crate) fn index(&self, caller: &Caller) -> Result<Json, RegistryError> {
        self.listing(
            caller,
            |listings| &listings.index,
            |catalog| {
                let text = catalog.index();
                Json::from_serialize(&Contents {
                    contents: [Content {
                        uri: format!("{SCHEME}{INDEX_NAME}"),
                        mime_type: MARKDOWN.to_owned(),
                        body: Body(Bytes::copy_from_slice(text.as_bytes())),
                        version: None,
                    }],
                })
            },
        )
    }

    /// Returns a listing from the cache, which holds the public view. Other views are rendered for each call, from
    /// cached rows.
    fn listing(
        &self,
        caller: &Caller,
        slot: impl Fn(&Listings) -> &OnceLock<Json>,
        render: impl FnOnce(&Catalog) -> Result<Json, serde_json::Error>,
    ) -> Result<Json, RegistryError> {
        let failed = |_| RegistryError::Unexpected("a listing");
        let public = self.registry.catalog();
        let catalog = public.view_for(caller);
        if !Arc::ptr_eq(&public, &catalog) {
            return render(&catalog).map_err(failed);
        }
        let mut listings = self.listings.load_full();
        if listings.version != catalog.version() {
            listings = Arc::new(Listings { version: catalog.version(), ..Listings::default() });
            self.listings.store(Arc::clone(&listings));
        }
        let slot = slot(&listings);
        if let Some(json) = slot.get() {
            return Ok(json.clone());
        }
        let json = render(&catalog).map_err(failed)?;
        Ok(slot.get_or_init(|| json).clone())
    }
}

/// Cache slot of a row for `skills::list`.
const LIST_SLOT: usize = 0;
/// Cache slot of a row for `skills::resources-list`.
const RESOURCE_SLOT: usize = 1;

/// [`ListSkillsOutput`](crate::contract::ListSkillsOutput) with entries that are JSON text already.
#[derive(Serialize)]
struct SkillList<'a> {
    skills: Vec<&'a RawValue>,
}

#[derive(Serialize)]
struct ResourceList<'a> {
    resources: Vec<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceEntry<'a> {
    uri: String,
    name: &'a str,
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    mime_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

/// Returns whether a URI is the canonical URI of the index.
pub(crate) fn is_index(uri: &str) -> bool {
    uri.strip_prefix(SCHEME) == Some(INDEX_NAME)
}

/// Returns the output of `skills::resources-read`.
pub(crate) fn contents(read: Result<Resource, RegistryError>) -> Result<Json, CallError> {
    let Resource { uri, mime_type, body, version } = read.map_err(|error| to_bus(&error))?;
    let contents = Contents { contents: [Content { uri, mime_type, body: Body(body), version }] };
    Json::from_serialize(&contents).map_err(|error| bad_output(&error))
}

#[derive(Serialize)]
struct Contents {
    contents: [Content; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    uri: String,
    mime_type: String,
    #[serde(flatten)]
    body: Body,
    /// Version, if the URI names one.
    #[serde(flatten)]
    version: Option<ReadVersion>,
}

/// Body in the form of MCP: text, or base64 for other bytes and for large files whose text would be larger.
struct Body(Bytes);

impl Body {
    fn text(&self) -> Option<&str> {
        if self.0.len() <= MAX_SKILL_BYTES {
            return std::str::from_utf8(&self.0).ok();
        }
        compact_text(&self.0)
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self.text() {
            Some(text) => map.serialize_entry("text", text)?,
            None => map.serialize_entry("blob", &BASE64.encode(&self.0))?,
        }
        map.end()
    }
}

/// Returns the output of `skills::resources-templates`.
pub(crate) fn templates() -> Json {
    let template = |uri_template: String, name: &str, description: &str| {
        json!({
            "uriTemplate": uri_template,
            "name": name,
            "description": description,
            "mimeType": MARKDOWN,
        })
    };
    Json::from(&json!({ "resourceTemplates": [
        template(
            format!("{SCHEME}{{id}}"),
            "skill",
            "The document a skill was registered with.",
        ),
        template(
            format!("{SCHEME}{{id}}/{{function_id}}"),
            "section",
            "Output of a function of the skill's worker, which is called when the section is read.",
        ),
    ] }))
}
