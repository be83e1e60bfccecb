//! `GET /v1/skills`: listing of the skills in a caller's view.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use serde::Deserialize;
use skills_core::{SkillId, Tier};
use skills_registry::{Catalog, SkillRow, catalog};
use utoipa::IntoParams;

use super::wire::{Layers, Limit, PageQuery, SkillList, TierName};
use crate::{
    Gateway,
    caller::MaybeUser,
    error::GatewayError,
    extractors::Query,
    openapi::ErrorResponse,
    response::{Success, json_response},
};

/// Filter of a listing.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Layers to list.
    #[serde(default)]
    #[param(value_type = Option<Layers>, inline)]
    layers: Layers,
    /// Only skills of this tier, including shadowed ones.
    #[param(inline)]
    tier: Option<TierName>,
}

/// List skills
///
/// Sorted by id: the skills that their ids resolve to, or those of every layer in the caller's view.
#[utoipa::path(
    get,
    path = "/v1/skills",
    tag = "skills",
    params(ListQuery, PageQuery),
    responses(
        (status = 200, description = "A page of skills", body = SkillList),
        (status = 400, response = ErrorResponse),
    ),
)]
pub(super) async fn list(
    State(gateway): State<Gateway>,
    MaybeUser(caller): MaybeUser,
    Query(ListQuery { layers, tier }): Query<ListQuery>,
    Query(PageQuery { limit, cursor }): Query<PageQuery>,
) -> Result<Response, GatewayError> {
    let catalog = gateway.registry().await?.catalog_for(&caller);
    let (rows, next_cursor) = match (layers, tier) {
        (Layers::Effective, None) => {
            let after = parse_id_cursor(cursor.as_deref())?;
            let rows = catalog.skills_after(after.as_ref().map(SkillId::as_str));
            page(rows.filter(is_stored), limit, |row| row.id.to_string())
        }
        (_, tier) => layered_page(&catalog, cursor.as_deref(), limit, tier.map(Into::into))?,
    };
    let data = rows.into_iter().map(|row| row.as_ref().into()).collect();
    Ok(json_response(SkillList { success: Success, data, next_cursor }))
}

pub(super) type Page<'a> = (Vec<&'a Arc<SkillRow>>, Option<String>);

/// Skills of live clients are not listed.
fn is_stored(row: &&Arc<SkillRow>) -> bool {
    !row.is_live()
}

/// Parses the cursor of a listing that is sorted by id alone.
pub(super) fn parse_id_cursor(cursor: Option<&str>) -> Result<Option<SkillId>, GatewayError> {
    cursor.map(|cursor| cursor.parse().map_err(|_| GatewayError::InvalidCursor)).transpose()
}

/// Returns a page of every layer, or of one tier.
fn layered_page<'a>(
    catalog: &'a Catalog,
    cursor: Option<&str>,
    limit: Limit,
    tier: Option<Tier>,
) -> Result<Page<'a>, GatewayError> {
    let last = cursor.map(|cursor| {
        let parts = cursor
            .split_once(':')
            .and_then(|(id, tier)| Some((id.parse::<SkillId>().ok()?, tier.parse::<Tier>().ok()?)));
        parts.ok_or(GatewayError::InvalidCursor)
    });
    let last = last.transpose()?;
    let last = last.as_ref().map(|(id, tier)| (id.as_str(), *tier));
    let cursor = |row: &SkillRow| format!("{}:{}", row.id, row.tier);
    Ok(match tier {
        Some(tier) => page(catalog.tier_after(tier, last), limit, cursor),
        None => page(catalog.layered_after(last).filter(is_stored), limit, cursor),
    })
}

/// Returns the first rows up to the limit, and the cursor of the next page if there is one.
pub(super) fn page<'a>(
    rows: impl Iterator<Item = &'a Arc<SkillRow>>,
    Limit(limit): Limit,
    cursor: impl Fn(&SkillRow) -> String,
) -> Page<'a> {
    let (rows, has_more) = catalog::page(rows, limit);
    let next = rows.last().filter(|_| has_more).map(|last| cursor(last));
    (rows, next)
}
