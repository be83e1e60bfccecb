//! What administrators send: a skill with its manifest and secrets, and storing it.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;
use skills_core::{
    Layer, Owner, SkillId, Tier,
    manifest::{self, Diagnostic, Mode},
};
use skills_registry::{Registry, RegistryError, Tool};
use skills_vault::SecretName;
use utoipa::ToSchema;
use zeroize::Zeroizing;

use super::door::Actor;
use crate::{Gateway, error::GatewayError, fields::Text, secrets::Value, skills::StoredAt};

/// Where a skill is to be, in the words of who sends it. Case does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    /// For its author alone, curated, or for everyone.
    pub(super) tier: Tier,
    /// The word.
    pub(super) said: String,
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let said = String::deserialize(deserializer)?;
        let tier = match said.to_ascii_lowercase().as_str() {
            "private" => Tier::Private,
            "official" => Tier::Official,
            "public" | "community" | "market" => Tier::Market,
            _ => {
                let words = "it is private, official, public, community or market";
                return Err(de::Error::custom(words));
            }
        };
        Ok(Self { tier, said })
    }
}

/// The text of a manifest: a JSON object, or a text with JSON or Markdown in it.
#[derive(Debug, Clone)]
pub(super) struct ManifestText(pub(super) String);

impl<'de> Deserialize<'de> for ManifestText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As it was sent, to the byte: a key that is there twice is the author's mistake and not ours to hide.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = match raw.get().as_bytes().first() {
            Some(b'{') => raw.get().to_owned(),
            Some(b'"') => serde_json::from_str(raw.get()).map_err(de::Error::custom)?,
            _ => return Err(de::Error::custom("a manifest is a JSON object or a text")),
        };
        match text.trim().is_empty() {
            true => Err(de::Error::custom("the manifest is empty")),
            false => Ok(Self(text)),
        }
    }
}

/// A manifest, for the description.
#[derive(ToSchema)]
#[schema(examples(json!({
    "id": "uniskill_weather",
    "meta": {"name": "Global Weather", "description": "The weather of a place", "parameters": {"type": "object", "properties": {}}},
    "config": {"endpoint": "https://api.open-meteo.com/v1/forecast", "method": "GET"}
})))]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes")]
pub(super) enum Manifest {
    /// A JSON object.
    Object(serde_json::Map<String, serde_json::Value>),
    /// JSON or legacy Markdown as a text.
    Text(String),
}

/// Secrets by their names: an object, or a list of key and value.
#[derive(Default)]
pub(super) struct Secrets(pub(super) Vec<(SecretName, Zeroizing<String>)>);

impl<'de> Deserialize<'de> for Secrets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Named {
            key: Text<SecretName>,
            value: Value,
        }
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "secrets are an object of texts, or a list of key and value")]
        enum Form {
            Object(BTreeMap<Text<SecretName>, Value>),
            List(Vec<Named>),
        }
        let pairs = match Form::deserialize(deserializer)? {
            Form::Object(fields) => {
                fields.into_iter().map(|(Text(key), Value(value))| (key, value)).collect()
            }
            Form::List(list) => list
                .into_iter()
                .map(|Named { key: Text(key), value: Value(value) }| (key, value))
                .collect(),
        };
        Ok(Self(pairs))
    }
}

/// Secrets, for the description.
#[derive(ToSchema)]
#[schema(examples(json!({"WEATHER_KEY": "plain text"})))]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes")]
pub(super) enum SecretValues {
    /// Plain texts by the names of the secrets.
    Object(BTreeMap<String, String>),
    /// The same as a list.
    List(Vec<SecretValue>),
}

/// A secret in a list.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes")]
pub(super) struct SecretValue {
    /// Its name.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    key: String,
    /// The plain text.
    #[schema(min_length = 1)]
    value: String,
}

/// A skill that is to be stored.
pub(super) struct Given {
    pub(super) owner: Owner,
    pub(super) id: SkillId,
    pub(super) tier: Tier,
    pub(super) manifest: ManifestText,
    /// Whether a private copy of the author is removed when the skill is given to others.
    pub(super) is_move: bool,
}

/// What became of it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Stored {
    /// The tier it is stored in.
    pub(super) tier: crate::skills::TierName,
    /// The entries that answer to its id before it does, for its author.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) shadowed_by: Vec<StoredAt>,
    /// Whether the author's private copy was there and is gone.
    pub(super) moved: bool,
    /// What is to be said about the manifest.
    #[schema(value_type = Vec<Object>)]
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// A skill that nothing but the store itself can refuse.
pub(super) struct Checked {
    registry: Arc<Registry>,
    owner: Owner,
    id: SkillId,
    layer: Layer,
    tool: Tool,
    is_move: bool,
    diagnostics: Vec<Diagnostic>,
}

impl Given {
    /// Checks all of it, so that what goes with it can be stored first.
    pub(super) async fn checked(self, gateway: &Gateway) -> Result<Checked, GatewayError> {
        let Self { owner, id, tier, manifest: ManifestText(text), is_move } = self;
        let parsed = manifest::parse(&text, Mode::Strict, Some(&id))?;
        let tool = Tool::of_manifest(&id, &parsed, text).map_err(RegistryError::from)?;
        let layer = match tier {
            Tier::Private => Layer::Private(owner.clone()),
            Tier::Official => Layer::Official,
            Tier::Market => Layer::Market,
        };
        let registry = gateway.registry().await?;
        registry.check_tool_in(&layer, id.as_str(), &tool)?;
        let diagnostics = parsed.diagnostics;
        Ok(Checked { registry, owner, id, layer, tool, is_move, diagnostics })
    }
}

impl Checked {
    /// Stores the skill, after the secrets without which it would fail.
    pub(super) async fn store(self, actor: &Actor) -> Result<Stored, GatewayError> {
        let Self { registry, owner, id, layer, tool, is_move, diagnostics } = self;
        let (actor, tier) = (actor.as_str(), layer.tier());
        registry.register_tool_in(actor, &layer, id.as_str(), tool).await?;
        let own = Layer::Private(owner.clone());
        let moved =
            is_move && layer != own && registry.remove_skill_in(actor, &own, id.as_str()).await?;
        let before = registry.catalog().before(&owner, tier, id.as_str());
        let shadowed_by = before.into_iter().map(Into::into).collect();
        Ok(Stored { tier: tier.into(), shadowed_by, moved, diagnostics })
    }
}
