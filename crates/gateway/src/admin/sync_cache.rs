//! `POST /v1/admin/sync_cache`: update of an account from another system. Absent fields stay unchanged.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_core::{Digest, Owner, SkillId};
use skills_vault::{
    AccountChange, DatabaseError, JointWriteError, OtherSecrets, Plan, ProfileChange,
    SecretsChange, Vault, check_secret_value,
};
use utoipa::ToSchema;

use super::{
    auth::Administrator,
    manifest_input::{Joint, Manifest, ManifestText, SecretValues, Secrets, SkillInput, Status},
};
use crate::{
    Gateway,
    error::GatewayError,
    extractors::JsonBody,
    openapi::ErrorResponse,
    parsed_field::{Id, KeyHash, Parsed, PlanName, Uid},
    response::{ResponseMetadata, Success, json_response},
};

/// Kind of an update.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SyncKind {
    /// The account only.
    #[default]
    ProfileSync,
    /// The account and a skill of the user.
    SkillUpdate,
    /// Alias of `skill_update`.
    SkillActivation,
    /// The account and all global secrets of the user.
    SecretsSync,
}

/// Update of an account. Of several aliases of a field, the first that is present counts.
#[derive(Deserialize, ToSchema)]
pub(super) struct SyncCache {
    /// Id of the user.
    #[schema(value_type = Option<Uid>, inline)]
    user_uid: Option<Parsed<Owner>>,
    /// Alias of `user_uid`.
    #[schema(value_type = Option<Uid>, inline)]
    uid: Option<Parsed<Owner>>,
    /// New credits.
    total_credits: Option<f64>,
    /// Alias of `total_credits`.
    new_credits: Option<f64>,
    /// Alias of `total_credits`.
    credits: Option<f64>,
    /// New plan.
    #[schema(value_type = Option<PlanName>, inline)]
    new_tier: Option<Parsed<Plan>>,
    /// Alias of `new_tier`.
    #[schema(value_type = Option<PlanName>, inline)]
    tier: Option<Parsed<Plan>>,
    /// New name of the user.
    #[schema(max_length = 256)]
    username: Option<String>,
    /// Hash of a key to add.
    #[schema(value_type = Option<KeyHash>, inline)]
    key_hash: Option<Parsed<Digest>>,
    /// Alias of `key_hash`.
    #[schema(value_type = Option<KeyHash>, inline)]
    hash: Option<Parsed<Digest>>,
    /// Hash of a key to revoke.
    #[schema(value_type = Option<KeyHash>, inline)]
    old_key_hash: Option<Parsed<Digest>>,
    /// Alias of `old_key_hash`.
    #[schema(value_type = Option<KeyHash>, inline)]
    old_hash: Option<Parsed<Digest>>,
    /// Kind of the update.
    #[serde(rename = "type")]
    #[schema(inline)]
    kind: Option<SyncKind>,
    /// Id of the skill, for updates with a skill.
    #[schema(value_type = Option<Id>, inline)]
    skill_name: Option<Parsed<SkillId>>,
    /// Tier of the skill, for updates with a skill.
    #[schema(value_type = Option<String>, pattern = "^([Pp]rivate|[Oo]fficial|[Pp]ublic|[Cc]ommunity|[Mm]arket)$")]
    status: Option<Status>,
    /// Manifest of the skill, for updates with a skill.
    #[schema(value_type = Option<Manifest>, inline)]
    manifest: Option<ManifestText>,
    /// Secrets of the skill; for `secrets_sync`, the global secrets of the user, which replace the present ones.
    #[schema(value_type = Option<SecretValues>, inline)]
    secrets: Option<Secrets>,
}

/// Confirmation of an update.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SyncCacheResponse {
    success: Success,
    user_uid: String,
    #[serde(rename = "type")]
    kind: SyncKind,
    #[serde(rename = "_uniskill")]
    about: ResponseMetadata,
}

/// Update an account
///
/// Profile, keys, secrets or a skill. Absent fields stay unchanged.
#[utoipa::path(
    post,
    path = "/v1/admin/sync_cache",
    tag = "administration",
    request_body = SyncCache,
    responses(
        (status = 200, description = "The account is updated", body = SyncCacheResponse),
        (status = 409, response = ErrorResponse),
    ),
    security(("admin" = [])),
)]
pub(super) async fn sync_cache(
    State(gateway): State<Gateway>,
    Administrator(actor): Administrator,
    JsonBody(body): JsonBody<SyncCache>,
) -> Result<Response, GatewayError> {
    let Parsed(owner) = body.user_uid.or(body.uid).ok_or(GatewayError::MissingField("user_uid"))?;
    let user_uid = owner.to_string();
    let kind = body.kind.unwrap_or_default();
    let mut skill = None;
    let (scope, others) = match kind {
        SyncKind::ProfileSync => (None, OtherSecrets::Keep),
        SyncKind::SecretsSync => (None, OtherSecrets::Remove),
        SyncKind::SkillUpdate | SyncKind::SkillActivation => {
            let Parsed(id) = body.skill_name.ok_or(GatewayError::MissingField("skill_name"))?;
            let Status { tier, .. } = body.status.ok_or(GatewayError::MissingField("status"))?;
            let manifest = body.manifest.ok_or(GatewayError::MissingField("manifest"))?;
            let (owner, scope) = (owner.clone(), Some(id.clone()));
            let input = SkillInput { owner, id, tier, manifest, is_move: false };
            skill = Some(input.check(&gateway).await?);
            (scope, OtherSecrets::Keep)
        }
    };
    let secrets = match kind {
        SyncKind::ProfileSync => {
            // Unused secrets are still validated.
            let unused = body.secrets.iter().flat_map(|Secrets(values)| values);
            unused.into_iter().try_for_each(|(_, value)| check_secret_value(value))?;
            None
        }
        SyncKind::SecretsSync => Some(body.secrets.ok_or(GatewayError::MissingField("secrets"))?),
        SyncKind::SkillUpdate | SyncKind::SkillActivation => body.secrets,
    };
    let profile = ProfileChange {
        credits: body.total_credits.or(body.new_credits).or(body.credits),
        plan: body.new_tier.or(body.tier).map(|Parsed(tier)| tier),
        username: body.username,
    };
    let key = body.key_hash.or(body.hash).map(|Parsed(hash)| hash);
    let old_key = body.old_key_hash.or(body.old_hash).map(|Parsed(hash)| hash);
    let by = actor.clone();
    let update = move |vault: &Vault, store: Joint<'_>| {
        let secrets = secrets.as_ref().map(|Secrets(values)| SecretsChange {
            skill: scope.as_ref(),
            values,
            others,
        });
        let change = AccountChange { owner: &owner, profile, key, old_key, secrets };
        vault.apply_account_change_with(by.act(), &change, store)
    };
    match skill {
        Some(skill) => {
            skill.store_with_account(&gateway, &actor, update).await?;
        }
        None => {
            let alone = move |vault: &Vault| match update(vault, Box::new(|| Ok(false))) {
                Ok(_) => Ok(()),
                Err(JointWriteError::Vault(error) | JointWriteError::CommitFailed(error)) => {
                    Err(error)
                }
                Err(JointWriteError::Other(error)) => {
                    Err(DatabaseError::Other(error.to_string()).into())
                }
            };
            gateway.vault(alone).await?;
        }
    }
    Ok(json_response(SyncCacheResponse {
        success: Success,
        user_uid,
        kind,
        about: ResponseMetadata::default(),
    }))
}
