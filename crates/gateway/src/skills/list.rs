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
        (Layers::Effective, None) => effective(&catalog, cursor.as_deref(), limit, |_| true)?,
        (_, tier) => layered(&catalog, cursor.as_deref(), limit, tier.map(Into::into))?,
    };
    let data = rows.into_iter().map(|row| row.as_ref().into()).collect();
    Ok(answer(SkillList { success: Success, data, next_cursor }))
}

type Page<'a> = (Vec<&'a Arc<SkillRow>>, Option<String>);

/// A page of what answers to its id, as far as it is wanted.
pub(super) fn effective<'a>(
    catalog: &'a Catalog,
    cursor: Option<&str>,
    limit: Limit,
    is_wanted: impl Fn(&SkillRow) -> bool,
) -> Result<Page<'a>, GatewayError> {
    let after = cursor.map(|cursor| cursor.parse::<SkillId>().map_err(|_| GatewayError::Cursor));
    let after = after.transpose()?;
    let rows = catalog.skills_after(after.as_ref().map(SkillId::as_str));
    // What live clients have is not stored, and not listed with what is.
    let rows = rows.filter(|row| !row.is_live() && is_wanted(row));
    Ok(page(rows, limit, |row| row.id.to_string()))
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
    let rows = catalog.layered_after(last.as_ref().map(|(id, tier)| (id.as_str(), *tier)));
    let rows = rows.filter(|row| !row.is_live() && tier.is_none_or(|tier| row.tier == tier));
    Ok(page(rows, limit, |row| format!("{}:{}", row.id, row.tier)))
}

/// The first rows, as many as fit a page, and where the next one begins if there is one.
fn page<'a>(
    rows: impl Iterator<Item = &'a Arc<SkillRow>>,
    Limit(limit): Limit,
    cursor: impl Fn(&SkillRow) -> String,
) -> Page<'a> {
    let (rows, has_more) = catalog::page(rows, limit);
    let next = rows.last().filter(|_| has_more).map(|last| cursor(last));
    (rows, next)
}
