//! Routes and cache headers of the published skills.

use std::sync::Arc;

use axum::{
    Router,
    extract::{FromRequestParts, Path},
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing::get,
};
use skills_core::{
    Caller, Code, Coded as _, OverBudget, RequestBudget, VersionSelector, WorkError,
    content::MARKDOWN, content::media_type, skill::ROOT_PATH, version::split_version,
};
use skills_http::{ErrorResponse, TaggedBody, is_unavailable};
use skills_registry::{RegistryError, SkillRegistry, SkillRow};

use crate::{
    archive_cache::Archive,
    artifact::{self, ArtifactError},
    publication::{PublishedIndex, Publisher, is_bundle},
    scope::Scope,
};

/// Settings of the routes.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// True if the listener asks for a credential, so that no response may be cached for others.
    pub is_private: bool,
}

struct DiscoveryState {
    skills: Arc<dyn SkillRegistry>,
    publisher: Arc<Publisher>,
    is_private: bool,
}

/// Returns the routes.
pub fn routes(skills: Arc<dyn SkillRegistry>, settings: Settings) -> Router {
    let Settings { is_private } = settings;
    let publisher = Arc::new(Publisher::new());
    let state = Arc::new(DiscoveryState { skills, publisher, is_private });
    // Below a path, an index has the files of the root, except in the legacy format, where they are beside it.
    let scoped = ["/official", "/market", "/private"].into_iter().fold(
        Router::new(),
        |routes: Router<Arc<DiscoveryState>>, tier| {
            routes
                .route(&format!("{tier}/.well-known/agent-skills/index.json"), get(index))
                .route(&format!("{tier}/.well-known/skills/index.json"), get(legacy_index))
                .route(&format!("{tier}/.well-known/skills/{{*path}}"), get(legacy_file))
        },
    );
    scoped
        .route("/skill/{id}/.well-known/agent-skills/index.json", get(skill_index))
        .route("/skill/{id}/.well-known/skills/index.json", get(skill_legacy_index))
        .route("/skill/{id}/.well-known/skills/{*path}", get(skill_legacy_file))
        .route("/collection/{name}/.well-known/agent-skills/index.json", get(skill_index))
        .route("/collection/{name}/.well-known/skills/index.json", get(skill_legacy_index))
        .route("/collection/{name}/.well-known/skills/{*path}", get(skill_legacy_file))
        .route("/.well-known/agent-skills/index.json", get(index))
        .route("/.well-known/agent-skills/{*path}", get(artifact_file))
        .route("/.well-known/skills/index.json", get(legacy_index))
        .route("/.well-known/skills/{*path}", get(legacy_file))
        .with_state(state)
}

/// Error response of a route.
struct DiscoveryError(ErrorResponse);

impl IntoResponse for DiscoveryError {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

fn not_found() -> DiscoveryError {
    let code = Code::NotFound.as_str();
    DiscoveryError(ErrorResponse::new(StatusCode::NOT_FOUND, code, "no route for this path"))
}

impl From<ArtifactError> for DiscoveryError {
    fn from(error: ArtifactError) -> Self {
        match error {
            ArtifactError::Registry(RegistryError::NotFound { .. }) => not_found(),
            error @ (ArtifactError::Work(WorkError::OverBudget(_) | WorkError::Busy)
            | ArtifactError::Stopped(_)) => {
                let (status, code) = (StatusCode::SERVICE_UNAVAILABLE, Code::Overloaded.as_str());
                Self(ErrorResponse::new(status, code, error.to_string()))
            }
            ArtifactError::Registry(error) if is_unavailable(error.code()) => {
                let (status, code) = (StatusCode::SERVICE_UNAVAILABLE, error.code().as_str());
                Self(ErrorResponse::new(status, code, error.to_string()))
            }
            error => {
                tracing::error!(%error, "artifact not built");
                Self(ErrorResponse::internal(Code::Internal.as_str()))
            }
        }
    }
}

/// The listener replaces this response with its own.
impl From<OverBudget> for DiscoveryError {
    fn from(error: OverBudget) -> Self {
        let (status, code) = (StatusCode::SERVICE_UNAVAILABLE, Code::Overloaded.as_str());
        Self(ErrorResponse::new(status, code, error.to_string()))
    }
}

impl From<RegistryError> for DiscoveryError {
    fn from(error: RegistryError) -> Self {
        ArtifactError::from(error).into()
    }
}

/// Extractor of a request's view, headers and memory budget.
struct RequestContext {
    state: Arc<DiscoveryState>,
    skills: Arc<dyn SkillRegistry>,
    headers: HeaderMap,
    budget: Option<RequestBudget>,
    scope: Scope,
    /// True if the response may not be cached for others.
    is_private: bool,
}

impl FromRequestParts<Arc<DiscoveryState>> for RequestContext {
    type Rejection = DiscoveryError;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Arc<DiscoveryState>,
    ) -> Result<Self, DiscoveryError> {
        let skills = match parts.extensions.get::<Caller>() {
            None | Some(Caller::Anonymous) => Arc::clone(&state.skills),
            Some(caller) => Arc::clone(&state.skills).view(caller)?,
        };
        let headers = parts.headers.clone();
        let is_private = state.is_private || headers.contains_key(header::AUTHORIZATION);
        let budget = parts.extensions.get().cloned();
        let scope = Scope::from_path(parts.uri.path());
        Ok(Self { state: Arc::clone(state), skills, headers, budget, scope, is_private })
    }
}

impl RequestContext {
    async fn index(&self) -> Result<Arc<PublishedIndex>, ArtifactError> {
        let index = self.state.publisher.index(&self.skills, &self.scope).await;
        index.inspect_err(|error| self.mark_over_budget(error))
    }

