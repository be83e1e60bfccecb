//! `POST /v1/admin/refresh-tools`: notification of all clients that the list of tools changed.

use axum::{extract::State, response::Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::AdminOrInternal;
use crate::{
    Gateway,
    error::GatewayError,
    response::{Success, json_response},
};

/// Action in the audit log.
pub const REFRESH_TOOLS: &str = "tools.refresh";
/// Subject in the audit log: the key under which other gateways store the time.
const SUBJECT: &str = "mcp_broadcast:tools_changed";

/// Confirmation of a refresh.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RefreshResponse {
    success: Success,
    message: &'static str,
    /// Time of the refresh, in Unix milliseconds.
    tools_changed: i64,
}

/// Notify clients that tools changed
///
/// Also if none of them changed. The audit log has the time.
#[utoipa::path(
    post,
    path = "/v1/admin/refresh-tools",
    tag = "administration",
    responses((status = 200, description = "Clients are notified", body = RefreshResponse)),
    security(("admin" = []), ("internal" = [])),
)]
pub(super) async fn refresh_tools(
    State(gateway): State<Gateway>,
    AdminOrInternal(actor): AdminOrInternal,
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
    Ok(json_response(RefreshResponse {
        success: Success,
        message,
        tools_changed: at.as_micros() / 1000,
    }))
}
