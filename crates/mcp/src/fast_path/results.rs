//! Text of a result, from the cache or from the functions that rmcp's handler calls too.

use std::sync::Arc;

use bytes::Bytes;
use rmcp::model::{CacheScope, CustomRequest, CustomResult, ReadResourceResult, ServerResult};
use serde_json::json;
use skills_core::{ResourceUri, output::MARKDOWN, skill::ROOT_PATH, uri::SKILL_SCHEME};
use skills_registry::{Catalog, Resource, SkillRow};

use super::{
    cache::{ResultId, ResultKind, Source},
    headers::Lifecycle,
    request::ReadCall,
};
use crate::{
    budget::{ResponseBudget, StoredSizes},
    cursor::{self, Listing},
    prompts, resources,
    server::{Settings, Shared, TTL_MS},
    skills_extension,
    tools::{self, ReadReservation},
};

/// Largest file that is served here. A larger one delays other requests longer than rmcp costs.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Members of a result that depend on the request's revision and caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ResultForm {
    /// Without cache hints, as in sessions.
    Session,
    /// With hints for shared caches.
    Public,
    /// With hints for the client's own cache.
    Private,
}

impl ResultForm {
    pub(super) fn new(lifecycle: Lifecycle, settings: &Settings) -> Self {
        match (lifecycle, settings.scope()) {
            (Lifecycle::Session, _) => Self::Session,
            (Lifecycle::Stateless, CacheScope::Public) => Self::Public,
            (Lifecycle::Stateless, _) => Self::Private,
        }
    }

    /// Returns the cache lifetime and scope.
    const fn hints(self) -> Option<(u64, CacheScope)> {
        match self {
            Self::Session => None,
            Self::Public => Some((TTL_MS, CacheScope::Public)),
            Self::Private => Some((TTL_MS, CacheScope::Private)),
        }
    }

    /// Serializes a result as rmcp does.
    fn serialize(self, result: impl Into<ServerResult>) -> Option<Bytes> {
        let mut result = result.into();
        match self {
            Self::Session => result.strip_result_type_for_legacy_peer(),
            Self::Public | Self::Private => result.fill_missing_cache_hints(),
        }
        serde_json::to_vec(&result).ok().map(Bytes::from)
    }
}

/// Memory that is reserved for a file before it is read.
enum Reserved<'a> {
    Resource { expected: usize },
    ReadSkill(ReadReservation<'a>),
}

impl<'a> Reserved<'a> {
    fn new(budget: &'a ResponseBudget, kind: ResultKind, expected: usize) -> Option<Self> {
        if kind == ResultKind::ReadSkill {
            return ReadReservation::new(budget, expected).ok().map(Self::ReadSkill);
        }
        budget.reserve(expected).ok()?;
        Some(Self::Resource { expected })
    }
}

/// Reader of the results for one request.
pub(super) struct ResultReader<'a> {
    pub(super) shared: &'a Shared,
    pub(super) budget: &'a ResponseBudget,
    pub(super) form: ResultForm,
}