    async fn archive(&self, row: &Arc<SkillRow>) -> Result<Archive, ArtifactError> {
        let archive = self.state.publisher.archives.get(&self.skills, row).await;
        archive.inspect_err(|error| self.mark_over_budget(error))
    }

    /// Leaves the response to the listener if the client has no memory left.
    fn mark_over_budget(&self, error: &ArtifactError) {
        let is_over_budget = matches!(error, ArtifactError::Work(WorkError::OverBudget(_)));
        if let Some(budget) = self.budget.as_ref().filter(|_| is_over_budget) {
            budget.refuse();
        }
    }

    /// Reserves memory for a file of this size and the response with it.
    fn reserve(&self, bytes: Option<u64>) -> Result<(), OverBudget> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let bytes = usize::try_from(bytes.unwrap_or_default()).unwrap_or(usize::MAX);
        budget.try_grow(bytes.saturating_mul(FILE_COPIES))
    }

    /// Responds with the root document of a skill.
    async fn document(&self, row: &SkillRow) -> Result<Response, DiscoveryError> {
        self.reserve(row.meta.root().map(|file| file.size))?;
        let document = artifact::document(&*self.skills, row).await?;
        Ok(self.respond(&TaggedBody::new(MARKDOWN, document)))
    }

    /// Responds with a body that the client can revalidate.
    fn respond(&self, body: &TaggedBody) -> Response {
        let cache_control =
            if self.is_private { "private, max-age=60" } else { "public, max-age=60" };
        body.respond(&self.headers, cache_control)
    }

    /// Returns the row of a stored skill; live skills are not published.
    async fn row(&self, id: &str) -> Result<Arc<SkillRow>, DiscoveryError> {
        let catalog = self.skills.catalog().await?;
        catalog.stored(id).cloned().ok_or_else(not_found)
    }

    /// Returns the row of a version of a stored skill, or of the served one.
    async fn version_or_served(
        &self,
        id: &str,
        version: Option<&VersionSelector>,
    ) -> Result<Arc<SkillRow>, DiscoveryError> {
        match version {
            Some(version) => self.version(id, version).await,
            None => self.row(id).await,
        }
    }

    /// Returns the row of one version of a stored skill.
    async fn version(
        &self,
        id: &str,
        version: &VersionSelector,
    ) -> Result<Arc<SkillRow>, DiscoveryError> {
        let row = self.skills.skill_version(None, id, version).await;
        row.map_err(|error| match error.code() {
            Code::NotFound | Code::Purged | Code::Collected | Code::Yanked | Code::Unsupported => {
                not_found()
            }
            _ => error.into(),
        })
    }
}

/// Copies of a file in memory: as it is read, and with its header.
const FILE_COPIES: usize = 2;

async fn index(context: RequestContext) -> Result<Response, DiscoveryError> {
    let index = context.index().await?;
    Ok(context.respond(&index.current))
}

async fn legacy_index(context: RequestContext) -> Result<Response, DiscoveryError> {
    let index = context.index().await?;
    Ok(context.respond(&index.legacy))
}

async fn skill_index(context: RequestContext) -> Result<Response, DiscoveryError> {
    let index = context.index().await?;
    if index.ids.is_empty() {
        return Err(not_found());
    }
    Ok(context.respond(&index.current))
}

async fn skill_legacy_index(context: RequestContext) -> Result<Response, DiscoveryError> {
    let index = context.index().await?;
    if index.ids.is_empty() {
        return Err(not_found());
    }
    Ok(context.respond(&index.legacy))
}

async fn skill_legacy_file(
    Path((_, path)): Path<(String, String)>,
    context: RequestContext,
) -> Result<Response, DiscoveryError> {
    legacy_file(Path(path), context).await
}

/// Serves `{id}/SKILL.md` and `{id}.tar.gz`, and `{id}@{version}.tar.gz` for any version, also of one document.
async fn artifact_file(
    Path(path): Path<String>,
    context: RequestContext,
) -> Result<Response, DiscoveryError> {
    if let Some(address) = path.strip_suffix(".tar.gz") {
        let (id, version) = split_version(address).map_err(|_| not_found())?;
        let row = context.version_or_served(&id, version.as_ref()).await?;
        if row.pinned.is_none() && !is_bundle(&row) {
            return Err(not_found());
        }
        let archive = context.archive(&row).await?;
        let body = TaggedBody::with_digest("application/gzip", archive.bytes, &archive.digest);
        let mut response = context.respond(&body);
        response.extensions_mut().insert(archive.reservation);
        return Ok(response);
    }
    let id = path.strip_suffix(ROOT_PATH).and_then(|folder| folder.strip_suffix('/'));
    let row = context.row(id.ok_or_else(not_found)?).await?;
    context.document(&row).await
}

/// Serves `{name}/{path}`: in the legacy format, every file of a bundle has its own path.
async fn legacy_file(
    Path(path): Path<String>,
    context: RequestContext,
) -> Result<Response, DiscoveryError> {
    let (name, file) = path.split_once('/').ok_or_else(not_found)?;
    let index = context.index().await?;
    let address = index.ids.get(name).ok_or_else(not_found)?;
    let (id, version) = split_version(address).map_err(|_| not_found())?;
    let row = context.version_or_served(&id, version.as_ref()).await?;
    if file == ROOT_PATH {
        return context.document(&row).await;
    }
    let size = row.meta.file(file).ok_or_else(not_found)?.size;
    context.reserve(Some(size))?;
    let document = context.skills.document(&row, file).await?;
    Ok(context.respond(&TaggedBody::new(media_type(file), document.body)))
}
