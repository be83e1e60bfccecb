//! Skills that administrators send: parsing of manifest and secrets, and storage together with the account.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;
use skills_core::{
    Coded as _, Layer, Owner, SkillId, SkillMeta, Tier, WorkAccount, WorkKind,
    limits::MAX_MANIFEST_BYTES, work::StopFlag,
};
use skills_manifest::{self as manifest, Diagnostic, ParseMode};
use skills_registry::{ManifestSkill, Registry, RegistryError};
use skills_vault::{JointWriteError, SecretName, ServerFailure, Vault, VaultError};
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

/// Checking the manifest of a skill.
const CHECK: WorkKind = WorkKind::compute("checking a manifest");
/// Memory of a byte of a manifest, which is parsed into a tree.
const PARSED_BYTE: usize = 48;

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
        let layer = match tier {
            Tier::Private => Layer::Private(owner.clone()),
            Tier::Official => Layer::Official,
            Tier::Market => Layer::Market,
        };
        let registry = gateway.registry().await?;
        // A larger one is refused before it is parsed.
        let bytes = text.len().min(MAX_MANIFEST_BYTES) * PARSED_BYTE;
        let check = move |_: &StopFlag| {
            let parsed = manifest::parse(&text, ParseMode::Strict, Some(&id))?;
            let skill = ManifestSkill::new(&id, &parsed, text).map_err(RegistryError::from)?;
            registry.check_skill(&layer, id.as_str(), &skill)?;
            let diagnostics = parsed.diagnostics;
            Ok(CheckedSkill { registry, owner, id, layer, skill, is_move, diagnostics })
        };
        WorkAccount::current().run(CHECK, bytes, check).await?
    }
}

