//! `POST /v1/admin/sync_cache`: what is known of a user becomes what the sender knows. Nothing that is not said
//! is touched.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_core::{Digest, Owner, SkillId};
use skills_vault::{
    AccountChange, AccountTier, Others, ProfileChange, SecretsChange, Vault, check_value,
};
use utoipa::ToSchema;

use super::{
    door::Administrator,
    given::{Given, Manifest, ManifestText, SecretValues, Secrets, Status},
};
use crate::{
    Gateway,
    envelope::{About, Success, answer},
    error::GatewayError,
    fields::{AccountTierName, Id, KeyHash, Text, Uid},
    input::Sent,
    openapi::Refused,
};

/// What a message is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SyncKind {
    /// A user alone.
    #[default]
    ProfileSync,
    /// Also a skill of theirs.
    SkillUpdate,
    /// The same.
    SkillActivation,
    /// Also all their global secrets.
    SecretsSync,
}

/// What is known of a user. Of several names for the same thing, the first that is there counts.
#[derive(Deserialize, ToSchema)]
pub(super) struct SyncCache {
    /// Who.
    #[schema(value_type = Option<Uid>, inline)]
    user_uid: Option<Text<Owner>>,
    /// The same.
    #[schema(value_type = Option<Uid>, inline)]
    uid: Option<Text<Owner>>,
    /// Their credits.
    total_credits: Option<f64>,
    /// The same.
    new_credits: Option<f64>,
    /// The same.
    credits: Option<f64>,
    /// What they pay for.
    #[schema(value_type = Option<AccountTierName>, inline)]
    new_tier: Option<Text<AccountTier>>,
    /// The same.
    #[schema(value_type = Option<AccountTierName>, inline)]
    tier: Option<Text<AccountTier>>,
    /// What they are called.
    #[schema(max_length = 256)]
    username: Option<String>,
    /// A key of theirs from now on.
    #[schema(value_type = Option<KeyHash>, inline)]
    key_hash: Option<Text<Digest>>,
    /// The same.
    #[schema(value_type = Option<KeyHash>, inline)]
    hash: Option<Text<Digest>>,
    /// A key of theirs that is revoked.
    #[schema(value_type = Option<KeyHash>, inline)]
    old_key_hash: Option<Text<Digest>>,
    /// The same.
    #[schema(value_type = Option<KeyHash>, inline)]
    old_hash: Option<Text<Digest>>,
    /// What the message is about.
    #[serde(rename = "type")]
    #[schema(inline)]
    kind: Option<SyncKind>,
    /// For a skill: its id.
    #[schema(value_type = Option<Id>, inline)]
    skill_name: Option<Text<SkillId>>,
    /// For a skill: where it is stored.
    #[schema(value_type = Option<String>, pattern = "^([Pp]rivate|[Oo]fficial|[Pp]ublic|[Cc]ommunity|[Mm]arket)$")]
    status: Option<Status>,
    /// For a skill: how it is called.
    #[schema(value_type = Option<Manifest>, inline)]
    manifest: Option<ManifestText>,
    /// For a skill: its secrets. For `secrets_sync`: all global secrets of the user, in place of those of before.
    #[schema(value_type = Option<SecretValues>, inline)]
    secrets: Option<Secrets>,
}

/// What was taken over.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UserSynced {
    success: Success,
    user_uid: String,
    #[serde(rename = "type")]
    kind: SyncKind,
    #[serde(rename = "_uniskill")]
    about: About,
}

/// Take over what is known of a user
///
/// Profile, keys, secrets or a skill. What is not said stays as it is.
#[utoipa::path(
    post,
    path = "/v1/admin/sync_cache",
    tag = "administration",
    request_body = SyncCache,
    responses(
        (status = 200, description = "It is taken over", body = UserSynced),
        (status = 409, response = Refused),
        (status = 415, response = Refused),
        (status = 422, response = Refused),
    ),
    security(("admin" = [])),
)]
pub(super) async fn sync_cache(
    State(gateway): State<Gateway>,
    Administrator(actor): Administrator,
    Sent(sent): Sent<SyncCache>,
) -> Result<Response, GatewayError> {
    let Text(owner) = sent.user_uid.or(sent.uid).ok_or(GatewayError::Missing("user_uid"))?;
    let user_uid = owner.to_string();
    let kind = sent.kind.unwrap_or_default();
    let mut skill = None;
    let (scope, others) = match kind {
        SyncKind::ProfileSync => (None, Others::Stay),
        SyncKind::SecretsSync => (None, Others::Go),
        SyncKind::SkillUpdate | SyncKind::SkillActivation => {
            let Text(id) = sent.skill_name.ok_or(GatewayError::Missing("skill_name"))?;
            let Status { tier, .. } = sent.status.ok_or(GatewayError::Missing("status"))?;
            let manifest = sent.manifest.ok_or(GatewayError::Missing("manifest"))?;
            let (owner, scope) = (owner.clone(), Some(id.clone()));
            let given = Given { owner, id, tier, manifest, is_move: false };
            skill = Some(given.checked(&gateway).await?);
            (scope, Others::Stay)
        }
    };
    let secrets = match kind {
        SyncKind::ProfileSync => {
            // They are not taken over; what is wrong with them is said all the same.
            let unused = sent.secrets.iter().flat_map(|Secrets(values)| values);
            unused.into_iter().try_for_each(|(_, value)| check_value(value))?;
            None
        }
        SyncKind::SecretsSync => Some(sent.secrets.ok_or(GatewayError::Missing("secrets"))?),
        SyncKind::SkillUpdate | SyncKind::SkillActivation => sent.secrets,
    };
    let profile = ProfileChange {
        credits: sent.total_credits.or(sent.new_credits).or(sent.credits),
        tier: sent.new_tier.or(sent.tier).map(|Text(tier)| tier),
        username: sent.username,
    };
    let key = sent.key_hash.or(sent.hash).map(|Text(hash)| hash);
    let old_key = sent.old_key_hash.or(sent.old_hash).map(|Text(hash)| hash);
    let by = actor.clone();
    let take_over = move |vault: &Vault| {
        let secrets = secrets.as_ref().map(|Secrets(values)| SecretsChange {
            skill: scope.as_ref(),
            values,
            others,
        });
        vault.take_over(by.act(), &AccountChange { owner: &owner, profile, key, old_key, secrets })
    };
    gateway.vault(take_over).await?;
    if let Some(skill) = skill {
        skill.store(&actor).await?;
    }
    Ok(answer(UserSynced { success: Success, user_uid, kind, about: About::default() }))
}
