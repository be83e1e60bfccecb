//! `POST /v1/admin/sync_skill`: a skill is stored where its status says.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_core::{Owner, SkillId};
use skills_vault::{AccountChange, Others, SecretsChange, Vault};
use utoipa::ToSchema;

use super::{
    door::Insider,
    given::{Given, Manifest, ManifestText, SecretValues, Secrets, Status, Stored},
};
use crate::{
    Gateway,
    envelope::{About, Success, answer},
    error::GatewayError,
    fields::{Id, Text, Uid},
    input::Sent,
    openapi::Refused,
};

/// A skill that is to be stored.
#[derive(Deserialize, ToSchema)]
pub(super) struct SyncSkill {
    /// Whose it is: private skills and secrets are theirs.
    #[schema(value_type = Uid)]
    user_uid: Text<Owner>,
    /// Its id.
    #[schema(value_type = Id)]
    skill_name: Text<SkillId>,
    /// `private`, `official`, or one of `public`, `community` and `market`, which are the same.
    #[schema(value_type = String, pattern = "^([Pp]rivate|[Oo]fficial|[Pp]ublic|[Cc]ommunity|[Mm]arket)$")]
    status: Status,
    /// How it is called.
    #[schema(value_type = Manifest)]
    manifest: ManifestText,
    /// What it needs, in plain text; it is encrypted here, for this user and this skill.
    #[schema(value_type = Option<SecretValues>, inline)]
    secrets: Option<Secrets>,
    /// Whether the user's private copy of the same id is removed when the skill is stored in another tier.
    #[serde(default, rename = "move")]
    is_move: bool,
}

/// A skill that was stored.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SkillSynced {
    success: Success,
    /// Its id.
    skill_name: String,
    /// Where it was to be, in the words of the request.
    status: String,
    #[serde(flatten)]
    stored: Stored,
    #[serde(rename = "_uniskill")]
    about: About,
}

/// Store a skill
///
/// In the private layer of the user, or in the official or the market tier. The manifest is checked strictly.
#[utoipa::path(
    post,
    path = "/v1/admin/sync_skill",
    tag = "administration",
    request_body = SyncSkill,
    responses(
        (status = 200, description = "It is stored", body = SkillSynced),
        (status = 409, response = Refused),
        (status = 415, response = Refused),
        (status = 422, response = Refused),
    ),
    security(("admin" = []), ("internal" = [])),
)]
pub(super) async fn sync_skill(
    State(gateway): State<Gateway>,
    Insider(actor): Insider,
    Sent(sent): Sent<SyncSkill>,
) -> Result<Response, GatewayError> {
    let SyncSkill { user_uid, skill_name, status, manifest, secrets, is_move } = sent;
    let (Text(owner), Text(id)) = (user_uid, skill_name);
    let Status { tier, said: status } = status;
    let given = Given { owner: owner.clone(), id: id.clone(), tier, manifest, is_move };
    let given = given.checked(&gateway).await?;
    let skill_name = id.to_string();
    let author = actor.clone();
    let account = move |vault: &Vault| {
        let secrets = secrets.as_ref().map(|Secrets(values)| SecretsChange {
            skill: Some(&id),
            values,
            others: Others::Stay,
        });
        vault.take_over(author.act(), &AccountChange { secrets, ..AccountChange::of(&owner) })
    };
    gateway.vault(account).await?;
    let stored = given.store(&actor).await?;
    Ok(answer(SkillSynced {
        success: Success,
        skill_name,
        status,
        stored,
        about: About::default(),
    }))
}
