//! Skills that administrators send: parsing of manifest and secrets, and storage together with the account.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;
use skills_core::{Layer, Owner, SkillId, SkillMeta, Tier};
use skills_manifest::{self as manifest, Diagnostic, ParseMode};
use skills_registry::{ManifestSkill, Registry, RegistryError};
use skills_vault::{JointWriteError, SecretName, Vault};
use tokio::runtime::Handle;
use utoipa::ToSchema;
use zeroize::Zeroizing;

use super::auth::AdminActor;
use crate::{
    Gateway, error::GatewayError, parsed_field::Parsed, secrets::SecretText, skills::StoredAt,
};

/// Tier of a skill in the words of the published API. Upper and lower case are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    /// The tier.
    pub(super) tier: Tier,
    /// The word of the request.
    pub(super) text: String,
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let tier = match text.to_ascii_lowercase().as_str() {
            "private" => Tier::Private,
            "official" => Tier::Official,
            "public" | "community" | "market" => Tier::Market,
            _ => {
                let message = "it is private, official, public, community or market";
                return Err(de::Error::custom(message));
            }
        };
        Ok(Self { tier, text })
    }
}

/// Text of a manifest, sent as a JSON object or as a string with JSON or Markdown.
#[derive(Debug, Clone)]
pub(super) struct ManifestText(pub(super) String);

impl<'de> Deserialize<'de> for ManifestText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The exact bytes: a duplicate key must be reported to the author.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = match raw.get().as_bytes().first() {
            Some(b'{') => raw.get().to_owned(),
            Some(b'"') => serde_json::from_str(raw.get()).map_err(de::Error::custom)?,
            _ => return Err(de::Error::custom("a manifest is a JSON object or a text")),
        };
        if text.trim().is_empty() {
            return Err(de::Error::custom("the manifest is empty"));
        }
        Ok(Self(text))
    }
}

/// OpenAPI schema of [`ManifestText`].
#[derive(ToSchema)]
#[schema(examples(json!({
    "id": "uniskill_weather",
    "meta": {"name": "Global Weather", "description": "The weather of a place", "parameters": {"type": "object", "properties": {}}},
    "config": {"endpoint": "https://api.open-meteo.com/v1/forecast", "method": "GET"}
})))]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the request")]
pub(super) enum Manifest {
    /// A JSON object.
    Object(serde_json::Map<String, serde_json::Value>),
    /// String with JSON or legacy Markdown.
    Text(String),
}

/// Secrets by name, sent as an object or as a list of key and value.
#[derive(Default)]
pub(super) struct Secrets(pub(super) Vec<(SecretName, Zeroizing<String>)>);

impl<'de> Deserialize<'de> for Secrets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Pair {
            key: Parsed<SecretName>,
            value: SecretText,
        }
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "secrets are an object of texts, or a list of key and value")]
        enum Form {
            Object(BTreeMap<Parsed<SecretName>, SecretText>),
            List(Vec<Pair>),
        }
        let pairs = match Form::deserialize(deserializer)? {
            Form::Object(fields) => {
                fields.into_iter().map(|(Parsed(key), SecretText(value))| (key, value)).collect()
            }
            Form::List(list) => list
                .into_iter()
                .map(|Pair { key: Parsed(key), value: SecretText(value) }| (key, value))
                .collect(),
        };
        Ok(Self(pairs))
    }
}

/// OpenAPI schema of [`Secrets`].
#[derive(ToSchema)]
#[schema(examples(json!({"WEATHER_KEY": "plain text"})))]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the request")]
pub(super) enum SecretValues {
    /// Plain texts by name.
    Object(BTreeMap<String, String>),
    /// List of names and plain texts.
    List(Vec<SecretEntry>),
}

/// OpenAPI schema of a secret in a list.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the request")]
pub(super) struct SecretEntry {
    /// Name of the secret.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    key: String,
    /// Plain text of the secret.
    #[schema(min_length = 1)]
    value: String,
}

/// A skill to store.
pub(super) struct SkillInput {
    pub(super) owner: Owner,
    pub(super) id: SkillId,
    pub(super) tier: Tier,
    pub(super) manifest: ManifestText,
    /// True to remove the owner's private copy when the skill is stored in another tier.
    pub(super) is_move: bool,
}

/// Result of storing a skill.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StoredSkill {
    /// Tier of the skill.
    pub(super) tier: crate::skills::TierName,
    /// Entries that shadow the skill in the owner's view.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) shadowed_by: Vec<StoredAt>,
    /// True if the owner's private copy was removed.
    pub(super) moved: bool,
    /// Findings about the manifest.
    #[schema(value_type = Vec<Object>)]
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// A validated skill; only the store can still refuse it.
pub(super) struct CheckedSkill {
    registry: Arc<Registry>,
    owner: Owner,
    id: SkillId,
    layer: Layer,
    skill: ManifestSkill,
    is_move: bool,
    diagnostics: Vec<Diagnostic>,
}

