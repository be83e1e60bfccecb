//! `/v1/admin/keys`: keys of users are made, listed and revoked. A key is shown once.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_core::{Owner, Timestamp, keyspace::Expiry};
use skills_vault::{AccountTier, KeyRow, NewKey, Vault, VaultError, WhichKeys, now};
use utoipa::{IntoParams, ToSchema};

use super::door::Administrator;
use crate::{
    Gateway,
    envelope::{Success, answer, created},
    error::GatewayError,
    fields::{AccountTierName, Text, Uid},
    input::{Asked, Named, Sent},
    openapi::Refused,
    skills::{Limit, MAX_CURSOR_BYTES, PageQuery},
};

/// A hundred years: more than any key needs.
const MAX_TTL_SECONDS: u64 = 100 * 365 * 24 * 60 * 60;

/// A key that is to be.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct KeyRequest {
    /// Whose it will be.
    #[schema(value_type = Uid)]
    user_uid: Text<Owner>,
    /// What the user pays for from now on; as it was without.
    #[schema(value_type = Option<AccountTierName>, inline)]
    tier: Option<Text<AccountTier>>,
    /// What it is for; at most 128 bytes.
    #[schema(max_length = 128, pattern = r"^[^\x00-\x1F\x7F-\x9F]*$")]
    label: Option<String>,
    /// How long it can be used; forever without.
    #[schema(minimum = 1, maximum = 3153600000_u64)]
    ttl_seconds: Option<u64>,
}

/// What is kept of a key.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyView {
    /// What it is called by: the first digits of its hash.
    key_id: String,
    /// Its SHA-256.
    key_hash: String,
    /// Whose it is.
    user_uid: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// In RFC 3339.
    created_at: String,
    /// Until when, if it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// Since when it cannot be used any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
    /// Whether it can be used.
    live: bool,
}

impl KeyView {
    fn of(row: KeyRow, now: Timestamp) -> Self {
        let moment = |moment: Option<Timestamp>| moment.map(|moment| moment.to_string());
        Self {
            key_id: row.id(),
            key_hash: row.hash.to_string(),
            user_uid: row.owner.to_string(),
            created_at: row.created_at.to_string(),
            expires_at: moment(row.expires_at),
            revoked_at: moment(row.revoked_at),
            live: row.is_live(now),
            label: row.label,
        }
    }
}

/// A new key.
#[derive(Serialize, ToSchema)]
pub(super) struct NewKeyAnswer {
    success: Success,
    /// The key itself: nobody can show it again.
    key: String,
    /// What the user pays for.
    tier: AccountTierName,
    #[serde(flatten)]
    view: KeyView,
}

/// A page of keys, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyList {
    success: Success,
    data: Vec<KeyView>,
    /// Where the next page begins; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Whose keys.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct KeysQuery {
    /// Only those of this user.
    #[param(value_type = Option<Uid>, inline)]
    uid: Option<Text<Owner>>,
}

/// A key that cannot be used any more.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Revoked {
    success: Success,
    key_id: String,
    /// Whether it could be used before.
    revoked: bool,
}

/// Create a key
///
/// From 256 random bits; only its SHA-256 is kept.
#[utoipa::path(
    post,
    path = "/v1/admin/keys",
    tag = "administration",
    request_body = KeyRequest,
    responses(
        (status = 201, description = "The key, this once", body = NewKeyAnswer),
        (status = 409, response = Refused),
        (status = 415, response = Refused),
        (status = 422, response = Refused),
    ),
    security(("admin" = [])),
)]
pub(super) async fn create_key(
    State(gateway): State<Gateway>,
    Administrator(actor): Administrator,
    Sent(KeyRequest { user_uid: Text(owner), tier, label, ttl_seconds }): Sent<KeyRequest>,
) -> Result<Response, GatewayError> {
    if ttl_seconds.is_some_and(|seconds| !(1..=MAX_TTL_SECONDS).contains(&seconds)) {
        return Err(GatewayError::Unfit("ttl_seconds is 1 to 3153600000"));
    }
    let create = move |vault: &Vault| {
        let act = actor.act();
        let tier = tier.map(|Text(tier)| tier);
        let expires_at = ttl_seconds.map(|seconds| Expiry::After(seconds).moment(act.at));
        vault.create_key(act, &NewKey { owner: &owner, tier, label: label.as_deref(), expires_at })
    };
    let made = gateway.vault(create).await?;
    let (key, tier) = (made.key.to_string(), made.tier.into());
    let view = KeyView::of(made.row, now());
    Ok(created(NewKeyAnswer { success: Success, key, tier, view }))
}

/// List keys
///
/// Of one user or of all, also those that were revoked; never the keys themselves.
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
    Asked(KeysQuery { uid }): Asked<KeysQuery>,
    Asked(PageQuery { limit: Limit(limit), cursor }): Asked<PageQuery>,
) -> Result<Response, GatewayError> {
    let after = match cursor {
        None => 0,
        Some(cursor) => place(&cursor).ok_or(GatewayError::Cursor)?,
    };
    let list = move |vault: &Vault| {
        let owner = uid.as_ref().map(|Text(owner)| owner);
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
    let data = rows.into_iter().map(|row| KeyView::of(row, now)).collect();
    let next_cursor = next.map(|number| number.to_string());
    Ok(answer(KeyList { success: Success, data, next_cursor }))
}

/// Revoke a key
///
/// From the next request on. One that was revoked before stays so.
#[utoipa::path(
    delete,
    path = "/v1/admin/keys/{key_id}",
    tag = "administration",
    params((
        "key_id" = String, Path, description = "The first digits of its hash, at least 8", pattern = "^[0-9a-fA-F]{8,64}$",
    )),
    responses(
        (status = 200, description = "It cannot be used any more", body = Revoked),
        (status = 404, response = Refused),
        (status = 409, response = Refused),
        (status = 422, response = Refused),
    ),
    security(("admin" = [])),
)]
pub(super) async fn revoke_key(
    State(gateway): State<Gateway>,
    Administrator(actor): Administrator,
    Named(key_id): Named<String>,
) -> Result<Response, GatewayError> {
    let revoke = move |vault: &Vault| -> Result<_, VaultError> {
        let revoked = vault.revoke_keys(actor.act(), WhichKeys::Id(&key_id))?;
        Ok(Revoked { success: Success, key_id, revoked: !revoked.is_empty() })
    };
    Ok(answer(gateway.vault(revoke).await?))
}

/// The number of the key that the page before ended with.
fn place(cursor: &str) -> Option<u64> {
    let cursor = Some(cursor).filter(|cursor| cursor.len() <= MAX_CURSOR_BYTES)?;
    // What the store counts with is smaller than what the text can name.
    cursor.parse().ok().filter(|number| *number <= i64::MAX as u64)
}