impl ResultReader<'_> {
    /// Returns the text of a call's result; `None` for a call that rmcp has to handle.
    pub(super) async fn result(&self, call: &ReadCall<'_>) -> Option<Bytes> {
        let catalog = &self.shared.skills.catalog().await.ok()?;
        match *call {
            ReadCall::ReadResource { uri } if uri.starts_with(SKILL_SCHEME) => {
                self.extension_file(catalog, uri).await
            }
            ReadCall::ReadResource { uri } => {
                self.file(catalog, ResultKind::Resource, uri, uri).await
            }
            ReadCall::ReadSkill { uri } => {
                self.file(catalog, ResultKind::ReadSkill, uri, &resources::full_uri(uri)).await
            }
            ReadCall::GetSkill { uri } => self.skill_entry(catalog, uri).await,
            ReadCall::ListResources { cursor } => {
                self.page(catalog, ResultKind::ResourcePage, cursor, || {
                    let after = cursor::decode(Listing::Resources, cursor).ok()?;
                    let mut page = resources::page(catalog, self.budget, after.as_deref()).ok()?;
                    (page.ttl_ms, page.cache_scope) = self.form.hints().unzip();
                    self.form.serialize(page)
                })
            }
            ReadCall::ListPrompts { cursor } => {
                self.page(catalog, ResultKind::PromptPage, cursor, || {
                    let after = cursor::decode(Listing::Prompts, cursor).ok()?;
                    let mut page = prompts::page(catalog, self.budget, after.as_deref()).ok()?;
                    (page.ttl_ms, page.cache_scope) = self.form.hints().unzip();
                    self.form.serialize(page)
                })
            }
        }
    }

    fn id<'a>(&self, source: Source<'a>, kind: ResultKind, argument: &'a str) -> ResultId<'a> {
        ResultId { source, kind, form: self.form, argument }
    }

    /// Returns a text from the cache, and reserves the response with it.
    fn cached(&self, id: &ResultId<'_>) -> Option<Bytes> {
        let text = self.shared.results.get(id)?;
        self.budget.reserve_read(text.len()).ok()?;
        Some(text)
    }

    /// Returns a text from the cache, or else renders it.
    fn page(
        &self,
        catalog: &Arc<Catalog>,
        kind: ResultKind,
        cursor: Option<&str>,
        render: impl FnOnce() -> Option<Bytes>,
    ) -> Option<Bytes> {
        // No valid cursor is empty.
        let id = self.id(Source::Snapshot(catalog), kind, cursor.unwrap_or_default());
        if cursor != Some("")
            && let Some(text) = self.cached(&id)
        {
            return Some(text);
        }
        let text = render()?;
        self.shared.results.put(&id, text.clone());
        Some(text)
    }

    /// Reads a stored file, or the index. `uri` is the URI of the request, `full` the one that it means.
    async fn file(
        &self,
        catalog: &Arc<Catalog>,
        kind: ResultKind,
        uri: &str,
        full: &str,
    ) -> Option<Bytes> {
        let (row, path) = match full.parse().ok()? {
            ResourceUri::Index => return self.index(catalog, kind, uri),
            ResourceUri::Skill(id) => (catalog.stored(id.as_str())?, ROOT_PATH.to_owned()),
            ResourceUri::Path { skill, path } => (catalog.stored(skill.as_str())?, path),
            ResourceUri::InTier { .. } | ResourceUri::Version { .. } => return None,
        };
        let file = row.readable().ok()?.meta.file(&path)?;
        if file.size > MAX_FILE_BYTES {
            return None;
        }
        let id = self.id(Source::Row(row), kind, uri);
        if let Some(text) = self.cached(&id) {
            return Some(text);
        }
        let reservation = Reserved::new(self.budget, kind, usize::try_from(file.size).ok()?)?;
        let document = self.shared.skills.document(row, &path).await.ok()?;
        if document.digest != file.digest {
            // It was replaced meanwhile.
            return None;
        }
        let mime_type = document.media_type.to_owned();
        let resource =
            Resource { uri: uri.to_owned(), mime_type, body: document.body, version: None };
        let text = self.resource(catalog, reservation, resource)?;
        self.shared.results.put(&id, text.clone());
        Some(text)
    }

    fn index(&self, catalog: &Arc<Catalog>, kind: ResultKind, uri: &str) -> Option<Bytes> {
        let index = catalog.index();
        if index.len() as u64 > MAX_FILE_BYTES {
            return None;
        }
        let render = || {
            let body = Bytes::copy_from_slice(index.as_bytes());
            let mime_type = MARKDOWN.to_owned();
            let resource = Resource { uri: uri.to_owned(), mime_type, body, version: None };
            self.resource(catalog, Reserved::new(self.budget, kind, index.len())?, resource)
        };
        self.page(catalog, kind, Some(uri), render)
    }

    /// Renders a resource as the result of `resources/read` or of `read_skill`.
    fn resource(
        &self,
        catalog: &Catalog,
        reserved: Reserved<'_>,
        resource: Resource,
    ) -> Option<Bytes> {
        match reserved {
            Reserved::Resource { expected } => {
                self.budget.reserve_resource(&resource, expected).ok()?;
                let mut result = ReadResourceResult::new(vec![resources::contents(resource)]);
                (result.ttl_ms, result.cache_scope) = self.form.hints().unzip();
                self.form.serialize(result)
            }
            Reserved::ReadSkill(reservation) => {
                let body = String::from_utf8(resource.body.into()).ok()?;
                let read = tools::read_one(reservation, catalog, &resource.uri, body).ok()?;
                self.form.serialize(read)
            }
        }
    }

    /// Reads a stored file by its URI of the skills extension.
    async fn extension_file(&self, catalog: &Arc<Catalog>, uri: &str) -> Option<Bytes> {
        let (name, row) = extension_skill(catalog, uri)?;
        let expected = StoredSizes::new(Arc::clone(catalog)).get(uri);
        if expected as u64 > MAX_FILE_BYTES {
            return None;
        }
        let render = async || {
            let reserved = Reserved::new(self.budget, ResultKind::Resource, expected)?;
            let resource = skills_extension::read_stored(self.shared, uri).await?;
            self.resource(catalog, reserved, resource)
        };
        self.of_row(ResultKind::Resource, uri, name, row, render).await
    }

    /// Describes a stored skill for the skills extension.
    async fn skill_entry(&self, catalog: &Arc<Catalog>, uri: &str) -> Option<Bytes> {
        let (name, row) = extension_skill(catalog, uri)?;
        let render = async || {
            let request = CustomRequest::new("skills/get", Some(json!({ "uri": uri })));
            let hints = self.form.hints();
            let handled = skills_extension::handle(self.shared, self.budget, request, hints);
            self.form.serialize(CustomResult::new(handled.await.ok()?))
        };
        self.of_row(ResultKind::SkillEntry, uri, name, row, render).await
    }

    /// Returns a text from the cache, or else renders it by name.
    async fn of_row(
        &self,
        kind: ResultKind,
        uri: &str,
        name: &str,
        row: &Arc<SkillRow>,
        render: impl AsyncFnOnce() -> Option<Bytes>,
    ) -> Option<Bytes> {
        let id = self.id(Source::Row(row), kind, uri);
        if let Some(text) = self.cached(&id) {
            return Some(text);
        }
        let text = render().await?;
        // The text may be that of a later version, unless the row is still the current one.
        let current = self.shared.skills.catalog().await.ok()?;
        if current.stored(name).is_some_and(|current| Arc::ptr_eq(current, row)) {
            self.shared.results.put(&id, text.clone());
        }
        Some(text)
    }
}

/// Returns the name in a URI of the skills extension and the stored skill that it resolves to.
fn extension_skill<'a, 'c>(
    catalog: &'c Catalog,
    uri: &'a str,
) -> Option<(&'a str, &'c Arc<SkillRow>)> {
    let name = uri.strip_prefix(SKILL_SCHEME)?.split('/').next()?;
    let row = catalog.stored(name)?;
    row.readable().ok()?.meta.root()?;
    // A live skill may be at the same URI.
    (!catalog.has_client(name)).then_some((name, row))
}