impl SkillInput {
    /// Validates the skill.
    pub(super) async fn check(self, gateway: &Gateway) -> Result<CheckedSkill, GatewayError> {
        let Self { owner, id, tier, manifest: ManifestText(text), is_move } = self;
        let parsed = manifest::parse(&text, ParseMode::Strict, Some(&id))?;
        let skill = ManifestSkill::new(&id, &parsed, text).map_err(RegistryError::from)?;
        let layer = match tier {
            Tier::Private => Layer::Private(owner.clone()),
            Tier::Official => Layer::Official,
            Tier::Market => Layer::Market,
        };
        let registry = gateway.registry().await?;
        registry.check_skill(&layer, id.as_str(), &skill)?;
        let diagnostics = parsed.diagnostics;
        Ok(CheckedSkill { registry, owner, id, layer, skill, is_move, diagnostics })
    }
}

impl CheckedSkill {
    /// Stores the skill and changes the account of its owner, both or neither.
    ///
    /// The vault's transaction stays open while the store commits, and commits or rolls back like the store. If the
    /// vault then fails to commit, the store is restored; likewise if the store's outcome is unknown and its catalog has
    /// changed. All of it runs on a blocking thread, which continues when the
    /// request is dropped. Only a crash in between, or a store that cannot be restored, leaves the skill without its
    /// secrets; the administrator gets no response or an error then, and repeats the request.
    pub(super) async fn store_with_account(
        self,
        gateway: &Gateway,
        actor: &AdminActor,
        change: impl for<'a> FnOnce(&'a Vault, Joint<'a>) -> Result<bool, JointFailure> + Send + 'static,
    ) -> Result<StoredSkill, GatewayError> {
        let Self { registry, owner, id, layer, skill, is_move, diagnostics } = self;
        let tier = layer.tier();
        let own = Layer::Private(owner.clone());
        let from = (is_move && layer != own).then_some(own);
        let (store, by, name) = (Arc::clone(&registry), actor.clone(), id.clone());
        let runtime = Handle::current();
        let both = move |vault: &Vault| {
            let mut before = Vec::new();
            let write = || {
                // Read while the vault is locked: joint changes are serialized.
                before = stored_in(&store, &name, std::iter::once(&layer).chain(&from));
                let write =
                    store.move_skill(by.as_str(), &layer, name.as_str(), skill, from.as_ref());
                runtime.block_on(write)
            };
            let changed = change(vault, Box::new(write));
            // The vault was rolled back. A store whose outcome is unknown has recovered by now: its catalog tells.
            let is_half_done = match &changed {
                Err(JointWriteError::CommitFailed(_)) => true,
                Err(JointWriteError::Other(RegistryError::OutcomeUnknown)) => {
                    let layers = std::iter::once(&layer).chain(&from);
                    stored_in(&store, &name, layers) != before
                }
                Ok(_) | Err(_) => false,
            };
            if is_half_done
                && let Err(failure) =
                    runtime.block_on(store.restore_skill(by.as_str(), &name, before))
            {
                tracing::error!(id = %name, %failure, "skill stored without its account change");
            }
            Ok(changed)
        };
        let moved = match gateway.vault(both).await? {
            Ok(moved) => moved,
            Err(JointWriteError::Vault(error) | JointWriteError::CommitFailed(error)) => {
                return Err(error.into());
            }
            Err(JointWriteError::Other(error)) => return Err(error.into()),
        };
        let before = registry.catalog().shadowed_by(&owner, tier, id.as_str());
        let shadowed_by = before.into_iter().map(Into::into).collect();
        Ok(StoredSkill { tier: tier.into(), shadowed_by, moved, diagnostics })
    }
}

/// Returns the entries of an id in some layers; `None` for layers without one.
fn stored_in<'a>(
    registry: &Registry,
    id: &SkillId,
    layers: impl Iterator<Item = &'a Layer>,
) -> Vec<(Layer, Option<SkillMeta>)> {
    let catalog = registry.catalog();
    let meta = |at: &Layer| catalog.stored_skill(at, id.as_str()).map(|row| row.meta.clone());
    layers.map(|at| (at.clone(), meta(at))).collect()
}

/// The store's half of a joint change; it blocks.
pub(super) type Joint<'a> = Box<dyn FnOnce() -> Result<bool, RegistryError> + Send + 'a>;

/// Reason why a joint change was not made.
pub(super) type JointFailure = JointWriteError<RegistryError>;
