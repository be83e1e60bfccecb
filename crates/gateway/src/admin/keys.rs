//! `/v1/admin/keys`: creation, listing and revocation of user keys. A key is shown only once.

use std::{sync::atomic::Ordering, time::Duration};

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_core::{Owner, Timestamp, keyspace::Expiry, limits::MAX_KEY_SECONDS};
use skills_vault::{KeyRow, KeySelector, NewKey, Plan, Revocation, Vault, VaultError, now};
use utoipa::{IntoParams, ToSchema};

use super::auth::Administrator;
use crate::{
    Gateway,
    error::GatewayError,
    extractors::{JsonBody, PathParam, Query},
    openapi::ErrorResponse,
    parsed_field::{Parsed, PlanName, Uid},
    response::{Success, created_response, json_response},
    skills::{Limit, PageQuery, row_number},
};

/// Delay between attempts to store revocations on a full disk.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// A new key.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct KeyRequest {
    /// Id of the owner.
    #[schema(value_type = Uid)]
    user_uid: Parsed<Owner>,
    /// New plan of the owner; unchanged if absent.
    #[schema(value_type = Option<PlanName>, inline)]
    tier: Option<Parsed<Plan>>,
    /// Purpose of the key; at most 128 bytes.
    #[schema(max_length = 128, pattern = r"^[^\x00-\x1F\x7F-\x9F]*$")]
    label: Option<String>,
    /// Lifetime; unlimited if absent.
    #[schema(minimum = 1, maximum = 3153600000_u64)]
    ttl_seconds: Option<u64>,
}

/// Stored data of a key, without the key itself.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyView {
    /// Id of the key: the first digits of its hash.
    key_id: String,
    /// SHA-256 of the key.
    key_hash: String,
    /// Id of the owner.
    user_uid: String,
    /// Purpose of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// Time of creation, in RFC 3339.
    created_at: String,
    /// Time of expiry, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// Time of revocation, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
    /// Time at which the key was last presented to this process, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<String>,
    /// True if the key is active.
    live: bool,
}

impl KeyView {
    fn new(row: KeyRow, last_use: Option<Timestamp>, now: Timestamp) -> Self {
        let text = |time: Option<Timestamp>| time.map(|time| time.to_string());
        Self {
            key_id: row.id(),
            key_hash: row.hash.to_string(),
            user_uid: row.owner.to_string(),
            created_at: row.created_at.to_string(),
            expires_at: text(row.expires_at),
            revoked_at: text(row.revoked_at),
            last_used_at: text(last_use),
            live: row.is_active(now),
            label: row.label,
        }
    }
}

/// The created key.
#[derive(Serialize, ToSchema)]
pub(super) struct CreateKeyResponse {
    success: Success,
    /// The key itself, which cannot be shown again.
    key: String,
    /// Plan of the owner.
    tier: PlanName,
    #[serde(flatten)]
    view: KeyView,
}

/// A page of keys, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyList {
    success: Success,
    data: Vec<KeyView>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Filter of a listing.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct KeysQuery {
    /// Only keys of this user.
    #[param(value_type = Option<Uid>, inline)]
    uid: Option<Parsed<Owner>>,
}

/// A revoked key.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RevokeResponse {
    success: Success,
    key_id: String,
    /// True if the key was active before.
    revoked: bool,
    /// True if the revocation survives a restart. If not, this process refuses the key from now on, and stores the
    /// revocation as soon as it can.
    stored: bool,
    /// Reason why the revocation is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// Create a key
///
/// The key has 256 random bits; only its SHA-256 is stored.
#[utoipa::path(
    post,
    path = "/v1/admin/keys",
    tag = "administration",
    request_body = KeyRequest,
    responses(
        (status = 201, description = "The key, shown only here", body = CreateKeyResponse),
        (status = 409, response = ErrorResponse),
    ),
    security(("admin" = [])),
)]
pub(super) async fn create_key(
    State(gateway): State<Gateway>,
    Administrator(actor): Administrator,
    JsonBody(KeyRequest { user_uid: Parsed(owner), tier, label, ttl_seconds }): JsonBody<
        KeyRequest,
    >,
) -> Result<Response, GatewayError> {
    if ttl_seconds.is_some_and(|seconds| !(1..=MAX_KEY_SECONDS).contains(&seconds)) {
        return Err(GatewayError::InvalidTtl);
    }
    let create = move |vault: &Vault| {
        let act = actor.act();
        let tier = tier.map(|Parsed(tier)| tier);
        let expires_at = ttl_seconds.map(|seconds| Expiry::After(seconds).to_timestamp(act.at));
        vault.create_key(
            act,
            &NewKey { owner: &owner, plan: tier, label: label.as_deref(), expires_at },
        )
    };
    let created = gateway.vault(create).await?;
    let (key, tier) = (created.key.to_string(), created.plan.into());
    let view = KeyView::new(created.row, None, now());
    Ok(created_response(CreateKeyResponse { success: Success, key, tier, view }))
}

