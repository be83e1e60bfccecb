//! `GET /v1/skills/schema`: the tools that a caller may call, as models are told of them.

use axum::{extract::State, response::Response};
use serde::Serialize;
use serde_json::Value;
use skills_core::SkillId;
use skills_registry::SkillRow;
use utoipa::ToSchema;

use super::{
    list::{id_of, page},
    wire::PageQuery,
};
use crate::{
    Gateway,
    caller::Asks,
    envelope::{Success, answer},
    error::GatewayError,
    input::Asked,
};

/// A page of tools.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolList {
    success: Success,
    tools: Vec<ToolSchema>,
    /// Where the next page begins; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A tool as a model is told of it.
#[derive(Debug, Serialize, ToSchema)]
struct ToolSchema {
    /// What it is executed by.
    name: String,
    description: String,
    /// The JSON Schema of what it takes.
    parameters: Value,
}

impl ToolSchema {
    fn of(row: &SkillRow) -> Option<Self> {
        let tool = row.meta.tool.as_deref()?;
        let description = tool.description.clone().or_else(|| row.meta.description.clone());
        Some(Self {
            name: row.id.to_string(),
            description: description.unwrap_or_else(|| "No description".to_owned()),
            parameters: tool.parameters.clone(),
        })
    }
}

/// List tools
///
/// Of all tiers, those that answer to their ids and can be executed, sorted by id.
#[utoipa::path(
    get,
    path = "/v1/skills/schema",
    tag = "skills",
    params(PageQuery),
    responses((status = 200, description = "A page of tools", body = ToolList)),
)]
pub(super) async fn schema(
    State(gateway): State<Gateway>,
    Asks(caller): Asks,
    Asked(PageQuery { limit, cursor }): Asked<PageQuery>,
) -> Result<Response, GatewayError> {
    let catalog = gateway.registry().await?.catalog_of(&caller);
    let after = id_of(cursor.as_deref())?;
    let rows = catalog.tools_after(after.as_ref().map(SkillId::as_str));
    let (rows, next_cursor) = page(rows, limit, |row| row.id.to_string());
    let tools = rows.into_iter().filter_map(|row| ToolSchema::of(row)).collect();
    Ok(answer(ToolList { success: Success, tools, next_cursor }))
}
