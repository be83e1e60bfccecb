//! `POST /v1/admin/sync_skill`: storage of a skill with its secrets.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_core::{Owner, SkillId};
use skills_vault::{AccountChange, OtherSecrets, SecretsChange, Vault};
use utoipa::ToSchema;

use super::{
    auth::AdminOrInternal,
    manifest_input::{
        Joint, Manifest, ManifestText, SecretValues, Secrets, SkillInput, Status, StoredSkill,
    },
};
use crate::{
    Gateway,
    error::GatewayError,
    extractors::JsonBody,
    openapi::ErrorResponse,
    parsed_field::{Id, Parsed, Uid},
    response::{ResponseMetadata, Success, json_response},
};

/// A skill to store.
#[derive(Deserialize, ToSchema)]
pub(super) struct SyncSkill {
    /// Id of the user who owns a private skill and the secrets.
    #[schema(value_type = Uid)]
    user_uid: Parsed<Owner>,
    /// Id of the skill.
    #[schema(value_type = Id)]
    skill_name: Parsed<SkillId>,
    /// Tier: `private`, `official`, or one of the aliases `public`, `community` and `market`.
    #[schema(value_type = String, pattern = "^([Pp]rivate|[Oo]fficial|[Pp]ublic|[Cc]ommunity|[Mm]arket)$")]
    status: Status,
    /// Manifest of the skill.
    #[schema(value_type = Manifest)]
    manifest: ManifestText,
    /// Secrets in plain text; they are encrypted for this user and this skill.
    #[schema(value_type = Option<SecretValues>, inline)]
    secrets: Option<Secrets>,
    /// True to remove the user's private copy of the same id when the skill is stored in another tier.
    #[serde(default, rename = "move")]
    is_move: bool,
}

/// The stored skill.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SyncSkillResponse {
    success: Success,
    /// Id of the skill.
    skill_name: String,
    /// The `status` of the request.
    status: String,
    #[serde(flatten)]
    stored: StoredSkill,
    #[serde(rename = "_uniskill")]
    about: ResponseMetadata,
}

/// Store a skill
///
/// Stores a skill in the private layer of the user, or in the official or the market tier. The manifest is checked
/// strictly.
#[utoipa::path(
    post,
    path = "/v1/admin/sync_skill",
    tag = "administration",
    request_body = SyncSkill,
    responses(
        (status = 200, description = "The skill is stored", body = SyncSkillResponse),
        (status = 409, response = ErrorResponse),
    ),
    security(("admin" = []), ("internal" = [])),
)]
pub(super) async fn sync_skill(
    State(gateway): State<Gateway>,
    AdminOrInternal(actor): AdminOrInternal,
    JsonBody(body): JsonBody<SyncSkill>,
) -> Result<Response, GatewayError> {
    let SyncSkill { user_uid, skill_name, status, manifest, secrets, is_move } = body;
    let (Parsed(owner), Parsed(id)) = (user_uid, skill_name);
    let Status { tier, text: status } = status;
    let input = SkillInput { owner: owner.clone(), id: id.clone(), tier, manifest, is_move };
    let skill = input.check(&gateway).await?;
    let skill_name = id.to_string();
    let author = actor.clone();
    let account = move |vault: &Vault, store: Joint<'_>| {
        let secrets = secrets.as_ref().map(|Secrets(values)| SecretsChange {
            skill: Some(&id),
            values,
            others: OtherSecrets::Keep,
        });
        let change = AccountChange { secrets, ..AccountChange::new(&owner) };
        vault.apply_account_change_with(author.act(), &change, store)
    };
    let stored = skill.store_with_account(&gateway, &actor, account).await?;
    Ok(json_response(SyncSkillResponse {
        success: Success,
        skill_name,
        status,
        stored,
        about: ResponseMetadata::default(),
    }))
}