/// List keys
///
/// Keys of one user or of all, including revoked ones; never the keys themselves.
#[utoipa::path(
    get,
    path = "/v1/admin/keys",
    tag = "administration",
    params(KeysQuery, PageQuery),
    responses((status = 200, description = "A page of keys", body = KeyList)),
    security(("admin" = [])),
)]
pub(super) async fn list_keys(
    State(gateway): State<Gateway>,
    Administrator(_): Administrator,
    Query(KeysQuery { uid }): Query<KeysQuery>,
    Query(PageQuery { limit: Limit(limit), cursor }): Query<PageQuery>,
) -> Result<Response, GatewayError> {
    let after = match cursor {
        None => 0,
        Some(cursor) => row_number(&cursor).ok_or(GatewayError::InvalidCursor)?,
    };
    let list = move |vault: &Vault| {
        let owner = uid.as_ref().map(|Parsed(owner)| owner);
        let rows = vault.keys(owner, after, limit)?;
        let last = rows.last().filter(|_| rows.len() == limit).map(|row| row.number);
        let has_more = match last {
            Some(last) => !vault.keys(owner, last, 1)?.is_empty(),
            None => false,
        };
        Ok((rows, last.filter(|_| has_more)))
    };
    let (rows, next) = gateway.vault(list).await?;
    let now = now();
    let view = |row: KeyRow| {
        let last_use = gateway.last_use(&row.hash);
        KeyView::new(row, last_use, now)
    };
    let data = rows.into_iter().map(view).collect();
    let next_cursor = next.map(|number| number.to_string());
    Ok(json_response(KeyList { success: Success, data, next_cursor }))
}

/// Revoke a key
///
/// The key is refused from the next request on, even if the disk of the server is full; then `stored` is false until there
/// is space. A database that servers share refuses or stores the revocation.
#[utoipa::path(
    delete,
    path = "/v1/admin/keys/{key_id}",
    tag = "administration",
    params((
        "key_id" = String, Path, description = "The first digits of its hash, at least 8", pattern = "^[0-9a-fA-F]{8,64}$",
    )),
    responses(
        (status = 200, description = "The key is revoked", body = RevokeResponse),
        (status = 404, response = ErrorResponse),
        (status = 409, response = ErrorResponse),
        (status = 422, response = ErrorResponse),
    ),
    security(("admin" = [])),
)]
pub(super) async fn revoke_key(
    State(gateway): State<Gateway>,
    Administrator(actor): Administrator,
    PathParam(key_id): PathParam<String>,
) -> Result<Response, GatewayError> {
    let revoke = move |vault: &Vault| -> Result<_, VaultError> {
        let Revocation { keys, storage_error: not_stored } =
            vault.revoke_keys(actor.act(), KeySelector::Id(&key_id))?;
        let note = not_stored.map(|error| {
            format!("the key is refused from now on, but the revocation does not survive a restart: {error}")
        });
        let stored = note.is_none();
        Ok(RevokeResponse { success: Success, key_id, revoked: !keys.is_empty(), stored, note })
    };
    let revoked = gateway.vault(revoke).await?;
    if !revoked.stored {
        tracing::error!(key_id = revoked.key_id, "revocation held in memory only; retrying");
        retry_revocations(&gateway);
    }
    Ok(json_response(revoked))
}

/// Starts the task that stores revocations, unless it is running. Returns whether it was started.
fn retry_revocations(gateway: &Gateway) -> bool {
    let is_running = gateway.is_storing_revocations.swap(true, Ordering::SeqCst);
    if !is_running {
        tokio::spawn(store_revocations(gateway.clone()));
    }
    !is_running
}

/// Retries to store revocations until it succeeds.
async fn store_revocations(gateway: Gateway) {
    let store =
        async || gateway.vault(|vault| Ok(vault.store_revocations())).await.unwrap_or(false);
    loop {
        tokio::time::sleep(RETRY_DELAY).await;
        if !store().await {
            continue;
        }
        tracing::info!("revocations stored");
        gateway.is_storing_revocations.store(false, Ordering::SeqCst);
        // A revocation that failed before the line above found this task running.
        if store().await || gateway.is_storing_revocations.swap(true, Ordering::SeqCst) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use skills_execution::{CallerLimiter, PendingExecutor};
    use skills_vault::{PlanLimits, RateLimits};

    use super::*;
    use crate::GatewayParts;

    #[tokio::test]
    async fn only_one_task_retries_to_store_revocations() {
        let dir = tempfile::tempdir().unwrap();
        let vault = Arc::new(Vault::open(dir.path(), None).unwrap());
        let limits = Arc::new(RateLimits::new(PlanLimits::default()));
        let (_sender, executor) = PendingExecutor::channel();
        let limiter = CallerLimiter::new(vault, limits);
        let protected_labels = Arc::default();
        let parts =
            GatewayParts { executor, limiter, server: None, is_private: false, protected_labels };
        let gateway = Gateway::new(parts);
        assert!(retry_revocations(&gateway));
        assert!(!retry_revocations(&gateway), "it is running");
        let wait_for_end = async || {
            while gateway.is_storing_revocations.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait_for_end()).await.unwrap();
        assert!(retry_revocations(&gateway), "the next failure starts it again");
    }

    #[test]
    fn the_schema_has_the_maximum_lifetime_of_a_key() {
        let schema = serde_json::to_value(<KeyRequest as utoipa::PartialSchema>::schema()).unwrap();
        assert_eq!(schema["properties"]["ttl_seconds"]["maximum"], MAX_KEY_SECONDS);
    }
}
