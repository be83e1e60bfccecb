//! `GET /v1/skills/schema`: listing of the tools in a caller's view, in the form that models take.

use std::borrow::Cow;

use axum::{extract::State, response::Response};
use serde::Serialize;
use serde_json::Value;
use skills_core::SkillId;
use skills_registry::SkillRow;
use utoipa::ToSchema;

use super::{
    list::{page, parse_id_cursor},
    wire::PageQuery,
};
use crate::{
    Gateway,
    caller::MaybeUser,
    error::GatewayError,
    extractors::Query,
    response::{Success, json_response},
};

/// A page of tools.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolList {
    success: Success,
    tools: Vec<ToolSchema>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Definition of a tool for a model.
#[derive(Debug, Serialize, ToSchema)]
struct ToolSchema {
    /// Id that the tool is executed by.
    name: String,
    description: String,
    /// JSON Schema of the arguments.
    parameters: Value,
}

impl ToolSchema {
    fn from_row(row: &SkillRow) -> Option<Self> {
        let tool = row.meta.tool.as_deref()?;
        let description =
            tool.description.as_deref().map(Cow::Borrowed).or_else(|| row.description());
        Some(Self {
            name: row.id.to_string(),
            description: description.unwrap_or(Cow::Borrowed("No description")).into_owned(),
            parameters: tool.parameters.clone(),
        })
    }
}

/// List tools
///
/// Executable skills of all tiers that their ids resolve to, sorted by id.
#[utoipa::path(
    get,
    path = "/v1/skills/schema",
    tag = "skills",
    params(PageQuery),
    responses((status = 200, description = "A page of tools", body = ToolList)),
)]
pub(super) async fn schema(
    State(gateway): State<Gateway>,
    MaybeUser(caller): MaybeUser,
    Query(PageQuery { limit, cursor }): Query<PageQuery>,
) -> Result<Response, GatewayError> {
    let catalog = gateway.registry().await?.catalog_for(&caller);
    let after = parse_id_cursor(cursor.as_deref())?;
    let rows = catalog.tools_after(after.as_ref().map(SkillId::as_str));
    let (rows, next_cursor) = page(rows, limit, |row| row.id.to_string());
    let tools = rows.into_iter().filter_map(|row| ToolSchema::from_row(row)).collect();
    Ok(json_response(ToolList { success: Success, tools, next_cursor }))
}
