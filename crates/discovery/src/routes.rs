//! The addresses, entity tags, and what may be kept for how long.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use skills_core::{Digest, bundle::media_type, skill::ROOT_PATH, uri::SCHEME};
use skills_registry::{
    RegistryError, SkillRow, Skills,
    available::{Filter, available},
};

use tokio::sync::Semaphore;

use crate::{
    artifact::{self, ArtifactError},
    published::{Publisher, is_bundle},
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
    cache_control: HeaderValue,
}

/// The routes, to be mounted where HTTP is served.
pub fn routes(skills: Arc<dyn Skills>, settings: Settings) -> Router {
    let cache_control = match settings.is_private {
        true => HeaderValue::from_static("private, max-age=60"),
        false => HeaderValue::from_static("public, max-age=60"),
    };
    let packing = Semaphore::new(PACKING);
    let shop = Arc::new(Shop { skills, publisher: Publisher::default(), packing, cache_control });
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

impl Shop {
    /// An answer that can be asked for again without being sent again.
    fn tagged(&self, headers: &HeaderMap, media_type: &'static str, body: Bytes) -> Response {
        let tag = format!("\"{}\"", Digest::of(&body));
        let is_known = headers
            .get_all(header::IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|known| matches!(known.trim().trim_start_matches("W/"), known if known == tag || known == "*"));
        let mut response = match is_known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => ([(header::CONTENT_TYPE, media_type)], body).into_response(),
        };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, self.cache_control.clone());
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(header::ETAG, tag);
        }
        // What an author wrote is never to be taken for something to run.
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }

    async fn row(&self, id: &str) -> Result<Arc<SkillRow>, Refused> {
        let catalog = self.skills.catalog().await?;
        catalog.skill(id).cloned().ok_or_else(nothing_here)
    }
}

const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown; charset=utf-8";

async fn index(State(shop): State<Arc<Shop>>, headers: HeaderMap) -> Result<Response, Refused> {
    let published = shop.publisher.published(&*shop.skills).await?;
    Ok(shop.tagged(&headers, JSON, published.index.to_string().into()))
}

async fn legacy_index(
    State(shop): State<Arc<Shop>>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let published = shop.publisher.published(&*shop.skills).await?;
    Ok(shop.tagged(&headers, JSON, published.legacy.to_string().into()))
}

/// `{id}/SKILL.md` or `{id}.tar.gz`.
async fn published_file(
    State(shop): State<Arc<Shop>>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    if let Some(id) = path.strip_suffix(".tar.gz") {
        let row = shop.row(id).await?;
        if !is_bundle(&row) {
            return Err(nothing_here());
        }
        let _turn = shop.packing.acquire().await;
        let archive = artifact::archive(&*shop.skills, &row).await?;
        return Ok(shop.tagged(&headers, "application/gzip", archive));
    }
    let id = path.strip_suffix(ROOT_PATH).and_then(|folder| folder.strip_suffix('/'));
    let row = shop.row(id.ok_or_else(nothing_here)?).await?;
    let document = artifact::document(&*shop.skills, &row).await?;
    Ok(shop.tagged(&headers, MARKDOWN, document))
}

/// `{name}/{path}`: every file of a bundle has an address of its own there.
async fn legacy_file(
    State(shop): State<Arc<Shop>>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let (name, file) = path.split_once('/').ok_or_else(nothing_here)?;
    let published = shop.publisher.published(&*shop.skills).await?;
    let row = shop.row(published.ids.get(name).ok_or_else(nothing_here)?).await?;
    if file == ROOT_PATH {
        let document = artifact::document(&*shop.skills, &row).await?;
        return Ok(shop.tagged(&headers, MARKDOWN, document));
    }
    if row.meta.file(file).is_none() {
        return Err(nothing_here());
    }
    let resource = shop.skills.read(&format!("{SCHEME}{}/{file}", row.id)).await?;
    Ok(shop.tagged(&headers, media_type(file), resource.body))
}

#[derive(Deserialize)]
struct Wanted {
    license: Option<String>,
    compatibility: Option<String>,
    tool: Option<String>,
}

async fn available_skills(
    State(shop): State<Arc<Shop>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let Query(wanted) = wanted
        .map_err(|error| Refused(StatusCode::BAD_REQUEST, "invalid_query", error.body_text()))?;
    let Wanted { license, compatibility, tool } = wanted;
    let catalog = shop.skills.catalog().await?;
    let answer = available(&catalog, &Filter { license, compatibility, tool });
    let body = serde_json::to_vec(&answer).unwrap_or_default();
    Ok(shop.tagged(&headers, JSON, body.into()))
}
