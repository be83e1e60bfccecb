//! What administrators send: a skill with its manifest and secrets, and storing it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;
use skills_core::{
    Caller, Layer, Owner, SkillId, Tier,
    manifest::{self, Diagnostic, Mode},
};
use skills_registry::{Catalog, Tool};
use skills_vault::{Others, SecretName};
use utoipa::ToSchema;
use zeroize::Zeroizing;

use super::door::Actor;
use crate::{Gateway, error::GatewayError, fields::Text, secrets::Value, skills::StoredAt};

/// Where a skill is to be, in the words of who sends it. Case does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// For its author alone.
    Private,
    /// Curated.
    Official,
    /// For everyone.
    Market,
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.to_ascii_lowercase().as_str() {
            "private" => Ok(Self::Private),
            "official" => Ok(Self::Official),
            "public" | "community" | "market" => Ok(Self::Market),
            _ => Err(de::Error::custom("it is private, official, public, community or market")),
        }
    }
}

impl Status {
    pub(super) const fn tier(self) -> Tier {
        match self {
            Self::Private => Tier::Private,
            Self::Official => Tier::Official,
            Self::Market => Tier::Market,
        }
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
    pub(super) status: Status,
    pub(super) manifest: ManifestText,
    pub(super) secrets: Option<Secrets>,
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

impl Given {
    /// Checks all of it, and then stores it: first the secrets, without which the skill would fail.
    pub(super) async fn store(
        self,
        gateway: &Gateway,
        actor: &Actor,
    ) -> Result<Stored, GatewayError> {
        let Self { owner, id, status, manifest: ManifestText(text), secrets, is_move } = self;
        let parsed = manifest::parse(&text, Mode::Strict, Some(&id))?;
        let tool =
            Tool::of_manifest(&id, &parsed, text).map_err(skills_registry::RegistryError::from)?;
        let registry = gateway.registry().await?;
        let Secrets(secrets) = secrets.unwrap_or_default();
        if !secrets.is_empty() {
            let (actor, owner, id) = (actor.clone(), owner.clone(), id.clone());
            let set = move |vault: &skills_vault::Vault| {
                vault.set_secrets(actor.act(), &owner, Some(&id), &secrets, Others::Stay)
            };
            gateway.vault(set).await?;
        }
        let own = Layer::Private(owner.clone());
        let layer = match status {
            Status::Private => own.clone(),
            Status::Official => Layer::Official,
            Status::Market => Layer::Market,
        };
        registry.register_tool_in(actor.as_str(), &layer, id.as_str(), tool).await?;
        let moved = is_move
            && status != Status::Private
            && registry.remove_skill_in(actor.as_str(), &own, id.as_str()).await?;
        Ok(Stored {
            tier: status.tier().into(),
            shadowed_by: shadows(
                &registry.catalog_of(&Caller::Anonymous),
                &own,
                &id,
                status.tier(),
            ),
            moved,
            diagnostics: parsed.diagnostics,
        })
    }
}

/// Where the same id is found before a tier is looked at.
fn shadows(catalog: &Catalog, own: &Layer, id: &SkillId, tier: Tier) -> Vec<StoredAt> {
    let above = [own, &Layer::Official].into_iter().filter(|layer| layer.tier() < tier);
    let is_there = |layer: &&Layer| catalog.stored_skill(layer, id.as_str()).is_some();
    above.filter(is_there).map(|layer| StoredAt::new(layer.tier(), id.as_str())).collect()
}
