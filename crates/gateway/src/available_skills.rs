//! `GET /v1/available-skills`: skills that can be offered as Agent Skills. The route belongs to the public catalogue, so
//! its responses may be cached for everyone, and its errors have the shape of the other catalogue routes.

use axum::{
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use skills_core::{Coded, SkillMeta};
use skills_http::{ErrorResponse, TaggedBody};
use skills_registry::{
    SkillRow,
    available::{Filter, available},
};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Gateway,
    caller::{MaybeUser, ResponseBudget},
    error::GatewayError,
    extractors::Query,
};

/// Memory of a skill besides its texts: the row, and the punctuation of its JSON.
const ROW_BYTES: usize = 512;

/// Returns the memory of listing a skill: its texts are copied once into a row and once into the response, where a
/// character may become six.
fn listed_size(row: &SkillRow) -> usize {
    let SkillMeta { agent, heading, first_paragraph, .. } = &row.meta;
    let texts = agent.as_ref().map_or_else(
        || [heading, first_paragraph].into_iter().flatten().map(String::len).sum(),
        |agent| agent.bytes(),
    );
    let texts: usize = texts + row.id.len();
    ROW_BYTES.saturating_add(texts.saturating_mul(7))
}

pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(available_skills))
}

/// Filters; all that are given must match. Upper and lower case are equal.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct AvailableQuery {
    /// Text that the license contains.
    license: Option<String>,
    /// Text that the compatibility contains.
    compatibility: Option<String>,
    /// Tool that the skill may use, with any arguments.
    tool: Option<String>,
}

/// Skills that can be offered as Agent Skills, sorted by id.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the response")]
struct AvailableSkills {
    /// The skills: `id`, and the fields of their frontmatter.
    skills: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Skills that cannot be offered.
    left_out: Vec<LeftOutSkill>,
}

/// A skill that cannot be offered.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the response")]
struct LeftOutSkill {
    id: String,
    /// The rule that the skill breaks.
    reason: String,
}

/// Error in the shape of the public catalogue.
struct CatalogueError(GatewayError);

impl From<GatewayError> for CatalogueError {
    fn from(error: GatewayError) -> Self {
        Self(error)
    }
}

impl IntoResponse for CatalogueError {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let (status, code) = (error.status(), error.code_text().into_owned());
        if error.is_internal() {
            tracing::error!(%error, "request failed");
            return ErrorResponse::internal(code).into_response();
        }
        ErrorResponse::new(status, code, error.to_string()).into_response()
    }
}

/// List skills that can be offered as Agent Skills
///
/// Stored skills only, with filters on license, compatibility and tools.
#[utoipa::path(
    get,
    path = "/v1/available-skills",
    tag = "skills",
    params(AvailableQuery),
    responses(
        (status = 200, description = "The skills", body = AvailableSkills),
        (status = 304, description = "The client has it already, as If-None-Match says"),
        (status = 400, description = "The query is invalid: `{\"error\": {\"code\", \"message\"}}`"),
    ),
)]
async fn available_skills(
    State(gateway): State<Gateway>,
    MaybeUser(caller): MaybeUser,
    budget: ResponseBudget,
    query: Result<Query<AvailableQuery>, GatewayError>,
    headers: HeaderMap,
) -> Result<Response, CatalogueError> {
    let Query(AvailableQuery { license, compatibility, tool }) = query?;
    let catalog = gateway.registry().await?.catalog_for(&caller);
    let sizes = catalog.skills_after(None).map(|row| listed_size(row));
    budget.reserve(sizes.fold(0, usize::saturating_add))?;
    let mut found = available(&catalog, &Filter { license, compatibility, tool });
    let is_stored = |id: &str| catalog.skill(id).is_none_or(|row| !row.is_live());
    found.skills.retain(|skill| is_stored(&skill.id));
    found.left_out.retain(|skill| is_stored(&skill.id));
    let body = serde_json::to_vec(&found).map_err(GatewayError::from)?;
    let is_private = gateway.is_private() || headers.contains_key(header::AUTHORIZATION);
    let cache_control = if is_private { "private, max-age=60" } else { "public, max-age=60" };
    let body = TaggedBody::new("application/json", body.into());
    Ok(body.respond(&headers, cache_control))
}
