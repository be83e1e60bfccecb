//! `GET /v1/skills`: a page of what a caller sees.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use serde::Deserialize;
use skills_core::{SkillId, Tier};
use skills_registry::{Catalog, SkillRow, catalog};
use utoipa::IntoParams;

use super::wire::{Layers, Limit, PageQuery, SkillList, TierName};
use crate::{
    Gateway,
    caller::Asks,
    envelope::{Success, answer},
    error::GatewayError,
    input::Asked,
    openapi::Refused,
};

/// What a listing shows.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Which layers are shown.
    #[serde(default)]
    #[param(value_type = Option<Layers>, inline)]
    layers: Layers,
    /// Only what is stored in this tier, also if it is shadowed.
    #[param(inline)]
    tier: Option<TierName>,
}

/// List skills
///
/// Those that answer to their ids, sorted by id, or every layer that the caller sees.
#[utoipa::path(
    get,
    path = "/v1/skills",
    tag = "skills",
    params(ListQuery, PageQuery),
    responses(
        (status = 200, description = "A page of skills", body = SkillList),
        (status = 400, response = Refused),
    ),
)]
pub(super) async fn list(
    State(gateway): State<Gateway>,
    Asks(caller): Asks,
    Asked(ListQuery { layers, tier }): Asked<ListQuery>,
    Asked(PageQuery { limit, cursor }): Asked<PageQuery>,
) -> Result<Response, GatewayError> {
    let catalog = gateway.registry().await?.catalog_of(&caller);
    let (rows, next_cursor) = match (layers, tier) {
        (Layers::Effective, None) => {
            let after = id_of(cursor.as_deref())?;
            let rows = catalog.skills_after(after.as_ref().map(SkillId::as_str));
            page(rows.filter(is_stored), limit, |row| row.id.to_string())
        }
        (_, tier) => layered(&catalog, cursor.as_deref(), limit, tier.map(Into::into))?,
    };
    let data = rows.into_iter().map(|row| row.as_ref().into()).collect();
    Ok(answer(SkillList { success: Success, data, next_cursor }))
}

pub(super) type Page<'a> = (Vec<&'a Arc<SkillRow>>, Option<String>);

/// What live clients have is not stored, and not listed with what is.
fn is_stored(row: &&Arc<SkillRow>) -> bool {
    !row.is_live()
}

/// Where a page begins that is sorted by id alone.
pub(super) fn id_of(cursor: Option<&str>) -> Result<Option<SkillId>, GatewayError> {
    cursor.map(|cursor| cursor.parse().map_err(|_| GatewayError::Cursor)).transpose()
}

/// A page of every layer, or of one.
fn layered<'a>(
    catalog: &'a Catalog,
    cursor: Option<&str>,
    limit: Limit,
    tier: Option<Tier>,
) -> Result<Page<'a>, GatewayError> {
    let last = cursor.map(|cursor| {
        let parts = cursor
            .split_once(':')
            .and_then(|(id, tier)| Some((id.parse::<SkillId>().ok()?, tier.parse::<Tier>().ok()?)));
        parts.ok_or(GatewayError::Cursor)
    });
    let last = last.transpose()?;
    let last = last.as_ref().map(|(id, tier)| (id.as_str(), *tier));
    let cursor = |row: &SkillRow| format!("{}:{}", row.id, row.tier);
    Ok(match tier {
        Some(tier) => page(catalog.tier_after(tier, last), limit, cursor),
        None => page(catalog.layered_after(last).filter(is_stored), limit, cursor),
    })
}

/// The first rows, as many as fit a page, and where the next one begins if there is one.
pub(super) fn page<'a>(
    rows: impl Iterator<Item = &'a Arc<SkillRow>>,
    Limit(limit): Limit,
    cursor: impl Fn(&SkillRow) -> String,
) -> Page<'a> {
    let (rows, has_more) = catalog::page(rows, limit);
    let next = rows.last().filter(|_| has_more).map(|last| cursor(last));
    (rows, next)
}
