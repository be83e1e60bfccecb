//! The addresses, entity tags, and what may be kept for how long.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{FromRequestParts, Path, Query, rejection::QueryRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use skills_core::{Caller, Digest, bundle::media_type, etag, skill::ROOT_PATH, uri::SCHEME};
use skills_registry::{
    RegistryError, SkillRow, Skills,
    available::{Filter, available},
};

use tokio::sync::Semaphore;

use crate::{
    artifact::{self, ArtifactError},
    published::{Published, Publisher, is_bundle},
};

/// What can be set.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// Answers need a credential, so that nobody may keep them for others.
    pub is_private: bool,
}

/// How many archives are made at a time: each may take up several times what a bundle may hold.
const PACKING: usize = 4;

struct Shop {
    skills: Arc<dyn Skills>,
    publisher: Publisher,
    packing: Semaphore,
    is_private: bool,
}

/// The routes, to be mounted where HTTP is served.
pub fn routes(skills: Arc<dyn Skills>, settings: Settings) -> Router {
    let Settings { is_private } = settings;
    let packing = Semaphore::new(PACKING);
    let shop = Arc::new(Shop { skills, publisher: Publisher::default(), packing, is_private });
    Router::new()
        .route("/.well-known/agent-skills/index.json", get(index))
        .route("/.well-known/agent-skills/{*path}", get(published_file))
        .route("/.well-known/skills/index.json", get(legacy_index))
        .route("/.well-known/skills/{*path}", get(legacy_file))
        .route("/v1/available-skills", get(available_skills))
        .with_state(shop)
}

/// An error as the one who asked gets it.
struct Refused(StatusCode, &'static str, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(status, code, message) = self;
        (status, Json(json!({ "error": { "code": code, "message": message } }))).into_response()
    }
}

fn nothing_here() -> Refused {
    Refused(StatusCode::NOT_FOUND, "not_found", "there is nothing at this address".to_owned())
}

impl From<ArtifactError> for Refused {
    fn from(error: ArtifactError) -> Self {
        match error {
            ArtifactError::Registry(RegistryError::NotFound { .. }) => nothing_here(),
            error => {
                tracing::error!(%error, "a skill could not be published");
                Self(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
            }
        }
    }
}

impl From<RegistryError> for Refused {
    fn from(error: RegistryError) -> Self {
        ArtifactError::from(error).into()
    }
}

/// A request: what its caller sees, and what they have already.
struct Visit {
    shop: Arc<Shop>,
    skills: Arc<dyn Skills>,
    headers: HeaderMap,
    /// The answer is for nobody else.
    is_private: bool,
}

impl FromRequestParts<Arc<Shop>> for Visit {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, shop: &Arc<Shop>) -> Result<Self, Refused> {
        let skills = match parts.extensions.get::<Caller>() {
            None | Some(Caller::Anonymous) => Arc::clone(&shop.skills),
            Some(caller) => Arc::clone(&shop.skills).view(caller)?,
        };
        let headers = parts.headers.clone();
        let is_private = shop.is_private || headers.contains_key(header::AUTHORIZATION);
        Ok(Self { shop: Arc::clone(shop), skills, headers, is_private })
    }
}

impl Visit {
    async fn published(&self) -> Result<Arc<Published>, ArtifactError> {
        self.shop.publisher.published(&*self.skills).await
    }

    /// An answer that can be asked for again without being sent again.
    fn tagged(&self, media_type: &'static str, body: Bytes) -> Response {
        let tag = etag::of(&Digest::of(&body));
        let known = self.headers.get_all(header::IF_NONE_MATCH).iter();
        let is_known = etag::is_known(known.filter_map(|value| value.to_str().ok()), &tag);
        let mut response = match is_known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => ([(header::CONTENT_TYPE, media_type)], body).into_response(),
        };
        let headers = response.headers_mut();
        let cache = if self.is_private { "private, max-age=60" } else { "public, max-age=60" };
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
        // Also without one: a cache must not give a user what was an answer to somebody else.
        headers.insert(header::VARY, HeaderValue::from_static("authorization"));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(header::ETAG, tag);
        }
        // What an author wrote is never to be taken for something to run.
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }

    /// A skill that is stored: nothing else is published.
    async fn row(&self, id: &str) -> Result<Arc<SkillRow>, Refused> {
        let catalog = self.skills.catalog().await?;
        catalog.stored(id).cloned().ok_or_else(nothing_here)
    }
}

const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown; charset=utf-8";

async fn index(visit: Visit) -> Result<Response, Refused> {
    let published = visit.published().await?;
    Ok(visit.tagged(JSON, published.index.to_string().into()))
}

async fn legacy_index(visit: Visit) -> Result<Response, Refused> {
    let published = visit.published().await?;
    Ok(visit.tagged(JSON, published.legacy.to_string().into()))
}

/// `{id}/SKILL.md` or `{id}.tar.gz`.
async fn published_file(Path(path): Path<String>, visit: Visit) -> Result<Response, Refused> {
    if let Some(id) = path.strip_suffix(".tar.gz") {
        let row = visit.row(id).await?;
        if !is_bundle(&row) {
            return Err(nothing_here());
        }
        let _turn = visit.shop.packing.acquire().await;
        let archive = artifact::archive(&*visit.skills, &row).await?;
        return Ok(visit.tagged("application/gzip", archive));
    }
    let id = path.strip_suffix(ROOT_PATH).and_then(|folder| folder.strip_suffix('/'));
    let row = visit.row(id.ok_or_else(nothing_here)?).await?;
    let document = artifact::document(&*visit.skills, &row).await?;
    Ok(visit.tagged(MARKDOWN, document))
}

/// `{name}/{path}`: every file of a bundle has an address of its own there.
async fn legacy_file(Path(path): Path<String>, visit: Visit) -> Result<Response, Refused> {
    let (name, file) = path.split_once('/').ok_or_else(nothing_here)?;
    let published = visit.published().await?;
    let row = visit.row(published.ids.get(name).ok_or_else(nothing_here)?).await?;
    if file == ROOT_PATH {
        let document = artifact::document(&*visit.skills, &row).await?;
        return Ok(visit.tagged(MARKDOWN, document));
    }
    if row.meta.file(file).is_none() {
        return Err(nothing_here());
    }
    let resource = visit.skills.read(&format!("{SCHEME}{}/{file}", row.id)).await?;
    Ok(visit.tagged(media_type(file), resource.body))
}

#[derive(Deserialize)]
struct Wanted {
    license: Option<String>,
    compatibility: Option<String>,
    tool: Option<String>,
}

async fn available_skills(
    wanted: Result<Query<Wanted>, QueryRejection>,
    visit: Visit,
) -> Result<Response, Refused> {
    let Query(wanted) = wanted
        .map_err(|error| Refused(StatusCode::BAD_REQUEST, "invalid_query", error.body_text()))?;
    let Wanted { license, compatibility, tool } = wanted;
    let catalog = visit.skills.catalog().await?;
    let mut answer = available(&catalog, &Filter { license, compatibility, tool });
    // As published: only what is stored.
    let is_stored = |id: &str| catalog.skill(id).is_none_or(|row| !row.is_live());
    answer.skills.retain(|skill| is_stored(&skill.id));
    answer.left_out.retain(|left_out| is_stored(&left_out.id));
    let body = serde_json::to_vec(&answer).unwrap_or_default();
    Ok(visit.tagged(JSON, body.into()))
}
