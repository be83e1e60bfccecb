//! `POST /v1/admin/refresh-tools`: every client that follows the tools is told to ask for them again.

use axum::{extract::State, response::Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::door::Insider;
use crate::{
    Gateway,
    envelope::{Success, answer},
    error::GatewayError,
};

/// What the log calls it that everyone was told to list the tools again.
pub const REFRESH_TOOLS: &str = "tools.refresh";
/// Where other gateways keep when that was.
const SUBJECT: &str = "mcp_broadcast:tools_changed";

/// Everyone was told.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Refreshed {
    success: Success,
    message: &'static str,
    /// When, in milliseconds since 1970.
    tools_changed: i64,
}

/// Have everyone list the tools again
///
/// Also when none of them changed. When that was is in the log.
#[utoipa::path(
    post,
    path = "/v1/admin/refresh-tools",
    tag = "administration",
    responses((status = 200, description = "Everyone was told", body = Refreshed)),
    security(("admin" = []), ("internal" = [])),
)]
pub(super) async fn refresh_tools(
    State(gateway): State<Gateway>,
    Insider(actor): Insider,
) -> Result<Response, GatewayError> {
    let registry = gateway.registry().await?;
    let record = move |vault: &skills_vault::Vault| {
        let act = actor.act();
        vault.record(act, REFRESH_TOOLS, SUBJECT)?;
        Ok(act.at)
    };
    let at = gateway.vault(record).await?;
    registry.refresh_tools();
    let message = "Global tool refresh triggered successfully!";
    Ok(answer(Refreshed { success: Success, message, tools_changed: at.as_micros() / 1000 }))
}