impl CheckedSkill {
    /// Stores the skill and changes the account of its owner, both or neither.
    ///
    /// The vault's transaction stays open while the store commits, and commits or rolls back like the store. If the
    /// vault then fails to commit, the store is restored; likewise if the store's outcome is unknown and its catalog has
    /// changed. All of it runs on a blocking thread, which continues when the request is dropped.
    ///
    /// Only a crash in between, or a store that cannot be restored, leaves the skill without its secrets. The
    /// administrator gets no response then, or one with an unknown outcome, and repeats the request.
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
            let has_changed = || {
                let layers = std::iter::once(&layer).chain(&from);
                stored_in(&store, &name, layers) != before
            };
            if !is_half_done(&changed, has_changed) {
                return Ok(changed);
            }
            match runtime.block_on(store.restore_skill(by.as_str(), &name, before)) {
                Ok(()) => Ok(changed),
                Err(failure) => {
                    tracing::error!(id = %name, %failure, "skill stored without its account change");
                    Err(unknown_outcome())
                }
            }
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

/// Returns whether the store has, or may have, a change that the vault lacks. `has_changed` tells whether the catalog is
/// another than before: a store whose outcome is unknown has recovered by now, or will be followed when it is back.
fn is_half_done(changed: &Result<bool, JointFailure>, has_changed: impl FnOnce() -> bool) -> bool {
    match changed {
        Err(JointWriteError::CommitFailed(_)) => true,
        Err(JointWriteError::Other(error)) => error.is_outcome_unknown() && has_changed(),
        Ok(_) | Err(JointWriteError::Vault(_)) => false,
    }
}

/// Creates the error of a skill that may be stored without the change of its account.
fn unknown_outcome() -> VaultError {
    VaultError::Server {
        failure: ServerFailure::OutcomeUnknown,
        message: "the skill may be stored without its secrets and the change of the account"
            .to_owned(),
        hint: Some("send the request again"),
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

#[cfg(test)]
mod tests {
    use axum::extract::FromRequestParts as _;
    use serde_json::{Value, json};
    use skills_core::{Caller, caller::AdminName};
    use skills_execution::{CallerLimiter, Executor, PendingExecutor};
    use skills_registry::RegistryConfig;
    use skills_store::{SharedMemoryStore, Store, StoreError};
    use skills_upstream::{Settings, UpstreamClient};
    use skills_vault::{PlanLimits, RateLimits};
    use tempfile::TempDir;

    use super::*;
    use crate::{GatewayParts, admin::auth::AdminOrInternal};

    /// Gateway on a store that can fail, and a skill to store.
    struct Fixture {
        store: Arc<SharedMemoryStore>,
        registry: Arc<Registry>,
        gateway: Gateway,
        _dir: TempDir,
    }

    impl Fixture {
        fn open() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = Arc::new(SharedMemoryStore::default());
            let shared = Arc::clone(&store) as Arc<dyn Store>;
            let registry = Registry::open(shared, None, RegistryConfig::default()).unwrap();
            let vault = Arc::new(Vault::open(dir.path(), None).unwrap());
            let limits = Arc::new(RateLimits::new(PlanLimits::default()));
            let limiter = CallerLimiter::new(vault, limits);
            let upstream = Arc::new(UpstreamClient::new(Settings::default()));
            let executor = Executor::new(Arc::clone(&registry), limiter.clone(), upstream, &[]);
            let gateway = Gateway::new(GatewayParts {
                executor: PendingExecutor::ready(Arc::new(executor)),
                limiter,
                server: None,
                is_private: false,
                protected_labels: [].into(),
            });
            Self { store, registry, gateway, _dir: dir }
        }

        /// Stores a skill together with a change of the account, which `change` stands for.
        async fn store(
            &self,
            change: impl for<'a> FnOnce(&'a Vault, Joint<'a>) -> Result<bool, JointFailure>
            + Send
            + 'static,
        ) -> Result<StoredSkill, GatewayError> {
            let (mut parts, ()) = axum::http::Request::new(()).into_parts();
            parts.extensions.insert(Caller::Admin(AdminName::AdminKey));
            let Ok(AdminOrInternal(actor)) =
                AdminOrInternal::from_request_parts(&mut parts, &()).await
            else {
                panic!("an administrator")
            };
            let manifest = json!({
                "id": "weather",
                "meta": {"name": "Weather", "description": "The weather of a place",
                         "parameters": {"type": "object", "properties": {}}},
                "config": {"endpoint": "https://example.com/", "method": "GET"},
            });
            let input = SkillInput {
                owner: "ann".parse().unwrap(),
                id: "weather".parse().unwrap(),
                tier: Tier::Private,
                manifest: ManifestText(manifest.to_string()),
                is_move: false,
            };
            let skill = input.check(&self.gateway).await.unwrap();
            skill.store_with_account(&self.gateway, &actor, change).await
        }

        fn has_skill(&self) -> bool {
            let layer = Layer::Private("ann".parse().unwrap());
            self.registry.catalog().stored_skill(&layer, "weather").is_some()
        }
    }

    /// Returns the status and the body of an error.
    async fn body(error: GatewayError) -> (u16, Value) {
        use axum::response::IntoResponse as _;
        let response = error.into_response();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    fn commit_failed() -> JointFailure {
        JointWriteError::CommitFailed(VaultError::Server {
            failure: ServerFailure::Unavailable,
            message: "the database is away".to_owned(),
            hint: None,
        })
    }

    #[tokio::test]
    async fn a_skill_whose_account_could_not_be_changed_is_restored() {
        let fixture = Fixture::open();
        let failed = fixture.store(|_, store| {
            store().unwrap();
            Err(commit_failed())
        });
        let (status, body) = body(failed.await.unwrap_err()).await;
        assert_eq!((status, &body["code"]), (503, &json!("store_unavailable")), "{body}");
        assert_eq!(body["details"], Value::Null, "nothing is stored");
        assert!(!fixture.has_skill());
    }

    #[tokio::test]
    async fn a_skill_that_cannot_be_restored_is_an_unknown_outcome() {
        let fixture = Fixture::open();
        let of_store = Arc::clone(&fixture.store);
        let failed = fixture.store(move |_, store| {
            store().unwrap();
            of_store.set_down(true);
            Err(commit_failed())
        });
        let (status, body) = body(failed.await.unwrap_err()).await;
        assert_eq!((status, &body["code"]), (503, &json!("store_unavailable")), "{body}");
        assert_eq!(body["details"], json!({"outcome": "unknown"}));
        assert!(fixture.has_skill(), "without the change of the account");
    }

    #[tokio::test]
    async fn a_skill_is_restored_when_a_database_does_not_tell_the_outcome() {
        let fixture = Fixture::open();
        let failed = fixture.store(|_, store| {
            store().unwrap();
            let unknown = StoreError::OutcomeUnknown("the connection broke".to_owned());
            Err(JointWriteError::Other(unknown.into()))
        });
        let (status, body) = body(failed.await.unwrap_err()).await;
        assert_eq!((status, &body["code"]), (503, &json!("store_unavailable")), "{body}");
        assert_eq!(body["details"], json!({"outcome": "unknown"}));
        assert!(!fixture.has_skill());
    }
}
