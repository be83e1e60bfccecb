//! The entry that a request is about, and who may change it.

use std::sync::Arc;

use serde::Deserialize;
use skills_core::{Caller, EntryKey, EntryKind, Label, Layer, Owner, SkillId, caller::AdminName};
use skills_registry::{Registry, RegistryError};
use utoipa::IntoParams;

use crate::{
    Gateway,
    error::GatewayError,
    parsed_field::{Parsed, Uid},
    skills::TierName,
};

/// Layer of a skill whose versions are read.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TierQuery {
    /// Tier of the skill; the one that the id resolves to if absent.
    #[param(inline)]
    pub(super) tier: Option<TierName>,
}

/// Layer of a skill whose versions are changed.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LayerQuery {
    /// Tier of the skill; the one that the id resolves to if absent.
    #[param(inline)]
    tier: Option<TierName>,
    /// Owner of a private skill that an administrator changes; with `tier=private` only.
    #[param(value_type = Option<Uid>, inline)]
    uid: Option<Parsed<Owner>>,
}

/// Returns the entry of a request that reads.
pub(super) async fn readable_entry(
    registry: &Registry,
    caller: &Caller,
    tier: Option<TierName>,
    id: &str,
) -> Result<EntryKey, GatewayError> {
    Ok(registry.entry_key(caller, EntryKind::Skill, tier.map(Into::into), id).await?)
}

/// An entry that the caller may change.
pub(super) struct WritableEntry {
    pub(super) registry: Arc<Registry>,
    pub(super) key: EntryKey,
    /// Name of the caller in the change log.
    pub(super) actor: String,
}

/// Finds the entry of a request that changes versions, and authorizes the caller. Changes of users count against their
/// rate limit.
pub(super) async fn writable_entry(
    gateway: &Gateway,
    caller: &Caller,
    LayerQuery { tier, uid }: LayerQuery,
    id: &str,
    label: Option<&Label>,
) -> Result<WritableEntry, GatewayError> {
    let registry = gateway.registry().await?;
    let key = match (tier, uid) {
        (Some(TierName::Private), Some(Parsed(owner))) if is_admin(caller) => {
            let id = id.parse::<SkillId>().map_err(RegistryError::from)?;
            EntryKey { kind: EntryKind::Skill, layer: Layer::Private(owner), id: id.to_shared() }
        }
        (Some(TierName::Private), Some(_)) => return Err(admin_required(caller)),
        (_, Some(_)) => return Err(GatewayError::OwnerMismatch),
        (Some(TierName::Private), None) if is_admin(caller) => {
            return Err(GatewayError::OwnerMismatch);
        }
        (tier, None) => readable_entry(&registry, caller, tier, id).await?,
    };
    let is_protected = label.is_some_and(|label| gateway.is_protected(label));
    match caller {
        Caller::User(user) if matches!(key.layer, Layer::Private(_)) && !is_protected => {
            gateway.count_write(user).await?;
        }
        caller if is_admin(caller) => {}
        _ => return Err(admin_required(caller)),
    }
    Ok(WritableEntry { registry, key, actor: caller.actor().unwrap_or_default() })
}

fn is_admin(caller: &Caller) -> bool {
    *caller == Caller::Admin(AdminName::AdminKey)
}

fn admin_required(caller: &Caller) -> GatewayError {
    GatewayError::AdminRequired { is_authenticated: *caller != Caller::Anonymous }
}
